//! From signals to episodes: what overlaps in time and belongs together is one, and the gravest signal grades it.

use super::deviations::{MOST_FAIL, WRITES_FAIL};
use super::excursions::runs;
use super::holes;
use super::series::RequestSeries;
use super::signals::{Deviation, MIN_BAD, Signal, near, overlap};
use super::vitals::{Start, Vital, Vitals};
use crate::analysis::metrics::facts::Component;
use crate::model::cause::Source;
use crate::model::episode::{Grade, State};
use crate::model::time::{MINUTE, Micros, SECOND, Span};

/// What pauses for less than this is one episode, in µs.
const PAUSE: Micros = 20 * SECOND;
/// Longer impacts may pause for longer, up to this, in µs.
const MAX_PAUSE: Micros = 180 * SECOND;
/// Impacts that cover this part of a load belong together.
const COVERED: f64 = 0.15;
/// Clients reconnect and list again within this time of a restart, in µs.
const SETTLES: Micros = 30 * SECOND;
/// An apiserver that is started again and again waits for up to five minutes between two tries, in µs.
const CRASH_LOOP: Micros = 300 * SECOND;
/// The only apiserver was gone for so long at least, or it restarted and hardly anybody waited, in µs.
const MIN_GONE: Micros = 8 * SECOND;
/// A load that begins so long before its impact may be its cause, in µs.
const LEADS: Micros = MINUTE;
/// What overlaps by this part of the shorter one belongs together.
const OVERLAP: f64 = 0.5;
/// Where there are more of a kind than this, they are recurring bursts.
const RECURRING: usize = 3;
/// Where nobody asks for more, so many of the requests fail in no habit.
const FAILING: f64 = 0.1;
/// Bursts are of a kind if their lengths and weights differ by no more than these times.
const ALIKE: f64 = 4.0;
/// What ends so soon before the data does goes on, in µs.
const OPEN: Micros = 10 * SECOND;
/// The whole load, not only a part of it, has grown so many times in a surge.
const SURGE_TIMES: f64 = 1.5;
/// Without a controller for so long, users notice: the alert on its leader fires from there on, in µs.
const STUCK: Micros = MINUTE;
/// A surge lasts so long at least, in µs.
const MIN_SURGE: Micros = 20 * SECOND;

/// An episode before its causes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// From when until when.
    pub span: Span,
    /// The moments lie this far off at most, in µs.
    pub slack: Micros,
    /// Whether it is over.
    pub state: State,
    /// How grave.
    pub grade: Grade,
    /// What deviated.
    pub deviations: Vec<Deviation>,
}

impl Draft {
    /// Of deviations that lie near one another, before [`settle`].
    fn new((span, deviations): Group, grade: Grade) -> Self {
        Self { span, slack: 0, state: State::Ended, grade, deviations }
    }
}

fn belongs(a: Span, b: Span) -> bool {
    overlap(a, b) as f64 >= OVERLAP * (a.1 - a.0).min(b.1 - b.0) as f64
}

/// Deviations that lie near one another, and when they do.
type Group = (Span, Vec<Deviation>);

/// Groups of deviations that lie near one another.
fn groups(mut all: Vec<Deviation>, by: Micros) -> Vec<Group> {
    all.sort_by_key(|own| own.span);
    let mut groups: Vec<Group> = Vec::new();
    for own in all {
        match groups.last_mut() {
            Some((span, members)) if near(*span, own.span, by.max(own.slack)) => {
                span.1 = span.1.max(own.span.1);
                members.push(own);
            }
            _ => groups.push((own.span, vec![own])),
        }
    }
    groups
}

/// A longer impact may pause for longer: for as long as the shorter of two, within bounds. Not where a load began since
/// that the first one knows nothing of: that has another cause.
fn agglomerated(mut pieces: Vec<Group>, loads: &[Deviation]) -> Vec<Group> {
    let length = |own: &Group| own.0.1 - own.0.0;
    loop {
        let gap = |at: usize| pieces[at + 1].0.0 - pieces[at].0.1;
        let allowed = |at: usize| length(&pieces[at]).min(length(&pieces[at + 1])).clamp(PAUSE, MAX_PAUSE);
        let is_another = |at: usize| {
            let (first, second) = (pieces[at].0, pieces[at + 1].0);
            let has = |span: Span| loads.iter().filter(move |own| is_whole(own) && overlap(own.span, span) > 0);
            let is_since =
                |load: &Deviation| load.span.0 >= first.1 && 2 * overlap(load.span, second) >= second.1 - second.0;
            gap(at) >= SETTLES && has(first).next().is_none() && has(second).any(is_since)
        };
        let pairs = (0..pieces.len().saturating_sub(1)).filter(|at| gap(*at) <= allowed(*at) && !is_another(*at));
        let Some(at) = pairs.min_by_key(|at| gap(*at)) else { return pieces };
        let (span, members) = pieces.remove(at + 1);
        pieces[at].0.1 = pieces[at].0.1.max(span.1);
        pieces[at].1.extend(members);
    }
}

/// Impacts that come and go while one load lasts are one.
fn within_one_load(mut pieces: Vec<Group>, loads: &[Deviation]) -> Vec<Group> {
    let mut loads: Vec<&Deviation> = loads.iter().filter(|own| is_whole(own)).collect();
    loads.sort_by_key(|own| own.span.0 - own.span.1);
    for load in loads {
        let is_inside = |own: &Group| 2 * overlap(own.0, load.span) >= own.0.1 - own.0.0;
        let (Some(first), Some(last)) = (pieces.iter().position(is_inside), pieces.iter().rposition(is_inside)) else {
            continue;
        };
        let covered: Micros = pieces[first..=last].iter().map(|own| own.0.1 - own.0.0).sum();
        if first == last || (covered as f64) < COVERED * (load.span.1 - load.span.0) as f64 {
            continue;
        }
        let mut all = pieces.drain(first..=last);
        let Some(mut one) = all.next() else { continue };
        for (span, members) in all.by_ref() {
            one.0.1 = one.0.1.max(span.1);
            one.1.extend(members);
        }
        drop(all);
        pieces.insert(first, one);
    }
    pieces
}

/// What pages show of processes.
fn by_pages(signal: Signal, span: Span) -> Deviation {
    Deviation { signal, source: Source::Metrics, span, slack: SETTLES / 2, level: 1.0, baseline: 0.0, weight: 1.0 }
}

/// Restarts, as pages show them, and how long no page was to be had before; `pause` lies between two pages.
fn restarts(vitals: &Vitals, pause: Micros, is_alone: bool) -> Vec<Deviation> {
    let mut all = Vec::new();
    for start in vitals.starts.iter().filter(|start| start.component == Component::Apiserver) {
        let gone = vitals.gone_before(start);
        // It ended somewhere between the last page and when the next should have come.
        let from = gone.map(|gap| gap.0 - pause / 2);
        let span = (from.unwrap_or(start.at).min(start.at - SETTLES / 2), start.at + SETTLES / 2);
        all.push(by_pages(Signal::Restart, span));
        if let Some(from) = from.filter(|from| is_alone && start.at - from >= MIN_GONE) {
            all.push(by_pages(Signal::Silence, (from, start.at)));
        }
    }
    all
}

/// Episodes, in order of time.
pub fn episodes(deviations: Vec<Deviation>, series: &[RequestSeries], vitals: Option<&Vitals>) -> Vec<Draft> {
    let is_alone = series.iter().all(|own| own.by_instance.len() < 2);
    let pages = series.iter().find(|own| own.source == Source::Metrics);
    let pause = pages.map_or(0, |own| own.grid.tile);
    let mut restarts = vitals.map_or_else(Vec::new, |vitals| restarts(vitals, pause, is_alone));
    // Logs say when it was away; pages lie apart.
    let is_of_log =
        |own: &&Deviation| own.source == Source::Audit && matches!(own.signal, Signal::Silence | Signal::Away(_));
    let logged: Vec<Span> = deviations.iter().filter(is_of_log).map(|own| own.span).collect();
    for own in &mut restarts {
        own.span = logged.iter().find(|log| overlap(**log, own.span) > 0).copied().unwrap_or(own.span);
    }
    let members = vitals.map_or_else(Vec::new, members);
    let unavailable = vitals.map_or_else(Vec::new, unavailable);
    let all: Vec<Deviation> = deviations.iter().chain(&restarts).cloned().collect();
    let (mut holes, mut deviations): (Vec<_>, Vec<_>) =
        deviations.into_iter().partition(|own| holes::is_hole(own, &all, series, vitals));
    // What was away is likelier to be away again than its log to lack events.
    let is_again = |own: &mut Deviation| {
        let is_its = |other: &Deviation| other.signal == own.signal && near(other.span, own.span, CRASH_LOOP);
        deviations.iter().any(is_its)
    };
    let again: Vec<Deviation> = holes.extract_if(.., is_again).collect();
    deviations.extend(again);
    for own in &mut holes {
        let of = if let Signal::Away(instance) = own.signal { Some(instance) } else { None };
        own.signal = Signal::LogMissing(of);
    }
    let (mut felt, rest): (Vec<_>, Vec<_>) = deviations.into_iter().partition(|own| own.signal.is_felt());
    let (silent, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|own| matches!(own.signal, Signal::ControllerSilent(_)));
    let (slower, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|own| own.signal == Signal::Slower);
    let (loads, mut away): (Vec<_>, Vec<_>) = rest.into_iter().partition(|own| own.signal.is_load());
    let (stops, new) = restarts.into_iter().partition::<Vec<_>, _>(|own| own.signal.is_felt());
    felt.extend(stops);
    away.extend(new);
    let mut drafts: Vec<Draft> = Vec::new();
    let impacts = within_one_load(agglomerated(groups(felt, PAUSE), &loads), &loads);
    drafts.extend(impacts.into_iter().map(|group| Draft::new(group, Grade::Incident)));
    for (span, members) in groups(away, SETTLES) {
        match drafts.iter_mut().find(|draft| near(draft.span, span, SETTLES)) {
            Some(draft) => {
                draft.span = (draft.span.0.min(span.0), draft.span.1.max(span.1));
                draft.deviations.extend(members);
            }
            None => drafts.push(Draft::new((span, members), Grade::Degraded)),
        }
    }
    drafts.sort_by_key(|draft| draft.span);
    // A restart may join what lay apart, and so do restarts that follow one another.
    let mut joined: Vec<Draft> = Vec::new();
    for draft in drafts {
        match joined.last_mut() {
            Some(last)
                if near(last.span, draft.span, PAUSE)
                    || near(last.span, draft.span, CRASH_LOOP) && is_crash_loop(last, &draft, is_alone) =>
            {
                last.span.1 = last.span.1.max(draft.span.1);
                last.grade = last.grade.min(draft.grade);
                last.deviations.extend(draft.deviations);
            }
            _ => joined.push(draft),
        }
    }
    let surges = attach(&mut joined, surges(loads));
    joined.extend(surges);
    for draft in &mut joined {
        settle(draft, series);
    }
    joined.retain(is_one);
    let all = joined.clone();
    joined.retain(|own| !was_usual(own, &all, series));
    // What is known to be slower while something else deviates is a part of that.
    let is_new = |own: &Deviation| joined.iter().all(|draft| overlap(draft.span, own.span) == 0);
    let alone: Vec<Deviation> = slower.into_iter().filter(is_new).collect();
    joined.extend(alone.into_iter().map(|own| degraded((own.span, vec![own]), series)));
    // So is a part of the log that is missing.
    for group in groups(holes, PAUSE) {
        if joined.iter().all(|draft| overlap(draft.span, group.0) == 0) {
            joined.push(degraded(group, series));
        }
    }
    // A member of etcd that was away while nobody felt it, or an API that few ask for.
    for group in groups(members, SETTLES).into_iter().chain(groups(unavailable, SETTLES)) {
        let when = group.0;
        beside(&mut joined, group, when, series);
    }
    // A controller that falls silent while something else is wrong is a consequence of that.
    for group in groups(silent, SETTLES) {
        let (begin, end) = group.0;
        // As long as nothing brings it back after that, it is one of its own.
        let is_near = |draft: &&Draft| draft.grade != Grade::Surge && near(draft.span, (begin, begin), SETTLES);
        match joined.iter().find(is_near) {
            Some(draft) if end - draft.span.1 >= STUCK => joined.push(degraded(group, series)),
            _ => beside(&mut joined, group, (begin, begin), series),
        }
    }
    joined.sort_by_key(|draft| draft.span);
    joined
}

/// An episode of what costs redundancy or speed.
fn degraded(group: Group, series: &[RequestSeries]) -> Draft {
    let mut draft = Draft::new(group, Grade::Degraded);
    settle(&mut draft, series);
    draft
}

/// Gives what costs redundancy or speed to the episode that lies near `when`, but to no surge; else it is one itself.
fn beside(joined: &mut Vec<Draft>, group: Group, when: Span, series: &[RequestSeries]) {
    match joined.iter_mut().find(|draft| draft.grade != Grade::Surge && near(draft.span, when, SETTLES)) {
        Some(draft) => draft.deviations.extend(group.1),
        None => joined.push(degraded(group, series)),
    }
}

/// Members of etcd that restarted, and how long no page of theirs was to be had before.
fn members(vitals: &Vitals) -> Vec<Deviation> {
    let of = |start: &Start| {
        let from = vitals.gone_before(start).map_or(start.at, |gap| gap.0);
        by_pages(Signal::MemberRestart, (from.min(start.at - SETTLES / 2), start.at))
    };
    vitals.starts.iter().filter(|start| start.component == Component::Etcd).map(of).collect()
}

/// APIs that other servers answer, while apiservers say that they are unavailable: not what was so from the first page
/// on, of which nothing shows whether it ever was available, and not of one page.
fn unavailable(vitals: &Vitals) -> Vec<Deviation> {
    let mut all = Vec::new();
    for course in vitals.of(Vital::UnavailableApi) {
        let Some((_, group)) = course.name.split_once('.') else { continue };
        let is_bad = |at: &usize| course.points[*at].value > 0.0;
        for tiles in runs((0..course.points.len()).filter(is_bad), 0) {
            let at = |place: usize| course.points[place.min(course.points.len() - 1)].span.0;
            if tiles.start > 0 && tiles.len() > 1 {
                all.push(by_pages(Signal::ApiUnavailable(group.to_owned()), (at(tiles.start), at(tiles.end))));
            }
        }
    }
    all
}

/// Whether the same apiserver was away in both, or restarted: all that is known of one that is `alone` is that nothing
/// ended.
fn is_crash_loop(a: &Draft, b: &Draft, is_alone: bool) -> bool {
    let away = |own: &Deviation| match own.signal {
        Signal::Away(instance) => Some(Some((own.source, instance))),
        Signal::Restart => Some(None),
        Signal::Silence if is_alone => Some(None),
        _ => None,
    };
    a.deviations.iter().filter_map(away).any(|one| b.deviations.iter().filter_map(away).any(|other| one == other))
}

/// Loads that deviate together: the strongest says when.
fn surges(mut loads: Vec<Deviation>) -> Vec<Draft> {
    // What all ask for is reported before what one caller does.
    let rank = |own: &Deviation| match own.signal {
        Signal::Requests => 4.0,
        Signal::Work => 3.0,
        Signal::Lists | Signal::Writes => 2.0,
        _ => 1.0,
    };
    loads.sort_by(|a, b| (rank(b) * b.weight).total_cmp(&(rank(a) * a.weight)));
    let mut surges: Vec<Draft> = Vec::new();
    for own in loads {
        match surges.iter_mut().find(|surge| belongs(surge.span, own.span)) {
            Some(surge) => surge.deviations.push(own),
            None => surges.push(Draft::new((own.span, vec![own]), Grade::Surge)),
        }
    }
    surges
}

/// Gives loads to the episodes that they belong to; the others are given back.
fn attach(drafts: &mut [Draft], surges: Vec<Draft>) -> Vec<Draft> {
    let mut rest = Vec::new();
    for surge in surges {
        let length = |span: Span| span.1 - span.0;
        let is_its = |draft: &&mut Draft| {
            let within = overlap(draft.span, surge.span);
            // A load that lasts much longer than the impact is what the impact happened in, not its window.
            within > 0
                && (belongs(draft.span, surge.span) || near(draft.span, surge.span, 0) && length(surge.span) < LEADS)
        };
        let Some(draft) = drafts.iter_mut().filter(is_its).max_by_key(|draft| overlap(draft.span, surge.span)) else {
            rest.push(surge);
            continue;
        };
        let slack = LEADS.max(length(draft.span) / 2);
        let strongest = draft.deviations.iter().all(|own| !own.signal.is_load());
        if strongest && length(surge.span) <= 4 * length(draft.span).max(LEADS) {
            // Requests are dated by their end: load shows the beginning, impact whichever ends later.
            if surge.span.0 >= draft.span.0 - slack {
                draft.span.0 = draft.span.0.min(surge.span.0);
            }
            // Who reconnects to an apiserver that is back asks for more, which nobody need feel.
            let is_back = |own: &Deviation| {
                matches!(own.signal, Signal::Silence | Signal::Away(_))
                    && near(own.span, (surge.span.0, draft.span.1), SETTLES)
            };
            if surge.span.1 <= draft.span.1 + slack && !draft.deviations.iter().any(is_back) {
                draft.span.1 = draft.span.1.max(surge.span.1);
            }
        }
        draft.deviations.extend(surge.deviations);
    }
    rest
}

/// Grade, state and slack, when all that belongs to it is known.
fn settle(draft: &mut Draft, series: &[RequestSeries]) {
    draft.slack = draft.deviations.iter().map(|own| own.slack).max().unwrap_or(0);
    let end = series.iter().map(|own| own.grid.span.1).max().unwrap_or(draft.span.1);
    let begin = series.iter().map(|own| own.grid.span.0).min().unwrap_or(draft.span.0);
    draft.span = (draft.span.0.max(begin), draft.span.1.min(end));
    draft.state = if draft.span.1 + draft.slack.min(OPEN) >= end { State::Ongoing } else { State::Ended };
    draft.grade = grade(&draft.deviations);
}

/// A draft without that requests became slower, where their own baseline does not show it; `None` if that was all.
pub(super) fn without_slower(draft: &Draft) -> Option<Draft> {
    let mut rest = draft.clone();
    rest.deviations.retain(|own| own.signal != Signal::Slower);
    rest.grade = grade(&rest.deviations);
    (!rest.deviations.is_empty() && is_one(&rest)).then_some(rest)
}

/// The grade of what deviates.
fn grade(deviations: &[Deviation]) -> Grade {
    let seconds = |own: &Deviation| (own.span.1 - own.span.0) as f64 / SECOND as f64;
    let is_outage = |own: &Deviation| match own.signal {
        Signal::Silence | Signal::WritesStop => true,
        Signal::Errors => own.level >= MOST_FAIL && seconds(own) >= 10.0,
        // Hardly any write succeeds.
        Signal::FailedWrites => own.level >= WRITES_FAIL && seconds(own) >= 10.0,
        _ => false,
    };
    let is_lost = |own: &Deviation| {
        let is_less =
            matches!(own.signal, Signal::NodesLost | Signal::Slower | Signal::LogMissing(_) | Signal::MemberRestart)
                || matches!(own.signal, Signal::ControllerSilent(_) | Signal::ApiUnavailable(_));
        // A few slow LISTs beside a load of them may be those of who asks for more.
        let is_few = matches!(own.signal, Signal::Slow(Some(_))) && deviations.iter().any(|own| own.signal.is_load());
        own.signal.is_felt() && !is_few || own.signal.is_away() || is_less
    };
    // Nothing is scheduled, or no Deployment gets its pods: whoever waits for that notices.
    let is_stuck =
        |own: &Deviation| matches!(own.signal, Signal::ControllerSilent(_)) && own.span.1 - own.span.0 >= STUCK;
    if deviations.iter().any(is_outage) {
        Grade::Outage
    } else if deviations.iter().any(|own| own.is_impact() || is_stuck(own)) {
        Grade::Incident
    } else if deviations.iter().any(is_lost) {
        Grade::Degraded
    } else {
        Grade::Surge
    }
}

/// Whether the whole load has grown, and not a caller's alone.
fn is_whole(own: &Deviation) -> bool {
    matches!(own.signal, Signal::Requests | Signal::Work | Signal::Lists | Signal::Writes | Signal::Cascade)
        && own.level >= SURGE_TIMES * own.baseline
}

/// Whether it is worth reporting.
fn is_one(draft: &Draft) -> bool {
    if draft.grade != Grade::Surge {
        return true;
    }
    // A deletion is worth a word however soon it is over.
    let is_long = draft.span.1 - draft.span.0 >= MIN_SURGE;
    let is_cascade = draft.deviations.iter().any(|own| own.signal == Signal::Cascade);
    (is_long || is_cascade) && draft.deviations.iter().any(is_whole)
}

/// Whether load was so from the begin of the record on and fell as something else began: that was what is usual, and
/// not what came.
fn was_usual(draft: &Draft, all: &[Draft], series: &[RequestSeries]) -> bool {
    let tile = series.iter().map(|own| own.grid.tile).max().unwrap_or(0);
    let begin = series.iter().map(|own| own.grid.span.0).min().unwrap_or(draft.span.0);
    let follows = |other: &Draft| {
        let slack = PAUSE.max(draft.slack).max(other.slack).unsigned_abs();
        other.span.1 > draft.span.1 && other.span.0.abs_diff(draft.span.1) <= slack
    };
    draft.grade == Grade::Surge && draft.span.0 <= begin + tile && all.iter().any(follows)
}

/// Leaves out what comes again and again in a record: bursts of load, and what requests suffer in each of them. What
/// users notice and did not at the begin of the record is news, however often it comes; and so are requests that fail
/// without a load, and what the messages of failed requests say of etcd, of which `of_store` counts those in a time.
pub fn without_recurring(drafts: Vec<Draft>, record: Span, of_store: impl Fn(Span) -> f64) -> Vec<Draft> {
    let weight = |draft: &Draft| {
        let is_its = |own: &&Deviation| own.signal.is_felt() == (draft.grade <= Grade::Incident);
        draft.deviations.iter().filter(is_its).map(|own| own.weight).fold(0.0, f64::max)
    };
    // Bursts of load have a load, a store that is slow for once has none.
    let has_load = |draft: &Draft| draft.deviations.iter().any(|own| own.signal.is_load());
    let burst = |draft: &Draft| Burst {
        kind: (draft.grade, has_load(draft)),
        length: (draft.span.1 - draft.span.0).max(PAUSE) as f64,
        weight: weight(draft),
    };
    let all: Vec<Burst> = drafts.iter().map(burst).collect();
    let spans: Vec<Span> = drafts.iter().map(|draft| draft.span).collect();
    let is_recurring = |own: &Burst| {
        let mut alike: Vec<Span> =
            all.iter().zip(&spans).filter(|(other, _)| own.is_alike(other)).map(|(_, span)| *span).collect();
        alike.sort_unstable();
        let apart = alike.windows(2).map(|two| two[1].0 - two[0].0).max().unwrap_or(0);
        let is_all_along = alike.first().is_some_and(|first| first.0 - record.0 <= apart + PAUSE);
        alike.len() > RECURRING && own.kind.0 != Grade::Outage && (own.kind.0 > Grade::Incident || is_all_along)
    };
    let is_failing = |draft: &Draft| {
        draft.deviations.iter().any(|own| own.signal == Signal::Errors && own.level >= FAILING) && !has_load(draft)
    };
    // Of those that are alike one decides for all: which of them are a little above the bound is chance.
    let failing: Vec<bool> = drafts.iter().map(is_failing).collect();
    let one_fails = |place: usize| all.iter().zip(&failing).any(|(other, fails)| *fails && all[place].is_alike(other));
    let is_habit =
        |place: usize, draft: &Draft| is_recurring(&all[place]) && !one_fails(place) && of_store(draft.span) < MIN_BAD;
    let kept = |(place, draft): &(usize, Draft)| !is_habit(*place, draft);
    drafts.into_iter().enumerate().filter(kept).map(|(_, draft)| draft).collect()
}

/// What an episode has in common with others, where it is one of recurring bursts.
struct Burst {
    /// Its grade, and whether it has a load.
    kind: (Grade, bool),
    /// In µs.
    length: f64,
    weight: f64,
}

impl Burst {
    fn is_alike(&self, other: &Self) -> bool {
        let is_near = |times: f64| (1.0 / ALIKE..=ALIKE).contains(&times);
        self.kind == other.kind && is_near(self.weight / other.weight.max(1e-9)) && is_near(self.length / other.length)
    }
}
