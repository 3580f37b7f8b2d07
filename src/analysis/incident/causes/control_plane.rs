//! Causes that are apiservers': restarts, webhooks, load that is spread unevenly.

use super::super::timeline::starts;
use super::{Case, Draft, WITH};
use crate::analysis::metrics::catalogue::{Metric, Part};
use crate::analysis::metrics::facts::{Component, Facts};
use crate::model::incident::{Measure, Source};
use crate::model::time::{Micros, SECOND, clock};
use crate::model::units::{percent, significant};
use std::collections::BTreeMap;

/// So long before the window a restart may still be its cause.
const LONG_BEFORE: Micros = 120 * SECOND;
/// So long behind a restart clients list and watch anew.
const BEHIND: Micros = 30 * SECOND;

/// Apiservers that restarted, and what everyone asked for then.
pub(super) fn restarts(case: &Case<'_>) -> Vec<Draft> {
    if !case.read.contains(&Source::Metrics) {
        return Vec::new();
    }
    let started = starts(case.known.facts).into_iter().filter(|(at, component, _)| {
        *component == Component::Apiserver && (case.window.0 - LONG_BEFORE..case.window.1).contains(at)
    });
    let mut drafts: Vec<Draft> = started.map(|(at, _, name)| restart(case, at, &name)).collect();
    if drafts.is_empty() {
        let mut draft = Draft::new(
            "relist-storm",
            Vec::new(),
            "an apiserver restarted, and everyone listed and watched again".to_owned(),
        );
        draft.says(Source::Metrics, -2.0, "no apiserver started within the incident or the two minutes before it");
        drafts.push(draft);
    }
    drafts
}

fn restart(case: &Case<'_>, at: Micros, name: &str) -> Draft {
    let called = if name.is_empty() { "an apiserver" } else { name };
    let summary = format!("{called} restarted at {}, and everyone listed and watched again", clock(at));
    let mut draft = Draft::new("relist-storm", vec![("instance", name.to_owned())], summary);
    draft.says(Source::Metrics, 1.0, format!("its process started at {}", clock(at)));
    if let Some(pulse) = case.known.pulse {
        let before = case.known.calm.and_then(|calm| pulse.mean(Measure::Lists, calm)).unwrap_or(0.0);
        let behind = pulse.mean(Measure::Lists, (at, at + BEHIND)).unwrap_or(0.0);
        if behind > 2.0 * before {
            let text = format!(
                "{} LISTs a second in the half minute behind it, {} before the incident",
                significant(behind),
                significant(before)
            );
            draft.says(pulse.source, 1.0, text);
        } else {
            draft.says(pulse.source, -0.5, "LISTs did not rise behind it");
        }
    }
    let late = at - case.window.0;
    if late > WITH {
        draft.says(
            Source::Metrics,
            -1.5,
            format!("the incident had begun {} s before: it made things worse, but did not begin them", late / SECOND),
        );
    } else {
        draft.says(Source::Metrics, 1.5, "it came just before the incident, or as it began");
    }
    draft.cause.later.push(format!(
        "let clients use informers with bookmarks, so that they go on where they were: plimsoll clients {} --emit watch-cache",
        case.sources
    ));
    draft
}

/// Mean and count of webhooks' durations, by webhook; seconds.
fn webhook_times(facts: &Facts) -> BTreeMap<String, (f64, f64)> {
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for fact in facts.of(Metric::WebhookDuration) {
        let sum = all.entry(facts.text(fact.labels[0]).to_owned()).or_default();
        match fact.part {
            Part::Sum => sum.0 += fact.increase,
            Part::Count => sum.1 += fact.increase,
            _ => {}
        }
    }
    all.retain(|_, (_, count)| *count > 0.0);
    all
}

/// Webhooks that requests wait for.
pub(super) fn webhooks(case: &Case<'_>) -> Vec<Draft> {
    if !case.read.contains(&Source::Metrics) {
        return Vec::new();
    }
    let (before, within) = (webhook_times(case.before), webhook_times(case.within));
    let slowest = within.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let Some((name, (sum, count))) = slowest else {
        let mut draft = Draft::new("webhook-drag", Vec::new(), "requests waited for an admission webhook".to_owned());
        draft.says(Source::Metrics, -2.0, "no admission webhook was asked within the incident");
        return vec![draft];
    };
    let mean = sum / count;
    let mut draft =
        Draft::new("webhook-drag", vec![("webhook", name.clone())], format!("requests waited for the webhook {name}"));
    let was = before.get(name).map(|(sum, count)| sum / count);
    let p99 =
        case.within.buckets_of(Metric::WebhookDuration, |fact| case.within.text(fact.labels[0]) == name).quantile(0.99);
    let told = p99.map_or_else(String::new, |p99| format!(", one in a hundred {} ms or more", significant(p99 * 1e3)));
    let text = format!("it takes {} ms on average{told}", significant(mean * 1e3));
    if mean >= 0.5 {
        draft.says(Source::Metrics, 2.5, text);
    } else if mean >= 0.1 {
        draft.says(Source::Metrics, 1.0, text);
    } else {
        draft.says(Source::Metrics, -1.5, text);
    }
    if let Some(was) = was.filter(|was| *was > 0.0) {
        let times = mean / was;
        let text = format!("{} times what it took before the incident", significant(times));
        draft.says(Source::Metrics, if times >= 3.0 { 1.0 } else { -0.5 }, text);
    }
    draft
        .cause
        .now
        .push("if it is not needed for safety, let requests pass without it: failurePolicy Ignore, or a shorter timeoutSeconds".to_owned());
    draft.cause.later.push(format!("see which requests it is asked about: plimsoll guard webhooks {}", case.sources));
    vec![draft]
}

/// Requests of each apiserver.
fn by_instance(facts: &Facts) -> BTreeMap<&str, f64> {
    let mut all = BTreeMap::new();
    for (number, instance) in
        facts.instances.iter().enumerate().filter(|(_, instance)| instance.component == Component::Apiserver)
    {
        let sum: f64 = facts.requests_of(number).flat_map(|(.., course)| course).map(|(_, count)| count).sum();
        *all.entry(instance.name.as_str()).or_default() += sum;
    }
    all
}

/// One apiserver that carries too much.
pub(super) fn imbalance(case: &Case<'_>) -> Vec<Draft> {
    let Some(finding) = case.known.answers.findings("balance").find(|finding| finding.id == "uneven-apiservers") else {
        return Vec::new();
    };
    let subject = finding
        .subject
        .iter()
        .filter(|(name, _)| *name == "instance")
        .map(|(_, value)| ("instance", value.clone()))
        .collect();
    let mut draft = Draft::new("imbalance", subject, finding.summary.clone());
    let (before, within) = (by_instance(case.before), by_instance(case.within));
    let share = |all: &BTreeMap<&str, f64>| {
        let sum: f64 = all.values().sum();
        all.iter()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .filter(|_| sum > 0.0)
            .map(|(name, most)| ((*name).to_owned(), most / sum))
    };
    if let (Some((_, was)), Some((name, is))) = (share(&before), share(&within)) {
        let text = format!(
            "{name} carried {} of the requests within the incident, and {} before it",
            percent(is),
            percent(was)
        );
        draft.says(Source::Metrics, if is - was >= 0.1 { 2.0 } else { -1.5 }, text);
    } else {
        draft.says(Source::Audit, 0.5, "one apiserver carries much more than the others");
    }
    draft.cause.later.push(finding.remedy.clone());
    vec![draft]
}
