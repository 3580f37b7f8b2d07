//! How right a judge is.

use crate::case::Case;
use crate::judging::{Found, Input, Judge};
use crate::truth::{Grade, Truth, prepare};
use crate::{Options, each};
use plimsoll::model::time::{Micros, SECOND};
use std::collections::BTreeMap;
use std::io::Write as _;

/// Found is what overlaps by this part of both together.
const OVERLAP: f64 = 0.5;
const BINS: usize = 10;

/// An episode of a case, and what the judge made of it.
#[derive(Debug, Clone)]
struct Scored {
    kind: &'static str,
    strength: f64,
    seconds: f64,
    felt: bool,
    by_client: bool,
    /// Overlap of the episode that was found for it, 0 if none was.
    overlap: f64,
    edges: bool,
    kind_right: bool,
    caller_right: Option<bool>,
    grade: Option<Grade>,
}

/// What a judge made of a case in one form.
#[derive(Debug, Clone, Default)]
struct Result {
    hours: f64,
    is_quiet: bool,
    episodes: Vec<Scored>,
    /// Episodes that were found where there are none: grade, and whether harmless activity was there.
    alarms: Vec<(Grade, bool)>,
    /// First causes: confidence, and whether it is right.
    causes: Vec<(f64, bool)>,
    seconds: f64,
}

fn overlap(a: (Micros, Micros), b: (Micros, Micros)) -> f64 {
    let both = (a.1.min(b.1) - a.0.max(b.0)).max(0) as f64;
    let any = (a.1.max(b.1) - a.0.min(b.0)).max(1) as f64;
    both / any
}

/// How finely a form of input shows time, in µs.
fn resolution(case: &Case, input: Input) -> Micros {
    let seconds = if input == Input::Metrics { case.pages.every } else { crate::audit::tile_of(case.span) };
    (seconds * SECOND as f64) as Micros
}

/// Which episode was found for which: the pairs that overlap most, one to one. An end that is right to within the
/// resolution counts as exact: nobody can say that 40 s within a minute's tile were not the other 40 s.
pub fn pairs(truths: &[Truth], found: &[Found], resolution: Micros) -> Vec<Option<(usize, f64)>> {
    let snap = |at: Micros, to: Micros| if (at - to).abs() <= resolution { to } else { at };
    let mut all: Vec<(f64, usize, usize)> = Vec::new();
    for (place, own) in truths.iter().enumerate() {
        for (other, found) in found.iter().enumerate() {
            // The judge may see the cause, or what goes on behind it.
            let to = |to: Micros| overlap((own.from, to), (snap(found.from, own.from), snap(found.to, to)));
            let most = [own.to, own.cause_to, own.back_to].map(to).into_iter().fold(0.0, f64::max);
            if most >= OVERLAP {
                all.push((most, place, other));
            }
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut of = vec![None; truths.len()];
    let mut taken = vec![false; found.len()];
    for (overlap, place, other) in all {
        if of[place].is_none() && !taken[other] {
            (of[place], taken[other]) = (Some((other, overlap)), true);
        }
    }
    of
}

/// Whether a kind of cause is right, given what a form of input can show: memory is in no audit log, and metrics name
/// nobody, so that what one asks for shows as one kind of requests that grew.
pub fn is_kind(truth: &Truth, kind: &str, input: Input) -> bool {
    let is_grown = input == Input::Metrics && kind == "request-surge";
    kind == truth.kind
        || match truth.kind {
            "memory" => kind == "relist-storm" && (matches!(input, Input::Audit | Input::Writes) || !truth.has_cgroups),
            "client-surge" => {
                is_grown || input == Input::Metrics && kind == "expensive-lists" && truth.variant == "list"
            }
            "write-burst" | "cascade-delete" => is_grown,
            _ => false,
        }
}

/// Whether a cause is right.
pub fn is_right(truth: &Truth, kind: &str, caller: Option<&[String; 2]>, input: Input) -> bool {
    let is_named = input != Input::Metrics && truth.caller.is_some();
    is_kind(truth, kind, input) && (!is_named || truth.caller.as_ref() == caller)
}

fn score(seed: u64, judge: Judge, inputs: &[Input]) -> Vec<Result> {
    let ready = prepare(seed);
    let mut all = Vec::new();
    for input in inputs {
        let begin = std::time::Instant::now();
        let found = judge.judge(&ready, *input);
        let seconds = begin.elapsed().as_secs_f64();
        let of = pairs(&ready.truths, &found, resolution(&ready.case, *input));
        let mut result =
            Result { hours: ready.case.span / 3600.0, is_quiet: ready.truths.is_empty(), seconds, ..Result::default() };
        let tile = if *input == Input::Metrics { 0.0 } else { crate::audit::tile_of(ready.case.span) };
        let page = if matches!(input, Input::Audit | Input::Writes) { 0.0 } else { ready.case.pages.every };
        for (truth, pair) in ready.truths.iter().zip(&of) {
            let length = (truth.to - truth.from) as f64 / SECOND as f64;
            let slack = ((length / 10.0).max(10.0).max(tile).max(page) * SECOND as f64) as Micros;
            let mut scored = Scored {
                kind: truth.kind,
                strength: truth.strength,
                seconds: length,
                felt: truth.felt,
                by_client: truth.caller.is_some() && *input != Input::Metrics,
                overlap: 0.0,
                edges: false,
                kind_right: false,
                caller_right: None,
                grade: None,
            };
            if let Some((place, overlap)) = pair {
                let own = &found[*place];
                let ends = [truth.to, truth.cause_to, truth.back_to];
                scored.overlap = *overlap;
                scored.edges =
                    (own.from - truth.from).abs() <= slack && ends.iter().any(|end| (own.to - end).abs() <= slack);
                scored.grade = Some(own.grade);
                let first = own.causes.first();
                scored.kind_right = first.is_some_and(|cause| is_kind(truth, cause.kind, *input));
                // The first client that is named, by whatever cause.
                let client = own.causes.iter().find_map(|cause| cause.caller.as_ref());
                scored.caller_right = scored.by_client.then_some(client.is_some() && client == truth.caller.as_ref());
                if let Some(cause) = first {
                    let right = is_right(truth, cause.kind, cause.caller.as_ref(), *input);
                    result.causes.push((cause.confidence, right));
                }
            }
            result.episodes.push(scored);
        }
        for (place, own) in found.iter().enumerate() {
            let span = (own.from, own.to);
            let is_paired = of.iter().any(|pair| pair.is_some_and(|pair| pair.0 == place));
            // What lies within an episode, or around it, is a wrong window and no alarm.
            let touches = |truth: &Truth| truth.from < span.1 && span.0 < truth.to;
            if is_paired || ready.truths.iter().any(touches) {
                continue;
            }
            let micros = |t: f64| ready.case.begin + (t * SECOND as f64) as Micros;
            let near = |own: &(&str, f64, f64)| micros(own.1 - 30.0) < span.1 && span.0 < micros(own.2 + 60.0);
            result.alarms.push((own.grade, ready.case.activities.iter().any(near)));
            if let Some(cause) = own.causes.first().filter(|_| own.grade <= Grade::Incident) {
                result.causes.push((cause.confidence, false));
            }
        }
        all.push(result);
    }
    all
}

fn percent(part: usize, all: usize) -> String {
    if all == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * part as f64 / all as f64) }
}

/// A row of the table, of some episodes.
fn row(name: &str, own: &[&Scored]) {
    let count = |is: &dyn Fn(&Scored) -> bool| own.iter().filter(|own| is(own)).count();
    let found = count(&|own| own.overlap > 0.0);
    let by_client = count(&|own| own.by_client && own.overlap > 0.0);
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} |",
        own.len(),
        percent(found, own.len()),
        percent(count(&|own| own.grade.is_some_and(|grade| grade <= Grade::Incident)), own.len()),
        percent(count(&|own| own.edges), found),
        percent(count(&|own| own.kind_right), found),
        percent(count(&|own| own.caller_right == Some(true)), by_client),
    );
}

const HEAD: &str =
    "| | episodes | found % | as incident % | both ends % | kind % | client % |\n|---|--:|--:|--:|--:|--:|--:|";

fn calibration(results: &[&Result]) {
    let mut all: Vec<(f64, bool)> = results.iter().flat_map(|own| own.causes.iter().copied()).collect();
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut error, mut begin) = (0.0, 0);
    let mut bins = Vec::new();
    for bin in 0..BINS {
        let end = all.len() * (bin + 1) / BINS;
        let own = &all[begin..end];
        begin = end;
        if own.is_empty() {
            continue;
        }
        let mean = own.iter().map(|own| own.0).sum::<f64>() / own.len() as f64;
        let right = own.iter().filter(|own| own.1).count() as f64 / own.len() as f64;
        error += (mean - right).abs() * own.len() as f64 / all.len() as f64;
        bins.push(format!("{mean:.2}:{right:.2}"));
    }
    let sure: Vec<&(f64, bool)> = all.iter().filter(|own| own.0 >= 0.8).collect();
    println!(
        "calibration: error {error:.3} over {} first causes; very likely {} times, right {} %; bins (said:right) {}",
        all.len(),
        sure.len(),
        percent(sure.iter().filter(|own| own.1).count(), sure.len()),
        bins.join(" "),
    );
}

/// Prints the tables of some judges.
pub fn print(options: &Options, judges: &[Judge]) {
    for judge in judges {
        let begin = std::time::Instant::now();
        let all = each(options, |seed| score(seed, *judge, &options.inputs));
        println!("## {} on {} cases ({})\n", judge.name(), all.len(), options.half.unwrap_or("both halves"));
        for (place, input) in options.inputs.iter().enumerate() {
            let results: Vec<&Result> = all.iter().map(|(_, own)| &own[place]).collect();
            table(*input, &results);
            worst(&all, place);
        }
        println!("{:.1} s in all\n", begin.elapsed().as_secs_f64());
    }
}

fn table(input: Input, results: &[&Result]) {
    println!("### {}\n\n{HEAD}", input.name());
    let episodes: Vec<&Scored> = results.iter().flat_map(|own| &own.episodes).collect();
    let felt: Vec<&Scored> = episodes.iter().copied().filter(|own| own.felt).collect();
    row("felt", &felt);
    row("not felt", &episodes.iter().copied().filter(|own| !own.felt).collect::<Vec<_>>());
    let mut groups: BTreeMap<(u8, &str), Vec<&Scored>> = BTreeMap::new();
    let bounds = [(1.5, "x1.2-1.5"), (3.0, "x1.5-3"), (6.0, "x3-6"), (15.0, "x6-15"), (f64::INFINITY, "x15-40")];
    let lengths = [(60.0, "20-60 s"), (300.0, "1-5 min"), (1800.0, "5-30 min"), (f64::INFINITY, "30 min-2 h")];
    for own in &felt {
        groups.entry((0, own.kind)).or_default().push(own);
        for (group, value, bounds) in [(1, own.strength, &bounds[..]), (2, own.seconds, &lengths[..])] {
            if let Some(place) = bounds.iter().position(|bound| value < bound.0) {
                groups.entry((group * 10 + place as u8, bounds[place].1)).or_default().push(own);
            }
        }
    }
    for ((_, name), own) in &groups {
        row(name, own);
    }
    let quiet: Vec<&&Result> = results.iter().filter(|own| own.is_quiet).collect();
    let hours: f64 = quiet.iter().map(|own| own.hours).sum();
    let count = |of: &[&&Result], is: &dyn Fn(&(Grade, bool)) -> bool| -> usize {
        of.iter().map(|own| own.alarms.iter().filter(|alarm| is(alarm)).count()).sum()
    };
    let by = |count: usize, per: f64| count as f64 / hours.max(1e-9) * per;
    let serious = count(&quiet, &|own| own.0 <= Grade::Incident);
    let surges = count(&quiet, &|own| own.0 == Grade::Surge);
    println!(
        "\nquiet load, {hours:.0} h in {} cases: {serious} incidents or outages ({:.2} in 100 h), {} degraded, \
         {surges} surges \
         ({:.2} in 20 h; {:.2} without those at a harmless activity)",
        quiet.len(),
        by(serious, 100.0),
        count(&quiet, &|own| own.0 == Grade::Degraded),
        by(surges, 20.0),
        by(count(&quiet, &|own| own.0 == Grade::Surge && !own.1), 20.0),
    );
    let busy: Vec<&&Result> = results.iter().filter(|own| !own.is_quiet).collect();
    let hours: f64 = busy.iter().map(|own| own.hours).sum();
    println!(
        "beside episodes, {hours:.0} h in {} cases: {} false incidents or outages, {} surges",
        busy.len(),
        count(&busy, &|own| own.0 <= Grade::Incident),
        count(&busy, &|own| own.0 == Grade::Surge),
    );
    calibration(results);
    let longest = results.iter().map(|own| own.seconds).fold(0.0, f64::max);
    let sum: f64 = results.iter().map(|own| own.seconds).sum();
    println!("judging took {sum:.1} s, {longest:.2} s at most\n");
}

/// Seeds to look at.
fn worst(all: &[(u64, Vec<Result>)], place: usize) {
    let seeds = |is: &dyn Fn(&Result) -> bool| {
        let own = all.iter().filter(|(_, own)| is(&own[place])).take(25).map(|own| own.0.to_string());
        own.collect::<Vec<_>>().join(" ")
    };
    let any = |own: &Result, is: &dyn Fn(&Scored) -> bool| own.episodes.iter().any(|own| own.felt && is(own));
    println!("not found: {}", seeds(&|own| any(own, &|own| own.overlap == 0.0)));
    println!("wrong ends: {}", seeds(&|own| any(own, &|own| own.overlap > 0.0 && !own.edges)));
    println!("wrong kind: {}", seeds(&|own| any(own, &|own| own.overlap > 0.0 && !own.kind_right)));
    println!("wrong client: {}", seeds(&|own| any(own, &|own| own.caller_right == Some(false))));
    println!("false incidents: {}", seeds(&|own| own.alarms.iter().any(|alarm| alarm.0 <= Grade::Incident)));
    println!("false surges: {}", seeds(&|own| own.is_quiet && own.alarms.iter().any(|alarm| alarm.0 == Grade::Surge)));
    println!("wrong and sure: {}\n", seeds(&|own| own.causes.iter().any(|own| own.0 >= 0.8 && !own.1)));
}

/// One line for each feature of each candidate of each episode that was found: right or not.
pub fn features(options: &Options) {
    println!("case,form,episode,candidate,kind,caller,is_right,confidence,feature,source,value");
    let all = each(options, |seed| {
        let ready = prepare(seed);
        let mut lines = String::new();
        for input in &options.inputs {
            let found = Judge::Own.judge(&ready, *input);
            let of = pairs(&ready.truths, &found, resolution(&ready.case, *input));
            for (place, own) in found.iter().enumerate() {
                let truth = of.iter().position(|pair| pair.is_some_and(|pair| pair.0 == place));
                let touches = ready.truths.iter().any(|truth| truth.from < own.to && own.from < truth.to);
                if truth.is_none() && (touches || own.grade > Grade::Incident) {
                    // Half of an episode says little about causes; and harmless activity has causes, too.
                    continue;
                }
                for (number, cause) in own.causes.iter().enumerate() {
                    let right =
                        truth.is_some_and(|at| is_right(&ready.truths[at], cause.kind, cause.caller.as_ref(), *input));
                    let who = cause.caller.as_ref().map_or("", |own| own[0].as_str());
                    let head = format!(
                        "{seed},{},{place},{number},{},{who},{},{:.4}",
                        input.name(),
                        cause.kind,
                        u8::from(right),
                        cause.confidence,
                    );
                    for (name, source, value) in &cause.features {
                        lines.push_str(&format!("{head},{name},{source},{value:.6}\n"));
                    }
                    if cause.features.is_empty() {
                        lines.push_str(&format!("{head},,,\n"));
                    }
                }
            }
        }
        lines
    });
    // Whoever reads it may have enough.
    let mut out = std::io::stdout().lock();
    let _ = all.iter().try_for_each(|(_, lines)| out.write_all(lines.as_bytes()));
}
