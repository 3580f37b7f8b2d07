//! Metrics of `serve` from audit logs: counters by client that grow with each round of reading, bounded in number, and
//! kept across restarts (docs/commands/serve.md).
//!
//! A counter takes what one part of a log adds to it: a request counts when it ends. A client that has series of its
//! own keeps them for a day after it was last among the busiest; what all others do counts for the client `other`. So
//! the sum over clients is exact, whoever is shown.

mod gauges;
mod specs;

pub use gauges::{Gauges, StoredSpace};
pub use specs::{COUNTERS, Counter};

use crate::analysis::clients::cost::{Cost, SizeContext};
use crate::analysis::guard::Group;
use crate::analysis::list_route::{Minor, list_kind};
use crate::analysis::rollup::notable::{Notable, once};
use crate::analysis::rollup::read::{TrafficRow, Who};
use crate::analysis::rollup::{Fact, Rollup};
use crate::model::event::is_lasting;
use crate::model::exposed::{Exposed, Family, Observations, native_bucket};
use crate::model::histogram::{Histogram, midpoint};
use crate::model::time::{DAY, Micros, SECOND};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Upper bounds of the duration buckets in µs: every second power of two, from 1 ms to 67 s. Roll-ups have bucket edges
/// there, so that counts are exact.
const BOUNDS_US: [u64; 9] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];

/// A client keeps its series for so long after it was last among the busiest.
const KEEP_US: Micros = DAY;

/// All series together are no more than this.
pub const MAX_SERIES: usize = 20_000;

/// Who stands for all clients without series of their own.
const OTHER: &str = "other";

/// Longest label, in characters: agents and resources are named by whoever calls the apiserver.
const MAX_LABEL_CHARS: usize = 100;

/// What a series has counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    /// Requests, or whatever the metric counts.
    count: u64,
    /// Of durations: requests at or below each of [`BOUNDS_US`], cumulative; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<u64>,
    /// Of durations: their sum in µs.
    #[serde(default)]
    sum_us: u64,
    /// The same by native bucket, to within a bucket of the roll-up, and those that took no time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    native: BTreeMap<i16, u64>,
    #[serde(default)]
    zeros: u64,
}

impl Sum {
    /// Adds durations.
    fn observe(&mut self, latency: &Histogram) {
        self.fill_native();
        self.buckets.resize(BOUNDS_US.len(), 0);
        for (count, bound) in self.buckets.iter_mut().zip(BOUNDS_US) {
            *count += latency.below(bound);
        }
        for (bucket, count) in latency.buckets() {
            self.observe_native(midpoint(*bucket), u64::from(*count));
        }
        self.count += latency.count();
        self.sum_us += latency.sum;
    }

    fn observe_native(&mut self, us: f64, count: u64) {
        match native_bucket(us / 1e6) {
            Some(bucket) if count > 0 => *self.native.entry(bucket).or_default() += count,
            Some(_) => {}
            None => self.zeros += count,
        }
    }

    /// What was counted before there were native buckets lies in the middle of its classic one.
    fn fill_native(&mut self) {
        if self.count == 0 || self.zeros > 0 || !self.native.is_empty() {
            return;
        }
        let (mut below, mut lower) = (0, 0.0);
        let buckets: Vec<u64> = self.buckets.iter().copied().chain([self.count]).collect();
        let bounds =
            BOUNDS_US.map(|bound| bound as f64).into_iter().chain([2.0 * BOUNDS_US[BOUNDS_US.len() - 1] as f64]);
        for (count, bound) in buckets.into_iter().zip(bounds) {
            self.observe_native((lower + bound) / 2.0, count.saturating_sub(below));
            (below, lower) = (count.max(below), bound);
        }
    }

    /// What of durations is exported.
    fn observations(&self) -> Observations {
        let mut own = self.clone();
        own.fill_native();
        Observations {
            buckets: BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).zip(own.buckets).collect(),
            native: own.native.into_iter().collect(),
            zeros: own.zeros,
            count: own.count,
            sum: own.sum_us as f64 / 1e6,
        }
    }
}

/// Operations that last for long, at most, whose begin is remembered.
const MAX_BEGUN: usize = 16_384;

/// A client: user (all kubelets are one) and agent product.
type Client = (String, String);

/// Relists, by client (user and agent) and group and resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Relists(BTreeMap<([String; 2], [String; 2]), u64>);

impl Relists {
    /// Those that a roll-up shows.
    pub fn from_rollup(rollup: &Rollup) -> Self {
        let subjects = rollup.subjects();
        let mut all = Self::default();
        for (_, subject, fact, gaps) in rollup.facts() {
            if matches!(fact, Fact::Relist | Fact::RelistShort) {
                let (who, (group, resource)) = subjects[subject];
                let key = ([who.user, who.agent].map(str::to_owned), [group, resource].map(str::to_owned));
                *all.0.entry(key).or_default() += gaps.count();
            }
        }
        all
    }

    /// These without `others`.
    pub fn without(mut self, others: &Self) -> Self {
        for (key, count) in &others.0 {
            if let Some(own) = self.0.get_mut(key) {
                *own = own.saturating_sub(*count);
            }
        }
        self
    }
}

/// The counters, as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Series by metric and labels.
    #[serde(with = "as_rows")]
    series: BTreeMap<Counter, BTreeMap<Vec<String>, Sum>>,
    /// When each client that has series of its own was last among the busiest, µs.
    shown: BTreeMap<String, BTreeMap<String, Micros>>,
    /// Up to where each log is counted: bytes, by the hash of its first line.
    pub counted: BTreeMap<String, u64>,
    /// Time of the last event that is counted, by apiserver, µs.
    last: BTreeMap<String, Micros>,
    /// Operations that last for long, and when they began, µs: the latest, since their ends come later.
    #[serde(skip)]
    begun: HashMap<u128, Micros>,
    #[serde(skip)]
    max_clients: usize,
    #[serde(skip)]
    server: Option<u32>,
}

impl Counters {
    /// Bounds how many clients have series of their own; with the apiservers' minor version, where it is known, which
    /// decides who answers a LIST.
    pub fn configure(&mut self, max_clients: usize, server: Option<Minor>) {
        self.max_clients = max_clients;
        self.server = server.map(|minor| minor.0);
    }

    /// Series that are exported.
    pub fn len(&self) -> usize {
        let per_series = |counter: &Counter| if counter.is_duration() { BOUNDS_US.len() + 3 } else { 1 };
        self.series.iter().map(|(counter, all)| all.len() * per_series(counter)).sum()
    }

    /// Whether nothing has been counted.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Takes what a part of the logs adds, and forgets the series of clients that have long not been among the busiest.
    /// `relists` are those that the part adds to the ones of the part before it, some of whose watches ended there;
    /// `sizes` tells what LISTs return.
    pub fn add(&mut self, rollup: &Rollup, relists: &Relists, sizes: &SizeContext, now: Micros) {
        let subjects = rollup.subjects();
        self.choose(rollup, &subjects.iter().map(|(who, _)| *who).collect::<Vec<_>>(), now);
        for row in rollup.traffic() {
            let ended = row.requests - row.open();
            if ended > 0 {
                self.row(subjects[row.subject].0, &row, ended, sizes);
            }
        }
        for (_, stats) in rollup.others() {
            let folded = stats.requests - stats.open;
            self.count(Counter::Requests, [OTHER, OTHER, OTHER, "", OTHER, ""], folded);
            self.fold(Counter::Requests, folded);
        }
        for (([user, agent], [group, resource]), count) in &relists.0 {
            let (user, agent) = self.client(Who { cluster: "", user, agent });
            self.count(Counter::Relists, [&user, &agent, group, resource], *count);
        }
        for row in rollup.deprecated() {
            let (user, agent) = self.client(row.who);
            let (group, version) = row.version.rsplit_once('/').unwrap_or(("", row.version));
            self.count(Counter::Deprecated, [&user, &agent, group, version, row.resource, row.removed], row.requests);
        }
        self.operations(rollup.operations().to_vec());
        // What was folded came to no apiserver that is known.
        for (arrival, instance) in rollup.arrivals().filter(|(arrival, _)| arrival.subject.is_some()) {
            let last = self.last.entry(instance.to_owned()).or_default();
            *last = (*last).max(arrival.second * SECOND);
        }
    }

    /// Counts dangerous operations, those that last for long (an exec) once, as they begin.
    fn operations(&mut self, mut all: Vec<Notable>) {
        once(&mut all);
        for one in all {
            let is_end_of_known =
                !one.starts && one.identity.is_some_and(|identity| self.begun.contains_key(&identity));
            if let Some(identity) = one.identity.filter(|_| one.starts) {
                self.begun.insert(identity, one.at);
            }
            if !is_end_of_known {
                let severity = Group::new(&one, 0).severity();
                self.count(Counter::Operations, [one.kind, severity.name()], 1);
            }
        }
        if self.begun.len() > MAX_BEGUN {
            let mut times: Vec<Micros> = self.begun.values().copied().collect();
            times.sort_unstable();
            let oldest = times[times.len() / 2];
            self.begun.retain(|_, at| *at > oldest);
        }
    }

    fn row(&mut self, who: Who<'_>, row: &TrafficRow<'_>, ended: u64, sizes: &SizeContext) {
        let (user, agent) = self.client(who);
        let (user, agent, (group, resource)) = (user.as_str(), agent.as_str(), row.what);
        let code = row.code.map(|code| code.to_string()).unwrap_or_default();
        self.count(Counter::Requests, [user, agent, row.verb, group, resource, &code], ended);
        if row.verb == "list"
            && let Some(shape) = &row.shape
        {
            let kind = list_kind(shape, group, resource, self.server.map(Minor));
            self.count(Counter::Lists, [user, agent, group, resource, kind], ended);
            let mut cost = Cost::default();
            // Stores hold one cluster, which has no name there.
            cost.add(sizes, "", row);
            // Those that have not been answered count when they are.
            let part = |all: u64| (u128::from(all) * u128::from(ended) / u128::from(row.requests.max(1))) as u64;
            self.count(Counter::ListBytes, [user, agent, group, resource], part(cost.total()));
            self.count(Counter::ListsNotEstimated, [user, agent, group, resource], part(cost.not_estimated));
        }
        let op = match row.verb {
            "get" => "read",
            "list" => "list",
            "create" | "update" | "patch" | "delete" | "deletecollection" => "write",
            _ => return,
        };
        let lasts = is_lasting(row.subresource.as_bytes());
        if !lasts && !row.what.1.is_empty() {
            self.sum(Counter::Durations, &[user, agent, op]).observe(row.latency());
        }
    }

    /// Gives the busiest clients of a part series of their own.
    fn choose(&mut self, rollup: &Rollup, who: &[Who<'_>], now: Micros) {
        let mut requests: HashMap<Client, u64> = HashMap::new();
        for row in rollup.traffic() {
            *requests.entry(labels_of(who[row.subject])).or_default() += row.requests;
        }
        let mut busiest: Vec<(Client, u64)> = requests.into_iter().collect();
        busiest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut room = (2 * self.max_clients).saturating_sub(self.shown.values().map(BTreeMap::len).sum());
        for ((user, agent), _) in busiest.into_iter().take(self.max_clients) {
            let agents = self.shown.entry(user).or_default();
            if let Some(last) = agents.get_mut(&agent) {
                *last = now;
            } else if room > 0 {
                agents.insert(agent, now);
                room -= 1;
            }
        }
        self.drop_old(now);
    }

    /// Takes the series from clients that have long not been among the busiest.
    fn drop_old(&mut self, now: Micros) {
        let mut dropped: BTreeSet<Client> = BTreeSet::new();
        for (user, agents) in &mut self.shown {
            agents.retain(|agent, last| {
                let is_kept = now - *last <= KEEP_US;
                if !is_kept {
                    dropped.insert((user.clone(), agent.clone()));
                }
                is_kept
            });
        }
        self.shown.retain(|_, agents| !agents.is_empty());
        if !dropped.is_empty() {
            for (_, all) in self.series.iter_mut().filter(|(counter, _)| counter.is_of_clients()) {
                all.retain(|labels, _| !dropped.contains(&(labels[0].clone(), labels[1].clone())));
            }
        }
    }

    /// The labels of a client: its own, or those of all others.
    fn client(&self, who: Who<'_>) -> Client {
        let own = labels_of(who);
        let is_shown = self.shown.get(&own.0).is_some_and(|agents| agents.contains_key(&own.1));
        if is_shown { own } else { (OTHER.to_owned(), OTHER.to_owned()) }
    }

    fn count<const N: usize>(&mut self, counter: Counter, labels: [&str; N], by: u64) {
        if by > 0 {
            self.sum(counter, &labels).count += by;
        }
    }

    fn fold(&mut self, counter: Counter, by: u64) {
        self.count(Counter::Folded, [counter.spec().name], by);
    }

    /// The sum of a series; of one that is new where there is no room for it, that of all others.
    fn sum(&mut self, counter: Counter, labels: &[&str]) -> &mut Sum {
        let mut labels: Vec<String> = labels.iter().map(|text| label(text)).collect();
        let is_new = !self.series.get(&counter).is_some_and(|all| all.contains_key(&labels));
        if is_new && counter.is_of_clients() && self.len() >= MAX_SERIES {
            labels = vec![OTHER.to_owned(); labels.len()];
            let folded = vec![counter.spec().name.to_owned()];
            self.series.entry(Counter::Folded).or_default().entry(folded).or_default().count += 1;
        }
        self.series.entry(counter).or_default().entry(labels).or_default()
    }

    /// All metrics, in the order of [`COUNTERS`], and how far behind each apiserver's log is at `now`.
    pub fn families(&self, now: Micros) -> Vec<Family> {
        let exposed = |counter: Counter, sum: &Sum| match counter.is_duration() {
            true => Exposed::Histogram(sum.observations()),
            false => Exposed::Number(sum.count as f64),
        };
        let family = |counter: &Counter| Family {
            spec: counter.spec(),
            series: self
                .series
                .get(counter)
                .into_iter()
                .flatten()
                .map(|(l, sum)| (l.clone(), exposed(*counter, sum)))
                .collect(),
        };
        let lag = |(instance, last): (&String, &Micros)| {
            let name = if instance.is_empty() { "audit" } else { instance.as_str() };
            (vec![label(name)], Exposed::Number((now - last).max(0) as f64 / SECOND as f64))
        };
        let lags = Family { spec: specs::LAG, series: self.last.iter().map(lag).collect() };
        COUNTERS.iter().map(family).chain([lags]).collect()
    }
}

impl Counters {
    /// Clients that have series of their own: user and agent.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.shown.iter().flat_map(|(user, agents)| agents.keys().map(move |agent| (user.as_str(), agent.as_str())))
    }
}

/// Maps whose keys JSON does not take, as rows.
mod as_rows {
    use super::{BTreeMap, Counter, Deserialize, Serialize, Sum};
    use serde::{Deserializer, Serializer};

    type Series = BTreeMap<Counter, BTreeMap<Vec<String>, Sum>>;

    pub(super) fn serialize<S: Serializer>(series: &Series, to: S) -> Result<S::Ok, S::Error> {
        let all = series.iter().flat_map(|(counter, all)| all.iter().map(move |(labels, sum)| (counter, labels, sum)));
        all.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Series, D::Error> {
        let mut series = Series::new();
        for (counter, labels, sum) in Vec::<(Counter, Vec<String>, Sum)>::deserialize(from)? {
            series.entry(counter).or_default().insert(labels, sum);
        }
        Ok(series)
    }
}

fn labels_of(who: Who<'_>) -> Client {
    (label(who.user), label(who.agent))
}

/// A label's text, cut: two that differ only behind the cut are one.
fn label(text: &str) -> String {
    if text.len() <= MAX_LABEL_CHARS || text.chars().count() <= MAX_LABEL_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_LABEL_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(max_clients: usize, shown: &[(&str, Micros)]) -> Counters {
        let mut counters = Counters::default();
        counters.configure(max_clients, None);
        for (user, last) in shown {
            counters.shown.entry((*user).to_owned()).or_default().insert("a".to_owned(), *last);
        }
        counters
    }

    fn value(counters: &Counters, counter: Counter, labels: &[&str]) -> Option<u64> {
        let labels: Vec<String> = labels.iter().map(|text| (*text).to_owned()).collect();
        counters.series.get(&counter)?.get(&labels).map(|sum| sum.count)
    }

    #[test]
    fn counters_are_kept_as_they_are() {
        let mut counters = counters(2, &[("u", 7)]);
        counters.count(Counter::Requests, ["u", "a", "get", "", "pods", "200"], 3);
        let sum = counters.sum(Counter::Durations, &["u", "a", "read"]);
        (sum.count, sum.buckets, sum.sum_us) = (2, vec![1; BOUNDS_US.len()], 5);
        counters.counted.insert("log".to_owned(), 100);
        let text = serde_json::to_string(&counters).unwrap();
        let mut read: Counters = serde_json::from_str(&text).unwrap();
        read.configure(2, None);
        assert_eq!(read, counters);
    }

    #[test]
    fn native_buckets_hold_what_was_observed_before_there_were_some_too() {
        let mut latency = Histogram::default();
        [0, 900, 1_500, 70_000_000].into_iter().for_each(|us| latency.add(us));
        let mut new = Sum::default();
        new.observe(&latency);
        let found = new.observations();
        assert_eq!((found.zeros, found.native.iter().map(|own| own.1).sum::<u64>(), found.count), (1, 3, 4));
        // 900 µs and 1.5 ms to within 9 %: 2^(-10.1) s and 2^(-9.4) s.
        assert_eq!(found.native.iter().map(|own| own.0).collect::<Vec<_>>(), [-80, -75, 49]);
        // One of an older store.
        let mut old = Sum { native: BTreeMap::new(), zeros: 0, ..new.clone() };
        assert_eq!(old.observations().native.iter().map(|own| own.1).sum::<u64>(), 4);
        old.observe(&latency);
        let found = old.observations();
        assert_eq!((found.count, found.zeros, found.native.iter().map(|own| own.1).sum::<u64>()), (8, 1, 7));
    }

    #[test]
    fn beyond_the_bound_all_labels_are_those_of_others_and_it_is_counted() {
        let mut counters = counters(1, &[]);
        for number in 0..MAX_SERIES + 5 {
            counters.count(Counter::Requests, ["u", "a", "get", "", &format!("r{number}"), "200"], 1);
        }
        let others = ["other"; 6];
        // Room is taken by the series of what was folded, too.
        assert_eq!(value(&counters, Counter::Requests, &others), Some(5));
        assert_eq!(value(&counters, Counter::Folded, &["plimsoll_client_requests"]), Some(5));
        assert!(counters.len() <= MAX_SERIES + 2);
        let families = counters.families(0);
        assert_eq!(families[0].series.len(), MAX_SERIES + 1);
    }

    #[test]
    fn a_client_keeps_its_series_for_a_day() {
        let now = 10 * KEEP_US;
        let mut counters = counters(2, &[("old", now - KEEP_US - 1), ("new", now - KEEP_US)]);
        for user in ["old", "new"] {
            counters.count(Counter::Requests, [user, "a", "get", "", "pods", "200"], 1);
        }
        counters.count(Counter::Operations, ["drain", "info"], 1);
        counters.drop_old(now);
        assert_eq!(value(&counters, Counter::Requests, &["old", "a", "get", "", "pods", "200"]), None);
        assert_eq!(value(&counters, Counter::Requests, &["new", "a", "get", "", "pods", "200"]), Some(1));
        assert_eq!(value(&counters, Counter::Operations, &["drain", "info"]), Some(1));
        let who = |user| Who { cluster: "", user, agent: "a" };
        assert_eq!(counters.client(who("new")).0, "new");
        assert_eq!(counters.client(who("old")).0, "other");
    }

    #[test]
    fn relists_are_those_that_a_part_adds() {
        let key = |user: &str| ([user, "a"].map(str::to_owned), ["", "pods"].map(str::to_owned));
        let of = |all: &[(&str, u64)]| Relists(all.iter().map(|(user, count)| (key(user), *count)).collect());
        let added = of(&[("u", 5), ("v", 1)]).without(&of(&[("u", 3), ("w", 2)]));
        assert_eq!(added, of(&[("u", 2), ("v", 1)]));
    }

    #[test]
    fn long_labels_are_cut_and_stay_one() {
        let long = "ü".repeat(300);
        assert_eq!(label(&long), label(&format!("{long}x")));
        assert_eq!(label(&long).chars().count(), MAX_LABEL_CHARS);
        assert_eq!(label("short"), "short");
    }
}
