//! Numbers in time, and before, within and after the window.

use super::pulse::LoadSeries;
use crate::analysis::memory::account::Account;
use crate::analysis::metrics::catalogue::Metric;
use crate::analysis::metrics::facts::{Component, Fact, Facts};
use crate::model::cause::Source;
use crate::model::episode::{Episode, Measure};
use crate::model::forecast::Unit;
use crate::model::incident::{Chart, Phases};
use crate::model::memory::Sample;
use crate::model::time::{Micros, Span};
use std::collections::BTreeMap;

/// Points of a line; of more, those that lie together become their mean.
const POINTS: usize = 400;

/// A line of a chart: its name and its values.
type Line = (String, Vec<(Micros, f64)>);

fn chart(name: &str, title: &str, unit: Unit, source: Source, lines: Vec<Line>) -> Option<Chart> {
    let lines: Vec<Line> =
        lines.into_iter().filter(|(_, line)| !line.is_empty()).map(|(name, line)| (name, fewer(line))).collect();
    let is_some = lines.iter().flat_map(|(_, line)| line).any(|(_, value)| *value > 0.0);
    is_some.then(|| Chart { name: name.to_owned(), title: title.to_owned(), unit, lines, source })
}

fn fewer(line: Vec<(Micros, f64)>) -> Vec<(Micros, f64)> {
    let each = line.len().div_ceil(POINTS).max(1);
    let mean =
        |some: &[(Micros, f64)]| (some[0].0, some.iter().map(|(_, value)| value).sum::<f64>() / some.len() as f64);
    line.chunks(each).map(mean).collect()
}

/// Charts of the load, of those who asked, of metrics and memory.
pub fn charts(
    pulse: Option<&LoadSeries>,
    clients: &[Line],
    facts: &Facts,
    memory: &[(String, Vec<Sample>)],
) -> Vec<Chart> {
    let mut all = Vec::new();
    if let Some(pulse) = pulse {
        let line = |measure: Measure| (measure.words().to_owned(), pulse.course(measure));
        let knows = |measure: &Measure| pulse.known.contains(measure);
        all.extend(chart(
            "requests",
            "Requests a second",
            Unit::PerSecond,
            pulse.source,
            [Measure::Requests, Measure::Lists].map(line).to_vec(),
        ));
        let bad: Vec<Line> =
            [Measure::Throttled, Measure::Errors, Measure::Slow].into_iter().filter(knows).map(line).collect();
        all.extend(chart(
            "failures",
            "Failed, throttled and slow requests a second",
            Unit::PerSecond,
            pulse.source,
            bad,
        ));
        let quantiles =
            [(0.5, "median"), (0.99, "99th percentile")].map(|(q, name)| (name.to_owned(), pulse.latency(q)));
        all.extend(chart(
            "latency_ms",
            "Latency in ms, without watches",
            Unit::Count,
            pulse.source,
            quantiles.to_vec(),
        ));
        if knows(&Measure::ServerTime) {
            let line = ("per second".to_owned(), pulse.course(Measure::ServerTime));
            all.extend(chart(
                "server_time",
                "Request time in seconds, by the second in which requests completed",
                Unit::Count,
                pulse.source,
                vec![line],
            ));
        }
    }
    all.extend(chart(
        "clients",
        "Requests a second of the clients that grew most",
        Unit::PerSecond,
        Source::Audit,
        clients.to_vec(),
    ));
    let apiservers = |fact: &Fact| facts.instances[fact.instance].component == Component::Apiserver;
    let inflight = levels(facts, Metric::Inflight, &apiservers);
    all.extend(chart("inflight", "Requests in flight", Unit::Count, Source::Metrics, inflight));
    let seats = levels(facts, Metric::FlowSeats, &apiservers);
    all.extend(chart("seats", "Seats of API Priority and Fairness in use", Unit::Count, Source::Metrics, seats));
    let queued = levels(facts, Metric::FlowQueued, &apiservers);
    all.extend(chart("queued", "Requests waiting in queues", Unit::Count, Source::Metrics, queued));
    let resident = levels(facts, Metric::ProcessResident, &|_| true);
    all.extend(chart("resident", "Resident memory of processes", Unit::Bytes, Source::Metrics, resident));
    for (name, samples) in memory {
        let of = |part: &dyn Fn(&Account) -> Option<u64>| -> Vec<(Micros, f64)> {
            samples.iter().filter_map(|sample| Some((sample.at, part(&Account::of(sample, None))? as f64))).collect()
        };
        let lines = vec![
            ("usage".to_owned(), of(&|account| account.usage)),
            ("anonymous".to_owned(), of(&|account| account.anon)),
            ("page cache".to_owned(), of(&|account| account.cache())),
            ("limit".to_owned(), of(&|account| account.limit)),
        ];
        all.extend(chart(
            &format!("cgroup_{name}"),
            &format!("Memory of the cgroup {name}"),
            Unit::Bytes,
            Source::Cgroup,
            lines,
        ));
    }
    let size = levels(facts, Metric::EtcdDbSize, &|_| true);
    all.extend(chart("etcd", "Size of etcd's database", Unit::Bytes, Source::Metrics, size));
    all
}

/// The values of a gauge in time, added up for each instance.
fn levels(facts: &Facts, metric: Metric, accept: &dyn Fn(&Fact) -> bool) -> Vec<Line> {
    let mut all: BTreeMap<&str, BTreeMap<Micros, f64>> = BTreeMap::new();
    for fact in facts.of(metric).iter().filter(|fact| accept(fact)) {
        let own = all.entry(facts.instances[fact.instance].name.as_str()).or_default();
        facts.levels(fact).iter().for_each(|(at, value)| *own.entry(*at).or_default() += value);
    }
    let name = |name: &str| if name.is_empty() { "all".to_owned() } else { name.to_owned() };
    all.into_iter().map(|(instance, line)| (name(instance), line.into_iter().collect())).collect()
}

/// Which requests are counted.
const REQUESTS: &str = "requests (without watches and apiservers' own)";

/// The load before an episode, in it, and after it, over the times that the episode's own numbers are of.
pub fn phases(pulse: &LoadSeries, episode: &Episode) -> Vec<Phases> {
    let [within, before] = &episode.counted;
    let end = within.last().map_or(episode.to, |span| span.1);
    // Pieces may be longer than these times: then those of all of it.
    let begun_in = |spans: &[Span], all: Span| {
        let pieces = pulse.begun_in(spans);
        if pieces.is_empty() { pulse.begun_in(&[all]) } else { pieces }
    };
    let parts = [
        begun_in(before, episode.baseline),
        begun_in(within, (episode.from, episode.to)),
        pulse.begun_in(&[(end, pulse.span.1)]),
    ];
    let mut all: Vec<Phases> = Vec::new();
    for &measure in &pulse.known {
        let unit = if measure == Measure::ServerTime { Unit::Count } else { Unit::PerSecond };
        let mut values = parts.each_ref().map(|pieces| pulse.mean(measure, pieces));
        // The episode's own numbers are exact; pieces are whole, and of long records long.
        if let Some((_, rates)) = episode.rates.iter().find(|own| own.0 == measure) {
            (values[0], values[1]) = (Some(rates[0]), Some(rates[1]));
        }
        all.push(Phases {
            name: measure.name(),
            words: if measure == Measure::Requests { REQUESTS } else { measure.words() },
            unit,
            values,
        });
    }
    for (q, name, words) in
        [(0.5, "p50_ms", "median latency of all requests, ms"), (0.99, "p99_ms", "p99 latency of all requests, ms")]
    {
        let values = parts.each_ref().map(|pieces| pulse.quantile(q, pieces));
        if values.iter().any(Option::is_some) {
            all.push(Phases { name, words, unit: Unit::Count, values });
        }
    }
    all
}
