//! The report of `budget check`.

use super::check::shown;
use crate::model::budget::{Checked, Verdict};
use crate::model::input::InputReport;
use crate::model::report::{Finding, Report, Severity, Table, Value, Window};
use crate::model::time::Span;
use crate::model::units::counted;

/// What the report is made of.
#[derive(Debug, Clone, Default)]
pub struct BudgetInput {
    pub checked: Vec<Checked>,
    /// Exceptions that ended: what to say of each.
    pub ended: Vec<String>,
    pub inputs: Vec<InputReport>,
    /// First and last event.
    pub span: Option<Span>,
    /// How many budgets.
    pub budgets: u64,
}

const COLUMNS: [&str; 9] =
    ["client", "rule", "resource", "allowed", "counted", "budget_verdict", "detail", "budget", "owner"];

/// A finding for each rule that is exceeded.
fn finding(one: &Checked, span: Span) -> Finding {
    let subject = [
        ("client", one.client.as_str()),
        ("rule", one.rule.name()),
        ("resource", one.resource.as_deref().unwrap_or_default()),
        ("budget", one.budget.as_str()),
        ("owner", one.owner.as_deref().unwrap_or_default()),
    ];
    let used = one.used.unwrap_or_default();
    let of = one.resource.as_ref().map_or(String::new(), |resource| format!(" for {resource}"));
    Finding::new("budget-exceeded", Severity::Critical, &subject)
        .seen(span)
        .summary(format!(
            "{} exceeds its budget{of}: {} {}, {} allowed",
            one.client,
            shown(used),
            one.rule.what(),
            shown(one.allowed)
        ))
        .evidence(serde_json::json!({"used": used, "allowed": one.allowed}))
        .remedy(one.rule.remedy())
}

/// The report.
pub fn report(input: BudgetInput) -> Report {
    let BudgetInput { checked, ended, inputs, span, budgets } = input;
    let count = |verdict: Verdict| checked.iter().filter(|one| one.verdict == verdict).count() as u64;
    let row = |one: &Checked| {
        let value = |number: f64| if number.fract() == 0.0 { Value::Count(number as u64) } else { number.into() };
        vec![
            one.client.as_str().into(),
            one.rule.name().into(),
            one.resource.as_deref().into(),
            value(one.allowed),
            one.used.map_or(Value::None, value),
            one.verdict.name().into(),
            one.detail.as_str().into(),
            one.budget.as_str().into(),
            one.owner.as_deref().into(),
        ]
    };
    let window = span.unwrap_or_default();
    let findings: Vec<Finding> =
        checked.iter().filter(|one| one.verdict == Verdict::Exceeded).map(|one| finding(one, window)).collect();
    let (exceeded, unknown) = (count(Verdict::Exceeded), count(Verdict::Unknown));
    let mut lead = format!(
        "{} of {} exceeded, {unknown} unknown, in {}.",
        exceeded,
        counted(checked.len() as u64, "limit"),
        counted(budgets, "budget")
    );
    if unknown > 0 {
        lead += " What is unknown is not within the budget: DETAIL says what is missing.";
    }
    Report {
        schema: "plimsoll.budget/v1".to_owned(),
        inputs,
        window: Window::of(span),
        totals: vec![
            ("budgets".to_owned(), Value::Count(budgets)),
            ("limits".to_owned(), Value::Count(checked.len() as u64)),
            ("within".to_owned(), Value::Count(count(Verdict::Within))),
            ("excepted".to_owned(), Value::Count(count(Verdict::Excepted))),
            ("exceeded".to_owned(), Value::Count(exceeded)),
            ("unknown".to_owned(), Value::Count(unknown)),
        ],
        table: Table {
            name: "limits".to_owned(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: checked.iter().map(row).collect(),
            ..Table::default()
        },
        lead: vec![lead],
        notes: ended,
        findings,
        ..Report::default()
    }
}
