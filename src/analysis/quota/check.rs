//! How full quotas are: gauges, levels, the report and the findings of `plimsoll quota check`.

use super::trend;
use crate::model::alert::{Gauge, Key, Level, Thresholds};
use crate::model::input::InputReport;
use crate::model::quantity::Quantity;
use crate::model::quota::{Quotas, Standing};
use crate::model::report::{Finding, Report, Table, Value};
use crate::model::series::{DAY, Day};
use crate::model::time::{self, Micros};
use crate::model::units::percent;
use serde_json::json;
use std::collections::BTreeMap;

/// A level falls only when usage is this much below its threshold: what swings about it is not reported again and
/// again.
pub const MARGIN: f64 = 0.02;

/// What `quota propose` would grant.
pub type Proposed = BTreeMap<Key, Quantity>;

/// A gauge and how near its limit is.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub gauge: Gauge,
    /// How near; `None` where it is far.
    pub level: Option<Level>,
    /// The level at which it stays where it was there before.
    pub held: Option<Level>,
    /// Who owns the namespace.
    pub owner: String,
}

/// Looks at all quotas, in their order. `owner` says whose a namespace is.
pub fn check(
    quotas: &Quotas,
    thresholds: &Thresholds,
    proposals: &Proposed,
    owner: impl Fn(&str) -> String,
) -> Vec<Checked> {
    let mut checked = Vec::with_capacity(quotas.standings.len());
    for standing in &quotas.standings {
        let (gauge, days) = gauge(quotas, standing, proposals);
        let level = |margin| level((standing.used?, standing.hard), days, thresholds, margin);
        let (level, held) = (level(0.0), level(MARGIN));
        checked.push(Checked { gauge, level, held, owner: owner(&standing.namespace) });
    }
    checked
}

/// The gauge, and the days until the trend is at the limit.
fn gauge(quotas: &Quotas, standing: &Standing, proposals: &Proposed) -> (Gauge, Option<f64>) {
    let hard = standing.hard.value();
    let days = trend::usage(&quotas.usage, &standing.namespace, &standing.quota, &standing.resource)
        .map_or(&[][..], |usage| usage.days.as_slice());
    let trend = trend::trend(days, Day::of(quotas.at));
    // The line is one of full days: it is asked for as of today's beginning.
    let today = Micros::from(Day::of(quotas.at)) * DAY;
    let full_at = trend
        .and_then(|trend| trend.days_until(hard))
        .map(|days| (today + (days * DAY as f64) as Micros).max(quotas.at));
    let key = Key {
        namespace: standing.namespace.clone(),
        quota: standing.quota.clone(),
        resource: standing.resource.clone(),
    };
    let share = standing.used.filter(|_| hard > 0.0).map(|used| used.value() / hard);
    let proposed = proposals.get(&key);
    let per_week = trend.map(trend::Trend::per_week);
    let gauge = Gauge {
        used: standing.used.map(|used| used.to_string()).unwrap_or_default(),
        hard: standing.hard.to_string(),
        share,
        per_week,
        per_week_share: per_week.filter(|_| hard > 0.0).map(|more| more / hard),
        full_at,
        proposed: proposed.map(ToString::to_string),
        taken: (quotas.at > 0).then_some(quotas.at),
        key,
    };
    let left = full_at.map(|full| (full - quotas.at) as f64 / DAY as f64);
    (gauge, left)
}

/// The level with thresholds that are lower by `margin`. Nothing used of nothing granted is not full: that is how a
/// quota forbids.
fn level((used, hard): (Quantity, Quantity), days: Option<f64>, thresholds: &Thresholds, margin: f64) -> Option<Level> {
    let reaches = |share: f64| {
        let least = hard.times((share - margin).max(0.0));
        !used.is_zero() && used >= least
    };
    if used > hard || reaches(thresholds.critical) {
        return Some(Level::Critical);
    }
    if thresholds.days.is_some_and(|least| days.is_some_and(|days| days < least)) {
        return Some(Level::Critical);
    }
    reaches(thresholds.warn).then_some(Level::Warning)
}

/// Fields by which rows can be sorted.
pub const FIELDS: [&str; 12] = [
    "namespace",
    "quota",
    "resource",
    "used",
    "hard",
    "used_share",
    "level",
    "per_week_share",
    "days_left",
    "full_at",
    "proposed",
    "owner",
];

/// The report: the fullest first.
pub fn report(
    quotas: &Quotas,
    checked: &[Checked],
    thresholds: &Thresholds,
    inputs: Vec<InputReport>,
    sort_by: Option<&str>,
    top: Option<usize>,
) -> Report {
    let mut order: Vec<&Checked> = checked.iter().collect();
    let fullness = |checked: &Checked| {
        (checked.level, checked.gauge.share.unwrap_or(if checked.level.is_some() { f64::INFINITY } else { 0.0 }))
    };
    order.sort_by(|a, b| {
        let (a, b) = (fullness(a), fullness(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    let columns =
        FIELDS.iter().chain(&["used_value", "hard_value", "proposed_value"]).map(|name| (*name).to_owned()).collect();
    let mut table = Table { name: "quotas".to_owned(), columns, ..Table::default() };
    table.rows = order.iter().map(|checked| row(checked, quotas.at)).collect();
    if let Some(at) = sort_by.and_then(|field| table.column(field)) {
        table.rows.sort_by(|a, b| a[at].in_order(&b[at]));
    }
    let count = |level: Option<Level>| checked.iter().filter(|one| one.level == level).count() as u64;
    let (critical, warning) = (count(Some(Level::Critical)), count(Some(Level::Warning)));
    let trends = checked.iter().filter(|one| one.gauge.per_week.is_some()).count();
    let mut report = Report {
        schema: "plimsoll.quota-check/v1".to_owned(),
        inputs,
        table,
        shown: top,
        findings_shown: top,
        ..Report::default()
    };
    report.totals = vec![
        ("quotas".to_owned(), Value::Count(checked.len() as u64)),
        ("critical".to_owned(), Value::Count(critical)),
        ("warning".to_owned(), Value::Count(warning)),
    ];
    report.coverage.insert("at".to_owned(), time::format(quotas.at).into());
    report.coverage.insert("cluster".to_owned(), quotas.cluster.clone().into());
    report.coverage.insert("with_trend".to_owned(), trends.into());
    report.lead.push(format!(
        "{critical} critical (from {} on{}), {warning} near (from {} on), of {} quotas at {}",
        percent(thresholds.critical),
        thresholds.days.map_or(String::new(), |days| format!(", or full within {days} days")),
        percent(thresholds.warn),
        checked.len(),
        time::format(quotas.at),
    ));
    if trends < checked.len() {
        let missing = checked.len() - trends;
        report.notes.push(format!(
            "{missing} of them have no trend: it requires {} complete days of the last {}",
            trend::MIN_DAYS,
            trend::MAX_DAYS
        ));
    }
    report.findings = order.iter().filter_map(|checked| finding(quotas, checked)).collect();
    report
}

fn row(checked: &Checked, at: Micros) -> Vec<Value> {
    let gauge = &checked.gauge;
    let text = |text: &str| Value::Text(text.to_owned());
    // People read these beside, as text.
    let number = |quantity: Option<&str>| {
        Value::Json(json!(quantity.and_then(|text| text.parse::<Quantity>().ok()).map(Quantity::value)))
    };
    vec![
        text(&gauge.key.namespace),
        text(&gauge.key.quota),
        text(&gauge.key.resource),
        Some(gauge.used.as_str()).filter(|used| !used.is_empty()).into(),
        text(&gauge.hard),
        gauge.share.into(),
        checked.level.map(Level::name).into(),
        gauge.per_week_share.into(),
        gauge.full_at.map(|full| (full - at) as f64 / DAY as f64).into(),
        gauge.full_at.map(time::format).map(Value::Text).unwrap_or_default(),
        gauge.proposed.as_deref().into(),
        text(&checked.owner),
        number(Some(gauge.used.as_str())),
        number(Some(gauge.hard.as_str())),
        number(gauge.proposed.as_deref()),
    ]
}

/// How a gauge is said to be.
pub fn state(gauge: &Gauge) -> String {
    let share = gauge.share.map_or("the quota is 0".to_owned(), percent);
    format!("{} of {} ({share})", gauge.used, gauge.hard)
}

fn finding(quotas: &Quotas, checked: &Checked) -> Option<Finding> {
    let (gauge, level) = (&checked.gauge, checked.level?);
    let is_full = gauge.share.is_none_or(|share| share >= 1.0);
    let id = if is_full { "quota-full" } else { "quota-near" };
    let subject = [
        ("cluster", quotas.cluster.as_str()),
        ("namespace", gauge.key.namespace.as_str()),
        ("quota", gauge.key.quota.as_str()),
        ("resource", gauge.key.resource.as_str()),
        ("owner", checked.owner.as_str()),
    ];
    let mut summary = format!("{} of namespace {}: {}", gauge.key.resource, gauge.key.namespace, state(gauge));
    if let Some(full) = gauge.full_at.filter(|_| !is_full) {
        summary += &format!("; forecast full on {} at its trend", time::format(full).get(..10).unwrap_or_default());
    }
    let Gauge { share, per_week, used, hard, .. } = gauge;
    let remedy = match gauge.raise() {
        Some(proposed) => format!("raise it to {proposed} (plimsoll quota propose), or delete unused objects"),
        None => {
            "delete unused objects or lower requests, or raise the quota: plimsoll quota propose computes it".to_owned()
        }
    };
    let finding = Finding::new(id, level.severity(), &subject)
        .seen((quotas.at, quotas.at))
        .summary(summary)
        .evidence(json!({"share": share, "per_week": per_week, "used": used, "hard": hard}))
        .remedy(remedy);
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(used: &str, hard: &str) -> Standing {
        Standing {
            namespace: "a".into(),
            quota: "q".into(),
            resource: "pods".into(),
            hard: hard.parse().unwrap(),
            used: Some(used.parse().unwrap()),
        }
    }

    #[test]
    fn levels_begin_exactly_where_they_are_said_to() {
        let thresholds = Thresholds { warn: 0.8, critical: 0.95, days: Some(10.0) };
        for (used, hard, days, expected) in [
            ("0", "0", None, None),
            ("1", "0", None, Some(Level::Critical)),
            ("0", "5", None, None),
            ("8", "10", None, Some(Level::Warning)),
            ("7999m", "10", None, None),
            ("95", "100", None, Some(Level::Critical)),
            ("94999m", "100", None, Some(Level::Warning)),
            ("819Mi", "1Gi", None, None),
            ("819200Ki", "1000Mi", None, Some(Level::Warning)),
            ("11", "10", None, Some(Level::Critical)),
            ("1", "10", Some(9.9), Some(Level::Critical)),
            ("1", "10", Some(10.0), None),
        ] {
            let of = (used.parse().unwrap(), hard.parse().unwrap());
            assert_eq!(level(of, days, &thresholds, 0.0), expected, "{used} of {hard}, {days:?}");
        }
        for (used, expected) in [("78", Some(Level::Warning)), ("93", Some(Level::Critical)), ("77", None)] {
            let of = (used.parse().unwrap(), "100".parse().unwrap());
            assert_eq!(level(of, None, &thresholds, MARGIN), expected, "{used}");
        }
    }

    #[test]
    fn the_fullest_are_first_and_are_findings() {
        let mut quotas = Quotas { at: 20_000 * DAY, ..Quotas::default() };
        for (namespace, used) in [("a", "10"), ("b", "85"), ("c", "100"), ("d", "0")] {
            quotas.standings.push(Standing { namespace: namespace.into(), ..standing(used, "100") });
        }
        quotas.standings.push(Standing { namespace: "e".into(), ..standing("1", "0") });
        let thresholds = Thresholds { warn: 0.8, critical: 0.95, days: None };
        let proposals = Proposed::from([(
            Key { namespace: "b".into(), quota: "q".into(), resource: "pods".into() },
            "102".parse().unwrap(),
        )]);
        let checked = check(&quotas, &thresholds, &proposals, |namespace| format!("team-{namespace}"));
        let report = report(&quotas, &checked, &thresholds, Vec::new(), None, None);
        let names: Vec<&Value> = report.table.rows.iter().map(|row| &row[0]).collect();
        assert_eq!(names, ["e", "c", "b", "a", "d"].map(Value::from).iter().collect::<Vec<_>>());
        let found: Vec<(&str, &str)> =
            report.findings.iter().map(|found| (found.id.as_str(), found.subject["owner"].as_str())).collect();
        assert_eq!(found, [("quota-full", "team-e"), ("quota-full", "team-c"), ("quota-near", "team-b")]);
        assert!(report.findings[2].remedy.contains("raise it to 102"), "{}", report.findings[2].remedy);
        assert_eq!(report.findings[1].summary, "pods of namespace c: 100 of 100 (100%)");
    }
}
