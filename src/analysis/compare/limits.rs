//! `--fail-on-increase`: which numbers may rise by how much.

use super::noise::Verdict;
use super::words::{name, quantity, signed};
use super::{Area, METRICS, Metric, Row};
use crate::model::problem::Problem;
use crate::model::report::{Finding, Severity};
use crate::model::units::{parse_share, significant};
use serde_json::json;
use std::str::FromStr;

/// How much a number may rise.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Rows of this area; none: the one row that is about everything.
    pub area: Option<Area>,
    /// The number.
    pub metric: &'static Metric,
    /// 0.1: by 10 %.
    pub share: f64,
}

impl FromStr for Limit {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let form = || Problem::setting("use METRIC=PCT or AREA.METRIC=PCT, such as rps=10% or clients.rps=30%");
        let (what, share) = text.split_once('=').ok_or_else(form)?;
        let (area, metric) = match what.split_once('.') {
            Some((area, metric)) => (Some(area), metric),
            None => (None, what),
        };
        let named = |wanted: &str| Area::ALL.into_iter().find(|area| area.name() == wanted);
        let areas = || format!("use one of: {}", Area::ALL.map(Area::name).join(", "));
        let unknown = |area: &str| Problem::setting(format!("unknown area {area}")).hint(areas());
        let area = area.map(|area| named(area).ok_or_else(|| unknown(area))).transpose()?;
        let metrics = || METRICS.map(|metric| metric.name).join(", ");
        let metric = Metric::named(metric).ok_or_else(|| {
            Problem::setting(format!("unknown metric {metric}")).hint(format!("use one of: {}", metrics()))
        })?;
        let has = |area: Area, whole: bool| area.metrics(whole).contains(&metric.name);
        match area {
            Some(area) if !has(area, false) => {
                return Err(Problem::setting(format!("{} has no {}", area.name(), metric.name))
                    .hint(format!("it has {}", area.metrics(false).join(", "))));
            }
            None if !Area::ALL.into_iter().any(|area| has(area, true)) => {
                let of: Vec<&str> = Area::ALL.into_iter().filter(|area| has(*area, false)).map(Area::name).collect();
                return Err(Problem::setting(format!("{} has no total", metric.name)).hint(format!(
                    "{}.{}=PCT checks each",
                    of.join(" or "),
                    metric.name
                )));
            }
            _ => {}
        }
        let share = parse_share(share).filter(|share| *share >= 0.0 && share.is_finite()).ok_or_else(form)?;
        Ok(Self { area, metric, share })
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let area = self.area.map_or_else(String::new, |area| format!("{}.", area.name()));
        write!(f, "{area}{}", self.metric.name)
    }
}

impl Limit {
    /// It as it is written on the command line.
    pub fn words(&self) -> String {
        format!("{self}={}%", self.share * 100.0)
    }

    /// Whether there is anything that it can be checked by.
    pub fn is_idle(&self, rows: &[Row]) -> bool {
        !rows.iter().any(|row| self.means(row))
    }

    /// Whether a row is meant.
    fn means(&self, row: &Row) -> bool {
        let is_whole = row
            .pair
            .subject
            .iter()
            .all(|(field, _)| matches!(*field, "cluster" | "instance") || row.pair.area == Area::Memory);
        row.pair.metric == self.metric.name && self.area.map_or(is_whole, |area| area == row.pair.area)
    }
}

/// Findings of rows that rose by more than they may. What is within noise has not risen.
pub fn findings(rows: &[Row], limits: &[Limit], (from, to): (&str, &str)) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for limit in limits {
        for row in rows.iter().filter(|row| limit.means(row)) {
            let is_more = !matches!(row.verdict, Verdict::Noise | Verdict::Unsure | Verdict::Few);
            let change = row.change().unwrap_or(if row.verdict == Verdict::New { f64::INFINITY } else { 0.0 });
            if !is_more || change <= limit.share {
                continue;
            }
            let mut subject = vec![("area", row.pair.area.name()), ("metric", row.pair.metric)];
            subject.extend(row.pair.subject.iter().map(|(field, value)| (*field, value.as_str())));
            let finding = Finding::new("increase-over-limit", Severity::Critical, &subject);
            if findings.iter().any(|other| other.fingerprint == finding.fingerprint) {
                continue;
            }
            let [before, after] = [&row.pair.before, &row.pair.after].map(|side| side.value().unwrap_or(0.0));
            let unit = limit.metric.unit;
            let summary = format!(
                "{}: {} rose from {} to {} ({}); the limit was +{}%",
                name(row),
                limit.metric.title,
                quantity(unit, before),
                quantity(unit, after),
                if change.is_infinite() { "new".to_owned() } else { signed(change, false) },
                significant(limit.share * 100.0)
            );
            let evidence = json!({
                "before": before,
                "after": after,
                "allowed": limit.share,
                "low": row.bounds.map(|(low, _)| low - 1.0),
                "high": row.bounds.map(|(_, high)| (high - 1.0).min(f64::MAX)),
            });
            let finding = finding.summary(summary).evidence(evidence).remedy(remedy(row.pair.area));
            findings.push(Finding { first_seen: from.to_owned(), last_seen: to.to_owned(), ..finding });
        }
    }
    findings
}

fn remedy(area: Area) -> &'static str {
    match area {
        Area::Total | Area::Clients => {
            "plimsoll clients AFTER shows what the client does and what to change; pause the rollout until it is \
             fixed"
        }
        Area::Requests => {
            "plimsoll traffic AFTER --baseline BEFORE --by user,verb,resource shows which clients send \
             more"
        }
        Area::Latency => {
            "plimsoll traffic AFTER --by user,verb,resource shows which requests are slow; plimsoll memory and \
             plimsoll etcd health show whether memory or etcd is the reason"
        }
        Area::Objects | Area::Etcd => "plimsoll etcd diff BEFORE.db AFTER.db lists the new objects",
        Area::Heap => "plimsoll heap diff BEFORE AFTER lists the functions whose memory grew",
        Area::Memory => "plimsoll memory show AFTER shows whether it is cache or heap",
    }
}
