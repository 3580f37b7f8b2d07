//! Times in which nothing ends, no write ends, or nothing of one apiserver does.

use super::askers::Sparse;
use super::excursions::{Baseline, baseline, maximal};
use super::series::{RequestSeries, Tile, quantile};
use super::signals::{Deviation, Signal, edges, overlap};
use crate::model::cause::Source;
use crate::model::time::{Micros, SECOND, Span};
use std::collections::BTreeSet;
use std::ops::Range;

/// What falls below this part of its baseline is silent.
const SILENT: f64 = 0.15;
/// And an apiserver below this part is away.
const DEAD: f64 = 0.08;
/// One that was away for less than two intervals may have answered so much in each of those that it was away in.
const SHORTLY: f64 = 0.25;
/// So many events are expected in an interval, else silence says nothing.
const MIN_EXPECTED: f64 = 8.0;
/// Where so many requests are typical of an interval, one without any is none by chance.
const SURE: f64 = 20.0;
/// Shorter silences are pauses, s.
const MIN_SILENCE_S: f64 = 8.0;

/// More of one asker says nothing more of whether apiservers answer.
const MOST_OF_ONE: f64 = 3.0;
/// So much is expected of all together, each up to that, or nothing shows that they go on.
const MIN_OF_ALL: f64 = 8.0;

/// Within this time clients have connected again, in µs.
const RECONNECTS: Micros = 30 * SECOND;
/// What is more than in this part of all other intervals is no chance.
pub(super) const NEARLY_ALL: f64 = 0.9;
/// Clients that lost their connections start so many times the watches that are usual, and so many at least.
const WATCHES_TIMES: f64 = 3.0;
const MIN_WATCHES: f64 = 20.0;
/// And they are so many of those that start watches at any time, kubelets being one.
const WATCHERS: f64 = 0.25;
const MIN_WATCHERS: usize = 3;
/// Where an apiserver is away, others answer so much of what it would have answered at least.
const TAKEN_OVER: f64 = 1.0 / 3.0;
/// So long before it is shortly before, in µs, and so many intervals of that show what is usual.
const SHORTLY_BEFORE: Micros = 120 * SECOND;
const MIN_BEFORE: usize = 6;

/// All of a series.
pub(super) fn stops(series: &RequestSeries) -> Vec<Deviation> {
    let clock = Clock { series, seconds: seconds(series), of_baseline: seconds_of_baseline(series) };
    let mut all = Vec::new();
    // An apiserver that starts is no longer away, whatever it asks itself; the only one has been.
    let is_one = series.by_instance.len() == 1;
    let all_starting = |place: usize| series.starting.iter().map(move |own| &own[place]);
    let writes: Vec<f64> = series.tiles.iter().map(|tile| tile.felt[2].requests).collect();
    for (signal, place, counts) in [(Signal::Silence, 0, series.requests()), (Signal::WritesStop, 1, writes)] {
        let answered = plus(&counts, all_starting(place));
        let base = clock.baseline(&counts);
        let found = clock.silent(if is_one { &counts } else { &answered }, &base, SILENT);
        let others_go_on = |tiles: &Range<usize>| {
            let silent = clock.dead(&answered, &base, tiles);
            let askers = if signal == Signal::WritesStop { series.askers.writes() } else { series.askers.of(None) };
            go_on(series, askers, &silent)
        };
        for mut tiles in found.into_iter().filter(|tiles| tiles.end < counts.len() && !others_go_on(tiles)) {
            let goes_on = |at: usize| answered[at] >= GOES_ON * base.rate[at] * clock.seconds[at];
            while tiles.len() > 1 && goes_on(tiles.end - 1) {
                tiles.end -= 1;
            }
            // One that starts within the only interval says nothing of when it had stopped.
            let shown = if goes_on(tiles.start) { &counts } else { &answered };
            all.push(clock.deviation(signal.clone(), shown, &base, tiles));
        }
    }
    if series.by_instance.len() > 1 {
        for (instance, counts) in series.by_instance.iter().enumerate() {
            let counts: &[f64] = &plus(counts, [&series.starting[instance][0]].into_iter());
            let base = clock.without_end(counts).baseline(counts);
            let found = clock.away(instance, counts, &base);
            all.extend(found.into_iter().map(|tiles| clock.deviation(Signal::Away(instance), counts, &base, tiles)));
        }
    }
    all
}

/// Counts, and more of them.
fn plus<'c>(counts: &[f64], more: impl Iterator<Item = &'c Vec<f64>>) -> Vec<f64> {
    more.fold(counts.to_vec(), |sum, own| sum.iter().zip(own).map(|(a, b)| a + b).collect())
}

/// Seconds of each interval.
fn seconds(series: &RequestSeries) -> Vec<f64> {
    (0..series.tiles.len()).map(|at| series.grid.seconds(at)).collect()
}

/// The same for baselines: intervals without anything, where that can't be chance, count for none. A part of the log is
/// missing, nobody was answered, or between two pages the apiserver was another process.
pub(super) fn seconds_of_baseline(series: &RequestSeries) -> Vec<f64> {
    let mut all = seconds(series);
    let full = series.grid.tile as f64 / SECOND as f64;
    if series.typical_rate() * full >= SURE {
        let is_empty = |tile: &Tile| tile.all().requests + tile.watches == 0.0;
        all.iter_mut().zip(&series.tiles).filter(|(_, tile)| is_empty(tile)).for_each(|(seconds, _)| *seconds = 0.0);
    }
    all
}

/// A series, and how long its intervals are.
struct Clock<'s> {
    series: &'s RequestSeries,
    seconds: Vec<f64>,
    of_baseline: Vec<f64>,
}

impl<'s> Clock<'s> {
    /// The same for one that is away at the end of what was read: intervals without it do not belong to its baseline,
    /// however many they are.
    fn without_end(&self, counts: &[f64]) -> Clock<'s> {
        let (seconds, mut of_baseline) = (self.seconds.clone(), self.of_baseline.clone());
        let lived = counts.iter().rposition(|count| *count > 0.0).map_or(0, |last| last + 1);
        let typical = self.series.typical_of(&counts[..lived]);
        let is_alive = |at: &usize| counts[*at] >= DEAD * typical * seconds[*at] && typical > 0.0;
        let end = (0..lived).rev().find(is_alive).map_or(counts.len(), |last| last + 1);
        // One that loses its clients little by little is none that stops.
        let before: Vec<f64> =
            (end.saturating_sub(MIN_BEFORE)..end).map(|at| counts[at] / seconds[at].max(0.1)).collect();
        if quantile(before, 0.5).is_some_and(|rate| rate >= GOES_ON * typical) {
            of_baseline[end..].fill(0.0);
        }
        Clock { series: self.series, seconds, of_baseline }
    }

    fn baseline(&self, counts: &[f64]) -> Baseline {
        baseline(counts, &self.of_baseline, self.series.grid.tile)
    }

    /// Intervals in which hardly anything ends that should: in one of them at most the part `bound` of what is
    /// expected. Not at the beginning of what was read, which may be how the capture was cut.
    fn silent(&self, counts: &[f64], own: &Baseline, bound: f64) -> Vec<Range<usize>> {
        let expected: Vec<f64> = own.rate.iter().zip(&self.seconds).map(|(rate, seconds)| rate * seconds).collect();
        let missing = |at: usize| {
            if expected[at] < MIN_EXPECTED { -1.0 } else { 0.5 - counts[at] / expected[at] }
        };
        let scores: Vec<f64> = (0..counts.len()).map(missing).collect();
        let is_silent = |tiles: &Range<usize>| {
            let lost = |at: usize| (1.0 - counts[at] / expected[at].max(1e-9)) * self.seconds[at];
            tiles.start > 0
                && tiles.clone().map(lost).sum::<f64>() >= MIN_SILENCE_S
                && tiles.clone().any(|at| counts[at] < bound * expected[at])
        };
        maximal(&scores).into_iter().map(|own| own.0).filter(is_silent).collect()
    }

    /// Of such intervals those in which next to nothing ends.
    fn dead(&self, counts: &[f64], own: &Baseline, tiles: &Range<usize>) -> Vec<usize> {
        tiles.clone().filter(|at| counts[*at] < SHORTLY * own.rate[*at] * self.seconds[*at]).collect()
    }

    /// Intervals in which one apiserver is away: it answers nothing while others go on.
    ///
    /// Of one that was away for less than two intervals none need be empty, and of one that is away at the end of what
    /// was read its log may end there: clients show it that connect again, or ask the others.
    fn away(&self, instance: usize, counts: &[f64], own: &Baseline) -> Vec<Range<usize>> {
        let series = self.series;
        let others = others(series, instance);
        let rest = self.baseline(&others);
        let expected = |at: usize| own.rate[at] * self.seconds[at];
        let mut all = Vec::new();
        let found = self.silent(counts, own, SHORTLY);
        // Where one goes again and again, the other times say nothing of what is usual.
        let times: Vec<Span> =
            found.iter().map(|own| (series.grid.start(own.start), series.grid.start(own.end))).collect();
        for tiles in found {
            let is_dead = |at: &usize| counts[*at] < DEAD * expected(*at);
            let first = tiles.clone().find(is_dead);
            let last = tiles.clone().rev().find(is_dead);
            let (tiles, is_dead) = match first.zip(last) {
                // It is back when it answers again, though its clients may stay with the others.
                Some((first, last)) => (first.saturating_sub(1).max(tiles.start)..(last + 2).min(tiles.end), true),
                None if tiles.len() <= 2 => (tiles, false),
                None => continue,
            };
            let is_at_end = tiles.end == counts.len();
            let is_shown = is_dead && !is_at_end;
            let span = edges(series, counts, &own.rate, 0.0, &tiles);
            let is_shown = is_shown
                || reconnect(series, span.0, &times)
                || !is_at_end && reconnect(series, span.1, &times)
                || is_at_end && is_taken_over(series, instance, span);
            let alive = tiles.clone().filter(|at| others[*at] >= 0.5 * rest.rate[*at] * self.seconds[*at]).count();
            let askers = series.askers.of(Some(instance));
            if is_shown && 2 * alive >= tiles.len() && !go_on(series, askers, &self.dead(counts, own, &tiles)) {
                all.push(tiles);
            }
        }
        all
    }

    fn deviation(&self, signal: Signal, counts: &[f64], own: &Baseline, tiles: Range<usize>) -> Deviation {
        let expected = |at: usize| (own.rate[at] * self.seconds[at]).max(1e-9);
        let time: f64 = self.seconds[tiles.clone()].iter().sum();
        Deviation {
            signal,
            source: self.series.source,
            span: edges(self.series, counts, &own.rate, 0.0, &tiles),
            slack: self.series.grid.tile,
            level: counts[tiles.clone()].iter().sum::<f64>() / time.max(0.1),
            baseline: own.rate[tiles.start],
            weight: tiles.map(|at| (1.0 - counts[at] / expected(at)).max(0.0)).sum(),
        }
    }
}

/// Whether most of those who asked shortly before go on in intervals in which hardly anything is asked for (ascending):
/// an apiserver that answers nobody is silent to all of them, and to none but one busy client that pauses. `all` is by
/// apiserver, then by asker.
fn go_on(series: &RequestSeries, all: &[Vec<Sparse>], silent: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (silent.first(), silent.last()) else { return false };
    let grid = series.grid;
    let shortly = SHORTLY_BEFORE.max(MIN_BEFORE as i64 * grid.tile);
    let before = (0..first).rev().take_while(|at| grid.start(*at) >= grid.start(first) - shortly).last();
    let before = before.unwrap_or(first)..first;
    if before.len() < MIN_BEFORE {
        return false;
    }
    let seconds_before: f64 = before.clone().map(|at| grid.seconds(at)).sum();
    let part = silent.iter().map(|at| grid.seconds(*at)).sum::<f64>() / seconds_before.max(0.1);
    let (mut expected, mut goes_on) = (0.0, 0.0);
    for asker in 0..all.iter().map(Vec::len).max().unwrap_or(0) {
        let own = || all.iter().filter_map(|own| own.get(asker));
        let usual = part * own().map(|own| own.sum(&before, |_| true)).sum::<f64>();
        if usual > 0.0 {
            let is_silent = |at: usize| silent.binary_search(&at).is_ok();
            let now: f64 = own().map(|own| own.sum(&(first..last + 1), is_silent)).sum();
            let weight = usual.min(MOST_OF_ONE);
            expected += weight;
            goes_on += weight * (now / usual).min(1.0);
        }
    }
    expected >= MIN_OF_ALL && goes_on >= GOES_ON * expected
}

/// Requests to all apiservers but one.
pub(super) fn others(series: &RequestSeries, instance: usize) -> Vec<f64> {
    let mut others = vec![0.0; series.tiles.len()];
    for (_, counts) in series.by_instance.iter().enumerate().filter(|(place, _)| *place != instance) {
        others.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    others
}

/// Of an interval this part lies within a time, or it shows nothing of that time.
const MOSTLY: f64 = 0.5;
const WHOLLY: f64 = 1.0;

/// Requests within a time by those that are usual, of intervals of which the part `least` or more lies within it; what
/// lies outside is taken to be as usual. `None` where these are less than half of the time.
fn part_within(series: &RequestSeries, counts: &[f64], span: Span, least: f64) -> Option<f64> {
    let (grid, usual) = (series.grid, series.typical_of(counts));
    let inside = |at: usize| overlap(grid.covered(&(at..at + 1)), span) as f64 / SECOND as f64;
    let within = (0..counts.len()).filter(|at| inside(*at) > 0.0 && inside(*at) >= least * grid.seconds(*at));
    let (count, seconds) = within.fold((0.0, 0.0), |(count, seconds), at| {
        (count + counts[at] - usual * (grid.seconds(at) - inside(at)), seconds + inside(at))
    });
    (seconds * 2.0 >= (span.1 - span.0) as f64 / SECOND as f64).then(|| count.max(0.0) / (usual * seconds).max(1.0))
}

/// Requests within a time by those that are usual; `None` where intervals that lie mostly within it are less than half
/// of it.
pub(super) fn part_of_usual(series: &RequestSeries, counts: &[f64], span: Span) -> Option<f64> {
    part_within(series, counts, span, MOSTLY)
}

/// From this part of the typical rate on, requests go on.
pub(super) const GOES_ON: f64 = 0.5;

/// Whether pages of an apiserver count far fewer requests than usual within a time.
pub(super) fn one_stops(pages: &RequestSeries, span: Span) -> bool {
    pages.by_instance.iter().any(|counts| part_of_usual(pages, counts, span).is_some_and(|part| part < GOES_ON))
}

/// Whether other apiservers answer what one of them would have answered: a third of it, or more, and more than they
/// answer in nearly all other intervals; or in nearly all of the minutes before, since clients may stay with them.
pub(super) fn is_taken_over(log: &RequestSeries, instance: usize, span: Span) -> bool {
    let (grid, others) = (log.grid, others(log, instance));
    let own = &log.by_instance[instance];
    let [missing, usual] = [own, &others].map(|counts| log.typical_of(counts));
    // In the intervals at its ends others may have begun to answer, or ended.
    let Some(now) = part_within(log, &others, span, WHOLLY).map(|part| part * usual) else { return false };
    let is_more = |rates: Vec<f64>, usual: f64, missing: f64| {
        now - usual >= TAKEN_OVER * missing && now > quantile(rates, NEARLY_ALL).unwrap_or(0.0)
    };
    let rates = |counts: &[f64], is_its: &dyn Fn(usize) -> bool| -> Vec<f64> {
        (0..counts.len()).filter(|at| is_its(*at)).map(|at| counts[at] / grid.seconds(at).max(0.1)).collect()
    };
    let is_outside = |at: usize| grid.start(at + 1) <= span.0 || grid.start(at) >= span.1;
    let shortly = SHORTLY_BEFORE.max((MIN_BEFORE as i64 + 1) * grid.tile);
    let is_before = |at: usize| grid.start(at + 1) <= span.0 && grid.start(at) >= span.0 - shortly;
    let before = rates(&others, &is_before);
    let middle = |rates: Vec<f64>| quantile(rates, 0.5).unwrap_or(0.0);
    let lost = middle(rates(own, &is_before));
    is_more(rates(&others, &is_outside), usual, missing)
        || before.len() >= MIN_BEFORE && is_more(before.clone(), middle(before), lost)
}

/// Whether many more watches than usual start within 30 s of a moment, and not by a few clients only, which may have
/// started themselves. What is usual is not seen in `away`, times in which an apiserver may have been away, and shortly
/// behind them.
pub(super) fn reconnect(series: &RequestSeries, at: Micros, away: &[Span]) -> bool {
    let (grid, len) = (series.grid, series.tiles.len());
    let is_its = |place: &usize| grid.start(place + 1) > at - grid.tile && grid.start(*place) < at + RECONNECTS;
    let (Some(first), Some(last)) = ((0..len).find(is_its), (0..len).rev().find(is_its)) else { return false };
    let within = first..last + 1;
    let sum = |range: Range<usize>| series.tiles[range].iter().map(|tile| tile.watches).sum::<f64>();
    let callers = |range: Range<usize>| series.watching[range].iter().flatten().collect::<BTreeSet<_>>().len();
    // Watches that ended by their timeouts start again at times of their own, and some minutes after a start at many.
    let others = (0..len.saturating_sub(within.len() - 1)).map(|from| from..from + within.len());
    let others: Vec<_> = others.filter(|own| own.end <= within.start || own.start >= within.end).collect();
    let is_usual = |own: &&Range<usize>| {
        let span = (grid.start(own.start), grid.start(own.end));
        away.iter().all(|own| overlap((own.0, own.1 + RECONNECTS), span) == 0)
    };
    let calm: Vec<f64> = others.iter().filter(is_usual).cloned().map(sum).collect();
    let usual = if calm.len() >= MIN_BEFORE { calm } else { others.into_iter().map(sum).collect() };
    let usual = quantile(usual, NEARLY_ALL).unwrap_or(0.0);
    let (after, of) = (sum(within.clone()), callers(within));
    // Pages do not say who.
    let are_many =
        series.source == Source::Metrics || of >= MIN_WATCHERS && of as f64 >= WATCHERS * callers(0..len) as f64;
    are_many && after >= MIN_WATCHES && after >= WATCHES_TIMES * usual
}
