//! Series that rise slowly and fall at once, again and again: etcd's database between defragmentations, logs between
//! rotations.
//!
//! What reaches a limit is their peaks: the line from the highest value of each tooth to that of the next.

/// Falls that make a sawtooth.
const FALLS: usize = 3;

/// What a sawtooth is like.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Teeth {
    /// The line over the peaks, from the first of them on up to the last value.
    pub line: Vec<f64>,
    /// How far below it the values are.
    pub below: Vec<f64>,
    /// Places in these from which teeth went on as the last one may now: as far behind their fall as the last value is
    /// behind the last fall.
    pub alike: Vec<usize>,
}

/// `None` where a series is no sawtooth.
pub fn teeth(values: &[f64]) -> Option<Teeth> {
    let mut steps: Vec<f64> =
        values.windows(2).map(|two| (two[1] - two[0]).abs()).filter(|step| step.is_finite()).collect();
    if steps.len() < 12 {
        return None;
    }
    let middle = steps.len() / 2;
    let median = *steps.select_nth_unstable_by(middle, f64::total_cmp).1;
    let known = values.iter().filter(|value| value.is_finite());
    let (low, high) =
        known.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let large = (8.0 * median).max(0.2 * (high - low));
    let turns = |is_turn: &dyn Fn(f64) -> bool| -> Vec<usize> {
        values.windows(2).enumerate().filter(|(_, two)| is_turn(two[1] - two[0])).map(|(at, _)| at + 1).collect()
    };
    let falls = turns(&|step| step < -large);
    let rises = turns(&|step| step > large);
    // What rises as suddenly as it falls is a burst, or noise.
    if falls.len() < FALLS || rises.len() * 3 > falls.len() || falls.len() * 6 > values.len() {
        return None;
    }
    let mut peaks: Vec<(usize, f64)> = Vec::with_capacity(falls.len());
    let mut from = 0;
    for fall in falls.iter().copied() {
        let tooth = values[from..fall].iter().enumerate().filter(|(_, value)| value.is_finite());
        if let Some((at, value)) = tooth.max_by(|a, b| a.1.total_cmp(b.1)) {
            peaks.push((from + at, *value));
        }
        from = fall;
    }
    // The first tooth may have been cut off; a rise of more than the last peak counts already.
    peaks.remove(0);
    let last = values.len() - 1;
    let slope = |two: &[(usize, f64)]| (two[1].1 - two[0].1) / (two[1].0 - two[0].0) as f64;
    let mut slopes: Vec<f64> = peaks.windows(2).map(slope).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let (at, peak) = *peaks.last()?;
    let carried = peak + slopes.get(slopes.len() / 2)? * (last - at) as f64;
    let newest = values[from..].iter().copied().filter(|value| value.is_finite()).fold(carried, f64::max);
    if at < last {
        peaks.push((last, newest));
    }
    let mut line = Vec::with_capacity(values.len());
    for two in peaks.windows(2) {
        line.extend((0..two[1].0 - two[0].0).map(|step| two[0].1 + slope(two) * step as f64));
    }
    line.push(peaks.last()?.1);
    let first = values.len() - line.len();
    // Where nothing is known it is taken to be on its way up.
    let mut known = 0.0;
    let below = line.iter().zip(&values[first..]).map(|(line, value)| {
        if value.is_finite() {
            known = (line - value).max(0.0);
        }
        known
    });
    let below: Vec<f64> = below.collect();
    let behind = values.len() - from;
    let lengths = falls.windows(2).map(|two| (two[0], two[1] - two[0])).filter(|(fall, _)| *fall >= first);
    // Of a tooth that is over only its next one is alike.
    let alike =
        lengths.map(|(fall, length)| fall - first + behind.min(length)).filter(|at| *at < below.len()).collect();
    Some(Teeth { line, below, alike })
}

#[cfg(test)]
mod tests {
    use super::{Teeth, teeth as teeth_of};

    fn teeth(length: usize, count: usize, growth: f64) -> Vec<f64> {
        (0..length * count)
            .map(|at| 100.0 + growth * at as f64 + 40.0 * ((at % length) as f64 / length as f64))
            .collect()
    }

    #[test]
    fn peaks_are_a_line() {
        let values = teeth(24, 8, 0.5);
        let Teeth { line, below, alike } = teeth_of(&values).unwrap();
        // 24 steps behind the second fall, the third, and so on: at its end each tooth is over.
        assert_eq!((alike[0], below.len(), below[0]), (25, line.len(), 0.0));
        assert!(below.iter().all(|below| (0.0..=40.0).contains(below)), "{below:?}");
        // From the second peak on, at 47, half a unit more each step.
        assert_eq!(line.len(), values.len() - 47);
        assert_eq!(line[0], values[47]);
        assert!(line.windows(2).all(|two| (two[1] - two[0] - 0.5).abs() < 1e-9), "{line:?}");
        assert!(line.iter().zip(&values[47..]).all(|(line, value)| *line >= *value - 1e-9));
    }

    #[test]
    fn noise_bursts_steps_and_seasons_are_none() {
        let wave: Vec<f64> = (0..500).map(|at| (f64::from(at) / 24.0 * std::f64::consts::TAU).sin()).collect();
        assert_eq!(teeth_of(&wave), None);
        let bursts: Vec<f64> =
            (0..500).map(|at| if at % 50 == 7 { 9.0 } else { 1.0 + f64::from(at % 3) / 10.0 }).collect();
        assert_eq!(teeth_of(&bursts), None);
        let noise: Vec<f64> = (0..500u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64).collect();
        assert_eq!(teeth_of(&noise), None);
        let step: Vec<f64> = (0..500).map(|at| if at < 300 { 5.0 } else { 1.0 }).collect();
        assert_eq!(teeth_of(&step), None);
        assert_eq!(teeth_of(&[1.0; 500]), None);
        assert_eq!(teeth_of(&[]), None);
    }
}
