//! Timeline, of all sources on one clock.

use super::answers::Answers;
use super::cards::MIN_SHARE;
use super::causes::name;
use super::suspects::Suspect;
use crate::analysis::controllers::handovers::Handover;
use crate::analysis::guard::Group;
use crate::analysis::judge::requests::MORE;
use crate::analysis::judge::vitals::{BLOCKED_S, Start, kills, starts};
use crate::analysis::memory::account::Account;
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::etcd::{AT_QUOTA, NEAR_QUOTA};
use crate::analysis::metrics::facts::{Component, Fact, Facts};
use crate::model::cause::Source;
use crate::model::episode::{Episode, Grade, State};
use crate::model::incident::Entry;
use crate::model::memory::Sample;
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, Micros, SECOND, Span};
use crate::model::units::{bytes, counted, percent, significant};

/// A group fuller than this is worth a line.
const FULL: f64 = 0.9;
/// Clients that rose and are named.
const RISEN: usize = 8;

/// What it is made of.
#[derive(Debug, Clone, Copy)]
pub struct TimelineInput<'k> {
    /// What all sources cover.
    pub span: Option<Span>,
    pub episodes: &'k [Episode],
    /// Metrics.
    pub facts: &'k Facts,
    /// Samples of cgroups.
    pub memory: &'k [(String, Vec<Sample>)],
    /// Who asked for more.
    pub suspects: &'k [Suspect],
    /// What other questions came to.
    pub answers: &'k Answers,
}

fn entry(at: Micros, kind: &'static str, severity: Severity, source: Source, what: String) -> Entry {
    Entry { at, until: None, slack: 0, kind, severity, who: String::new(), what, source }
}

/// Everything, in the order of time.
pub fn timeline(known: &TimelineInput<'_>) -> Vec<Entry> {
    let mut all = Vec::new();
    all.extend(known.episodes.iter().flat_map(episode));
    all.extend(surges(known));
    all.extend(restarts(known));
    all.extend(etcd(known));
    all.extend(memory(known));
    all.extend(operations(known));
    all.extend(handovers(known));
    all.extend(relists(known));
    all.sort_by(|a, b| (a.at, a.kind, &a.what).cmp(&(b.at, b.kind, &b.what)));
    all
}

/// Begin and end of an episode.
fn episode(own: &Episode) -> Vec<Entry> {
    if own.grade == Grade::None {
        return Vec::new();
    }
    let grade = own.grade.name();
    let source = own.effects.first().map_or(Source::Audit, |effect| effect.source);
    let what = own.headline.split_once(": ").map_or(own.headline.as_str(), |(_, what)| what).trim_end_matches('.');
    let begins = entry(own.from, "incident", own.grade.severity(), source, format!("{grade} begins: {what}"));
    let begins = Entry { until: Some(own.to), slack: own.slack, ..begins };
    match own.state {
        State::Ongoing | State::Unknown => vec![begins],
        State::Ended => {
            let ends = entry(own.to, "incident", Severity::Info, source, format!("{grade} ends"));
            vec![begins, Entry { slack: own.slack, ..ends }]
        }
    }
}

/// Clients that ask for more.
fn surges(known: &TimelineInput<'_>) -> Vec<Entry> {
    if known.episodes.iter().all(|own| own.counted[1].is_empty()) {
        // Nothing shows what they asked for at other times.
        return Vec::new();
    }
    let risen = known
        .suspects
        .iter()
        .filter(|suspect| suspect.share >= MIN_SHARE && suspect.times().is_none_or(|times| times >= MORE))
        .filter_map(|suspect| Some((suspect, suspect.rose?)));
    let reported = risen.take(RISEN).map(|(suspect, (from, to))| {
        let times = suspect.times().map_or_else(String::new, |times| format!(", {} times as many", significant(times)));
        let what = format!(
            "sends more requests: {}/s (baseline {}/s{times}); {} of the added load",
            significant(suspect.rps[1]),
            significant(suspect.rps[0]),
            percent(suspect.share)
        );
        let slack = known.episodes.iter().map(|own| own.slack).max().unwrap_or(0);
        let surge = entry(from, "client-surge", Severity::Warning, Source::Audit, what);
        Entry { until: Some(to), slack, who: name(&suspect.who), ..surge }
    });
    reported.collect()
}

/// Clients that listed everything again because their watches had ended.
fn relists(known: &TimelineInput<'_>) -> Vec<Entry> {
    let found = known.answers.findings("clients");
    let relists = found.filter(|finding| matches!(finding.id.as_str(), "client-relist-storm" | "client-too-old"));
    let reported = relists.filter_map(|finding| {
        let entry = of_finding(finding, "relist", Source::Audit)?;
        Some(Entry { until: time::parse_any(&finding.last_seen).filter(|until| *until > entry.at), ..entry })
    });
    reported.collect()
}

/// Processes that started within what is known.
fn restarts(known: &TimelineInput<'_>) -> Vec<Entry> {
    starts(known.facts)
        .into_iter()
        .map(|Start { at, component, instance, .. }| {
            let grave = if component.is_store() { Severity::Critical } else { Severity::Warning };
            entry(at, "restart", grave, Source::Metrics, restarted(&instance, component))
        })
        .collect()
}

fn restarted(instance: &str, component: Component) -> String {
    match instance {
        "" => format!("{} restarted", component.name()),
        _ => format!("{instance} ({}) restarted", component.name()),
    }
}

/// Compactions, and changes of etcd's leader.
fn etcd(known: &TimelineInput<'_>) -> Vec<Entry> {
    let mut all = Vec::new();
    let within = |at: Micros| known.span.is_none_or(|(from, to)| (from..=to).contains(&at));
    for fact in known.facts.of(Metric::EtcdCompacted) {
        let mut last = 0;
        for &(_, seconds) in known.facts.levels(fact) {
            let at = time::of_seconds(seconds);
            if at > last && within(at) {
                let what = format!("{}: old revisions compacted", known.facts.instances[fact.instance].name);
                all.push(entry(at, "compaction", Severity::Info, Source::Metrics, what));
            }
            last = last.max(at);
        }
    }
    all.extend(known.facts.of(Metric::EtcdDefragmentation).iter().flat_map(|fact| defragmented(known, fact)));
    for fact in known.facts.of(Metric::EtcdHasLeader) {
        let without = known.facts.levels(fact).iter().filter(|(_, has)| *has == 0.0);
        all.extend(without.map(|(at, _)| {
            let what = format!("{}: the member has no leader", known.facts.instances[fact.instance].name);
            entry(*at, "etcd-leader", Severity::Critical, Source::Metrics, what)
        }));
    }
    all.extend(known.facts.of(Metric::EtcdDbSize).iter().filter_map(|fact| filled(known, fact)));
    all
}

/// How long a member's database was defragmented between two pages, during which it answered nothing.
fn defragmented(known: &TimelineInput<'_>, fact: &Fact) -> Vec<Entry> {
    let instance = &known.facts.instances[fact.instance];
    let of = |(interval, seconds): &(u32, f64)| {
        let (from, to) = *instance.intervals.get(*interval as usize)?;
        let severity = if *seconds < BLOCKED_S { Severity::Info } else { Severity::Warning };
        let what = format!("{}: defragmented, for {} s", instance.name, significant(*seconds));
        let done = entry(to, "defragmentation", severity, Source::Metrics, what);
        Some(Entry { slack: to - from, ..done })
    };
    let is_its = |own: &&(u32, f64)| fact.part == Part::Sum && own.1 > 0.0;
    fact.course.iter().filter(is_its).filter_map(of).collect()
}

/// When a member's database came near its quota.
fn filled(known: &TimelineInput<'_>, fact: &Fact) -> Option<Entry> {
    let quotas = known.facts.of(Metric::EtcdQuota).iter();
    let quota =
        quotas.filter(|own| own.instance == fact.instance).find_map(|own| own.last).filter(|last| *last > 0.0)?;
    let levels = known.facts.levels(fact);
    let from = |share: f64| levels.iter().find(|(_, size)| *size >= share * quota);
    let (&(at, size), severity) = match (from(AT_QUOTA), from(NEAR_QUOTA)) {
        (Some(full), _) => (full, Severity::Critical),
        (None, Some(near)) => (near, Severity::Warning),
        (None, None) => return None,
    };
    let name = &known.facts.instances[fact.instance].name;
    let what = format!("{name}: the database takes {} of its quota ({})", percent(size / quota), bytes(size));
    Some(entry(at, "etcd", severity, Source::Metrics, what))
}

fn of_finding(finding: &Finding, kind: &'static str, source: Source) -> Option<Entry> {
    let at = time::parse_any(&finding.first_seen)?;
    Some(entry(at, kind, finding.severity, source, finding.summary.clone()))
}

/// Kills for want of memory, and groups that become full.
fn memory(known: &TimelineInput<'_>) -> Vec<Entry> {
    let mut all = Vec::new();
    for (name, samples) in known.memory {
        for pair in samples.windows(2) {
            let kills = |sample: &Sample| kills(sample).unwrap_or(0);
            let more = kills(&pair[1]).saturating_sub(kills(&pair[0]));
            if more > 0 {
                let what = format!("{name}: the kernel killed {more} of its processes because memory ran out (OOM)");
                let killed = entry(pair[1].at, "oom-kill", Severity::Critical, Source::Cgroup, what);
                all.push(Entry { slack: pair[1].at - pair[0].at, ..killed });
            }
            let fill = |sample: &Sample| Account::of(sample, None).fill();
            if let (Some(before), Some(now)) = (fill(&pair[0]), fill(&pair[1]))
                && before < FULL
                && now >= FULL
            {
                let account = Account::of(&pair[1], None);
                let firm = account
                    .firm()
                    .map_or_else(String::new, |firm| format!("; without reclaimable cache {}", percent(firm)));
                let used = account.usage.map_or_else(String::new, |used| bytes(used as f64));
                all.push(entry(
                    pair[1].at,
                    "memory",
                    Severity::Warning,
                    Source::Cgroup,
                    format!("{name}: {} of its limit used ({used}){firm}", percent(now)),
                ));
            }
        }
    }
    all
}

/// Dangerous operations.
fn operations(known: &TimelineInput<'_>) -> Vec<Entry> {
    let operations = &known.answers.operations;
    let is_one_cluster = operations.iter().all(|group| group.first.cluster == operations[0].first.cluster);
    let entry_of = |group: &Group| {
        let gone = match group.cascade.total() {
            0 => String::new(),
            total if group.cascade.by_databases => format!("; {} deleted with it", counted(total, "object")),
            total => format!("; at least {} deleted with it", counted(total, "object")),
        };
        let shortfall = group.shortfall().map_or_else(String::new, |shortfall| format!(" ({shortfall})"));
        let what = format!("{}{shortfall}{gone}", group.what());
        Entry {
            until: Some(group.until()).filter(|until| *until > group.first.at),
            who: match group.first.cluster.as_str() {
                "" => group.who(),
                _ if is_one_cluster => group.who(),
                cluster => format!("{} in {cluster}", group.who()),
            },
            ..entry(group.first.at, "operation", group.severity(), Source::Audit, what)
        }
    };
    operations.iter().map(entry_of).collect()
}

/// From this gap between two leaders on a handover is a warning: twice the time in which others look.
const SLOW_HANDOVER: Micros = 10 * SECOND;

/// Leases of controllers and schedulers that changed hands.
fn handovers(known: &TimelineInput<'_>) -> Vec<Entry> {
    let entry_of = |one: &Handover| {
        let severity = if one.gap >= SLOW_HANDOVER { Severity::Warning } else { Severity::Info };
        let what = format!(
            "the lease {} goes from {} to {}; no leader for {} s",
            one.lease.2,
            one.from.name(),
            one.to.name(),
            significant(one.gap as f64 / SECOND as f64)
        );
        entry(one.at, "leader", severity, Source::Audit, what)
    };
    known.answers.handovers.iter().map(entry_of).collect()
}
