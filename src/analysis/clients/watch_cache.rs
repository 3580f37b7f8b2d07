//! How many seconds of history each resource's watch cache holds, who falls out of it, and what to do.
//!
//! A watch goes on from a resourceVersion only while the cache still has the event behind it; else the client lists
//! everything again. A cache has a capacity in events: from Kubernetes 1.19 on it doubles while its oldest event is
//! younger than 75 s and halves while a quarter of it would do, between 100 and 102,400 (`watch_cache.go`), and sizes
//! that are set are ignored.

use super::detect::ClientFinding;
use super::{Clients, Profile, succeeded};
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::{Fact, Facts, Instance};
use crate::model::histogram::Histogram;
use crate::model::input::InputReport;
use crate::model::registry::qualified;
use crate::model::report::{Finding, Report, Table, Value, Window};
use crate::model::time::SECOND;
use crate::model::units::{counted, duration, significant};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds of history that a cache that can still grow holds at least.
const FRESH: f64 = 75.0;

/// A cache does not grow beyond, in events.
const LARGEST: f64 = 102_400.0;

/// Above what is needed, for sizes that are set.
const HEADROOM: f64 = 1.2;

/// Watches that have to end before their lifetime says something.
const WATCHES: u64 = 3;

/// The fields of a row.
const FIELDS: [&str; 13] = [
    "cluster",
    "instance",
    "group",
    "resource",
    "capacity",
    "events_in_per_s",
    "peak_events_per_s",
    "history_s",
    "shortest_history_s",
    "is_largest",
    "too_old",
    "at_risk",
    "proposals",
];

/// A watch cache of an apiserver.
#[derive(Debug, Clone, Default)]
struct Cache {
    /// Events that it holds at most.
    capacity: f64,
    /// Events per second since the last restart: over the whole time, and in the busiest interval between two pages.
    rates: [Option<f64>; 2],
    /// Seconds: at the mean rate, and the least that was held at any page.
    history: [Option<f64>; 2],
}

/// Group and resource, on an instance.
type Key<'f> = (usize, &'f str, &'f str);

/// Whether the apiserver is one of those whose caches have the size that is set; one of which nothing is known is not.
fn is_old(instance: &Instance, server: Option<Minor>) -> bool {
    server.map_or_else(|| instance.is_before(19), |server| server < Minor(19))
}

fn caches(facts: &Facts, server: Option<Minor>) -> BTreeMap<Key<'_>, Cache> {
    let mut caches: BTreeMap<Key<'_>, Cache> = BTreeMap::new();
    let key = |fact: &Fact| (fact.instance, facts.text(fact.labels[0]), facts.text(fact.labels[1]));
    for fact in facts.of(Metric::CacheCapacity) {
        if let Some(capacity) = fact.last.filter(|capacity| *capacity > 0.0) {
            caches.insert(key(fact), Cache { capacity, ..Cache::default() });
        }
    }
    for fact in facts.of(Metric::CacheEvents) {
        let Some(cache) = caches.get_mut(&key(fact)) else { continue };
        let instance = &facts.instances[fact.instance];
        // Nothing is older than the process.
        let up = instance.start.map(|start| instance.to as f64 / SECOND as f64 - start);
        // A process that took another's place began with an empty cache.
        let begin = instance.start.map_or(i64::MIN, |start| (start * SECOND as f64) as i64);
        let ends: Vec<(i64, i64, f64)> = fact
            .course
            .iter()
            .filter_map(|(interval, events)| {
                instance.intervals.get(*interval as usize).map(|(from, to)| (*from, *to, *events))
            })
            .filter(|(from, ..)| *from >= begin)
            .collect();
        let bound = |seconds: f64| up.filter(|up| *up > 0.0).map_or(seconds, |up| seconds.min(up));
        let per_second =
            |(from, to, events): &(i64, i64, f64)| (to > from).then(|| events / ((to - from) as f64 / SECOND as f64));
        let peak = ends.iter().filter_map(per_second).max_by(f64::total_cmp);
        let seconds: i64 =
            instance.intervals.iter().filter(|(from, _)| *from >= begin).map(|(from, to)| to - from).sum();
        let rate = match seconds {
            1.. if !instance.since_start => {
                Some(ends.iter().map(|(.., events)| events).sum::<f64>() / (seconds as f64 / SECOND as f64))
            }
            _ => Some(facts.rate(fact)).filter(|rate| rate.is_finite()),
        };
        // The capacity is that of the last page. Before, it was what 75 s asked for, unless it was as large as it gets,
        // or set.
        let sizes_itself = !is_old(instance, server) && cache.capacity < LARGEST;
        let held = |seconds: f64| bound(if sizes_itself { seconds.max(FRESH) } else { seconds });
        let mean = rate.filter(|rate| *rate > 0.0).map(|rate| cache.capacity / rate);
        let least = shortest(&ends, cache.capacity).filter(|_| !instance.since_start);
        cache.rates = [rate, peak.filter(|_| !instance.since_start)];
        cache.history = [mean.map(held), least.map(held)];
    }
    caches
}

/// The shortest time in which `capacity` events came, up to the end of any interval: so long ago the oldest event was.
/// Intervals are from, to (µs) and events, in order; inside of one, events are taken to come evenly. `None` if so many
/// never came.
fn shortest(intervals: &[(i64, i64, f64)], capacity: f64) -> Option<f64> {
    let mut least: Option<f64> = None;
    for (last, (_, end, _)) in intervals.iter().enumerate() {
        let mut events = 0.0;
        for (from, to, here) in intervals[..=last].iter().rev() {
            if events + here >= capacity {
                let part = if *here > 0.0 { (capacity - events) / here } else { 0.0 };
                let oldest = *to as f64 - (to - from) as f64 * part;
                let span = (*end as f64 - oldest) / SECOND as f64;
                least = Some(least.map_or(span, |least| least.min(span)));
                break;
            }
            events += here;
        }
    }
    least
}

/// A client's watches of a resource that have no bookmarks, if they live longer than the cache remembers: how long the
/// median of them lives.
fn outlives(profile: &Profile<'_>, what: (&str, &str), history: f64) -> Option<f64> {
    let one = profile.uses.iter().find(|(of, _)| **of == what)?.1;
    let mut lifetimes = Histogram::default();
    for row in one
        .rows
        .iter()
        .filter(|row| row.verb == "watch" && succeeded(row) && row.shape.is_some_and(|shape| !shape.bookmarks))
    {
        row.lifetime().into_iter().for_each(|one| lifetimes.merge(one));
    }
    let median = lifetimes.quantile(0.5).filter(|_| lifetimes.count() >= WATCHES)? / SECOND as f64;
    (median > history).then_some(median)
}

/// What is known beside the metrics.
#[derive(Debug, Default)]
pub struct CacheContext<'a, 'r> {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Profiles and findings, where there are audit logs.
    pub profiles: Option<(&'a Clients<'r>, &'a [ClientFinding<'r>])>,
    /// The apiservers' version.
    pub server: Option<Minor>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

/// Clients that fall out of a cache: those that were found to, and those that may.
fn fallen(known: &CacheContext<'_, '_>, cluster: &str, what: (&str, &str), history: Option<f64>) -> [Vec<String>; 2] {
    let Some((clients, found)) = known.profiles else { return Default::default() };
    let (mut too_old, mut at_risk) = (Vec::new(), Vec::new());
    let same = |other: &str| other == cluster || other.is_empty() || cluster.is_empty();
    for profile in clients.list.iter().filter(|profile| same(profile.who.cluster)) {
        let name = format!("{} ({})", profile.who.agent, profile.who.user);
        let of = |name: &str, finding: &Finding| finding.subject.get(name).map_or("", String::as_str).to_owned();
        let is_told = found.iter().any(|(who, finding)| {
            *who == Some(profile.who)
                && finding.id == "client-too-old"
                && of("group", finding) == what.0
                && of("resource", finding) == what.1
        });
        if is_told {
            too_old.push(name);
        } else if let Some(median) = history.and_then(|history| outlives(profile, what, history)) {
            at_risk.push(format!("{name}: {}", duration((median * 1e6) as i64)));
        }
    }
    [too_old, at_risk]
}

/// What to do about a cache.
fn proposals(cache: &Cache, resource: &str, fallen: &[Vec<String>; 2], old_server: bool) -> Vec<String> {
    let [too_old, at_risk] = fallen;
    let mut proposals = Vec::new();
    let least = cache.history[1].or(cache.history[0]);
    if !too_old.is_empty() {
        proposals.push(
            "set allowWatchBookmarks=true and resume from the last bookmark: no cache is large enough for a client \
             that resumes from an old resourceVersion"
                .to_owned(),
        );
    }
    if let (false, Some(least)) = (at_risk.is_empty(), least) {
        proposals.push(format!(
            "set allowWatchBookmarks=true; where a client can't, timeoutSeconds below {} keeps its resourceVersion \
             within the cache's history",
            least.floor().max(1.0)
        ));
    }
    let is_short = least.is_some_and(|least| least < FRESH);
    if is_short && old_server {
        let rate = cache.rates[1].or(cache.rates[0]).unwrap_or_default();
        proposals.push(format!(
            "--watch-cache-sizes={resource}#{} holds {FRESH} s at this rate",
            (rate * FRESH * HEADROOM).ceil()
        ));
    } else if is_short && cache.capacity >= LARGEST {
        proposals.push("the cache is at its maximum size: reduce writes of this resource".to_owned());
    }
    proposals
}

/// The report; `None` if no page reports watch caches.
pub fn report(facts: &Facts, known: CacheContext<'_, '_>) -> Option<Report> {
    let caches = caches(facts, known.server);
    if caches.is_empty() {
        return None;
    }
    let instances: BTreeSet<usize> = caches.keys().map(|(instance, ..)| *instance).collect();
    let mut rows: Vec<(bool, f64, Vec<Value>)> = Vec::new();
    for ((instance, group, resource), cache) in &caches {
        let of = &facts.instances[*instance];
        let least = cache.history[1].or(cache.history[0]);
        let fallen = fallen(&known, &of.cluster, (group, resource), least);
        let old_server = is_old(of, known.server);
        let name = qualified(group, resource);
        let proposals = proposals(cache, &name, &fallen, old_server);
        let row = vec![
            Value::Text(of.cluster.clone()),
            Value::Text(of.name.clone()),
            (*group).into(),
            (*resource).into(),
            (cache.capacity as u64).into(),
            cache.rates[0].into(),
            cache.rates[1].into(),
            cache.history[0].into(),
            cache.history[1].into(),
            Value::Json(json!(cache.capacity >= LARGEST)),
            Value::Json(json!(fallen[0])),
            Value::Json(json!(fallen[1])),
            Value::Json(json!(proposals)),
        ];
        rows.push((proposals.is_empty(), least.unwrap_or(f64::INFINITY), row));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let table = Table {
        name: "watch_caches".to_owned(),
        columns: FIELDS.map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(|(.., row)| row).collect(),
        ..Table::default()
    };
    let (from, to) = (facts.instances.iter().map(|one| one.from).min().unwrap_or_default(), facts.last());
    let mut notes = sentences(&table);
    let shown = known.top.unwrap_or(usize::MAX).min(table.rows.len());
    if shown < table.rows.len() {
        notes.push(format!("{} more watch caches not shown; --top 0 shows all.", table.rows.len() - shown));
    }
    notes.push(
        "Since Kubernetes 1.19 a cache resizes itself (100 to 102,400 events) to hold at least 75 s; of \
         --watch-cache-sizes only 0 has an effect: it disables a cache. A MIN HISTORY of -: the cache has never been \
         full."
            .to_owned(),
    );
    if known.profiles.is_none() {
        notes.push("Clients that fall behind are unknown without audit logs.".to_owned());
    }
    if instances.iter().any(|at| facts.instances[*at].since_start) {
        notes.push(
            "For an apiserver with one page, rates are averages since its start; two or more pages show current \
             rates."
                .to_owned(),
        );
    }
    let people = for_people(&table, shown);
    let mut coverage = Map::new();
    coverage.insert("audit_logs".to_owned(), json!(known.profiles.is_some()));
    coverage.insert("since_start".to_owned(), json!(instances.iter().any(|at| facts.instances[*at].since_start)));
    Some(Report {
        schema: "plimsoll.clients.watch_cache/v1".to_owned(),
        inputs: known.inputs,
        window: Window::of(Some((from, to))),
        coverage,
        lead: vec![format!(
            "{} of {} in {}.",
            counted(caches.len() as u64, "watch cache"),
            counted(instances.len() as u64, "apiserver"),
            duration(to - from)
        )],
        table,
        people: Some(vec![people]),
        notes,
        ..Report::default()
    })
}

fn for_people(table: &Table, shown: usize) -> Table {
    const NAMES: [&str; 9] = [
        "instance",
        "group",
        "resource",
        "capacity",
        "events_in_per_s",
        "history_s",
        "shortest_history_s",
        "too_old",
        "at_risk",
    ];
    let columns: Vec<usize> = NAMES.iter().filter_map(|name| table.column(name)).collect();
    let value = |value: &Value| match value {
        Value::Json(Json::Array(items)) => (items.len() as u64).into(),
        other => other.clone(),
    };
    let rows = table.rows.iter().take(shown).map(|row| columns.iter().map(|&at| value(&row[at])).collect());
    let headings = vec![("capacity", "CAPACITY")];
    Table { columns: NAMES.map(str::to_owned).to_vec(), rows: rows.collect(), headings, ..Table::default() }
}

/// Who falls out, and proposals, as sentences; those of several instances once.
fn sentences(table: &Table) -> Vec<String> {
    let mut reported: Vec<String> = Vec::new();
    let at = |name: &str| table.column(name).unwrap_or_default();
    for row in &table.rows {
        let texts = |name: &str| match &row[at(name)] {
            Value::Json(Json::Array(items)) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let text = |name: &str| if let Value::Text(text) = &row[at(name)] { text.clone() } else { String::new() };
        let proposals: Vec<String> = texts("proposals");
        if proposals.is_empty() {
            continue;
        }
        let resource = qualified(&text("group"), &text("resource"));
        let (too_old, at_risk) = (texts("too_old"), texts("at_risk"));
        let mut sentence = format!("{resource}\t");
        if !too_old.is_empty() {
            sentence += &format!("falls behind and relists: {}. ", too_old.join(", "));
        }
        if !at_risk.is_empty() {
            let held = [at("shortest_history_s"), at("history_s")]
                .into_iter()
                .find_map(|at| if let Value::Number(held) = row[at] { Some(held) } else { None });
            sentence += &format!(
                "watches without bookmarks that live longer than the {} s held: {}. ",
                held.map_or_else(|| "?".to_owned(), significant),
                at_risk.join(", ")
            );
        }
        sentence += &format!("What to do: {}.", proposals.join("; "));
        if !reported.contains(&sentence) {
            reported.push(sentence);
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND;

    #[test]
    fn the_oldest_event_is_as_old_as_its_capacity_took() {
        // 100 events in 10 s, then 10 in 10 s: after the burst the cache of 50 holds its last 5 s.
        let burst = [(0, 10 * S, 100.0), (10 * S, 20 * S, 10.0)];
        assert_eq!(shortest(&burst, 50.0), Some(5.0));
        assert_eq!(shortest(&burst, 100.0), Some(10.0));
        // 105: 10 of the second interval, 95 of the 100 before.
        assert_eq!(shortest(&burst, 105.0), Some(19.5));
        assert_eq!(shortest(&burst, 111.0), None);
        // Intervals without events have no entry.
        assert_eq!(shortest(&[(0, 10 * S, 50.0), (90 * S, 100 * S, 50.0)], 75.0), Some(95.0));
        assert_eq!(shortest(&[], 1.0), None);
    }

    #[test]
    fn sizes_are_proposed_only_where_they_count() {
        let cache = Cache { capacity: 1000.0, rates: [Some(10.0), Some(50.0)], history: [Some(100.0), Some(20.0)] };
        let none = [vec![], vec![]];
        assert!(proposals(&cache, "pods", &none, false).is_empty());
        assert_eq!(proposals(&cache, "pods", &none, true), ["--watch-cache-sizes=pods#4500 holds 75 s at this rate"]);
        let largest = Cache { capacity: LARGEST, ..cache };
        assert!(proposals(&largest, "pods", &none, false)[0].contains("at its maximum size"));
    }
}
