//! How full the pages of a file are, and how its free pages lie.

use super::findings;
use crate::analysis::keyspace::file::File;
use crate::model::keyspace::BucketPages;
use crate::model::report::{Report, Table, Value};
use crate::model::units::{counted, grouped, percent};

const COLUMNS: [&str; 13] = [
    "bucket",
    "entries",
    "depth",
    "branch_pages",
    "leaf_pages",
    "overflow_pages",
    "bytes",
    "leaf_fill_min",
    "leaf_fill_p50",
    "leaf_fill_p99",
    "branch_fill_min",
    "branch_fill_p50",
    "branch_fill_p99",
];

/// The report of `etcd pages`; `free` gives the lengths of runs of free pages.
pub fn report(buckets: Vec<BucketPages>, mut free: Vec<u64>, pages: u64, file: File) -> Report {
    let mut rows = Vec::new();
    let mut fills = (Vec::new(), 0);
    for mut bucket in buckets {
        let all = bucket.branches + bucket.leaves + bucket.overflow;
        bucket.branch_fills.sort_unstable_by(f32::total_cmp);
        bucket.leaf_fills.sort_unstable_by(f32::total_cmp);
        if bucket.name == "key" {
            fills = (bucket.leaf_fills.clone(), bucket.depth);
        }
        let name = if bucket.name.is_empty() { "(root)".to_owned() } else { bucket.name };
        let mut row: Vec<Value> = vec![name.as_str().into(), bucket.entries.into(), (bucket.depth as u64).into()];
        row.extend([bucket.branches, bucket.leaves, bucket.overflow, all * file.page_size].map(Value::from));
        for fills in [&bucket.leaf_fills, &bucket.branch_fills] {
            row.extend([0.0, 0.5, 0.99].map(|q| Value::from(quantile(fills, q))));
        }
        rows.push(row);
    }
    free.sort_unstable();
    let free_pages: u64 = free.iter().sum();
    let middle = free.get(free.len().div_ceil(2).saturating_sub(1)).copied();
    let longest = free.last().copied();
    let mut totals = file.totals();
    totals.extend(
        [
            ("pages", pages.into()),
            ("used_pages", (pages - free_pages).into()),
            ("free_pages", free_pages.into()),
            ("free_runs", (free.len() as u64).into()),
            ("longest_free_run", longest.unwrap_or(0).into()),
            ("free_run_p50", middle.into()),
            ("free_share", (pages > 0).then(|| free_pages as f64 / pages as f64).into()),
        ]
        .map(|(name, value): (&str, Value)| (name.to_owned(), value)),
    );
    let mut lead = vec![file.size()];
    if let (Some(middle), Some(least)) = (quantile(&fills.0, 0.5), quantile(&fills.0, 0.0)) {
        let (middle, least) = (percent(middle), percent(least));
        lead.push(format!(
            "Leaf pages of keys: median fill {middle}, minimum {least}, depth {}.",
            counted(fills.1 as u64, "page")
        ));
    }
    if let (Some(middle), Some(longest)) = (middle, longest) {
        let runs = counted(free.len() as u64, "run");
        let (middle, longest) = (grouped(middle), grouped(longest));
        lead.push(format!("Free pages: {runs}; median length {middle}, longest {longest} pages."));
    }
    let mut found = findings::FileFindings::new(&file);
    findings::of_size(&file, &mut found);
    findings::of_free_pages(&file, free.len() as u64, free_pages, middle, &mut found);
    let (name, title) = ("buckets".to_owned(), "Buckets".to_owned());
    let table = Table { name, title, columns: COLUMNS.map(str::to_owned).into(), rows, ..Table::default() };
    let runs = runs(&free, free_pages);
    Report {
        schema: "plimsoll.etcd-pages/v1".to_owned(),
        coverage: file.coverage(),
        lead,
        totals,
        people: (!runs.rows.is_empty()).then(|| vec![table.clone(), runs.clone()]),
        table,
        tables: vec![runs],
        notes: file.notes(),
        findings: found.list,
        inputs: file.inputs,
        ..Report::default()
    }
}

/// Nearest rank of ascending values.
fn quantile(values: &[f32], q: f64) -> Option<f64> {
    let rank = ((values.len() as f64 * q).ceil() as usize).max(1);
    values.get(rank - 1).map(|value| f64::from(*value))
}

/// Runs of free pages by length.
fn runs(free: &[u64], all: u64) -> Table {
    let mut rows: Vec<(u32, u64, u64)> = Vec::new();
    for length in free {
        let class = length.ilog2();
        match rows.last_mut().filter(|(last, ..)| *last == class) {
            Some((_, count, pages)) => (*count, *pages) = (*count + 1, *pages + length),
            None => rows.push((class, 1, *length)),
        }
    }
    let row = |(class, count, pages): (u32, u64, u64)| {
        let (from, to) = (1u64 << class, (1u64 << (class + 1)) - 1);
        let name = if from == to { from.to_string() } else { format!("{from}-{to}") };
        vec![name.as_str().into(), count.into(), pages.into(), (pages as f64 / all.max(1) as f64).into()]
    };
    Table {
        name: "runs".to_owned(),
        title: "Runs of free pages".to_owned(),
        columns: ["run_length", "runs", "free_pages", "share"].map(str::to_owned).into(),
        rows: rows.into_iter().map(row).collect(),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let values: Vec<f32> = (1..=100).map(|n| n as f32).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|q| quantile(&values, q)),
            [Some(1.0), Some(50.0), Some(99.0), Some(100.0)]
        );
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn runs_are_told_apart_by_powers_of_two() {
        let table = runs(&[1, 1, 2, 3, 4, 9], 20);
        let names: Vec<&Value> = table.rows.iter().map(|row| &row[0]).collect();
        assert_eq!(names, [&Value::from("1"), &"2-3".into(), &"4-7".into(), &"8-15".into()]);
        assert_eq!(table.rows[1][1..3], [2u64.into(), 5u64.into()]);
    }
}
