//! What was taken, as a report.

use super::taker::Taken;
use crate::model::report::{Report, Table, Value};
use crate::model::time;
use crate::model::units::{bytes, counted};
use crate::sources::audit::strip::Stripped;
use std::path::Path;
use std::time::Duration;

const COLUMNS: [&str; 6] = ["taken", "taken_from", "outcome", "files", "bytes", "reason"];

pub(super) fn report(taken: &Taken, target: &Path, took: Duration) -> Report {
    let target = target.display().to_string();
    let size = std::fs::metadata(&target).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
    let mut lead = vec![format!(
        "{}: {} of cluster {}, {}{}, in {:.1} s.",
        target,
        counted(taken.files, "file"),
        taken.cluster,
        bytes(taken.bytes as f64),
        size.map(|size| format!(" ({} packed)", bytes(size as f64))).unwrap_or_default(),
        took.as_secs_f64(),
    )];
    let lost = taken.rows.iter().filter(|row| row.is_lost()).count();
    if lost > 0 {
        let rules = if taken.rows.iter().any(|row| row.is_forbidden) {
            " A ClusterRole with all rules is in docs/commands/collect.md."
        } else {
            ""
        };
        lead.push(format!("{} could not be collected, see WHY NOT.{rules}", counted(lost as u64, "thing")));
    }
    let next = format!("Read it with: plimsoll report {target} -o html > report.html");
    let Stripped { events, bytes: removed, dropped } = taken.stripped;
    let mut notes = Vec::new();
    if events > 0 {
        notes.push(format!(
            "Bodies of {} ({}) were left out, their sizes kept; --with-bodies keeps them.",
            counted(events, "audit event"),
            bytes(removed as f64)
        ));
    }
    if dropped > 0 {
        notes.push(format!(
            "{} of audit logs could not be read and were left out, since bodies may be in them.",
            counted(dropped, "line")
        ));
    }
    if let Some(names) = taken.pseudonyms {
        notes.push(format!("{} were replaced. Review the bundle before you share it.", counted(names, "name")));
    }
    notes.push(next);
    let text = |text: &str| Value::Text(text.to_owned());
    let rows = taken.rows.iter().map(|row| {
        let why = if row.why.is_empty() { Value::None } else { text(&row.why) };
        vec![text(row.what), text(&row.of), text(row.outcome()), row.files.into(), row.bytes.into(), why]
    });
    let totals: [(&str, Value); 7] = [
        ("file", target.as_str().into()),
        ("cluster", taken.cluster.as_str().into()),
        ("from", Value::Text(time::format(taken.from))),
        ("to", Value::Text(time::format(taken.to))),
        ("files", taken.files.into()),
        ("bytes", taken.bytes.into()),
        ("packed_bytes", size.into()),
    ];
    Report {
        schema: "plimsoll.collect/v1".to_owned(),
        totals: totals.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        table: Table {
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            headings: vec![("reason", "WHY NOT")],
            ..Table::default()
        },
        lead,
        notes,
        ..Report::default()
    }
}
