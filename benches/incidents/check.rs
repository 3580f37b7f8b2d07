//! Checks of the generator itself.

use crate::case::Case;
use crate::rng::{exp, hash, ln, normal, poisson, sin};
use crate::sim::{End, Sink, simulate};
use crate::truth::prepare;
use crate::{Options, each};
use plimsoll::analysis::judge::Requests;

/// What a row of a case comes to, as one number.
fn digest(requests: &dyn Requests) -> (u64, f64) {
    let (mut sum, mut count) = (0u64, 0.0);
    requests.each(&mut |row| {
        let latency =
            row.latency.iter().fold(0, |sum, own| hash(sum, u64::from(own.0.to_bits()), u64::from(own.1.to_bits()), 1));
        let place = hash(row.tile as u64, row.caller as u64, row.kind as u64, row.instance as u64);
        let own = hash(place, row.requests.to_bits(), row.errors.to_bits() ^ row.throttled.to_bits(), latency);
        sum = hash(sum, own, 0, 0);
        count += row.requests;
    });
    (sum, count)
}

/// Counts requests that arrive before a moment, by stream and latency.
struct Before {
    until: f64,
    sum: u64,
}

impl Sink for Before {
    fn end(&mut self, end: &End) {
        if end.at < self.until {
            self.sum = hash(self.sum, end.at.to_bits(), u64::from(end.stream), u64::from(end.count));
        }
    }
}

/// Runs all of them.
pub fn run(options: &Options) -> Result<(), String> {
    functions()?;
    let options = Options { cases: options.cases.min(50), half: None, ..options.clone() };
    let all = each(&options, |seed| -> Result<u64, String> {
        let ready = prepare(seed);
        let own = ready.totals;
        let sum = own.ends + own.beyond + own.waiting + own.lost;
        if sum != own.arrivals {
            return Err(format!("seed {seed}: {} requests arrive, {sum} are accounted for: {own:?}", own.arrivals));
        }
        let (audit, count) = digest(&ready.audit);
        if (count - ready.audit.counted as f64).abs() > 0.5 || ready.audit.counted > own.ends {
            return Err(format!("seed {seed}: rows hold {count} requests, {} ended", own.ends));
        }
        // All that ended in time is there.
        if (own.ends as f64 - count) > 0.0 {
            return Err(format!("seed {seed}: {} ended, rows hold {count}", own.ends));
        }
        if let Some(first) = ready.truths.iter().map(|own| own.from).min() {
            let until = (first - ready.case.begin) as f64 / 1e6 - 1.0;
            let earliest = ready.case.activities.iter().map(|own| own.1).fold(until, f64::min);
            let earliest = ready.case.plans.iter().map(|own| own.from).fold(earliest, f64::min);
            let case = Case::new(seed, 1.0);
            let run = |effects: &[crate::sim::Effect]| {
                // What begins within a step is spread over all of it, and steps are up to 30 s long.
                let mut before = Before { until: earliest - 30.0, sum: 0 };
                simulate(&case.cluster, effects, &case.steps(), &mut before);
                before.sum
            };
            if run(&case.effects) != run(&case.effects[..case.of_load]) {
                return Err(format!("seed {seed}: an episode changes what was before it"));
            }
        }
        Ok(hash(audit, digest(&ready.metrics).0, 0, 0))
    });
    let mut sum = 0;
    for (seed, own) in all {
        sum = hash(sum, seed, own?, 0);
    }
    println!("{} cases conserve their requests; digest {sum:016x}", options.cases);
    Ok(())
}

fn functions() -> Result<(), String> {
    for n in -60..60 {
        let x = f64::from(n) * 0.37;
        let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-3);
        if !is_near(exp(x), x.exp())
            || !is_near(sin(x), (x * std::f64::consts::TAU).sin())
            || n > 0 && !is_near(ln(x), x.ln())
        {
            return Err(format!("a function is wrong at {x}"));
        }
    }
    if (normal(0.975) - 1.959_963_985).abs() > 1e-6 {
        return Err(format!("the normal quantile is {}", normal(0.975)));
    }
    for mean in [0.1, 3.0, 80.0] {
        let count = 20_000;
        let sum: u64 = (0..count).map(|n| u64::from(poisson(mean, hash(n, 1, 2, 3)))).sum();
        let error = (sum as f64 / count as f64 - mean).abs();
        if error > 5.0 * (mean / count as f64).sqrt() {
            return Err(format!("counts of {mean} are off by {error}"));
        }
    }
    Ok(())
}
