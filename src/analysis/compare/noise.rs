//! Whether a change is more than noise. (Formulas: docs/commands/compare.md.)
//!
//! Requests come in bursts, by the clock, at random, and none of it is known beforehand. So how much a count wanders is
//! measured: by the pieces of time that it is the sum of, taken together to lengths of a fifth of the window, so that
//! bursts within such a length cancel.

use crate::analysis::quantiles::{beta_quantile, normal_quantile, student_quantile};

/// What was measured on one side.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Measured {
    /// Nothing.
    #[default]
    None,
    /// Events by pieces of time, in its order: seconds and how many.
    Counts(Vec<(f64, f64)>),
    /// A level by pieces of time, in its order: seconds and level.
    Levels(Vec<(f64, f64)>),
    /// A quantile: of all; of parts of the time that follow one another, as far as they have enough values; and what
    /// lies one, two, … standard deviations of its rank below it and above it, where all values are known.
    Quantile(f64, Vec<f64>, Vec<(f64, f64)>),
    /// A sum that was estimated from samples, of which each stands for so much.
    Sampled(f64, f64),
    /// A level of which one moment is known.
    Moment(f64),
    /// What is as it is.
    State(f64),
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// More than before.
    Up,
    /// Less.
    Down,
    /// Was not there before.
    New,
    /// Is no more there.
    Gone,
    /// Twice as much or more, or half or less, and yet it may be chance: it came in few bursts, or was seen for too
    /// short a time.
    Unsure,
    /// What differs may be chance.
    #[default]
    Noise,
    /// As before, or so nearly that it does not matter.
    Same,
    /// Too little was seen to report.
    Few,
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Unsure => "unsure",
            Self::Noise => "noise",
            Self::Same => "same",
            Self::Few => "few",
        }
    }

    /// Whether something has changed.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Up | Self::Down | Self::New | Self::Gone)
    }
}

/// Events below which nothing is said of a change, on both sides together.
const EVENTS: f64 = 10.0;
/// Pieces of time that a side needs.
const PIECES: usize = 4;
/// Up to so many events, a rate is taken to wander at least as much as if they came independently of one another.
const INDEPENDENT: f64 = 30.0;
/// Clockwork wanders less, but how much less is itself uncertain: at least by this share of that.
const CLOCKWORK: f64 = 0.1;
/// A quantile in a histogram is known to a sixteenth: the variance of its logarithm if it may be anywhere in that.
const RESOLUTION: f64 = (1.0 / 16.0) * (1.0 / 16.0) / 12.0;
/// A part of the time by which the variance of a sum is estimated is a window's length through this: long, since what
/// goes on and off for a while would seem to change in short windows.
const WINDOW_DIVISOR: f64 = 5.0;
/// What one moment says of a level may be off by this factor.
const MOMENT: f64 = 4.0 / 3.0;
/// A change by this factor is worth a word even where it may be chance.
const MUCH: f64 = 2.0;
/// Parts of the time of which a quantile is taken.
pub const PARTS: usize = 8;

impl Measured {
    /// The value: events a second, mean level, quantile, sum, state.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Counts(_) | Self::Levels(_) => Some(Pieces::of(&self.amounts()?)?.mean()),
            Self::Quantile(value, ..) | Self::Sampled(value, _) | Self::Moment(value) | Self::State(value) => {
                Some(*value)
            }
        }
    }

    /// By pieces of time: seconds, and events or level times seconds.
    pub fn amounts(&self) -> Option<Vec<(f64, f64)>> {
        match self {
            Self::Counts(pieces) => Some(pieces.clone()),
            Self::Levels(pieces) => Some(pieces.iter().map(|(seconds, level)| (*seconds, level * seconds)).collect()),
            _ => None,
        }
    }

    /// Whether chance may be in it.
    fn wanders(&self) -> bool {
        !matches!(self, Self::State(_) | Self::None)
    }
}

/// Whether there is enough of both sides that chance can be distinguished from change.
pub fn is_testable(before: &Measured, after: &Measured) -> bool {
    let enough = |pieces: &[(f64, f64)]| pieces.len() >= PIECES;
    match (before, after) {
        (Measured::Counts(a), Measured::Counts(b)) => {
            enough(a) && enough(b) && a.iter().chain(b).map(|(_, count)| count).sum::<f64>() >= EVENTS
        }
        (Measured::Levels(a), Measured::Levels(b)) => enough(a) && enough(b),
        (Measured::Quantile(_, a, _), Measured::Quantile(_, b, _)) => a.len() >= PIECES && b.len() >= PIECES,
        (Measured::Sampled(a, each), Measured::Sampled(b, _)) => (a + b) / each >= EVENTS,
        (Measured::Moment(a), Measured::Moment(_)) => *a > 0.0,
        _ => false,
    }
}

/// Whether its bounds depend on how sure they are to be.
pub fn is_tested(before: &Measured, after: &Measured) -> bool {
    is_testable(before, after) && !matches!(before, Measured::Moment(_))
}

/// Between what the ratio of after to before lies but for one case in 1/`alpha`; `None` where that can't be determined.
pub fn bounds(before: &Measured, after: &Measured, alpha: f64) -> Option<(f64, f64)> {
    if !is_testable(before, after) {
        return None;
    }
    match (before, after) {
        (Measured::Counts(a), Measured::Counts(b)) => {
            let (all_a, all_b) = (Pieces::of(a)?, Pieces::of(b)?);
            let plain = of_counts(&all_a, &all_b, alpha)?;
            Some(of_one_stretch((a, &all_a), (b, &all_b), alpha).filter(|_| contains(plain, 1.0)).unwrap_or(plain))
        }
        (Measured::Levels(_), Measured::Levels(_)) => {
            let spread = |side: &Measured| {
                let pieces = Pieces::of(&side.amounts()?)?;
                Some((pieces.mean(), pieces.variance / (pieces.seconds * pieces.seconds), pieces.degrees))
            };
            let ((a, va, da), (b, vb, db)) = (spread(before)?, spread(after)?);
            (a > 0.0 && b > 0.0).then(|| of_logarithms(b / a, (va / (a * a), da), (vb / (b * b), db), alpha))
        }
        (Measured::Quantile(a, of_a, near_a), Measured::Quantile(b, of_b, near_b)) => {
            let spread = |value: f64, parts: &[f64], near: &[(f64, f64)]| {
                let (variance, degrees) = of_parts(value, parts);
                (variance.max(by_rank(value, near, alpha)), degrees)
            };
            (*a > 0.0 && *b > 0.0)
                .then(|| of_logarithms(b / a, spread(*a, of_a, near_a), spread(*b, of_b, near_b), alpha))
        }
        (Measured::Sampled(a, each), Measured::Sampled(b, _)) => {
            Some(of_events((a / each, 1.0), (b / each, 1.0), alpha))
        }
        (Measured::Moment(a), Measured::Moment(b)) => Some((b / a / MOMENT, b / a * MOMENT)),
        _ => None,
    }
}

/// The verdict on two sides; changes by less than `least` are none.
pub fn verdict(before: &Measured, after: &Measured, bounds: Option<(f64, f64)>, least: f64) -> Verdict {
    let (Some(a), Some(b)) = (before.value(), after.value()) else {
        return match (before.value(), after.value()) {
            (None, Some(_)) => Verdict::New,
            (Some(_), None) => Verdict::Gone,
            _ => Verdict::Few,
        };
    };
    if a == b {
        return Verdict::Same;
    }
    let is_beyond = match bounds {
        Some((low, high)) => low > 1.0 || high < 1.0,
        None if before.wanders() || after.wanders() => return Verdict::Few,
        None => true,
    };
    if !is_beyond {
        let is_much = !(b / a > 1.0 / MUCH && b / a < MUCH);
        return if is_much { Verdict::Unsure } else { Verdict::Noise };
    }
    match (a, b) {
        (0.0, _) => Verdict::New,
        (_, 0.0) => Verdict::Gone,
        _ if (b / a - 1.0).abs() < least => Verdict::Same,
        _ if b > a => Verdict::Up,
        _ => Verdict::Down,
    }
}

/// Amounts by pieces of time, summed up.
struct Pieces {
    seconds: f64,
    sum: f64,
    most: f64,
    /// Of the sum, by overlapping parts of a fifth of the time.
    variance: f64,
    degrees: f64,
}

impl Pieces {
    fn of(pieces: &[(f64, f64)]) -> Option<Self> {
        let seconds: f64 = pieces.iter().map(|(seconds, _)| seconds).sum();
        let sum: f64 = pieces.iter().map(|(_, amount)| amount).sum();
        if seconds <= 0.0 {
            return None;
        }
        let mean = sum / seconds;
        let count = pieces.len();
        let length = (count as f64 / WINDOW_DIVISOR).round().max(1.0) as usize;
        let mut squares = 0.0;
        for part in pieces.windows(length) {
            let (long, amount) =
                part.iter().fold((0.0, 0.0), |(long, sum), (seconds, amount)| (long + seconds, sum + amount));
            squares += (amount - mean * long).powi(2);
        }
        let (n, b) = (count as f64, length as f64);
        let variance = if count > length { n * n / (b * (n - b) * (n - b + 1.0)) * squares } else { f64::INFINITY };
        let degrees = if length > 1 { (1.5 * (n / b - 1.0)).max(1.0) } else { (n - 1.0).max(1.0) };
        let most = pieces.iter().map(|(_, amount)| *amount).fold(0.0, f64::max);
        Some(Self { seconds, sum, most, variance, degrees })
    }

    fn mean(&self) -> f64 {
        self.sum / self.seconds
    }

    /// How many times more than independent events this count wanders. At the window's ends a burst may be in or out.
    fn dispersion(&self) -> Option<f64> {
        let least = if self.sum < INDEPENDENT { 1.0 } else { CLOCKWORK };
        (self.sum > 0.0).then(|| (self.variance.max(self.sum * least) + self.most * self.most / 6.0) / self.sum)
    }
}

/// Of counts: as many independent events as wander so much, and bounds that are exact for these.
fn of_counts(a: &Pieces, b: &Pieces, alpha: f64) -> Option<(f64, f64)> {
    // As if both wandered like the one that does more: where little happened to come, it seems to wander little.
    let each = a.dispersion().into_iter().chain(b.dispersion()).reduce(f64::max)?;
    let of = |own: &Pieces, other: &Pieces| if own.sum > 0.0 { own.degrees } else { other.degrees };
    let uncertain = |own: &Pieces, other: &Pieces| (1.0 / (own.sum / each).max(1.0), of(own, other));
    let wider = widening(uncertain(a, b), uncertain(b, a), alpha).powi(2);
    let effective = |pieces: &Pieces| (pieces.sum / (each * wider), pieces.seconds / (each * wider));
    Some(of_events(effective(a), effective(b), alpha))
}

fn contains((low, high): (f64, f64), value: f64) -> bool {
    low <= value && value <= high
}

/// Where one side has nothing at all and the other is busy in one stretch of its time: how much that wanders shows
/// within the stretch. From the start of a storm to its end a count is one thing, and nothing before it another; over
/// all of the window it would seem to wander by as much as it is. Nothing where the stretch is too short to decide, or
/// the bounds by it say no more.
fn of_one_stretch(
    (a, all_a): (&[(f64, f64)], &Pieces),
    (b, all_b): (&[(f64, f64)], &Pieces),
    alpha: f64,
) -> Option<(f64, f64)> {
    let busy = match (all_a.sum > 0.0, all_b.sum > 0.0) {
        (true, false) => a,
        (false, true) => b,
        _ => return None,
    };
    let first = busy.iter().position(|(_, count)| *count > 0.0)?;
    let last = busy.iter().rposition(|(_, count)| *count > 0.0)?;
    let stretch = &busy[first..=last];
    if stretch.len() < PIECES || (stretch.len() as f64) < busy.len() as f64 / WINDOW_DIVISOR {
        return None;
    }
    let within = Pieces::of(stretch)?;
    let spread =
        |all: &Pieces| Pieces { variance: within.variance, degrees: within.degrees, most: within.most, ..*all };
    let bounds = of_counts(&spread(all_a), &spread(all_b), alpha)?;
    (!contains(bounds, 1.0)).then_some(bounds)
}

/// How much wider bounds are because the variances are themselves estimates.
fn widening(a: (f64, f64), b: (f64, f64), alpha: f64) -> f64 {
    student_quantile(1.0 - alpha / 2.0, degrees(a, b)) / normal_quantile(1.0 - alpha / 2.0)
}

/// Degrees of freedom of the sum of two variances (Welch and Satterthwaite).
fn degrees((va, da): (f64, f64), (vb, db): (f64, f64)) -> f64 {
    let sum = va + vb;
    if sum > 0.0 && sum.is_finite() { sum * sum / (va * va / da + vb * vb / db) } else { 1.0 }
}

/// Bounds of the ratio of two rates, each (events, exposure): those of the share that the second has of all (Clopper
/// and Pearson).
fn of_events((a, long_a): (f64, f64), (b, long_b): (f64, f64), alpha: f64) -> (f64, f64) {
    let low = if b > 0.0 { beta_quantile(alpha / 2.0, b, a + 1.0) } else { 0.0 };
    let high = if a > 0.0 { beta_quantile(1.0 - alpha / 2.0, b + 1.0, a) } else { 1.0 };
    let ratio = |share: f64| share / (1.0 - share) * long_a / long_b;
    (ratio(low), if high < 1.0 { ratio(high) } else { f64::INFINITY })
}

/// Bounds of a ratio by the variances of the logarithms of its sides.
fn of_logarithms(ratio: f64, a: (f64, f64), b: (f64, f64), alpha: f64) -> (f64, f64) {
    let wide = student_quantile(1.0 - alpha / 2.0, degrees(a, b)) * (a.0 + b.0).sqrt();
    (ratio * (-wide).exp(), ratio * wide.exp())
}

/// The variance of the logarithm of a quantile, by those of parts of the time.
fn of_parts(all: f64, parts: &[f64]) -> (f64, f64) {
    let n = parts.len() as f64;
    let squares: f64 = parts.iter().map(|part| (part.max(f64::MIN_POSITIVE) / all).ln().powi(2)).sum();
    (squares / (n * (n - 1.0)) + RESOLUTION, n - 1.0)
}

/// Standard deviations of a quantile's rank that are looked at.
pub const RANKS: usize = 6;

/// The variance of the logarithm of a quantile, by what lies as far from it in rank as it may itself be by chance.
/// Where half of the requests are answered from a cache and half are not, the median is one or the other, in all parts
/// of the time alike, and the next time it is the other.
fn by_rank(value: f64, near: &[(f64, f64)], alpha: f64) -> f64 {
    let sure = normal_quantile(1.0 - alpha / 2.0);
    let at = (sure.ceil() as usize).clamp(1, RANKS);
    let Some((low, high)) = near.get(at - 1) else { return 0.0 };
    let times = |a: f64, b: f64| (a.max(f64::MIN_POSITIVE) / b.max(f64::MIN_POSITIVE)).ln();
    (times(value, *low).max(times(*high, value)) / at as f64).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the same formulas in Python with scipy.
    const CASES: [(f64, f64); 6] = [
        (1.182_378_970_235, 1.534_654_679_183),
        (12.779_201_112_751, f64::INFINITY),
        (0.0, 0.316_910_819_804),
        (1.280_522_322_724, 1.317_751_046_816),
        (1.854_502_161_404, 5.181_983_715_092),
        (1.433_152_178_167, 3.623_827_516_621),
    ];

    #[test]
    fn bounds_are_those_of_an_independent_reckoning() {
        let wave =
            |rate: f64, by: f64| (0..30).map(|n| (10.0, (rate + by * f64::from(n).sin()).round())).collect::<Vec<_>>();
        let cases = [
            (Measured::Counts(wave(20.0, 5.0)), Measured::Counts(wave(27.0, 5.0)), CASES[0]),
            (Measured::Counts(vec![(10.0, 0.0); 30]), Measured::Counts(wave(2.0, 2.0)), CASES[1]),
            (Measured::Counts(wave(1.0, 1.0)), Measured::Counts(vec![(5.0, 0.0); 20]), CASES[2]),
            (Measured::Levels(wave(100.0, 9.0)), Measured::Levels(wave(130.0, 9.0)), CASES[3]),
            (
                Measured::Quantile(10.0, vec![9.0, 10.0, 12.0, 10.5], Vec::new()),
                Measured::Quantile(31.0, vec![30.0, 29.0, 35.0, 31.0], Vec::new()),
                CASES[4],
            ),
            (Measured::Sampled(40e6, 524_288.0), Measured::Sampled(90e6, 524_288.0), CASES[5]),
        ];
        for (before, after, (low, high)) in cases {
            let (ours, theirs) = bounds(&before, &after, 1e-3).unwrap();
            let near = |a: f64, b: f64| a == b || (a / b - 1.0).abs() < 1e-6;
            assert!(
                near(ours, low) && near(theirs, high),
                "{before:?} {after:?}: ({ours}, {theirs}), not ({low}, {high})"
            );
        }
    }

    #[test]
    fn little_says_nothing_and_the_same_is_the_same() {
        let counts = |count: f64| Measured::Counts(vec![(10.0, count); 20]);
        let judge = |a: &Measured, b: &Measured| verdict(a, b, bounds(a, b, 1e-3), 0.05);
        assert_eq!(judge(&counts(5.0), &counts(5.0)), Verdict::Same);
        assert_eq!(judge(&counts(0.1), &counts(0.2)), Verdict::Few);
        assert_eq!(judge(&counts(100.0), &counts(101.0)), Verdict::Noise);
        let long = |count: f64| Measured::Counts(vec![(10.0, count); 5000]);
        assert_eq!(judge(&long(100.0), &long(101.0)), Verdict::Same);
        assert_eq!(judge(&counts(100.0), &counts(150.0)), Verdict::Up);
        assert_eq!(judge(&counts(100.0), &counts(0.0)), Verdict::Gone);
        assert_eq!(judge(&counts(0.0), &counts(3.0)), Verdict::New);
        assert_eq!(judge(&Measured::None, &Measured::State(7.0)), Verdict::New);
        assert_eq!(judge(&Measured::State(7.0), &Measured::State(9.0)), Verdict::Up);
        // One burst is no rate.
        let burst = |at: usize| Measured::Counts((0..20).map(|n| (10.0, if n == at { 300.0 } else { 0.0 })).collect());
        assert_eq!(judge(&burst(3), &counts(0.0)), Verdict::Unsure);
        assert_eq!(judge(&burst(3), &burst(9)), Verdict::Same);
        // A storm that fills half of the window is one, from nothing; bursts here and there may be chance.
        let storm = |count: f64, from: usize| {
            Measured::Counts((0..30).map(|n| (10.0, if n >= from { count } else { 0.0 })).collect())
        };
        let nothing = Measured::Counts(vec![(10.0, 0.0); 30]);
        for (count, from) in [(16.0, 15), (40.0, 24)] {
            assert_eq!(judge(&nothing, &storm(count, from)), Verdict::New, "{count} from {from}");
            assert_eq!(judge(&storm(count, from), &nothing), Verdict::Gone, "{count} from {from}");
        }
        let four = Measured::Counts((0..30).map(|n| (10.0, if n % 8 == 3 { 60.0 } else { 0.0 })).collect());
        assert_eq!(judge(&nothing, &four), Verdict::Unsure);
        assert_eq!(judge(&Measured::Moment(10.0), &Measured::Moment(13.0)), Verdict::Noise);
        assert_eq!(judge(&Measured::Moment(10.0), &Measured::Moment(14.0)), Verdict::Up);
    }
}
