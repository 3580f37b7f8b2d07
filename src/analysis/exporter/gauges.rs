//! Metrics of `serve` of what is now: the newest of what metrics pages, cgroups, objects and APF dumps showed, and when
//! limits will be reached.

use crate::analysis::clients::cost::Metered;
use crate::analysis::clients::sizes::Size;
use crate::analysis::dims::folded;
use crate::analysis::keyspace::{Usage, by};
use crate::analysis::memory::seen::Seen;
use crate::analysis::quota::collect::QUOTA;
use crate::analysis::quota::owners;
use crate::model::alert::Config;
use crate::model::apf::Request;
use crate::model::exposed::{Exposed, Family, Spec};
use crate::model::forecast::Reached;
use crate::model::memory::Sample;
use crate::model::names::{APISERVER_OBJECT_BYTES, APISERVER_OBJECTS};
use crate::model::objects::Namespace;
use crate::model::series::{STANDS, Series};
use crate::model::time::{MINUTE, Micros, SECOND};
use std::collections::{BTreeMap, VecDeque};

/// What is behind the newest of its kind by more than this is over: a quota that was deleted, a resource that went.
const BEHIND: Micros = 900 * SECOND;

/// A verdict on memory looks back at least this far, so that its rates mean something.
const LOOK_BACK: Micros = MINUTE;

/// Series of one metric; of more the largest are exported.
pub const MAX_SERIES_EACH: usize = 1_000;

/// Whoever holds or waits for fewer seats than this many others counts for `other`.
const MAX_USERS: usize = 100;

const RESOURCE: &[&str] = &["group", "resource"];
const KEYS: Spec = Spec::gauge("plimsoll_storage_keys", "Objects in etcd, as apiservers count them.", RESOURCE);
const BYTES: Spec = Spec::gauge(
    "plimsoll_storage_bytes",
    "Bytes of all objects of a resource in etcd, as apiservers estimate them (Kubernetes 1.34 and later).",
    RESOURCE,
);
const QUOTA_RATIO: Spec = Spec::gauge(
    "plimsoll_quota_ratio",
    "Used share of a resource's quota; of several quotas of a namespace the fullest.",
    &["quota_namespace", "quota_resource"],
);
const MEMORY: Spec =
    Spec::gauge("plimsoll_memory_verdict", "1 for the verdict on the memory of a cgroup.", &["group", "verdict"]);
const SEATS: Spec = Spec::gauge(
    "plimsoll_client_seats",
    "Seats of API Priority and Fairness that requests of a user hold (executing) or wait for (waiting), all apiservers \
     together.",
    &["user", "priority_level", "state"],
);
const LIMIT: Spec = Spec::gauge(
    "plimsoll_limit_reached_timestamp_seconds",
    "When a limit will be reached by forecast: one in ten (0.1), half (0.5), nine in ten (0.9) of the possible \
     futures have reached it by then.",
    &["limit", "quantile"],
);
const ETCD_KEYS: Spec = Spec::gauge("plimsoll_etcd_keys", "Live keys in the last snapshot of etcd.", RESOURCE);
const ETCD_LIVE: Spec =
    Spec::gauge("plimsoll_etcd_live_bytes", "Bytes of the values that live in the last snapshot of etcd.", RESOURCE);
const ETCD_HISTORY: Spec = Spec::gauge(
    "plimsoll_etcd_history_bytes",
    "Bytes of superseded and deleted revisions in the last snapshot of etcd.",
    RESOURCE,
);
const ETCD_AT: Spec =
    Spec::gauge("plimsoll_etcd_snapshot_timestamp_seconds", "When the last snapshot of etcd was taken.", &[]);
const LEFT_OUT: Spec = Spec::gauge(
    "plimsoll_serve_series_left_out",
    "Series of a gauge that are not exported, since there are more than 1,000: those of the smallest values.",
    &["metric"],
);

/// What a snapshot of etcd holds.
#[derive(Debug)]
pub struct StoredSpace {
    /// When it was taken.
    pub at: Micros,
    /// By group and resource.
    pub rows: Vec<by::Row>,
}

/// The newest of everything.
#[derive(Debug, Default)]
pub struct Gauges {
    latest: BTreeMap<Series, (Micros, f64)>,
    /// Memory of each cgroup: the newest sample behind those that it is compared with.
    groups: BTreeMap<String, VecDeque<Sample>>,
    namespaces: BTreeMap<String, Namespace>,
    requests: Option<(Micros, Vec<Request>)>,
    limits: Vec<(String, Reached)>,
    etcd: Option<StoredSpace>,
}

impl Gauges {
    /// Takes what a reading recorded.
    pub fn take(&mut self, samples: &[(Series, Micros, f64)]) {
        let exported = |name: &str| matches!(name, QUOTA | APISERVER_OBJECTS | APISERVER_OBJECT_BYTES);
        for (series, at, value) in samples.iter().filter(|(series, ..)| exported(&series.name)) {
            let newest = self.latest.entry(series.clone()).or_insert((*at, *value));
            if *at >= newest.0 {
                *newest = (*at, *value);
            }
        }
        let mut ends: BTreeMap<String, Micros> = BTreeMap::new();
        for (series, (at, _)) in &self.latest {
            let end = ends.entry(series.name.clone()).or_insert(*at);
            *end = (*end).max(*at);
        }
        self.latest.retain(|series, (at, _)| ends.get(&series.name).is_none_or(|end| *at >= end - BEHIND));
    }

    /// Takes the memory of cgroups.
    pub fn memory(&mut self, groups: Vec<Sample>) {
        for sample in groups {
            let own = self.groups.entry(sample.path.clone()).or_default();
            // Made again under the same name: nothing of before is compared with it.
            if own.back().is_some_and(|last| last.inode != sample.inode || last.at > sample.at) {
                own.clear();
            }
            let start = sample.at - LOOK_BACK;
            own.push_back(sample);
            while own.get(1).is_some_and(|second| second.at <= start) {
                own.pop_front();
            }
        }
    }

    /// Takes the namespaces, whose labels name owners.
    pub fn namespaces(&mut self, namespaces: BTreeMap<String, Namespace>) {
        self.namespaces = namespaces;
    }

    /// Takes the requests that wait or execute in all apiservers.
    pub fn requests(&mut self, at: Micros, requests: Vec<Request>) {
        self.requests = Some((at, requests));
    }

    /// Takes forecasts of limits, by the name of what is limited, the most urgent first.
    pub fn limits(&mut self, limits: Vec<(String, Reached)>) {
        self.limits = limits;
    }

    /// Takes what a snapshot of etcd holds, in the place of the one before.
    pub fn etcd(&mut self, space: StoredSpace) {
        self.etcd = Some(space);
    }

    /// What LISTs return, as far as objects in etcd show it.
    pub fn sizes(&self) -> Metered {
        let of = |name: &'static str| self.latest.iter().filter(move |(series, _)| series.name == name);
        let counts = of(APISERVER_OBJECTS).map(|(series, (_, value))| (series, *value));
        let bytes = |series: &Series| {
            let same = Series { name: APISERVER_OBJECT_BYTES.to_owned(), labels: series.labels.clone() };
            self.latest.get(&same).map_or(0.0, |(_, value)| *value)
        };
        Metered::of_stored(counts.map(|(series, objects)| {
            let size = Size { objects: objects.max(0.0) as u64, bytes: bytes(series).max(0.0).round() as u64 };
            ([series.label("group"), series.label("resource")], size)
        }))
    }

    /// Who owns a user: whoever owns a service account's namespace; nobody, which is the empty name, of others.
    pub fn owner(&self, config: &Config, user: &str) -> String {
        owners::of_user(config, &self.namespaces, user)
    }

    /// All of them at `now`.
    pub fn families(&self, now: Micros) -> Vec<Family> {
        let families = [
            self.stored(KEYS, APISERVER_OBJECTS, now),
            self.stored(BYTES, APISERVER_OBJECT_BYTES, now),
            self.quotas(now),
            self.verdicts(now),
            self.seats(now),
            self.reached(),
            self.in_etcd(ETCD_KEYS, |usage| usage.keys),
            self.in_etcd(ETCD_LIVE, |usage| usage.live_bytes),
            self.in_etcd(ETCD_HISTORY, |usage| usage.history_bytes),
        ];
        let mut left_out = Vec::new();
        let mut shown: Vec<Family> = Vec::new();
        for (spec, mut values) in families {
            if values.len() > MAX_SERIES_EACH {
                values.sort_by(|a, b| b.1.total_cmp(&a.1));
                left_out.push((spec.name, values.len() - MAX_SERIES_EACH));
                values.truncate(MAX_SERIES_EACH);
                values.sort_by(|a, b| a.0.cmp(&b.0));
            }
            let series = values.into_iter().map(|(labels, value)| (labels, Exposed::Number(value))).collect();
            shown.push(Family { spec, series });
        }
        let left_out =
            left_out.into_iter().map(|(name, count)| (vec![name.to_owned()], Exposed::Number(count as f64))).collect();
        shown.push(Family { spec: LEFT_OUT, series: left_out });
        let taken = self.etcd.iter().map(|space| (Vec::new(), Exposed::Number(space.at as f64 / SECOND as f64)));
        shown.push(Family { spec: ETCD_AT, series: taken.collect() });
        shown
    }

    fn fresh<'a>(&'a self, name: &'a str, now: Micros) -> impl Iterator<Item = (&'a Series, f64)> {
        self.latest
            .iter()
            .filter(move |(series, (at, _))| series.name == name && *at >= now - STANDS)
            .map(|(series, (_, value))| (series, *value))
    }

    fn stored(&self, spec: Spec, name: &str, now: Micros) -> (Spec, Values) {
        let labels = |series: &Series| ["group", "resource"].map(|label| super::label(series.label(label))).to_vec();
        (spec, self.fresh(name, now).map(|(series, value)| (labels(series), value)).collect())
    }

    /// A quota of nothing is full for whoever asks, but there is no share of it.
    fn quotas(&self, now: Micros) -> (Spec, Values) {
        let mut ratios: BTreeMap<Vec<String>, f64> = BTreeMap::new();
        for (series, hard) in self.fresh(QUOTA, now).filter(|(series, _)| series.label("type") == "hard") {
            let mut used = series.clone();
            used.labels.insert("type".to_owned(), "used".to_owned());
            let Some((_, used)) = self.latest.get(&used).filter(|_| hard > 0.0) else { continue };
            let ratio = ratios.entry(["namespace", "resource"].map(|name| super::label(series.label(name))).to_vec());
            let ratio = ratio.or_insert(0.0);
            *ratio = ratio.max(used / hard);
        }
        (QUOTA_RATIO, ratios.into_iter().collect())
    }

    fn verdicts(&self, now: Micros) -> (Spec, Values) {
        let mut verdicts = BTreeMap::new();
        for (path, samples) in &self.groups {
            let Some(last) = samples.back().filter(|last| last.at >= now - STANDS) else { continue };
            let before = samples.front().filter(|first| first.at < last.at);
            let seen = Seen::new(last.clone(), before, None);
            verdicts.insert(vec![super::label(path), seen.judged.verdict.name().to_owned()], 1.0);
        }
        (MEMORY, verdicts.into_iter().collect())
    }

    /// Older apiservers show only requests that wait, and not who sent them: then the flow names the user.
    fn seats(&self, now: Micros) -> (Spec, Values) {
        let Some((_, requests)) = self.requests.as_ref().filter(|(at, _)| *at >= now - STANDS) else {
            return (SEATS, Values::new());
        };
        let user = |request: &Request| {
            let user = request.details.as_ref().map_or(request.flow.as_str(), |details| details.user.as_str());
            super::label(folded(user))
        };
        let mut by_user: BTreeMap<String, u64> = BTreeMap::new();
        for request in requests {
            *by_user.entry(user(request)).or_default() += request.seats;
        }
        let mut users: Vec<(String, u64)> = by_user.into_iter().collect();
        users.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        users.truncate(MAX_USERS);
        let mut seats: BTreeMap<Vec<String>, f64> = BTreeMap::new();
        for request in requests {
            let user = user(request);
            let user = if users.iter().any(|(own, _)| *own == user) { user } else { super::OTHER.to_owned() };
            let state = if request.executes { "executing" } else { "waiting" };
            let labels = vec![user, super::label(&request.level), state.to_owned()];
            *seats.entry(labels).or_default() += request.seats as f64;
        }
        (SEATS, seats.into_iter().collect())
    }

    /// It stands until the next snapshot, however old it is: [`ETCD_AT`] tells.
    fn in_etcd(&self, spec: Spec, of: impl Fn(&Usage) -> u64) -> (Spec, Values) {
        let rows = self.etcd.iter().flat_map(|space| &space.rows);
        let labels = |row: &by::Row| row.names.iter().map(|name| super::label(name)).collect::<Vec<_>>();
        let mut values = BTreeMap::new();
        for row in rows {
            *values.entry(labels(row)).or_insert(0.0) += of(&row.usage) as f64;
        }
        (spec, values.into_iter().collect())
    }

    fn reached(&self) -> (Spec, Values) {
        let mut values = BTreeMap::new();
        // The most urgent, each with all of its quantiles; the first of two whose names are cut alike.
        for (name, reached) in self.limits.iter().take(MAX_SERIES_EACH / 3) {
            for (quantile, at) in [("0.1", reached.p10), ("0.5", reached.p50), ("0.9", reached.p90)] {
                if let Some(at) = at {
                    let labels = vec![super::label(name), quantile.to_owned()];
                    values.entry(labels).or_insert(at as f64 / SECOND as f64);
                }
            }
        }
        (LIMIT, values.into_iter().collect())
    }
}

type Values = Vec<(Vec<String>, f64)>;

#[cfg(test)]
mod tests;
