//! Values that stand apart from all others: a scrape gone wrong, an hour of a runaway job.
//!
//! They are part of no level, season or trend, so models do not see them. How often they came says how likely another
//! comes.

/// Events that may stand apart: what comes more often is what the series does.
const EVENTS: usize = 3;

/// They are so many times further from the middle of their surroundings than anything else.
const APART: f64 = 4.0;

/// Values that must have come since, for it to be known that it is over.
const SINCE: usize = 3;

/// What stands apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bursts {
    /// Places of the values.
    pub places: Vec<usize>,
    /// Of each event that rose, how far above its surroundings.
    pub heights: Vec<f64>,
}

/// What stands apart from the middle of the `stretch` (a day, of days a week) around it. Values one behind the other
/// are one event, of half a stretch at most.
pub fn bursts(values: &[f64], stretch: usize) -> Bursts {
    let longest = (stretch / 2).max(1);
    let apart: Vec<f64> = (0..values.len()).map(|at| values[at] - middle(values, at, stretch)).collect();
    let mut by_size: Vec<usize> = (0..apart.len()).filter(|at| apart[*at].is_finite()).collect();
    by_size.sort_by(|a, b| apart[*b].abs().total_cmp(&apart[*a].abs()).then(a.cmp(b)));
    // The events with the largest values, until there is one too many: its largest value is what is usual.
    let mut events: Vec<(usize, usize)> = Vec::new();
    let mut usual = 0.0;
    for at in by_size {
        if let Some(event) = events.iter_mut().find(|(from, to)| at + 1 == *from || at == to + 1) {
            *event = (event.0.min(at), event.1.max(at));
        } else if events.len() < EVENTS {
            events.push((at, at));
        } else {
            usual = apart[at].abs();
            break;
        }
    }
    let size = |(from, to): &(usize, usize)| apart[*from..=*to].iter().fold(0.0f64, |most, own| most.max(own.abs()));
    let is_over = |(_, to): &(usize, usize)| {
        values.get(to + 1..).is_some_and(|rest| rest.iter().filter(|value| value.is_finite()).count() >= SINCE)
    };
    events.retain(|event| size(event) > APART * usual && event.1 - event.0 < longest && is_over(event));
    events.sort_unstable();
    let highest = |(from, to): &(usize, usize)| apart[*from..=*to].iter().copied().fold(0.0, f64::max);
    Bursts {
        places: events.iter().flat_map(|(from, to)| *from..=*to).collect(),
        heights: events.iter().map(highest).filter(|height| *height > 0.0).collect(),
    }
}

/// The median of the known values of a stretch around a place.
fn middle(values: &[f64], at: usize, stretch: usize) -> f64 {
    let half = stretch.div_ceil(2);
    let around = &values[at.saturating_sub(half)..(at + half + 1).min(values.len())];
    let mut known: Vec<f64> = around.iter().copied().filter(|value| value.is_finite()).collect();
    if known.is_empty() {
        return f64::NAN;
    }
    let middle = known.len() / 2;
    *known.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(at: usize) -> f64 {
        100.0 + f64::from(u8::from((8..18).contains(&(at % 24)))) * 50.0 + (at % 7) as f64 + at as f64 / 10.0
    }

    #[test]
    fn one_hour_of_many_stands_apart() {
        let mut values: Vec<f64> = (0..480).map(day).collect();
        assert_eq!(bursts(&values, 24), Bursts::default());
        values[200] = 1e9;
        values[300] = 5_000.0;
        values[301] = 4_000.0;
        values[400] = -9_000.0;
        let found = bursts(&values, 24);
        assert_eq!(found.places, [200, 300, 301, 400]);
        assert_eq!(found.heights.len(), 2, "what falls reaches no limit");
        assert!(found.heights[0] > 9e8 && (4_700.0..4_900.0).contains(&found.heights[1]), "{:?}", found.heights);
    }

    #[test]
    fn what_recurs_or_lasts_or_is_new_does_not() {
        let mut often: Vec<f64> = (0..480).map(day).collect();
        (0..4).for_each(|k| often[100 + 90 * k] = 5_000.0);
        assert_eq!(bursts(&often, 24), Bursts::default());
        let mut level: Vec<f64> = (0..480).map(day).collect();
        level[240..].iter_mut().for_each(|value| *value += 5_000.0);
        assert_eq!(bursts(&level, 24), Bursts::default());
        let mut new: Vec<f64> = (0..480).map(day).collect();
        new[478] = 5_000.0;
        assert_eq!(bursts(&new, 24), Bursts::default());
        assert_eq!(bursts(&[], 24), Bursts::default());
        assert_eq!(bursts(&[f64::NAN; 9], 24), Bursts::default());
    }
}
