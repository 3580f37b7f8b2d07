//! What becomes of a plan, reported: a table below that of series, the assumptions, the same in JSON.

use super::{Assumption, Moved, Outcome};
use crate::analysis::forecast::report::number;
use crate::analysis::forecast::words;
use crate::model::forecast::{Reached, Target};
use crate::model::report::{Report, Table, Value};
use crate::model::series::DAY;
use crate::model::time::{self, Micros};
use crate::model::units::{amount, duration, percent};
use serde_json::{Value as Json, json};

/// Assumptions that people are shown.
const MAX_ROWS: usize = 12;

impl Outcome {
    /// Adds it to a report of the same targets; `horizon` is how far was looked ahead, `top` how many rows people are
    /// shown.
    pub fn add_to(&self, targets: &[Target], horizon: Micros, top: Option<usize>, report: &mut Report) {
        let mut order: Vec<(&Moved, &Target)> =
            self.moved.iter().filter_map(|moved| Some((moved, targets.get(moved.index)?))).collect();
        let urgency = |(moved, target): &(&Moved, &Target)| {
            let reached = moved.reached.1;
            let late = |at: Option<Micros>| at.unwrap_or(Micros::MAX);
            // A share can't be ordered among numbers of dates: the fuller is the smaller.
            let full = share(moved.current.1, moved.limit.1).unwrap_or(f64::NEG_INFINITY);
            (!moved.full.1, late(reached.p50), late(reached.p10), std::cmp::Reverse(Ordered(full)), words::name(target))
        };
        order.sort_by_cached_key(urgency);
        let rows =
            order.iter().map(|(moved, target)| row(moved, target, horizon)).take(top.unwrap_or(usize::MAX)).collect();
        let columns = [
            "what_if_series",
            "what_if_now",
            "what_if_then",
            "what_if_limit",
            "what_if_share",
            "what_if_was",
            "what_if_is",
            "what_if_range",
        ];
        let title = format!("With {}:", self.plan.words());
        let table = Table { title, columns: columns.map(str::to_owned).to_vec(), rows, ..Table::default() };
        if !table.rows.is_empty() {
            report.people.get_or_insert_with(|| vec![report.table.clone()]).push(table);
        }
        report.notes.extend(self.notes());
        report.more.insert("scenario".to_owned(), self.json(&order, horizon));
    }

    /// What people should know: what is assumed, what follows beside, what is not known.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.assumptions.iter().take(MAX_ROWS).map(|one| format!("Assumed: {}", assumption_text(one))).collect();
        if self.assumptions.len() > MAX_ROWS {
            notes.push(format!("{} more assumptions: -o json", self.assumptions.len() - MAX_ROWS));
        }
        let mut grown: Vec<&(String, f64, f64)> =
            self.lists.iter().filter(|(_, now, then)| (then / now - 1.0).abs() >= 0.01).collect();
        grown.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()));
        let grown: Vec<String> = grown
            .iter()
            .take(5)
            .map(|(kind, now, then)| format!("{kind} {:+.0}%", (then / now - 1.0) * 100.0))
            .collect();
        if !grown.is_empty() {
            notes.push(format!(
                "LISTs of all objects of a kind return as much more as there are more of them: {}",
                grown.join(", ")
            ));
        }
        notes.extend(self.unknown.iter().map(|what| format!("Unknown: {what}")));
        notes
    }

    fn json(&self, order: &[(&Moved, &Target)], horizon: Micros) -> Json {
        let additions: Vec<Json> = self
            .plan
            .additions
            .iter()
            .map(|one| json!({"namespace": one.namespace, "what": one.what, "amount": one.amount}))
            .collect();
        let assumptions: Vec<Json> = self
            .assumptions
            .iter()
            .map(|one| {
                let (low, high) = one.interval.unwrap_or((f64::NAN, f64::NAN));
                json!({"name": one.name, "ratio": number(Some(one.ratio)), "unit": one.unit.name(),
                    "low": number(Some(low)), "high": number(Some(high)),
                       "from": one.from, "sure": one.sure.name()})
            })
            .collect();
        let lists: Vec<Json> = self
            .lists
            .iter()
            .map(|(kind, now, then)| json!({"resource": kind, "objects": now, "with": then}))
            .collect();
        json!({
            "add": additions,
            "nodes": self.plan.nodes,
            "from": time::format(self.from),
            "assumptions": assumptions,
            "rows": order.iter().map(|(moved, target)| moved_json(moved, target, horizon)).collect::<Vec<_>>(),
            "lists": lists,
            "unknown": self.unknown,
        })
    }
}

/// A float that can be ordered.
#[derive(PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// `requests.cpu per pod of web is 500m (480m to 520m): slope over 45 days, pods from 100 to 160 (measured)`
fn assumption_text(one: &Assumption) -> String {
    let interval = one.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    let interval = interval
        .map_or(String::new(), |(low, high)| format!(" ({} to {})", amount(one.unit, low), amount(one.unit, high)));
    match one.sure {
        super::Sure::Given => one.from.clone(),
        sure => format!("{} is {}{interval}: {} ({})", one.name, amount(one.unit, one.ratio), one.from, sure.name()),
    }
}

/// Which share of a limit is used.
fn share(current: Option<f64>, limit: Option<f64>) -> Option<f64> {
    let (current, limit) = (current?, limit.filter(|limit| *limit > 0.0)?);
    Some(current / limit).filter(|share| share.is_finite())
}

/// A moment within the horizon, or none.
fn within(at: Option<Micros>, target: &Target, horizon: Micros) -> Option<Micros> {
    at.filter(|at| *at <= target.grid.end().saturating_add(horizon))
}

fn moved_json(moved: &Moved, target: &Target, horizon: Micros) -> Json {
    let side = |current: Option<f64>, limit: Option<f64>, reached: Reached, full: bool, probability: Option<f64>| {
        let at = |at: Option<Micros>| within(at, target, horizon).map_or(Json::Null, |at| json!(time::format(at)));
        json!({"current": number(current), "limit": number(limit), "share": number(share(current, limit)),
            "at_limit": full,
               "reached": {"p10": at(reached.p10), "p50": at(reached.p50), "p90": at(reached.p90)},
               "probability": number(probability)})
    };
    json!({
        "series": target.series.to_string(),
        "title": words::name(target),
        "unit": target.unit.name(),
        "shift": number(Some(moved.by)),
        "before": side(moved.current.0, moved.limit.0, moved.reached.0, moved.full.0, moved.probability.0),
        "after": side(moved.current.1, moved.limit.1, moved.reached.1, moved.full.1, moved.probability.1),
        "on_date": number(moved.on_date),
    })
}

fn row(moved: &Moved, target: &Target, horizon: Micros) -> Vec<Value> {
    let shown = |value: Option<f64>| value.map(|value| Value::Text(amount(target.unit, value))).unwrap_or_default();
    let full = |current, limit| share(current, limit).map_or_else(|| "-".to_owned(), percent);
    let date = |at: Micros| time::format(at).get(..10).unwrap_or_default().to_owned();
    let when =
        |limit: Option<f64>, full: bool, reached: Reached| match (limit, full, within(reached.p50, target, horizon)) {
            (None, ..) => Value::None,
            (_, true, _) => "now".into(),
            (_, _, Some(at)) => Value::Text(date(at)),
            (_, _, None) => Value::Text(format!(">{}", duration(horizon))),
        };
    let (early, late) = (within(moved.reached.1.p10, target, horizon), within(moved.reached.1.p90, target, horizon));
    let range = match (moved.full.1, early, late) {
        (true, ..) | (_, None, _) => Value::None,
        (_, Some(early), Some(late)) if late - early < DAY => Value::Text(date(early)),
        (_, Some(early), Some(late)) => Value::Text(format!("{} to {}", date(early), date(late))),
        (_, Some(early), None) => Value::Text(format!("{} or later", date(early))),
    };
    let shares = if moved.limit.1.is_some() {
        Value::Text(format!("{} → {}", full(moved.current.0, moved.limit.0), full(moved.current.1, moved.limit.1)))
    } else {
        Value::None
    };
    vec![
        Value::Text(words::name(target)),
        shown(moved.current.0),
        shown(moved.current.1),
        shown(moved.limit.1),
        shares,
        when(moved.limit.0, moved.full.0, moved.reached.0),
        when(moved.limit.1, moved.full.1, moved.reached.1),
        range,
    ]
}
