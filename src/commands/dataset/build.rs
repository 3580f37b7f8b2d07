//! `plimsoll dataset build`: from logs, pages, databases and objects to a dataset, each exactly once.

use super::building::{Added, CapturedRows};
use super::sources::build;
use crate::cli::{Context, Error, FailOn};
use crate::model::dataset::table_names;
use crate::model::input::InputReport;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::units::{bytes, counted, percent};
use std::path::PathBuf;

/// Arguments of `plimsoll dataset build`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll dataset build /var/log/kubernetes/ --to events/
  # again, later: only what the logs have gained
  plimsoll dataset build /var/log/kubernetes/ --to events/
  duckdb -c \"select verb, count(*) from \\
    read_parquet('events/audit/**/*.parquet') group by all\"

Columns, partitions, how engines read them: docs/dataset.md.")]
pub struct Args {
    /// Audit logs, metrics pages, databases of etcd, objects with quotas: files, folders, globs, bundles.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    /// The folder of the dataset; it is added to.
    #[arg(long, value_name = "DIR", value_parser = crate::cli::parse_folder)]
    to: PathBuf,
    /// Build only these tables: audit, metrics, keyspace, quotas (default: of all that the sources hold).
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = table)]
    tables: Vec<String>,
}

fn table(name: &str) -> Result<String, String> {
    let (name, all): (&str, Vec<&str>) = (name.trim(), table_names().collect());
    all.contains(&name).then(|| name.to_owned()).ok_or_else(|| format!("the tables are {}", all.join(", ")))
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let is_wanted = |table: &str| args.tables.is_empty() || args.tables.iter().any(|own| own == table);
    let added = build(&args.sources, &args.to, &is_wanted, context)?;
    context.print(&report(added, args), FailOn::Never)
}

fn report(added: Added, args: &Args) -> Report {
    let Added { written, events, logs, known, inputs, span, captured } = added;
    let of_logs: Vec<&InputReport> = inputs.iter().filter(|input| input.kind == "audit").collect();
    let read: u64 = inputs.iter().map(|input| input.bytes).sum();
    let captures = |of: fn(&CapturedRows) -> u64| captured.values().map(of).sum::<u64>();
    let (new, old) = (captures(|own| own.captures), captures(|own| own.known));
    let to = args.to.display();
    let mut what = Vec::new();
    if logs > 0 {
        what.push(format!("{} of {}", counted(events, "event"), counted(logs, "log")));
    }
    if new > 0 {
        what.push(format!("{} of {}", counted(captures(|own| own.rows), "row"), counted(new, "capture")));
    }
    let lead = match what.is_empty() {
        true if known + old == 0 => "No events and no captures in the sources.".to_owned(),
        true if old == 0 => format!("Nothing new: {} in {to} already.", counted(known, "log")),
        true => format!("Nothing new: {} and {} in {to} already.", counted(known, "log"), counted(old, "capture")),
        false => {
            let mut lead = format!("{} added to {to}: {}", what.join(" and "), bytes(written.bytes as f64));
            // Of logs unpacked bytes were read; of captures, those on disk.
            if new == 0 && read > 0 {
                lead += &format!(", {} of what was read", percent(written.bytes as f64 / read as f64));
            }
            lead + "."
        }
    };
    let row = |input: &&InputReport| -> Vec<Value> {
        vec![
            input.path.as_str().into(),
            Value::Count(input.records),
            Value::Count(input.bytes),
            Value::Count(input.skipped),
        ]
    };
    let of_table = |(name, own): (&&str, &CapturedRows)| -> Vec<Value> {
        vec![(*name).into(), Value::Count(own.captures), Value::Count(own.rows), Value::Count(own.known)]
    };
    let captures = Table {
        name: "captures".to_owned(),
        columns: ["dataset_table", "captures", "captured_rows", "known_captures"].map(str::to_owned).to_vec(),
        rows: captured.iter().map(of_table).collect(),
        ..Table::default()
    };
    let table = Table {
        name: "logs".to_owned(),
        columns: ["log_path", "dataset_events", "read_bytes", "skipped_lines"].map(str::to_owned).to_vec(),
        rows: of_logs.iter().map(row).collect(),
        ..Table::default()
    };
    let has_rows = |table: &&Table| !table.rows.is_empty();
    Report {
        people: Some([&table, &captures].into_iter().filter(has_rows).cloned().collect()),
        schema: "plimsoll.dataset-build/v1".to_owned(),
        window: Window::of(span),
        totals: [
            ("events", events),
            ("logs", logs),
            ("known_logs", known),
            ("captures", new),
            ("known_captures", old),
            ("files", written.files),
            ("bytes", written.bytes),
            ("read_bytes", read),
        ]
        .map(|(name, count)| (name.to_owned(), Value::Count(count)))
        .to_vec(),
        table,
        tables: Some(captures).filter(|table| !table.rows.is_empty()).into_iter().collect(),
        lead: vec![lead],
        inputs,
        ..Report::default()
    }
}
