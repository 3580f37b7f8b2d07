//! One case, for people; and the truths of all.

use crate::judging::{Input, Judge};
use crate::truth::{Ready, prepare};
use crate::{Options, each};
use plimsoll::analysis::judge::requests::{Class, Requests};
use plimsoll::model::time::{Micros, SECOND};

/// Columns of the chart.
const WIDTH: usize = 120;

fn seconds(ready: &Ready, at: Micros) -> f64 {
    (at - ready.case.begin) as f64 / SECOND as f64
}

/// What is true, what was judged, and a chart.
pub fn print(seed: u64) {
    let ready = prepare(seed);
    let case = &ready.case;
    println!(
        "seed {seed}: {} s from {}, {} apiservers, {} callers, {:.0} req/s, work {:.2} of {:.2} s/s each, trips {:.0} \
         of {:.0}/s, {:?}",
        case.span,
        case.begin,
        case.cluster.instances.len(),
        case.cluster.callers.len(),
        case.cluster.rate(),
        case.cluster.work(),
        case.cluster.cpu,
        case.cluster.trips(),
        case.cluster.etcd_rate,
        case.pages,
    );
    for (name, from, to) in &case.activities {
        println!("activity {name} {from:.0}..{to:.0}");
    }
    for (at, caller, objects) in &case.operations {
        println!("operation at {at:.0} by {} ({objects} objects)", case.cluster.callers[usize::from(*caller)][0]);
    }
    for own in &ready.truths {
        println!(
            "TRUTH {:?} {} ({}) x{:.1} {:.0}..{:.0} (cause until {:.0}) caller {:?} instance {:?} {:?}",
            own.grade,
            own.kind,
            own.variant,
            own.strength,
            seconds(&ready, own.from),
            seconds(&ready, own.to),
            seconds(&ready, own.cause_to),
            own.caller,
            own.instance,
            own.measured,
        );
    }
    for input in Input::ALL {
        for found in Judge::Own.judge(&ready, input) {
            let causes: Vec<String> = found
                .causes
                .iter()
                .take(3)
                .map(|cause| {
                    let who = cause.caller.as_ref().map_or("", |caller| caller[0].as_str());
                    format!("{} {} {:.2}", cause.kind, who, cause.confidence)
                })
                .collect();
            println!(
                "{:8} {:?} {:.0}..{:.0} {}",
                input.name(),
                found.grade,
                seconds(&ready, found.from),
                seconds(&ready, found.to),
                causes.join("; "),
            );
        }
    }
    chart("audit", &ready.audit);
    chart("metrics", &ready.metrics);
    println!("{:?}", ready.totals);
}

fn chart(name: &str, requests: &dyn Requests) {
    let grid = requests.grid();
    let len = grid.len();
    let mut values = vec![[0.0; 4]; WIDTH.min(len)];
    let columns = values.len();
    let classes: Vec<Class> = requests.kinds().iter().map(Class::of).collect();
    requests.each(&mut |row| {
        if classes[row.kind] == Class::Long {
            return;
        }
        let own = &mut values[row.tile * columns / len];
        own[0] += row.requests;
        own[1] += row.latency.iter().filter(|own| own.0 >= 0.5).map(|own| f64::from(own.1)).sum::<f64>();
        own[2] += row.errors;
        own[3] += row.throttled;
    });
    println!("{name}: {len} tiles of {} s", grid.tile / SECOND);
    for (place, title) in ["requests", "slow", "errors", "429"].iter().enumerate() {
        let top = values.iter().map(|own| own[place]).fold(0.0, f64::max);
        let bar: String = values
            .iter()
            .map(|own| {
                let level = if top > 0.0 { (own[place] / top * 8.0).ceil() as usize } else { 0 };
                [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][level.min(8)]
            })
            .collect();
        println!("{title:8} |{bar}| {top:.0}");
    }
}

/// One line of CSV for each episode.
pub fn truths(options: &Options) {
    let all = each(options, |seed| {
        let begin = std::time::Instant::now();
        let ready = prepare(seed);
        let head = format!("{seed},{},{},{}", ready.case.span, ready.case.activities.len(), ready.tamed);
        let took = begin.elapsed().as_secs_f64();
        let line = |own: &crate::truth::Truth| {
            format!(
                "{head},{},{},{:.2},{:.0},{:.0},{:?},{},{:?},{took:.2}",
                own.kind,
                own.variant,
                own.strength,
                seconds(&ready, own.from),
                seconds(&ready, own.to),
                own.grade,
                own.felt,
                own.measured,
            )
        };
        let mut lines: Vec<String> = ready.truths.iter().map(line).collect();
        if lines.is_empty() {
            lines.push(format!("{head},quiet,,,,,,,,{took:.2}"));
        }
        lines.join("\n")
    });
    println!("case,span_s,activities,tamed,kind,variant,strength,from_s,to_s,grade,felt,measured,took_s");
    all.iter().for_each(|(_, lines)| println!("{lines}"));
}
