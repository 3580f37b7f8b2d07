//! From inputs to episodes with their causes.

use super::candidates::{Candidate, Case, Operation, View, candidates};
use super::cascades;
use super::common::{Common, common};
use super::deviations::{MIN_TIMES, THROUGHOUT, WRITES_FAIL, deviations};
use super::episodes::{Draft, episodes, without_recurring, without_slower};
use super::faults::Faults;
use super::holes::{are_holes, is_tail, without_uncounted};
use super::latencies::Latencies;
use super::profile::{Profile, Tiles, like_before, profiles};
use super::requests::{Class, Kind, Requests};
use super::series::{ClassImpact, NOTICED_BY_S, NOTICED_TIMES, RequestSeries};
use super::signals::{Deviation, FELT, MIN_BAD, Signal, are_silences, near, without};
use super::stops::{GOES_ON, part_of_usual};
use super::vitals::{Start, Vitals};
use crate::model::cause::Source;
use crate::model::episode::{Grade, State};
use crate::model::time::{MINUTE, Micros, SECOND, Span, together};

/// The baseline is as long as this many times the episode, within bounds, s.
const BASELINE_TIMES: f64 = 4.0;
const BASELINE_MIN_S: f64 = 120.0;
const BASELINE_MAX_S: f64 = 1800.0;
/// What lies so close to an episode is not of a baseline, in µs.
const MARGIN: Micros = 10 * SECOND;
/// A shorter one before the episode is not enough: what comes behind it is taken, too. s.
const BASELINE_LEAST_S: f64 = 30.0;

/// Quantiles of latency, and by how much they rise when speed is lost, s.
const SLOWER_BY_S: [(f64, f64); 2] = [(0.9, 0.02), (0.99, 0.04)];
/// And how many times.
const SLOWER_TIMES: f64 = 1.6;
/// How many standard deviations of a count are no chance, where requests come in bursts.
const RISEN_SIGMAS: f64 = 5.0;
/// A shorter baseline does not show what the slowest of them take, s.
const MIN_BASELINE_S: f64 = BASELINE_MIN_S / 2.0;
/// Fewer requests have no quantiles.
const MIN_TIMED: f64 = 200.0;
/// An audit log that holds this part of the requests that pages count is that of these.
const HELD: f64 = 0.5;
/// What begins so soon after what was read may be a start, in µs.
const EARLY: Micros = 30 * SECOND;
/// What ends so soon after what was read began is a start, or can't be distinguished from one, in µs.
const SHORT_SPAN_US: Micros = MINUTE;
/// An apiserver starts for no longer than this, and so do its clients, in µs.
const STARTS: Micros = 120 * SECOND;
/// Where watches begin less than so many times as often as later, nobody starts.
const CALM_WATCHES: f64 = 1.5;
/// What ends so soon after what was read began is no episode, in µs.
const FIRST: Micros = 10 * SECOND;
/// Requests that come as usual for so long at the begin of what was read show that nothing starts, in µs.
const LEAD: Micros = 15 * SECOND;
/// At a start watches begin so many times as often as later.
const START_UP_WATCHES: f64 = 4.0;

/// What is judged.
#[derive(Clone, Copy)]
pub struct Input<'i> {
    /// Requests of audit logs, of metrics pages; either, both or none.
    pub requests: &'i [&'i dyn Requests],
    /// What pages and cgroups say beside requests.
    pub vitals: Option<&'i Vitals>,
    /// Dangerous operations.
    pub operations: &'i [Operation],
    /// Windows that somebody named: each is an episode, whatever deviates in it, and nothing else is.
    pub given: &'i [Span],
}

/// How heavy an episode weighs: its grade, then how much deviated for how long.
pub type Weight = (std::cmp::Reverse<Grade>, u64);

/// An episode.
#[derive(Debug, Clone)]
pub struct Episode {
    /// From when, in µs since 1970.
    pub from: Micros,
    /// Until when.
    pub to: Micros,
    /// Both lie this far off at most, in µs.
    pub slack: Micros,
    /// Whether somebody named it.
    pub is_given: bool,
    /// How grave.
    pub grade: Grade,
    /// Whether it is over.
    pub state: State,
    /// What deviated.
    pub deviations: Vec<Deviation>,
    /// What it is compared with, from its first interval to its last.
    pub baseline: Span,
    /// The intervals that its numbers are of: those within, and those of the baseline.
    pub counted: [Vec<Span>; 2],
    /// Possible causes, likeliest first.
    pub causes: Vec<Candidate>,
    /// Apiservers that started in it, or shortly before.
    pub starts: Vec<Start>,
    /// Of what is a hole in the log of some of several apiservers: theirs; else none.
    pub holes_in: Vec<String>,
    /// What messages of its failed and denied requests name.
    pub faults: Faults,
    /// By source: what was asked for before and within.
    pub profiles: Vec<(Source, [Profile; 2])>,
}

impl Episode {
    /// How heavy it weighs among episodes.
    pub fn weight(&self) -> Weight {
        let bad = self.deviations.iter().filter(|own| own.signal.is_felt() == (self.grade <= Grade::Incident));
        (std::cmp::Reverse(self.grade), bad.map(|own| own.weight).fold(0.0, f64::max) as u64)
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Judged {
    /// Episodes in order of time.
    pub episodes: Vec<Episode>,
    /// Load by source, as it was judged.
    pub series: Vec<RequestSeries>,
    /// Bursts that recur, which are no episodes.
    pub recurring: usize,
    /// The time that the logs of all apiservers have in common, where others than these were not read.
    pub common: Option<Span>,
}

impl Episode {
    /// Whether a signal deviates in it.
    pub fn has(&self, signal: &Signal) -> bool {
        self.deviations.iter().any(|own| own.signal == *signal)
    }

    /// Whether all that deviates is that controllers ask for nothing: then nobody asks for more.
    pub fn is_silence(&self) -> bool {
        are_silences(&self.deviations)
    }

    /// Whether it is a part of the log that is missing, as far as anything shows.
    pub fn is_hole(&self) -> bool {
        are_holes(&self.deviations)
    }
}

/// Judges.
pub fn judge(input: &Input<'_>) -> Judged {
    let series: Vec<RequestSeries> = input.requests.iter().map(|own| RequestSeries::new(*own)).collect();
    let cut: Vec<Option<Common<'_>>> = input
        .requests
        .iter()
        .zip(&series)
        .map(|(own, series)| common(*own, series, input.vitals, input.given))
        .collect();
    let requests: Vec<&dyn Requests> = input
        .requests
        .iter()
        .zip(&cut)
        .map(|(own, cut)| cut.as_ref().map_or(*own, |cut| cut as &dyn Requests))
        .collect();
    let of_cut = |(whole, cut): (RequestSeries, &Option<Common<'_>>)| match cut {
        Some(cut) => RequestSeries::new(cut),
        None => whole,
    };
    let series: Vec<RequestSeries> = series.into_iter().zip(&cut).map(of_cut).collect();
    let (episodes, recurring) = judge_series(&Input { requests: &requests, ..*input }, &series);
    Judged { episodes, series, recurring, common: cut.iter().flatten().map(Common::span).next() }
}

/// The episodes of these series, and how many bursts recur.
fn judge_series(input: &Input<'_>, series: &[RequestSeries]) -> (Vec<Episode>, usize) {
    let mut all: Vec<Deviation> = Vec::new();
    for own in series {
        let found = deviations(own);
        // The finer source says when; the other adds what that one can't see.
        let is_new = |new: &Deviation| {
            !all.iter().any(|old| {
                same(old, new) && old.span.0 <= new.span.1 + new.slack && new.span.0 <= old.span.1 + new.slack
            })
        };
        let new: Vec<Deviation> = found.into_iter().filter(is_new).collect();
        all.extend(new);
    }
    all = without(all, |own, all| is_tail(own, all, series, input.vitals));
    all = without(all, |own, all| is_contradicted(own, all, series));
    let mut all = without_uncounted(all, series, input.vitals);
    let mut operations = input.operations.to_vec();
    all.extend(cascades::counted(&mut operations, input.vitals));
    let record = series.iter().fold(None, |all, own| together(all, Some(own.grid.span))).unwrap_or_default();
    let found = episodes(all.clone(), series, input.vitals);
    let alike = found.len();
    let of_store = |span: Span| -> f64 {
        let of = |own: &&dyn Requests| {
            let grid = own.grid();
            let its = own.faults().iter().filter(|fault| fault.fault.is_store() && grid.meets(fault.tile, span));
            its.map(|fault| fault.count).sum::<f64>()
        };
        input.requests.iter().map(of).sum()
    };
    let drafts = without_recurring(found, record, of_store);
    let recurring = alike - drafts.len();
    let found = judged(input, series, &operations, &drafts, None);
    let episodes = if input.given.is_empty() {
        found
    } else {
        let drafts: Vec<Draft> = input.given.iter().map(|span| named(*span, &found, &all)).collect();
        judged(input, series, &operations, &drafts, Some(&found))
    };
    (episodes, recurring)
}

/// Whether pages count requests that are slow for their kind, of which audit logs show that nobody waits for them but
/// whoever asks for what takes long: pages do not say who waits.
fn is_contradicted(own: &Deviation, all: &[Deviation], series: &[RequestSeries]) -> bool {
    let of = |source: Source| series.iter().find(|series| series.source == source);
    let (Some(log), Some(pages)) = (of(Source::Audit), of(Source::Metrics)) else { return false };
    let is_slow = matches!(own.signal, Signal::Slow(_) | Signal::SlowThroughout);
    if own.source != Source::Metrics || !is_slow {
        return false;
    }
    // As far as the log holds these requests, and what they took.
    let counted = |series: &RequestSeries, of: fn(&ClassImpact) -> f64| {
        let grid = series.grid;
        let within: Vec<usize> = (0..series.tiles.len()).filter(|at| grid.meets(*at, own.span)).collect();
        let seconds: f64 = within.iter().map(|at| grid.seconds(*at)).sum();
        within.iter().map(|at| of(&series.tiles[*at].all())).sum::<f64>() / seconds.max(1.0)
    };
    let is_held = log.grid.span.0 <= own.span.0 + own.slack
        && log.grid.span.1 + own.slack >= own.span.1
        && counted(log, |all| all.timed) >= HELD * counted(pages, |all| all.requests);
    let is_felt = |other: &Deviation| {
        other.source == Source::Audit && other.signal.is_felt() && near(other.span, own.span, own.slack)
    };
    is_held && !all.iter().any(is_felt)
}

/// Judges what was found; or windows that somebody named, where `found` is what is found without them.
fn judged(
    input: &Input<'_>,
    series: &[RequestSeries],
    operations: &[Operation],
    drafts: &[Draft],
    found: Option<&[Episode]>,
) -> Vec<Episode> {
    let others: Option<Vec<Span>> = found.map(|all| all.iter().map(|own| (own.from, own.to)).collect());
    // What others ask for while a controller asks for nothing is as usual as at any time.
    let changes = drafts.iter().filter(|draft| !are_silences(&draft.deviations));
    let busy: Vec<Span> = changes.map(|draft| draft.span).chain(others.iter().flatten().copied()).collect();
    let mut sets: Vec<(Vec<Tiles>, Vec<Span>)> = Vec::new();
    for own in series {
        let of = drafts.iter().map(|draft| around(own, draft.span, &busy, others.as_deref()));
        let (mut tiles, mut spans) = (Vec::new(), Vec::new());
        for (within, before, span) in of {
            tiles.extend([before, within]);
            spans.push(span);
        }
        sets.push((tiles, spans));
    }
    let mut by_source: Vec<std::vec::IntoIter<Profile>> = series
        .iter()
        .zip(input.requests)
        .zip(&sets)
        .map(|((own, requests), (tiles, _))| {
            let mut all = profiles(*requests, own, tiles);
            like_before(*requests, own, tiles, &mut all);
            all.into_iter()
        })
        .collect();
    let mut judged = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        let mut views = Vec::new();
        for (place, own) in series.iter().enumerate() {
            let (Some(before), Some(within)) = (by_source[place].next(), by_source[place].next()) else { continue };
            let (tiles, requests) = (&sets[place].0, input.requests[place]);
            let of = [(&tiles[2 * number + 1], within.seconds), (&tiles[2 * number], before.seconds)];
            views.push(View { requests, series: own, faults: Faults::of(requests, of), before, within });
        }
        let baseline = sets.first().map_or(draft.span, |(_, spans)| spans[number]);
        let mut case = Case::new(draft, views, input.vitals, baseline, operations);
        // Whoever names a window means it.
        if found.is_none() && is_start_up(&case) {
            continue;
        }
        // Whoever asks for more of what takes long by nature makes nobody wait.
        let is_slower = is_slower(&case);
        let may_be_slower = draft.deviations.iter().any(|own| own.signal == Signal::Slower);
        let lighter = (found.is_none() && may_be_slower && !is_slower).then(|| without_slower(draft));
        let draft = match &lighter {
            None => draft,
            Some(Some(rest)) => rest,
            Some(None) => continue,
        };
        case.draft = draft;
        let grade = match draft.grade {
            // Whether somebody named it or not.
            Grade::Degraded | Grade::Surge | Grade::None if is_felt(&case) => Grade::Incident,
            Grade::Surge | Grade::None if is_slower => Grade::Degraded,
            Grade::None if has_risen(&case) => Grade::Surge,
            grade => grade,
        };
        let causes = match grade {
            Grade::None => Vec::new(),
            _ if are_holes(&draft.deviations) => Vec::new(),
            _ => candidates(&case),
        };
        judged.push(Episode {
            from: draft.span.0,
            to: draft.span.1,
            slack: draft.slack,
            is_given: found.is_some(),
            grade,
            state: draft.state,
            deviations: draft.deviations.clone(),
            baseline,
            counted: sets.first().map_or_else(Default::default, |(tiles, _)| {
                [1, 0].map(|part| spans(&series[0], &tiles[2 * number + part]))
            }),
            causes,
            starts: starts(input.vitals, draft.span),
            holes_in: holes_in(draft, input.requests),
            faults: case.audit().map_or_else(Faults::default, |view| view.faults.clone()),
            profiles: case.views.into_iter().map(|view| (view.requests.source(), [view.before, view.within])).collect(),
        });
    }
    judged
}

/// Whether requests became slower, though not so slow that users notice: one of the quantiles rose by so many times,
/// and by so much.
fn is_slower(case: &Case<'_>) -> bool {
    let is_so = |view: &View<'_>| SLOWER_BY_S.iter().any(|(q, by)| rose(view, |own| &own.rest, *q, SLOWER_TIMES, *by));
    case.views.first().is_some_and(is_so)
}

/// Whether a quantile of latency rose by so many times and seconds, where there are enough requests to tell.
fn rose(view: &View<'_>, of: fn(&Profile) -> &Latencies, q: f64, times: f64, by: f64) -> bool {
    let [before, within] = [&view.before, &view.within].map(of);
    let [was, now] = [before, within].map(|own| own.quantile(q).unwrap_or(0.0));
    let is_known = view.before.seconds >= MIN_BASELINE_S && within.count() >= MIN_TIMED;
    is_known && now >= times * was && now - was >= by
}

/// Whether users notice a window: p99 rises as far as makes a request slow for its kind, or as many requests fail or
/// are throttled as make an impact, and twice their share before.
fn is_felt(case: &Case<'_>) -> bool {
    let Some(view) = case.views.first() else { return false };
    let bad = |of: fn(&Profile) -> f64| {
        let [was, now] = [&view.before, &view.within].map(|own| of(own) / own.tiles.requests.max(1.0));
        of(&view.within) >= MIN_BAD && now >= FELT && now >= NOTICED_TIMES * was
    };
    bad(|own| own.tiles.failed())
        || bad(|own| own.tiles.rejected())
        || rose(view, |own| &own.alike, 0.99, NOTICED_TIMES, NOTICED_BY_S)
}

/// Whether requests, LISTs or writes of a window are more than those of its baseline by what is a surge, and more than
/// chance.
fn has_risen(case: &Case<'_>) -> bool {
    let Some(View { before, within, .. }) = case.views.first() else { return false };
    let risen = |of: fn(&Profile) -> f64| {
        // As many as the baseline would have in this time; at least one, so that a first one is none.
        let usual = (of(before) * within.seconds / before.seconds.max(1.0)).max(1.0);
        of(within) >= MIN_TIMES * usual && of(within) - usual >= RISEN_SIGMAS * (usual + of(within)).sqrt()
    };
    before.seconds >= BASELINE_LEAST_S
        && (risen(|own| own.tiles.requests) || risen(|own| own.tiles.lists) || risen(|own| own.tiles.writes))
}

/// Whether it is what a control plane's start looks like, or a capture's: at the begin of what was read, where nothing
/// before it shows what is usual, and short; or everybody starts watches.
fn is_start_up(case: &Case<'_>) -> bool {
    let Some(view) = case.views.first() else { return false };
    let begin = view.series.grid.span.0;
    // What starts is neither slow for all of the record, nor without a scheduler for longer than a start takes.
    let is_none = |own: &Deviation| matches!(own.signal, Signal::SlowThroughout | Signal::ControllerSilent(_));
    if case.draft.span.0 >= begin + EARLY || case.draft.deviations.iter().any(is_none) || has_failed(case) {
        return false;
    }
    // Of what was going on when the record began nobody knows how it began.
    if case.draft.span.1 <= begin + FIRST {
        return true;
    }
    let [before, within] = [&view.before, &view.within].map(|own| own.tiles.watches / own.seconds.max(1.0));
    // Apiservers that had been up for long do not start.
    let is_up = case.vitals.and_then(|own| own.up_since).is_some_and(|at| at < begin - STARTS);
    let is_calm = view.requests.source() == Source::Audit && within < CALM_WATCHES * before;
    let all_start = view.requests.source() == Source::Audit && within >= START_UP_WATCHES * before.max(0.05);
    let is_calm = is_calm || !all_start && is_long(case, view);
    let is_short = !is_up && !is_calm && case.draft.span.1 <= begin + SHORT_SPAN_US;
    is_short || all_start && !goes_on_before(view, case.draft.span.0)
}

/// Whether requests fail for longer than what starts is not ready: a fifth of all, or nearly all writes.
fn has_failed(case: &Case<'_>) -> bool {
    let fails = |own: &Deviation| match own.signal {
        Signal::Errors => own.level >= THROUGHOUT,
        Signal::FailedWrites => own.level >= WRITES_FAIL,
        _ => false,
    };
    case.draft.deviations.iter().any(|own| fails(own) && own.span.1 - own.span.0 >= EARLY)
}

/// Whether a fifth of the requests takes longer than one in a hundred does wherever all is well, for so long, while
/// requests come as they do later: what starts asks for much.
fn is_long(case: &Case<'_>, view: &View<'_>) -> bool {
    let (grid, span) = (view.series.grid, case.draft.span);
    let within = view.series.tiles.iter().enumerate().filter(|(at, _)| grid.meets(*at, span)).map(|own| own.1.all());
    let (long, timed) = within.fold((0.0, 0.0), |sum, own| (sum.0 + own.long, sum.1 + own.timed));
    let [before, now] = view.rate(|profile| profile.tiles.requests);
    let is_usual = !view.has_baseline() || now < MIN_TIMES * before;
    is_usual && span.1 - span.0 >= EARLY && long >= MIN_BAD && long >= THROUGHOUT * timed
}

/// Whether requests came as usual from the begin of what was read up to a moment, for a while: then nothing started.
fn goes_on_before(view: &View<'_>, at: Micros) -> bool {
    let series = view.series;
    part_of_usual(series, &series.requests(), (series.grid.span.0, at)).is_some_and(|part| part >= GOES_ON)
        && at - series.grid.span.0 >= LEAD
}

/// Apiservers whose log has a hole, where the logs of others go on.
fn holes_in(draft: &Draft, requests: &[&dyn Requests]) -> Vec<String> {
    let of = |own: &Deviation| match own.signal {
        Signal::LogMissing(of) => {
            let log = requests.iter().find(|requests| requests.source() == own.source)?;
            Some(of.and_then(|instance| log.instances().get(instance).cloned()))
        }
        _ => None,
    };
    // One without a name is a hole in all of them.
    let mut all = draft.deviations.iter().filter_map(of).collect::<Option<Vec<String>>>().unwrap_or_default();
    all.sort();
    all.dedup();
    all
}

/// Apiservers that started within, or in the two minutes before.
fn starts(vitals: Option<&Vitals>, (from, to): Span) -> Vec<Start> {
    let all = vitals.into_iter().flat_map(|vitals| vitals.apiserver_starts((from - 120 * SECOND, to)));
    all.cloned().collect()
}

fn same(a: &Deviation, b: &Deviation) -> bool {
    std::mem::discriminant(&a.signal) == std::mem::discriminant(&b.signal)
}

/// The episode of a window that somebody named: what was found in it is its own. What deviates and was not found to be
/// an episode, a start or what recurs, is none in it either.
fn named(span: Span, found: &[Episode], all: &[Deviation]) -> Draft {
    let is_within = |from: Micros, to: Micros| from < span.1 && to > span.0;
    let grade = found.iter().filter(|own| is_within(own.from, own.to)).map(|own| own.grade).min();
    let deviations = all.iter().filter(|own| grade.is_some() && is_within(own.span.0, own.span.1)).cloned();
    let last = found.iter().filter(|own| is_within(own.from, own.to)).max_by_key(|own| own.to);
    let state = match last {
        // Whoever names a part of it does not see its end.
        Some(own) if own.to > span.1 + own.slack => State::Unknown,
        Some(own) => own.state,
        None => State::Ended,
    };
    Draft { span, slack: 0, state, grade: grade.unwrap_or(Grade::None), deviations: deviations.collect() }
}

/// The intervals of an episode, those of its baseline, and when that is. A window that somebody named may leave no
/// other time: then it is compared with what of itself is in none of the episodes in it, `found`.
fn around(series: &RequestSeries, span: Span, busy: &[Span], found: Option<&[Span]>) -> (Tiles, Tiles, Span) {
    let grid = series.grid;
    let len = series.tiles.len();
    let middle = |at: usize| grid.start(at) + grid.tile / 2;
    let place = |at: Micros| usize::try_from(grid.number(at - grid.tile / 2) - grid.first() + 1).unwrap_or(0);
    let from = place(span.0).min(len);
    let to = place(span.1).clamp(from, len);
    // Shorter than an interval, or between two middles.
    let within = if from == to { from.min(len.saturating_sub(1))..(from + 1).min(len) } else { from..to };
    let margin = (grid.tile / 2).min(MARGIN);
    let is_in = |at: usize, all: &[Span]| all.iter().any(|own| (own.0 - margin..own.1 + margin).contains(&middle(at)));
    let is_busy = |at: usize| is_in(at, busy);
    let length: f64 = within.clone().map(|at| grid.seconds(at)).sum();
    let wanted = (BASELINE_TIMES * length).clamp(BASELINE_MIN_S, BASELINE_MAX_S);
    let (mut before, mut seconds) = (Vec::new(), 0.0);
    for at in (0..within.start).rev().filter(|at| !is_busy(*at)) {
        if seconds >= wanted {
            break;
        }
        seconds += grid.seconds(at);
        before.push(at);
    }
    if seconds < BASELINE_LEAST_S {
        for at in (within.end..len).filter(|at| !is_busy(*at)) {
            if seconds >= wanted {
                break;
            }
            seconds += grid.seconds(at);
            before.push(at);
        }
    }
    if seconds < BASELINE_LEAST_S
        && let Some(found) = found
    {
        before.extend(within.clone().filter(|at| !is_in(*at, found)));
    }
    before.sort_unstable();
    let when = match (before.first(), before.last()) {
        (Some(first), Some(last)) => grid.covered(&(*first..last + 1)),
        _ => (span.0, span.0),
    };
    (vec![within], before.into_iter().map(|at| at..at + 1).collect(), when)
}

/// What an audit log of these kinds of requests does not show, since its policy leaves it out.
pub fn blind(kinds: &[Kind]) -> Option<&'static str> {
    let has = |class: Class| kinds.iter().any(|kind| Class::of(kind) == class);
    match (has(Class::List) || has(Class::Read), has(Class::Write)) {
        (true, true) => None,
        (false, true) => Some("the log has no reads, so LIST storms are invisible"),
        (true, false) => Some("the log has no writes, so write storms and a slow etcd are invisible"),
        (false, false) => Some("the log has neither reads nor writes of objects"),
    }
}

/// Times of intervals, those that follow one another as one.
fn spans(series: &RequestSeries, tiles: &Tiles) -> Vec<Span> {
    let grid = series.grid;
    let mut all: Vec<Span> = Vec::new();
    for tiles in tiles {
        let (from, to) = grid.covered(tiles);
        match all.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => all.push((from, to)),
        }
    }
    all
}
