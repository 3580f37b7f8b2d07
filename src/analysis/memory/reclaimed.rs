//! What giving cache back came to: before, after, step by step.

use super::plan::Plan;
use super::rates::{PAGE, Rates};
use super::report;
use crate::analysis::memory::seen::Seen;
use crate::model::report::{Report, Table, Value};
use crate::model::units::{bytes, percent};

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Bytes asked for.
    pub asked: u64,
    /// By how much the usage fell.
    pub freed: u64,
    /// What happened until the next step.
    pub rates: Option<Rates>,
}

/// One group.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Before the first step.
    pub before: Seen,
    /// After the last; nothing in a dry run.
    pub after: Option<Seen>,
    /// What was planned.
    pub plan: Option<Plan>,
    /// The file that is written to.
    pub method: String,
    /// Whether it was for real.
    pub yes: bool,
    /// Whether it was refused.
    pub refused: bool,
    /// Why there was no further step.
    pub ended: String,
    pub steps: Vec<Step>,
}

impl Outcome {
    /// Nothing done yet.
    pub fn new(before: Seen, yes: bool) -> Self {
        Self {
            before,
            after: None,
            plan: None,
            method: String::new(),
            yes,
            refused: false,
            ended: String::new(),
            steps: Vec::new(),
        }
    }

    fn freed(&self) -> u64 {
        self.steps.iter().map(|step| step.freed).sum()
    }
}

const FIELDS: [&str; 17] = [
    "path",
    "dry_run",
    "refused",
    "method",
    "goal",
    "step",
    "steps",
    "asked",
    "freed",
    "ended",
    "usage_before",
    "usage_after",
    "file_before",
    "file_after",
    "anon_before",
    "anon_after",
    "verdict_after",
];

fn row(outcome: &Outcome) -> Vec<Value> {
    let after = outcome.after.as_ref().map(|seen| &seen.account);
    let before = &outcome.before.account;
    vec![
        outcome.before.sample.path.as_str().into(),
        if outcome.yes { "no" } else { "yes" }.into(),
        if outcome.refused { "yes" } else { "no" }.into(),
        Some(outcome.method.as_str()).filter(|method| !method.is_empty()).into(),
        outcome.plan.as_ref().map(|plan| plan.goal).into(),
        outcome.plan.as_ref().map(|plan| plan.step).into(),
        (outcome.steps.len() as u64).into(),
        outcome.steps.iter().map(|step| step.asked).sum::<u64>().into(),
        outcome.freed().into(),
        outcome.ended.as_str().into(),
        before.usage.into(),
        after.and_then(|account| account.usage).into(),
        before.file.into(),
        after.and_then(|account| account.file).into(),
        before.anon.into(),
        after.and_then(|account| account.anon).into(),
        outcome.after.as_ref().map(|seen| seen.judged.verdict.name()).into(),
    ]
}

fn for_people(outcome: &Outcome) -> Table {
    let size = |value: Option<u64>| value.map_or(Value::None, |value| Value::Text(bytes(value as f64)));
    let left = |seen: &Seen| seen.account.headroom.map_or(Value::None, |left| Value::Text(bytes(left as f64)));
    let before = &outcome.before;
    let mut columns = vec!["what".to_owned(), "before".to_owned()];
    let state = |seen: &Seen| seen.judged.verdict.name().into();
    let rate = |seen: &Seen| {
        seen.rates
            .as_ref()
            .and_then(|rates| rates.refaults_per_s)
            .map_or(Value::None, |rate| Value::Text(format!("{}/s", bytes(rate * PAGE))))
    };
    type Line<'t> = (&'t str, &'t dyn Fn(&Seen) -> Value);
    let lines: [Line<'_>; 8] = [
        ("usage", &|seen| size(seen.account.usage)),
        ("file cache", &|seen| size(seen.account.file)),
        ("of which inactive", &|seen| size(seen.account.file_inactive)),
        ("anonymous", &|seen| size(seen.account.anon)),
        ("reclaimable", &|seen| size(seen.account.reclaimable)),
        ("left below the limit", &left),
        ("read again", &rate),
        ("verdict", &state),
    ];
    let after = match (&outcome.after, &outcome.plan) {
        (Some(after), _) => {
            columns.push("after".to_owned());
            Some(after.clone())
        }
        (None, Some(plan)) if !outcome.refused => {
            // Of a dry run: what is to be expected.
            columns.push("expected".to_owned());
            let mut expected = before.clone();
            let lower = |value: &mut Option<u64>| *value = value.map(|value| value.saturating_sub(plan.goal));
            let account = &mut expected.account;
            [&mut account.usage, &mut account.file, &mut account.file_inactive, &mut account.reclaimable]
                .into_iter()
                .for_each(lower);
            account.headroom = account.headroom.map(|left| left + i64::try_from(plan.goal).unwrap_or(0));
            expected.judged = super::verdict::judge(&expected.sample, &expected.account, expected.rates.as_ref());
            Some(expected)
        }
        _ => None,
    };
    let rows = lines.iter().map(|(what, value_of)| {
        let mut row = vec![(*what).into(), value_of(before)];
        row.extend(after.as_ref().map(value_of));
        row
    });
    Table {
        title: format!("{}: {}.", before.sample.path, outcome.ended),
        columns,
        rows: rows.collect(),
        ..Table::default()
    }
}

/// The report on all groups.
pub fn report(outcomes: &[Outcome]) -> Report {
    let seen: Vec<Seen> =
        outcomes.iter().flat_map(|outcome| std::iter::once(&outcome.before).chain(&outcome.after)).cloned().collect();
    let mut steps = Table { name: "steps".to_owned(), ..Table::default() };
    steps.columns =
        ["path", "step", "asked", "freed", "refaults_per_s", "psi_some", "psi_full"].map(str::to_owned).to_vec();
    for outcome in outcomes {
        for (number, step) in outcome.steps.iter().enumerate() {
            let rate = |of: fn(&Rates) -> Option<f64>| Value::from(step.rates.as_ref().and_then(of));
            let place = [
                outcome.before.sample.path.as_str().into(),
                (number as u64 + 1).into(),
                step.asked.into(),
                step.freed.into(),
            ];
            steps.rows.push(
                place
                    .into_iter()
                    .chain([rate(|r| r.refaults_per_s), rate(|r| r.psi_some), rate(|r| r.psi_full)])
                    .collect(),
            );
        }
    }
    let mut notes = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.steps.is_empty()) {
        let asked: u64 = outcome.steps.iter().map(|step| step.asked).sum();
        let pressure = outcome.steps.iter().filter_map(|step| step.rates.as_ref()?.psi_some).fold(0.0, f64::max);
        notes.push(format!(
            "{} freed in {} steps by {} (goal {}); tasks stalled on memory at most {} of the time between steps.",
            bytes(outcome.freed() as f64),
            outcome.steps.len(),
            outcome.method,
            bytes(asked as f64),
            percent(pressure)
        ));
    }
    Report {
        schema: "plimsoll.memory-reclaim/v1".to_owned(),
        window: report::window(&seen),
        totals: vec![("freed".to_owned(), outcomes.iter().map(Outcome::freed).sum::<u64>().into())],
        table: Table {
            columns: FIELDS.map(str::to_owned).to_vec(),
            rows: outcomes.iter().map(row).collect(),
            ..Table::default()
        },
        people: Some(outcomes.iter().map(for_people).collect()),
        tables: vec![steps],
        notes,
        ..Report::default()
    }
}
