//! What metrics pages and cgroups show of a simulation beside requests.

use crate::metrics::{Metrics, Risen};
use crate::rng::{hash, unit};
use crate::sim::Effect;
use plimsoll::analysis::judge::vitals::{Course, Point, Start, Vital};
use plimsoll::analysis::metrics::facts::Component;
use plimsoll::model::time::{Micros, SECOND, Span};
use std::collections::BTreeMap;

impl Metrics {
    pub fn gauge(&mut self, vital: Vital, instance: usize, points: Vec<Point>) {
        let instance = self.axes.instances[instance].clone();
        self.vitals.courses.push(Course { vital, instance, name: String::new(), points });
    }

    /// How full an apiserver's cgroup is.
    pub fn fill(&self, instance: u8, t: f64, inflight: f64) -> f64 {
        let usual = 0.3 + 0.15 * unit(hash(self.seed, u64::from(instance), 34, 0));
        let mut fill = usual + (inflight / 2000.0).min(0.2);
        fill += 0.01 * unit(hash(self.seed, u64::from(instance), t as u64, 35));
        for own in self.memory.iter().filter(|own| own.instance == instance) {
            let until = own.kill.unwrap_or(own.shape.to);
            if t >= own.shape.from && t < until {
                let part = ((t - own.shape.from) / (until - own.shape.from).max(1.0)).min(1.0);
                fill += (0.985 - fill) * part;
            }
        }
        // A process that has just started holds less.
        for effect in &self.effects {
            if let Effect::Down { instance: other, to, .. } = effect
                && *other == instance
                && t >= *to
                && t < to + 60.0
            {
                fill *= 0.4 + 0.6 * (t - to) / 60.0;
            }
        }
        fill.min(1.0)
    }

    pub fn add(&mut self, instance: usize, own: &[(Span, Risen)]) {
        let name = self.axes.instances[instance].clone();
        let course = |vital: Vital, name: &str, points: Vec<Point>, instance: &str| Course {
            vital,
            instance: instance.to_owned(),
            name: name.to_owned(),
            points,
        };
        let means = |of: &dyn Fn(&Risen) -> (f64, f64)| -> Vec<Point> {
            let point = |(span, risen): &(Span, Risen)| {
                let (sum, count) = of(risen);
                (count > 0.0).then(|| Point { span: *span, value: sum / count, count })
            };
            own.iter().filter_map(point).collect()
        };
        let rates = |of: &dyn Fn(&Risen) -> f64| -> Vec<Point> {
            let point = |(span, risen): &(Span, Risen)| {
                let seconds = (span.1 - span.0) as f64 / SECOND as f64;
                Point { span: *span, value: of(risen) / seconds, count: seconds }
            };
            own.iter().map(point).collect()
        };
        let mut courses = vec![
            course(Vital::EtcdRequest, "", means(&|risen| risen.etcd), &name),
            course(Vital::QueueWait, "", means(&|risen| risen.wait), &name),
            course(Vital::Rejected, "", rates(&|risen| risen.throttled), &name),
        ];
        for (place, (hook, is_closed, _)) in self.hooks.iter().enumerate() {
            courses.push(course(
                Vital::Webhook,
                hook,
                means(&|risen| (risen.hooks[place].0, risen.hooks[place].1)),
                &name,
            ));
            let vital = if *is_closed { Vital::WebhookErrors } else { Vital::FailedOpen };
            if own.iter().any(|(_, risen)| risen.hooks[place].2 > 0.0) {
                courses.push(course(vital, hook, rates(&|risen| risen.hooks[place].2), &name));
            }
        }
        // Pages that lie much farther apart than others.
        let usual = (self.pages.every * SECOND as f64) as Micros;
        let gaps = own.iter().filter(|((from, to), _)| (to - from) as f64 > 1.8 * usual as f64);
        let points: Vec<Point> = gaps
            .map(|((from, to), _)| Point {
                span: (from + usual, *to),
                value: (to - from - usual) as f64 / SECOND as f64,
                count: 1.0,
            })
            .collect();
        courses.push(course(Vital::Unreachable, Component::Apiserver.name(), points, &name));
        self.vitals.courses.append(&mut courses);
    }

    pub fn tell_etcd(&mut self) {
        if !self.pages.of_etcd {
            return;
        }
        let at = |page: usize| self.micros(page as f64 * self.pages.every);
        let pages = 1..(self.span / self.pages.every) as usize + 1;
        let mean = |part: f64| -> Vec<Point> {
            let point = |page: usize| {
                let (sum, count) = self.commits[page];
                (count > 0.0).then(|| Point { span: (at(page - 1), at(page)), value: part * sum / count, count })
            };
            pages.clone().filter_map(point).collect()
        };
        let gauge = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
            let point = |page| Point { span: (at(page), at(page)), value: value(page), count: 1.0 };
            pages.clone().map(point).collect()
        };
        let mut size = self.first_size();
        let sizes: Vec<f64> = self
            .size
            .iter()
            .map(|more| {
                size += more;
                size
            })
            .collect();
        let all = [
            (Vital::EtcdCommit, mean(0.6)),
            (Vital::EtcdFsync, mean(0.4)),
            (Vital::EtcdLeader, gauge(&|_| 1.0)),
            (Vital::DatabaseSize, gauge(&|page| sizes[page])),
        ];
        for (vital, points) in all {
            let course = Course { vital, instance: "etcd-0".to_owned(), name: String::new(), points };
            self.vitals.courses.push(course);
        }
    }

    pub fn tell_processes(&mut self) {
        let mut kills: BTreeMap<u8, Vec<Point>> = BTreeMap::new();
        for effect in &self.effects {
            let Effect::Down { instance, from, to, .. } = effect else { continue };
            if *to >= self.span {
                continue;
            }
            let (at, name) = (self.micros(*to), self.axes.instances[usize::from(*instance)].clone());
            let seen = Some(self.micros(from - from % self.pages.every.max(1.0)));
            self.vitals.starts.push(Start { at, component: Component::Apiserver, instance: name, seen });
            let is_kill = self.memory.iter().any(|own| own.instance == *instance && own.kill == Some(*from));
            if is_kill && self.pages.cgroups {
                let span = (self.micros(*from), self.micros(from + self.pages.every));
                kills.entry(*instance).or_default().push(Point { span, value: 1.0, count: 1.0 });
            }
        }
        for (instance, points) in kills {
            self.gauge(Vital::OomKills, usize::from(instance), points);
        }
        self.vitals.starts.sort_by_key(|start| start.at);
    }
}
