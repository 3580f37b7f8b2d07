//! Metrics pages as text, of what [`Metrics`] counted.

use crate::cluster::Cluster;
use crate::metrics::{BOUNDS, Metrics, Risen};
use crate::sim::Effect;
use crate::write::labels;
use plimsoll::model::time::Micros;
use std::fmt::Write as _;

impl Metrics {
    /// All pages: instance, when, text. To be called before [`Metrics::finish`].
    pub fn pages(&self, cluster: &Cluster) -> Vec<(String, Micros, String)> {
        let mut all = Vec::new();
        for (instance, server) in self.servers.iter().enumerate() {
            let mut sum = Risen::default();
            let mut started = -86_400.0;
            for (page, inflight) in server.inflight.iter().enumerate() {
                let t = server.phase + page as f64 * self.pages.every;
                let last = self.effects.iter().filter_map(|effect| match effect {
                    Effect::Down { instance: own, to, .. } if usize::from(*own) == instance && *to <= t => Some(*to),
                    _ => None,
                });
                let last = last.fold(-86_400.0, f64::max);
                if last > started {
                    (sum, started) = (Risen::default(), last);
                }
                sum.merge(&server.risen[page]);
                if let Some(inflight) = inflight
                    && t <= self.span
                    && self.is_taken(instance, page)
                {
                    let fill = self.fill(instance as u8, t, *inflight);
                    let text = self.page_of(cluster, &sum, inflight.round(), fill * self.limit(instance), started);
                    all.push((self.axes.instances[instance].clone(), self.micros(t), text));
                }
            }
        }
        if self.pages.of_etcd {
            self.pages_of_etcd(&mut all);
        }
        all
    }

    fn page_of(&self, cluster: &Cluster, sum: &Risen, inflight: f64, resident: f64, started: f64) -> String {
        let mut text = String::new();
        let mut kinds = sum.kinds.clone();
        kinds.sort_by_key(|own| own.0);
        text.push_str("# TYPE apiserver_request_total counter\n");
        for (kind, [requests, errors, throttled], _) in &kinds {
            let labels = labels(cluster, usize::from(*kind));
            for (code, count) in [("200", requests - errors - throttled), ("500", *errors), ("429", *throttled)] {
                if count > 0 {
                    let _ = writeln!(text, "apiserver_request_total{{code=\"{code}\",{labels}}} {count}");
                }
            }
        }
        text.push_str("# TYPE apiserver_request_duration_seconds histogram\n");
        let name = "apiserver_request_duration_seconds";
        for (kind, _, buckets) in &kinds {
            let labels = labels(cluster, usize::from(*kind));
            let (mut count, mut seconds) = (0, 0.0);
            for (bucket, own) in buckets.iter().enumerate() {
                count += own;
                let bound = BOUNDS.get(bucket);
                seconds += f64::from(*own) * bound.map_or(90.0, |bound| bound * 0.8);
                let bound = bound.map_or("+Inf".to_owned(), f64::to_string);
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
        }
        let mut histogram = |name: &str, labels: &str, (seconds, count): (f64, f64)| {
            let comma = if labels.is_empty() { "" } else { "," };
            let head = format!("# TYPE {name} histogram\n");
            if !text.contains(&head) {
                text.push_str(&head);
            }
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
        };
        histogram("etcd_request_duration_seconds", "operation=\"update\",type=\"all\"", sum.etcd);
        let flow = "execute=\"true\",flow_schema=\"global-default\",priority_level=\"global-default\"";
        histogram("apiserver_flowcontrol_request_wait_duration_seconds", flow, sum.wait);
        for (place, (hook, _, _)) in self.hooks.iter().enumerate() {
            let labels = format!("name=\"{hook}\",operation=\"CREATE\",rejected=\"false\",type=\"validating\"");
            let (seconds, count, _) = sum.hooks[place];
            histogram("apiserver_admission_webhook_admission_duration_seconds", &labels, (seconds, count));
        }
        let failed = |closed: bool| self.hooks.iter().enumerate().filter(move |own| own.1.1 == closed);
        text.push_str("# TYPE apiserver_admission_webhook_rejection_count counter\n");
        for (place, (hook, _, _)) in failed(true) {
            let _ = writeln!(
                text,
                "apiserver_admission_webhook_rejection_count{{error_type=\"calling_webhook_error\",name=\"{hook}\",\
                 operation=\"CREATE\",rejection_code=\"0\",type=\"validating\"}} {}",
                sum.hooks[place].2
            );
        }
        text.push_str("# TYPE apiserver_admission_webhook_fail_open_count counter\n");
        for (place, (hook, _, _)) in failed(false) {
            let _ = writeln!(
                text,
                "apiserver_admission_webhook_fail_open_count{{name=\"{hook}\",type=\"validating\"}} {}",
                sum.hooks[place].2
            );
        }
        let _ = write!(
            text,
            "# TYPE apiserver_flowcontrol_rejected_requests_total counter\n\
             apiserver_flowcontrol_rejected_requests_total{{flow_schema=\"global-default\",\
             priority_level=\"global-default\",reason=\"queue-full\"}} {}\n\
             # TYPE apiserver_current_inflight_requests gauge\n\
             apiserver_current_inflight_requests{{request_kind=\"readOnly\"}} {inflight}\n\
             # TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes {resident:.0}\n\
             # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {:.2}\n",
            sum.throttled,
            self.micros(started) as f64 / 1e6,
        );
        text
    }

    fn pages_of_etcd(&self, all: &mut Vec<(String, Micros, String)>) {
        let (mut sum, mut size) = ((0.0, 0.0), self.first_size());
        for page in 0..=(self.span / self.pages.every) as usize {
            sum = (sum.0 + self.commits[page].0, sum.1 + self.commits[page].1);
            size += self.size[page];
            let mut text = String::new();
            for (name, part) in
                [("etcd_disk_backend_commit_duration_seconds", 0.6), ("etcd_disk_wal_fsync_duration_seconds", 0.4)]
            {
                let (seconds, count) = (part * sum.0, sum.1.round());
                let _ = writeln!(
                    text,
                    "# TYPE {name} histogram\n{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum \
                     {seconds}\n{name}_count {count}"
                );
            }
            let _ = write!(
                text,
                "# TYPE etcd_mvcc_db_total_size_in_bytes gauge\netcd_mvcc_db_total_size_in_bytes {size:.0}\n\
                 # TYPE etcd_server_has_leader gauge\netcd_server_has_leader 1\n\
                 # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {:.2}\n",
                self.micros(-86_400.0) as f64 / 1e6,
            );
            all.push(("etcd-0".to_owned(), self.micros(page as f64 * self.pages.every), text));
        }
    }
}
