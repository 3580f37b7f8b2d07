//! When the incident was: the stretch of time that stands out of the time around it. (How: docs/report.md.)
//!
//! Each measure is set beside what is usual for it: the median over all pieces, and how far pieces lie from it as a
//! rule. What lies above is added up over the measures, less what a usual piece may have; the stretch with the largest
//! sum is the candidate.

use super::pulse::Pulse;
use crate::analysis::robust::median;
use crate::model::incident::{Measure, Span, Stretch, Verdict};
use crate::model::time::{Micros, SECOND};
use crate::model::units::{counted, duration};

/// A stretch that stands out by less is none.
const LEAST: f64 = 20.0;
/// What a usual piece may have in all measures together.
const USUAL: f64 = 1.75;
/// No piece stands out by more than this in one measure: an incident is no single spike.
const MOST: f64 = 6.0;
/// A fall counts up to this.
const FALL: f64 = -2.0;
/// Differences of logarithms below this are none, however steady the load was: about 15 %.
const FLOOR: f64 = 0.15;
/// A stretch that begins so soon after the first piece has no time before it to be set beside.
const BEFORE: Micros = 30 * SECOND;
/// A stretch before the window that stands out by so much is not calm.
const LOUD: f64 = 5.0;
/// Further stretches that are looked for.
const OTHERS: usize = 4;
/// So many of them, each half as strong, and it is the load's habit.
const HABIT: usize = 3;
/// Fewer pieces than this show no habit at all.
const FEW: usize = 12;

/// What stands out in each piece, one value for each measure, in the order of [`Pulse::known`].
#[derive(Debug)]
pub struct Standing {
    first: i64,
    by_piece: Vec<Vec<f64>>,
}

impl Standing {
    /// How far each measure of each piece lies above what is usual, in robust standard deviations of its logarithm.
    pub fn of(pulse: &Pulse) -> Self {
        let pieces = pulse.pieces();
        let first = pieces.start;
        let mut by_piece = vec![Vec::new(); pieces.clone().count()];
        for &measure in &pulse.known {
            let logs: Vec<f64> = pieces.clone().map(|piece| pulse.rate(measure, piece).max(0.0).ln_1p()).collect();
            let middle = median(&mut logs.clone()).unwrap_or(0.0);
            let spread =
                1.4826 * median(&mut logs.iter().map(|log| (log - middle).abs()).collect::<Vec<_>>()).unwrap_or(0.0);
            for (all, log) in by_piece.iter_mut().zip(&logs) {
                all.push(((log - middle) / spread.max(FLOOR)).clamp(FALL, MOST));
            }
        }
        Self { first, by_piece }
    }

    /// How far a measure lies above the usual in a piece.
    pub fn above(&self, pulse: &Pulse, measure: Measure, piece: i64) -> f64 {
        let at = usize::try_from(piece - self.first).ok();
        let number = pulse.known.iter().position(|known| *known == measure);
        at.and_then(|at| self.by_piece.get(at))
            .zip(number)
            .and_then(|(all, number)| all.get(number))
            .copied()
            .unwrap_or(0.0)
    }

    /// Scores of pieces.
    fn scores(&self) -> Vec<f64> {
        self.by_piece.iter().map(|all| all.iter().map(|z| z.max(0.0)).sum::<f64>() / 2.0 - USUAL).collect()
    }
}

/// The stretch with the largest sum: where it begins, where it ends, and the sum.
fn largest(scores: &[f64]) -> Option<(usize, usize, f64)> {
    let mut best: Option<(usize, usize, f64)> = None;
    let (mut start, mut sum) = (0, 0.0);
    for (at, score) in scores.iter().enumerate() {
        if sum <= 0.0 {
            (start, sum) = (at, 0.0);
        }
        sum += score;
        if sum > best.map_or(0.0, |best| best.2) {
            best = Some((start, at + 1, sum));
        }
    }
    best
}

/// How many pieces go by until so many in a row do not stand out; all of them, if that never happens.
fn head(scores: &[f64], pause: i64) -> usize {
    let pause = usize::try_from(pause).unwrap_or(1).max(1);
    scores.windows(pause).position(|pieces| pieces.iter().all(|score| *score <= 0.0)).unwrap_or(scores.len())
}

/// The part of the time before a window that can be called calm: from where the last stretch ends that stands out by
/// itself, such as what a start leaves behind, unless that leaves nothing.
pub fn calm(pulse: &Pulse, from: Micros) -> Span {
    let standing = Standing::of(pulse);
    let before = usize::try_from(from.div_euclid(pulse.piece) - standing.first).unwrap_or(0);
    let mut scores = standing.scores();
    scores.truncate(before);
    // With the first whole piece, so that whoever counts by pieces and whoever counts by time mean the same.
    let whole = -(-pulse.span.0).div_euclid(pulse.piece) * pulse.piece;
    let mut start = if from - whole < BEFORE { pulse.span.0 } else { whole };
    while let Some((_, to, _)) = largest(&scores).filter(|best| best.2 >= LOUD) {
        let at = (standing.first + to as i64) * pulse.piece;
        if from - at < BEFORE {
            break;
        }
        start = start.max(at);
        scores[..to].fill(f64::NEG_INFINITY);
    }
    (start, from)
}

/// Whether there was an incident, and when.
pub fn verdict(pulse: &Pulse) -> Verdict {
    let standing = Standing::of(pulse);
    let mut scores = standing.scores();
    if scores.len() < FEW {
        return Verdict::Unknown(format!(
            "the sources cover only {} of {}: too little to tell what is usual; name the window with --from and --to",
            counted(scores.len() as u64, "piece"),
            duration(pulse.piece)
        ));
    }
    let mut found: Vec<(usize, usize, f64)> = Vec::new();
    let mut at_start = false;
    while found.len() <= OTHERS {
        let Some((from, to, score)) = largest(&scores).filter(|best| best.2 >= LEAST) else { break };
        // What comes before it would show what is usual. It hides nothing that stands out after a pause, though: a log
        // may begin with a start, and hold an incident.
        if from as i64 * pulse.piece < BEFORE {
            at_start = true;
            let end = from + head(&scores[from..to], BEFORE / pulse.piece);
            scores[from..end].fill(f64::NEG_INFINITY);
        } else {
            scores[from..to].fill(f64::NEG_INFINITY);
            found.push((from, to, score));
        }
    }
    let Some(&(from, to, score)) = found.first() else {
        let why = if at_start {
            "the load stands out only at the very start of what was read; if that was the incident, name it with --from and --to"
        } else {
            "no stretch of time stands out of the rest by requests, server time, LISTs, 429, 5xx or slow requests"
        };
        return Verdict::Quiet(why.to_owned());
    };
    let alike = found[1..].iter().filter(|other| other.2 >= score / 2.0).count();
    if alike >= HABIT {
        return Verdict::Quiet(format!(
            "bursts of load come again and again ({} of them): that is its habit",
            alike + 1
        ));
    }
    let time = |at: usize| (standing.first + at as i64) * pulse.piece;
    Verdict::Incident(Stretch { from: time(from), to: time(to).min(pulse.span.1), score, is_given: false })
}

#[cfg(test)]
mod tests {
    use super::super::pulse::Beat;
    use super::*;
    use crate::model::incident::Source;
    use proptest::prelude::*;

    /// So many requests in each piece; all other measures are zero.
    fn pulse(counts: &[f64]) -> Pulse {
        let beats = counts.iter().enumerate().map(|(piece, count)| {
            let mut beat = Beat::default();
            beat.counts[Measure::Requests as usize] = *count;
            beat.counts[Measure::Lists as usize] = count / 3.0;
            (piece as i64, beat)
        });
        let piece = 5 * SECOND;
        Pulse {
            source: Source::Audit,
            piece,
            span: (0, counts.len() as i64 * piece),
            known: Measure::ALL.to_vec(),
            beats: beats.collect(),
        }
    }

    fn load(of: impl Fn(usize) -> f64, pieces: usize) -> Verdict {
        verdict(&pulse(&(0..pieces).map(of).collect::<Vec<_>>()))
    }

    #[test]
    fn a_surge_is_found_where_it_is() {
        let wave = |n: usize| 100.0 + 20.0 * (n as f64).sin();
        let found = load(|n| wave(n) * if (40..60).contains(&n) { 8.0 } else { 1.0 }, 120);
        let Verdict::Incident(stretch) = found else { panic!("{found:?}") };
        assert_eq!((stretch.from, stretch.to), (200 * SECOND, 300 * SECOND));
    }

    #[test]
    fn what_a_log_begins_with_hides_no_surge() {
        let wave = |n: usize| 100.0 + 20.0 * (n as f64).sin();
        // Three minutes of start are more than the pause behind them can outweigh.
        for (start, pause) in [(8, 8), (36, 20), (36, 60)] {
            let surge = start + pause..start + pause + 20;
            let found = load(|n| wave(n) * if n < start || surge.contains(&n) { 15.0 } else { 1.0 }, 300);
            let Verdict::Incident(stretch) = found else { panic!("{start}, {pause}: {found:?}") };
            let wanted = (surge.start as i64 * 5 * SECOND, surge.end as i64 * 5 * SECOND);
            assert_eq!((stretch.from, stretch.to), wanted, "{start}, {pause}");
        }
    }

    #[test]
    fn what_is_usual_is_no_incident() {
        let wave = |n: usize| 100.0 + 20.0 * (n as f64).sin();
        assert!(matches!(load(wave, 200), Verdict::Quiet(_)));
        // A spike of five seconds.
        assert!(matches!(load(|n| if n == 50 { 5000.0 } else { wave(n) }, 200), Verdict::Quiet(_)));
        // Bursts that come every five minutes.
        let Verdict::Quiet(why) = load(|n| wave(n) * if n % 60 < 8 && n > 20 { 20.0 } else { 1.0 }, 600) else {
            panic!()
        };
        assert!(why.contains("again and again"), "{why}");
        // What it begins with.
        let Verdict::Quiet(why) = load(|n| wave(n) * if n < 20 { 20.0 } else { 1.0 }, 200) else { panic!() };
        assert!(why.contains("very start"), "{why}");
        // A surge right behind it, without a pause of half a minute, is part of it.
        let Verdict::Quiet(why) = load(|n| wave(n) * if n < 20 || (23..30).contains(&n) { 20.0 } else { 1.0 }, 200)
        else {
            panic!()
        };
        assert!(why.contains("very start"), "{why}");
        assert!(matches!(load(wave, 5), Verdict::Unknown(_)));
    }

    proptest! {
        #[test]
        fn the_largest_sum_is_that_of_all_stretches(scores in prop::collection::vec(-5.0f64..5.0, 1..40)) {
            let sums = (0..scores.len()).flat_map(|from| (from..scores.len()).map(move |to| (from, to)));
            let truth = sums.map(|(from, to)| scores[from..=to].iter().sum::<f64>()).fold(0.0, f64::max);
            let found = largest(&scores).map_or(0.0, |found| found.2);
            prop_assert!((truth - found).abs() < 1e-9);
        }
    }
}
