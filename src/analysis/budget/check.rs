//! Whether what a client used is within its budget.

use super::{Usage, Used};
use crate::analysis::dims::short_user;
use crate::model::budget::{Budget, Checked, Exception, Rule, Verdict};
use crate::model::time::Micros;
use crate::model::units::{counted, grouped, significant};

/// Resources that are named for a rule, at most.
const MAX_NAMED: usize = 4;

/// The client of a budget, for people.
pub fn client(budget: &Budget) -> String {
    match &budget.agent {
        Some(agent) => format!("{agent} ({})", short_user(&budget.user)),
        None => short_user(&budget.user).to_owned(),
    }
}

/// A count for people: a whole one, or one of three digits.
pub fn shown(number: f64) -> String {
    if number.fract() == 0.0 { grouped(number as u64) } else { significant(number) }
}

/// Whether it ended before `now` (µs).
pub fn has_ended(exception: &Exception, now: Micros) -> bool {
    exception.until <= now
}

/// Every rule of a budget, in its order, each followed by the exceptions for single resources that hold at `now` (µs).
pub fn check(budget: &Budget, usage: &Usage, now: Micros) -> Vec<Checked> {
    let mut all = Vec::new();
    for (rule, limit) in &budget.limits {
        let used = usage.of(*rule);
        let holding: Vec<&Exception> =
            budget.exceptions.iter().filter(|own| own.rule == *rule && !has_ended(own, now)).collect();
        let apart = |resource: &str| holding.iter().any(|own| own.resource.as_deref() == Some(resource));
        let for_all = holding.iter().filter(|own| own.resource.is_none());
        let most = for_all.max_by(|a, b| a.max.total_cmp(&b.max));
        let checked =
            |resource: Option<&String>, allowed: f64, excepted: Option<&Exception>, takes: &dyn Fn(&str) -> bool| {
                let (count, resources) = used.most(takes);
                let verdict = verdict(count, used.missing.is_some(), allowed, excepted);
                Checked {
                    budget: budget.name.clone(),
                    client: client(budget),
                    owner: budget.owner.clone(),
                    rule: *rule,
                    resource: resource.cloned(),
                    allowed,
                    used: (verdict != Verdict::Unknown || count > 0.0).then_some(count),
                    verdict,
                    detail: detail(*rule, used, verdict, excepted, &resources),
                }
            };
        all.push(checked(None, *limit, most.copied(), &|resource| !apart(resource)));
        for own in holding.iter().filter(|own| own.resource.is_some()) {
            all.push(checked(own.resource.as_ref(), *limit, Some(own), &|resource| {
                Some(resource) == own.resource.as_deref()
            }));
        }
    }
    all
}

/// What was seen decides where it is too much; to be within takes evidence of all of it.
fn verdict(count: f64, is_partial: bool, limit: f64, excepted: Option<&Exception>) -> Verdict {
    if count > excepted.map_or(limit, |exception| exception.max.max(limit)) {
        Verdict::Exceeded
    } else if is_partial {
        Verdict::Unknown
    } else if count > limit {
        Verdict::Excepted
    } else {
        Verdict::Within
    }
}

fn detail(
    rule: Rule,
    used: &Used,
    verdict: Verdict,
    excepted: Option<&Exception>,
    resources: &[(&str, f64)],
) -> String {
    let mut parts = Vec::new();
    if let Some(missing) = used.missing.as_ref().filter(|_| verdict == Verdict::Unknown) {
        parts.push(missing.clone());
    }
    if rule.is_by_resource() && verdict != Verdict::Unknown {
        let named = resources.iter().take(MAX_NAMED).map(|(resource, count)| {
            let resource = if resource.is_empty() { "no resource" } else { resource };
            format!("{resource} {}", shown(*count))
        });
        parts.extend(named);
        if resources.len() > MAX_NAMED {
            parts.push(counted((resources.len() - MAX_NAMED) as u64, "more resource"));
        }
    }
    if let Some(exception) = excepted {
        parts.push(format!("up to {} until {}: {}", shown(exception.max), exception.last_day, exception.reason));
    }
    parts.join(", ")
}
