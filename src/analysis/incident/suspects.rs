//! Who asked for more work within the window than before it.
//!
//! Latency rises for everyone when an apiserver has too much to do, so what a request took within the window says
//! nothing of who caused it. More requests are therefore weighed by what such requests took in the calm before: that is
//! the work that was added.

use super::pulse::Pulse;
use crate::analysis::dims::folded;
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Fact, Facts};
use crate::analysis::metrics::traffic::verb;
use crate::analysis::robust::median;
use crate::analysis::traffic::{OTHER, Row};
use crate::model::incident::Span;
use crate::model::time::{Micros, SECOND};
use std::collections::BTreeMap;

/// So many requests tell what one takes.
const ENOUGH: u64 = 5;

/// What is asked for: verb, API group, resource, subresource.
pub type What = [String; 4];

/// Who asks: user and agent.
pub type Who = [String; 2];

/// A part of the time: what was asked, and how long it was.
#[derive(Debug, Clone, Copy)]
pub struct Side<'r> {
    /// Rows by user, agent, verb, API group, resource, subresource.
    pub rows: &'r [Row],
    /// Seconds.
    pub seconds: f64,
}

/// What a client asked for on one side.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Asked {
    requests: u64,
    throttled: u64,
    server_s: f64,
}

/// A kind of request of a client, before and within.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What is asked for.
    pub what: What,
    /// A second: before and within.
    pub rps: [f64; 2],
    /// Seconds of work that one takes in the calm.
    pub price: f64,
    /// Seconds of work by second that came with the window, at the calm price.
    pub added: f64,
}

/// A client.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// Who.
    pub who: Who,
    /// Requests a second: before and within.
    pub rps: [f64; 2],
    /// Requests that were answered 429 within.
    pub throttled: u64,
    /// Seconds of work by second that came with the window, at calm prices.
    pub added: f64,
    /// Its part of all that came.
    pub share: f64,
    /// What it asked more for, the dearest first.
    pub lines: Vec<Line>,
    /// When its rate rose and fell again, if its course was looked at.
    pub rose: Option<Span>,
}

impl Suspect {
    /// How many times its requests are what they were; `None` where it asked for nothing before.
    pub fn times(&self) -> Option<f64> {
        (self.rps[0] > 0.0).then(|| self.rps[1] / self.rps[0])
    }

    /// Whether it is a part of the control plane itself, or a kubelet.
    pub fn is_control_plane(&self) -> bool {
        is_control_plane(&self.who[0])
    }
}

/// Whether a user is a part of the control plane itself, or a kubelet.
pub fn is_control_plane(user: &str) -> bool {
    let own = ["system:serviceaccount:kube-system:", "system:node:", "system:kube-", "system:apiserver"];
    own.iter().any(|prefix| user.starts_with(prefix))
}

fn by_who(part: Side<'_>) -> BTreeMap<Who, BTreeMap<What, Asked>> {
    let mut all: BTreeMap<Who, BTreeMap<What, Asked>> = BTreeMap::new();
    for row in part.rows {
        let [user, agent, what @ ..] = row.dims.as_slice() else { continue };
        let Ok(what) = What::try_from(what.to_vec()) else { continue };
        if user == OTHER {
            continue;
        }
        let asked = all.entry([folded(user).to_owned(), agent.clone()]).or_default().entry(what).or_default();
        asked.requests += row.stats.requests;
        asked.throttled += row.stats.throttled;
        asked.server_s += row.stats.latency.sum as f64 / 1e6;
    }
    all
}

/// What requests take in the calm: those of one kind, those of one verb, all.
#[derive(Debug, Default)]
struct Prices<'w> {
    by_what: BTreeMap<&'w What, Asked>,
    by_verb: BTreeMap<&'w str, Asked>,
    all: Asked,
}

impl<'w> Prices<'w> {
    fn of(asked: impl Iterator<Item = (&'w What, &'w Asked)>) -> Self {
        let mut prices = Self::default();
        for (what, asked) in asked.filter(|(what, _)| what[0] != "watch") {
            let verb = prices.by_verb.entry(what[0].as_str()).or_default();
            for sum in [prices.by_what.entry(what).or_default(), verb, &mut prices.all] {
                sum.requests += asked.requests - asked.throttled;
                sum.server_s += asked.server_s;
            }
        }
        prices
    }

    /// What one takes, by what is known best: the client's own, those of its kind, of its verb, all; only if nothing
    /// was asked in the calm what it takes now.
    fn price(&self, own: Option<&Asked>, what: &What, now: &Asked) -> f64 {
        let known = [own, self.by_what.get(what), self.by_verb.get(what[0].as_str()), Some(&self.all)];
        let told = known.into_iter().flatten().find(|asked| asked.requests >= ENOUGH).unwrap_or(now);
        told.server_s / told.requests.max(1) as f64
    }
}

/// Everyone who asked for something within, by the work that they added.
pub fn suspects(before: Side<'_>, within: Side<'_>) -> Vec<Suspect> {
    let (old, new) = (by_who(before), by_who(within));
    let prices = Prices::of(old.values().flatten());
    let mut all: Vec<Suspect> = Vec::new();
    for (who, asked) in new {
        let was = old.get(&who);
        let mut suspect =
            Suspect { who, rps: [0.0; 2], throttled: 0, added: 0.0, share: 0.0, lines: Vec::new(), rose: None };
        suspect.rps[0] =
            was.map_or(0, |was| was.values().map(|asked| asked.requests).sum::<u64>()) as f64 / before.seconds.max(1.0);
        for (what, now) in asked {
            let own = was.and_then(|was| was.get(&what));
            let by_second = |count: u64, side: Side<'_>| count as f64 / side.seconds.max(1.0);
            let rps = [by_second(own.map_or(0, |own| own.requests), before), by_second(now.requests, within)];
            // What is refused takes no work.
            let served = by_second(now.requests - now.throttled, within);
            let price = if what[0] == "watch" { 0.0 } else { prices.price(own, &what, &now) };
            let added = (served - rps[0]).max(0.0) * price;
            suspect.rps[1] += rps[1];
            suspect.throttled += now.throttled;
            suspect.added += added;
            suspect.lines.push(Line { what, rps, price, added });
        }
        suspect.lines.sort_by(|a, b| b.added.total_cmp(&a.added).then_with(|| a.what.cmp(&b.what)));
        all.push(suspect);
    }
    let sum = added(&all);
    if sum > 0.0 {
        all.iter_mut().for_each(|suspect| suspect.share = suspect.added / sum);
    }
    all.sort_by(|a, b| b.added.total_cmp(&a.added).then_with(|| a.who.cmp(&b.who)));
    all
}

/// The same by metrics, which don't say who asks: one without a name, who asks for everything.
pub fn unnamed(before: &Facts, within: &Facts) -> Vec<Suspect> {
    let (old, new) = (by_what(before), by_what(within));
    let mut suspect = Suspect {
        who: Who::default(),
        rps: [0.0; 2],
        throttled: 0,
        added: 0.0,
        share: 1.0,
        lines: Vec::new(),
        rose: None,
    };
    for (what, now) in new {
        let was = old.get(&what).copied().unwrap_or_default();
        let known = [was, now].into_iter().find(|asked| asked.timed >= ENOUGH as f64).unwrap_or(now);
        let price = if what[0] == "watch" || known.timed <= 0.0 { 0.0 } else { known.server_s / known.timed };
        let rps = [was.rps, now.rps];
        let added = (rps[1] - rps[0]).max(0.0) * price;
        (0..2).for_each(|side| suspect.rps[side] += rps[side]);
        suspect.added += added;
        suspect.lines.push(Line { what, rps, price, added });
    }
    suspect.lines.sort_by(|a, b| b.added.total_cmp(&a.added).then_with(|| a.what.cmp(&b.what)));
    if suspect.lines.is_empty() { Vec::new() } else { vec![suspect] }
}

/// What metrics count of a kind of request.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    rps: f64,
    /// Requests whose time was measured, and how long they took altogether.
    timed: f64,
    server_s: f64,
}

fn by_what(facts: &Facts) -> BTreeMap<What, Counted> {
    let mut all: BTreeMap<What, Counted> = BTreeMap::new();
    let what = |fact: &Fact| {
        let label = |at: usize| facts.text(fact.labels[at]).to_owned();
        [verb(facts, fact).into_owned(), label(1), label(3), label(4)]
    };
    for fact in facts.of(Metric::Requests) {
        let rate = facts.rate(fact);
        if rate.is_finite() {
            all.entry(what(fact)).or_default().rps += rate;
        }
    }
    for fact in facts.of(Metric::Duration) {
        let counted = all.entry(what(fact)).or_default();
        match fact.part {
            Part::Sum => counted.server_s += fact.increase,
            Part::Count => counted.timed += fact.increase,
            _ => {}
        }
    }
    all
}

/// The longest stretch in which a course lies nearer to what it was within the window than to what it was before; in
/// `course` are the start of each piece and a rate. A dip of a few pieces, such as while an apiserver restarts, does
/// not end it.
pub fn rise(course: &[(Micros, f64)], piece: Micros, window: Span) -> Option<Span> {
    let rates = |part: Span| {
        course.iter().filter(move |(at, _)| (part.0..part.1).contains(at)).map(|(_, rate)| *rate).collect::<Vec<f64>>()
    };
    let middle = |part: Span| median(&mut rates(part)).unwrap_or(0.0);
    let (low, high) = (middle((Micros::MIN, window.0)), middle(window));
    if high <= low {
        return None;
    }
    let line = f64::midpoint(low, high);
    let mut best: Option<Span> = None;
    let mut open: Option<(Micros, Micros, u32)> = None;
    for &(at, rate) in course {
        open = match (open, rate > line) {
            (None, true) => Some((at, at + piece, 0)),
            (Some((from, ..)), true) => Some((from, at + piece, 0)),
            (Some((from, to, misses)), false) if misses < DIP => Some((from, to, misses + 1)),
            _ => None,
        };
        if let Some((from, to, _)) = open
            && best.is_none_or(|best| to - from > best.1 - best.0)
        {
            best = Some((from, to));
        }
    }
    // It began where the course left what it was, which is before it was half way.
    let left = |rate: f64| rate > low + ONSET * (high - low);
    best.map(|(from, to)| {
        let way =
            course.iter().rev().filter(|(at, _)| (from - SLOPE..from).contains(at)).take_while(|(_, rate)| left(*rate));
        (way.last().map_or(from, |(at, _)| *at), to)
    })
}

/// The part of the way up that is more than chance.
const ONSET: f64 = 0.2;
/// What rises more slowly than this has no beginning.
const SLOPE: Micros = 60 * SECOND;

/// Pieces that a dip may last.
const DIP: u32 = 3;
/// A client that adds less of the work does not say when the incident began.
const TELLS: f64 = 0.05;
/// So long before the load stands out those who cause it may have begun.
const EARLIER: Micros = 30 * SECOND;

/// When the incident began: with the first of those who caused it, if that was shortly before the load stood out.
pub fn began(suspects: &[Suspect], from: Micros) -> Micros {
    let starts = suspects
        .iter()
        .filter(|suspect| suspect.share >= TELLS && !suspect.is_control_plane())
        .filter_map(|suspect| suspect.rose);
    starts.map(|(start, _)| start).filter(|start| (from - EARLIER..from).contains(start)).min().unwrap_or(from)
}

/// Seconds of work by second that came with the window, of all.
pub fn added(suspects: &[Suspect]) -> f64 {
    suspects.iter().map(|suspect| suspect.added).sum()
}

/// The work that was added, by the work that was asked for before; `None` where nothing was.
pub fn growth(suspects: &[Suspect]) -> Option<f64> {
    let before: f64 = suspects.iter().flat_map(|suspect| &suspect.lines).map(|line| line.rps[0] * line.price).sum();
    (before > 0.0).then(|| added(suspects) / before)
}

/// What was added by resource, and by what is done to it: `pick` says what of a line counts.
pub fn added_by<K: Ord>(suspects: &[Suspect], pick: impl Fn(&Line) -> Option<K>) -> Vec<(K, f64, [f64; 2])> {
    let mut all: BTreeMap<K, (f64, [f64; 2])> = BTreeMap::new();
    for line in suspects.iter().flat_map(|suspect| &suspect.lines) {
        if let Some(key) = pick(line) {
            let sum = all.entry(key).or_default();
            sum.0 += line.added;
            sum.1[0] += line.rps[0];
            sum.1[1] += line.rps[1];
        }
    }
    let mut all: Vec<_> = all.into_iter().map(|(key, (added, rps))| (key, added, rps)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// The seconds of a stretch that a pulse covers.
pub fn seconds(pulse: &Pulse, span: Span) -> f64 {
    ((span.1.min(pulse.span.1) - span.0.max(pulse.span.0)).max(0)) as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::traffic::Stats;
    use crate::model::histogram::Histogram;

    fn row(user: &str, verb: &str, requests: u64, each_us: u64) -> Row {
        let mut latency = Histogram::default();
        (0..requests).for_each(|_| latency.add(each_us));
        let dims = [user, "agent", verb, "", "pods", ""].map(str::to_owned).to_vec();
        Row { dims, stats: Stats { requests, latency, ..Stats::default() }, ..Row::default() }
    }

    #[test]
    fn who_adds_work_is_named_and_who_only_waits_longer_is_not() {
        let before = [
            row("lister", "list", 100, 20_000),
            row("writer", "create", 100, 2_000),
            row("victim", "get", 1000, 1_000),
        ];
        // Everyone is ten times slower; the victim asks no more than before.
        let within = [
            row("lister", "list", 1000, 200_000),
            row("writer", "create", 2000, 20_000),
            row("victim", "get", 1000, 90_000),
        ];
        let all = suspects(Side { rows: &before, seconds: 100.0 }, Side { rows: &within, seconds: 100.0 });
        let told: Vec<(&str, f64)> =
            all.iter().map(|one| (one.who[0].as_str(), (one.added * 1e3).round() / 1e3)).collect();
        assert_eq!(told, [("lister", 0.18), ("writer", 0.038), ("victim", 0.0)]);
        assert!((all[0].share - 0.18 / 0.218).abs() < 1e-9 && all[0].times() == Some(10.0));
    }

    #[test]
    fn a_rise_is_where_the_course_is_high() {
        let course: Vec<(Micros, f64)> =
            (0..40).map(|n| (n * 5, if (10..30).contains(&n) && n != 15 && n != 16 { 10.0 } else { 1.0 })).collect();
        assert_eq!(rise(&course, 5, (55, 140)), Some((50, 150)));
        assert_eq!(rise(&course, 5, (160, 200)), None);
        // A slope: from where it leaves what it was.
        let second = |n: usize| n as Micros * 5 * SECOND;
        let slope: Vec<(Micros, f64)> = (0..40)
            .map(|n| (second(n), if n < 10 { 1.0 } else { (n as f64 - 9.0).mul_add(2.0, 1.0).min(13.0) }))
            .collect();
        assert_eq!(rise(&slope, 5 * SECOND, (second(12), second(30))), Some((second(11), second(40))));
    }
}
