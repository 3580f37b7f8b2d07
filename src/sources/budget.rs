//! Budgets: YAML files of one document or several (docs/commands/budget.md). Unknown keys are errors, because a
//! misspelt limit would limit nothing.

use crate::model::budget::{Budget, Exception, Rule};
use crate::model::problem::{Problem, ProblemKind};
use crate::model::rollup::MIN_MINUTE_WRITES;
use crate::model::time::{Micros, SECOND};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The file's longest size.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Of a file.
const MAX_BUDGETS: usize = 10_000;

const API_VERSION: &str = "plimsoll.io/v1alpha1";
const KIND: &str = "Budget";

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    expecting = "a budget: a map with apiVersion, kind, client, limits"
)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    client: ClientFile,
    owner: Option<String>,
    limits: BTreeMap<String, f64>,
    #[serde(default)]
    exceptions: Vec<ExceptionFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    user: String,
    agent: Option<String>,
    metrics: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    rule: String,
    resource: Option<String>,
    max: f64,
    until: String,
    reason: String,
}

/// Reads a file of budgets; it has at least one.
pub fn read(path: &Path) -> Result<Vec<Budget>, Problem> {
    let fail = |error: std::io::Error| Problem::io(path, &error).hint("name a file with budgets: plimsoll budget init");
    if std::fs::metadata(path).map_err(fail)?.len() > MAX_FILE_BYTES {
        let what = format!("larger than {} MiB: not a file of budgets", MAX_FILE_BYTES >> 20);
        return Err(Problem::new(ProblemKind::TooLarge, what).at(path.display()));
    }
    parse(&std::fs::read_to_string(path).map_err(fail)?).map_err(|problem| problem.at(path.display()))
}

fn parse(text: &str) -> Result<Vec<Budget>, Problem> {
    let mut budgets = Vec::new();
    for (number, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let place = |problem: Problem| match number {
            0 => problem,
            _ => problem.at(format!("document {}", number + 1)),
        };
        // Of an empty document, as behind the last `---`, nothing is left.
        let file: Option<File> =
            Option::deserialize(document).map_err(|error| place(Problem::setting(error.to_string())))?;
        if let Some(file) = file {
            budgets.push(budget(file).map_err(place)?);
        }
        if budgets.len() > MAX_BUDGETS {
            return Err(Problem::new(ProblemKind::TooLarge, format!("more than {MAX_BUDGETS} budgets")));
        }
    }
    match budgets.is_empty() {
        true => Err(Problem::setting("no budget in it").hint("plimsoll budget init SOURCE --client USER writes one")),
        false => Ok(budgets),
    }
}

fn budget(file: File) -> Result<Budget, Problem> {
    if file.api_version != API_VERSION || file.kind != KIND {
        let what = format!("{} {}, not {API_VERSION} {KIND}", file.api_version, file.kind);
        return Err(Problem::setting(what));
    }
    if file.client.user.is_empty() {
        return Err(Problem::setting("it is empty").at("client: user").hint("plimsoll clients lists users"));
    }
    let mut limits = Vec::new();
    for (name, limit) in file.limits {
        let place = |problem: Problem| problem.at(format!("limits: {name}"));
        limits.push((rule(&name).map_err(|problem| problem.at("limits"))?, number(limit).map_err(place)?));
    }
    if limits.is_empty() {
        return Err(Problem::setting("it is empty").at("limits"));
    }
    limits.sort_by_key(|(rule, _)| *rule);
    if let Some((rule, limit)) = limits
        .iter()
        .find(|(rule, limit)| *rule == Rule::WritesPerObjectPerMinute && *limit < f64::from(MIN_MINUTE_WRITES))
    {
        let what = format!("{limit}: fewer than {MIN_MINUTE_WRITES} writes in a minute are not counted");
        return Err(Problem::setting(what).at(format!("limits: {}", rule.name())));
    }
    let mut exceptions = Vec::new();
    for (number, given) in file.exceptions.into_iter().enumerate() {
        let place = |problem: Problem| problem.at(format!("exceptions: {}", number + 1));
        let one = exception(given).map_err(place)?;
        if !limits.iter().any(|(rule, _)| *rule == one.rule) {
            let what = format!("{} has no limit, so there is no exception to it", one.rule.name());
            return Err(place(Problem::setting(what)));
        }
        exceptions.push(one);
    }
    Ok(Budget {
        name: file.metadata.name.unwrap_or_else(|| file.client.user.clone()),
        user: file.client.user,
        agent: file.client.agent,
        metrics: file.client.metrics,
        owner: file.owner,
        limits,
        exceptions,
    })
}

fn rule(name: &str) -> Result<Rule, Problem> {
    Rule::of(name).ok_or_else(|| {
        let names = Rule::ALL.map(Rule::name).join(", ");
        Problem::setting(format!("no rule '{name}'")).hint(format!("use one of: {names}"))
    })
}

fn number(given: f64) -> Result<f64, Problem> {
    let is_one = given.is_finite() && given >= 0.0;
    is_one.then_some(given).ok_or_else(|| Problem::setting(format!("{given} is not a number from 0 on")))
}

fn exception(given: ExceptionFile) -> Result<Exception, Problem> {
    let rule = rule(&given.rule)?;
    if given.reason.trim().is_empty() {
        return Err(Problem::setting("it is empty").at("reason").hint("name the ticket"));
    }
    if given.resource.is_some() && !rule.is_by_resource() {
        return Err(Problem::setting(format!("{} is not counted by resource", rule.name())).at("resource"));
    }
    Ok(Exception {
        rule,
        resource: given.resource,
        max: number(given.max).map_err(|problem| problem.at("max"))?,
        until: end_of(&given.until).ok_or_else(|| {
            Problem::setting(format!("'{}' is not a day", given.until)).at("until").hint("write 2026-12-31")
        })?,
        last_day: given.until,
        reason: given.reason,
    })
}

/// The end (UTC) of a day that is written as `2026-12-31`.
fn end_of(day: &str) -> Option<Micros> {
    let day: jiff::civil::Date = day.parse().ok()?;
    let end = day.tomorrow().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(end.timestamp().as_second() * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "apiVersion: plimsoll.io/v1alpha1
kind: Budget
metadata: {name: bot}
client: {user: 'system:serviceaccount:ci:bot', agent: bot}
owner: team-ci
limits: {noOpWrites: 0, fullLists: 2, requestsPerReconcile: 6.5}
exceptions:
  - {rule: fullLists, resource: configmaps, max: 9, until: 2026-12-31, reason: OPS-12}
";

    #[test]
    fn budgets_are_read() {
        let budgets = parse(&format!("{GOOD}---\n{GOOD}---\n")).unwrap();
        assert_eq!(budgets.len(), 2);
        let one = &budgets[0];
        assert_eq!((one.name.as_str(), one.owner.as_deref()), ("bot", Some("team-ci")));
        let limits = [(Rule::FullLists, 2.0), (Rule::RequestsPerReconcile, 6.5), (Rule::NoOpWrites, 0.0)];
        assert_eq!(one.limits, limits);
        assert_eq!(one.exceptions[0].until, 1_798_761_600 * SECOND);
        assert_eq!(
            parse(&GOOD.replace("metadata: {name: bot}\n", "")).unwrap()[0].name,
            "system:serviceaccount:ci:bot"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let of = |from: &str, to: &str| parse(&GOOD.replace(from, to)).unwrap_err().to_string();
        assert!(of("fullLists: 2", "fullList: 2").starts_with("limits: no rule 'fullList'; use one of: fullLists, "));
        assert_eq!(of("fullLists: 2", "fullLists: -1"), "limits: fullLists: -1 is not a number from 0 on");
        assert_eq!(of("fullLists: 2", "fullLists: .nan"), "limits: fullLists: NaN is not a number from 0 on");
        assert!(of("owner:", "ownr:").contains("unknown field `ownr`"));
        assert!(of("v1alpha1", "v9").contains("plimsoll.io/v9 Budget, not plimsoll.io/v1alpha1 Budget"));
        assert_eq!(of("2026-12-31", "soon"), "exceptions: 1: until: 'soon' is not a day; write 2026-12-31");
        assert_eq!(of("OPS-12", "''"), "exceptions: 1: reason: it is empty; name the ticket");
        assert!(of("rule: fullLists", "rule: earlyRetries").contains("earlyRetries has no limit"));
        assert!(of("rule: fullLists", "rule: requestsPerReconcile").contains("not counted by resource"));
        assert!(of("noOpWrites: 0", "writesPerObjectPerMinute: 3").contains("fewer than 12 writes"));
        assert_eq!(
            of("'system:serviceaccount:ci:bot'", "''"),
            "client: user: it is empty; plimsoll clients lists users"
        );
        assert!(parse("").unwrap_err().to_string().starts_with("no budget in it"));
        assert!(parse(&format!("{GOOD}---\nkind: x\n")).unwrap_err().to_string().starts_with("document 2: "));
    }
}
