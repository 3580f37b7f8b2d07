//! Episodes in words: what they did to requests, what may have caused them, and a headline that can be read aloud.

use super::calm::NOTED_SHARE;
use super::causes::{Words, causes};
use crate::analysis::failure::Fault;
use crate::analysis::judge::Episode as Judgement;
use crate::analysis::judge::profile::{Profile, Sums};
use crate::analysis::judge::signals::{Deviation, Signal};
use crate::analysis::judge::vitals::{Vital, Vitals};
use crate::model::cause::{Cause, Source};
use crate::model::episode::{Effect, Episode, Failure, Grade, Measure, SignalSpan, State};
use crate::model::report::Finding;
use crate::model::time::{self, MINUTE, Micros, SECOND, Span};
use crate::model::units::{bytes, counted, duration, percent, significant};

/// A change by less is not worth a word.
const NOTABLE: f64 = 1.5;
/// Memory or a database that grew by so much has grown.
const GROWN: f64 = 1.3;
/// Fewer requests have no 99th percentile.
const MIN_TIMED: f64 = 100.0;
/// Effects that a headline names.
const NAMED: usize = 2;

/// What a number is measured in, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Seconds,
    PerSecond,
    Share,
}

impl Form {
    fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1.0 => format!("{} ms", significant(value * 1e3)),
            Self::Seconds => format!("{} s", significant(value)),
            Self::Share => percent(value),
            Self::PerSecond if value <= 0.0 => "0".to_owned(),
            Self::PerSecond => format!("{}/s", significant(value)),
        }
    }
}

/// An episode as a report shows it. `ids` are those that are taken.
pub fn episode(words: Words<'_>, vitals: Option<&Vitals>, ids: &mut Vec<String>) -> Episode {
    let own = words.episode;
    let mut effects = effects(own, vitals);
    // Of a surge nobody noticed the latency: load comes first.
    effects.sort_by_key(|effect| own.grade == Grade::Surge && effect.name == "p99_s");
    let causes = causes(words);
    let mut id = format!("e-{}", time::format(own.from - own.from.rem_euclid(MINUTE)).replace([':', '-'], ""));
    if let Some(cut) = id.find('.') {
        id.truncate(cut);
    }
    let base = id.clone();
    let mut number = 1;
    while ids.contains(&id) {
        number += 1;
        id = format!("{base}-{number}");
    }
    ids.push(id.clone());
    let headline = headline(own, &effects, &causes);
    Episode {
        id,
        grade: own.grade,
        state: own.state,
        from: own.from,
        to: own.to,
        slack: own.slack,
        is_given: own.is_given,
        baseline: own.baseline,
        counted: own.counted.clone(),
        rates: rates(own),
        confidence: confidence(own),
        headline,
        signals: own.deviations.iter().map(signal).collect(),
        effects,
        failures: failures(own),
        causes,
    }
}

/// What was asked for by second, by what the headline's numbers are of.
fn rates(own: &Judgement) -> Vec<(Measure, [f64; 2])> {
    let Some((_, profiles)) = own.profiles.first().filter(|_| has_baseline(own)) else { return Vec::new() };
    let rate = |of: fn(&Profile) -> f64| profiles.each_ref().map(|profile| of(profile) / profile.seconds.max(1.0));
    vec![
        (Measure::Requests, rate(|own| own.tiles.requests)),
        (Measure::Lists, rate(|own| own.tiles.lists)),
        (Measure::Errors, rate(|own| own.tiles.failed())),
        (Measure::Throttled, rate(|own| own.tiles.rejected())),
    ]
}

/// An episode as a finding: of whoever lists episodes, and of a report about a surge.
pub fn finding(own: &Episode) -> Finding {
    Finding::new("episode", own.grade.severity(), &[("episode", own.id.as_str())])
        .confidence(own.confidence)
        .seen((own.from, own.to))
        .summary(own.headline.trim_end_matches('.'))
        .remedy(own.causes.first().map(Cause::remedy).unwrap_or_default())
}

/// What messages of requests name, as far as audit logs show them.
fn failures(own: &Judgement) -> Vec<Failure> {
    let failure = |(fault, name, count): (Fault, &str, f64)| Failure {
        fault: fault.name(),
        words: fault.words(),
        name: name.to_owned(),
        requests: count.round() as u64,
    };
    own.faults.ranked().into_iter().map(failure).filter(|own| own.requests > 0).collect()
}

fn signal(own: &Deviation) -> SignalSpan {
    let Deviation { signal, source, span, level, baseline, .. } = own;
    SignalSpan { name: signal.name(), source: *source, span: *span, level: *level, baseline: *baseline }
}

/// How likely it is that there was an episode of this grade: an impact of many requests for long is no chance.
fn confidence(own: &Judgement) -> f64 {
    if own.is_given {
        return 1.0;
    }
    let score: f64 = own
        .deviations
        .iter()
        .map(|deviation| if deviation.signal.is_felt() { deviation.weight / 10.0 } else { deviation.weight / 8.0 })
        .sum();
    (score / (score + 1.0)).min(0.99)
}

/// What it did, the gravest first: what users notice, then load, then what grew.
fn effects(own: &Judgement, vitals: Option<&Vitals>) -> Vec<Effect> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, words: &'static str, form: Form, [before, within]: [f64; 2], source: Source| {
        let shown = [before, within].map(|value| form.show(value));
        all.push(Effect { name, words, before, within, shown, source });
    };
    let Some((source, [before, within])) = own.profiles.first().map(|(source, profiles)| (*source, profiles)) else {
        return all;
    };
    if !has_baseline(own) {
        return all;
    }
    let rate = |of: fn(&Profile) -> f64| [before, within].map(|profile| of(profile) / profile.seconds.max(1.0));
    let p99 = [before, within].map(|profile| profile.alike.quantile(0.99).unwrap_or(0.0));
    if within.alike.count() >= MIN_TIMED && p99[1] >= NOTABLE * p99[0] && p99[1] >= 0.01 {
        add("p99_s", "p99", Form::Seconds, p99, source);
    }
    type Bad = (&'static str, &'static str, fn(&Profile) -> f64);
    let bad: [Bad; 2] =
        [("errors_per_s", "5xx", |own| own.tiles.failed()), ("throttled_per_s", "429s", |own| own.tiles.rejected())];
    // One client that is refused is no impact on others.
    let refused: Bad = ("refused_writes_per_s", "refused writes", |own| own.tiles.refused[0]);
    let unauthorized: Bad = ("unauthorized_per_s", "401s", |own| own.tiles.unauthorized);
    let of_many = [(Signal::RefusedWrites, refused), (Signal::Unauthorized, unauthorized)];
    let of_many = of_many.into_iter().filter(|(signal, _)| own.has(signal)).map(|own| own.1);
    for (name, words, of) in bad.into_iter().chain(of_many) {
        let values = rate(of);
        if values[1] >= NOTABLE * values[0] && values[1] >= 0.05 {
            add(name, words, Form::PerSecond, values, source);
        }
    }
    // Where load rose, what fell is its frame and no effect of it.
    let is_fall = |values: [f64; 2]| values[0] >= NOTABLE * values[1] && values[0] >= 0.5 && own.grade < Grade::Surge;
    for (name, words, of) in [
        ("rps", "requests", (|own: &Profile| own.tiles.requests) as fn(&Profile) -> f64),
        ("lists_per_s", "LISTs", |own| own.tiles.lists),
        ("writes_per_s", "writes", |own| own.tiles.writes),
        ("watches_per_s", "watch starts", |own| own.tiles.watches),
    ] {
        let values = rate(of);
        // Pages count watches when they end.
        if name == "watches_per_s" && source == Source::Metrics {
            continue;
        }
        if values[1] >= NOTABLE * values[0] && values[1] >= 0.5 || is_fall(values) {
            add(name, words, Form::PerSecond, values, source);
        }
    }
    if all.is_empty() && own.grade != Grade::Degraded {
        all.extend(own.deviations.iter().filter_map(deviating));
    }
    let Some(vitals) = vitals else { return all };
    for (name, words, vital) in [
        ("resident_bytes", "memory of the largest process", Vital::Resident),
        ("database_bytes", "etcd database size", Vital::DatabaseSize),
    ] {
        let values = [own.baseline, (own.from, own.to)].map(|span| vitals.highest(vital, span).unwrap_or(0.0));
        if values[0] > 0.0 && values[1] >= GROWN * values[0] {
            let shown = values.map(bytes);
            all.push(Effect { name, words, before: values[0], within: values[1], shown, source: Source::Metrics });
        }
    }
    if let Some((rate, seconds)) =
        vitals.mean(Vital::FailedOpen, (own.from, own.to), |_| true).filter(|own| own.0 * own.1 >= 1.0)
    {
        let shown = ["0".to_owned(), format!("{:.0}", rate * seconds)];
        let words = "requests that a failing webhook let through";
        all.push(Effect {
            name: "failed_open",
            words,
            before: 0.0,
            within: rate * seconds,
            shown,
            source: Source::Metrics,
        });
    }
    all
}

/// What a signal did: of an episode whose requests are too few for a quantile, or in which only those of one client or
/// class changed.
fn deviating(own: &Deviation) -> Option<Effect> {
    let (name, words) = match &own.signal {
        Signal::Slow(None) => ("slow_share", "slow requests"),
        Signal::Slow(Some(0)) => ("slow_reads_share", "slow reads"),
        Signal::Slow(Some(1)) => ("slow_lists_share", "slow LISTs"),
        Signal::Slow(Some(_)) => ("slow_writes_share", "slow writes"),
        Signal::Errors => ("errors_share", "requests with 5xx"),
        Signal::FailedWrites => ("failed_writes_share", "writes with 5xx"),
        Signal::RefusedWrites => ("refused_writes_share", "refused writes"),
        Signal::Unauthorized => ("unauthorized_share", "requests with 401"),
        Signal::Throttled => ("throttled_share", "requests with 429"),
        Signal::Requests => ("rps", "requests"),
        Signal::Lists => ("lists_per_s", "LISTs"),
        Signal::Writes => ("writes_per_s", "writes"),
        Signal::Caller(_) => ("client_rps", "requests of one client"),
        _ => return None,
    };
    let form = if own.signal.is_load() { Form::PerSecond } else { Form::Share };
    let (before, within) = (own.baseline, own.level);
    Some(Effect {
        name,
        words,
        before,
        within,
        shown: [before, within].map(|value| form.show(value)),
        source: own.source,
    })
}

/// Whether there is another time to compare it with.
fn has_baseline(own: &Judgement) -> bool {
    own.profiles.first().is_some_and(|(_, [before, _])| before.seconds > 0.0)
}

/// So much time beside a window is hardly any, in µs.
const HARDLY_ANY: Micros = 30 * SECOND;

/// Why a window that somebody named is none.
fn nothing(own: &Judgement) -> String {
    let within = || own.profiles.iter().map(|(_, [_, within])| &within.tiles);
    if within().all(|tiles| tiles.requests == 0.0) {
        return "no request is known of it".to_owned();
    }
    // Where there is no other time, it is compared with itself.
    let is_other = |span: &&Span| span.1 <= own.from || span.0 >= own.to;
    if own.counted[1].iter().filter(is_other).map(|span| span.1 - span.0).sum::<Micros>() < HARDLY_ANY {
        return "there is hardly any other time that it could be compared with".to_owned();
    }
    // What was counted stands in the table below it.
    let most = |of: fn(&Sums) -> f64| within().map(of).fold(0.0, f64::max) as u64;
    let [throttled, errors] = [most(|tiles| tiles.throttled), most(|tiles| tiles.errors)];
    let some = [(throttled, "429"), (errors, "failure")].into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, what)| counted(count, what)).collect();
    let but = if some.is_empty() { String::new() } else { format!(" ({} in it)", some.join(", ")) };
    format!("latency, 429s and 5xx stayed near their baseline{but}")
}

/// No request of a control plane that is well takes so long, s (the objective for requests of one object).
const SLOW_S: f64 = 1.0;

/// What requests suffer in an episode, where nothing is known of another time.
fn bare(own: &Judgement) -> String {
    let Some((_, [_, within])) = own.profiles.first() else { return String::new() };
    let Sums { requests, errors, throttled, .. } = within.tiles;
    let part = |count: f64, what: &str| {
        (count >= NOTED_SHARE * requests && count > 0.0)
            .then(|| format!("{} of {} {what}", percent(count / requests), counted(requests as u64, "request")))
    };
    let slow = within.latency.quantile(0.99).filter(|own| *own >= SLOW_S);
    let all = [part(errors, "failed (5xx)"), part(throttled, "were throttled (429)")].into_iter().flatten();
    let all: Vec<String> = all.chain(slow.map(|own| format!("p99 {}", Form::Seconds.show(own)))).collect();
    if all.is_empty() { String::new() } else { format!("{}; ", all.join(", ")) }
}

/// One sentence that says it all: grade, state, impact with its baseline, likely cause.
fn headline(own: &Judgement, effects: &[Effect], causes: &[Cause]) -> String {
    let lasted = duration(own.to - own.from);
    let state = match own.state {
        State::Ongoing => format!("ongoing for {lasted}"),
        State::Ended => format!("for {lasted}, ended"),
        State::Unknown => format!("for {lasted} and beyond"),
    };
    if own.grade == Grade::None {
        return format!("NO INCIDENT FOUND in the {lasted} named: {}.", nothing(own));
    }
    let unnoticed = if own.grade == Grade::Surge { ", without impact on clients" } else { "" };
    let grade = own.grade.name().to_uppercase();
    let change = |effect: &Effect| format!("{} {} → {}", effect.words, effect.shown[0], effect.shown[1]);
    let impact: Vec<String> = effects.iter().take(NAMED).map(change).collect();
    let impact = match impact.as_slice() {
        [] if !has_baseline(own) => format!("{}the record has no other time to compare it with", bare(own)),
        [] if own.grade == Grade::Degraded => "hardly any impact on clients".to_owned(),
        [] => "requests, latency and errors changed by less than half".to_owned(),
        some => some.join(", "),
    };
    let cause = match causes.first() {
        Some(cause) if cause.confidence >= Cause::LIKELY => format!("; likely cause: {}", cause.summary),
        Some(cause) if cause.confidence >= Cause::POSSIBLE => format!("; possible cause: {}", cause.summary),
        // What answers nobody is an outage, unless nothing but the log itself shows it.
        _ if own.is_hole() => {
            let named: Vec<&str> = own.holes_in.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let of = if named.is_empty() { String::new() } else { format!(" of {}", named.join(", ")) };
            format!("; part of the audit log{of} may be missing, since no client had to reconnect")
        }
        _ => "; no likely cause found".to_owned(),
    };
    format!("{grade} {state}{unnoticed}: {impact}{cause}.")
}
