//! `plimsoll dashboards`: Grafana boards and Prometheus rules, as files.

use crate::actions::fresh::replace;
use crate::cli::{Context, Error, FailOn};
use crate::model::report::{Report, Table, Value};
use crate::model::units::counted;
use crate::views::dashboards::files;
use std::path::PathBuf;

/// Arguments of `plimsoll dashboards`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll dashboards --to dashboards
  promtool check rules dashboards/prometheus/*.yaml
  kubectl apply -f dashboards/kube-prometheus/prometheusrule.yaml")]
pub struct Args {
    /// The folder to write to; files of the same names are replaced, others stay.
    #[arg(long, value_name = "DIR", value_parser = crate::cli::parse_folder)]
    to: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let files = files()?;
    for file in &files {
        let path = args.to.join(&file.path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = written.and_then(|()| replace(&path, file.content.as_bytes()));
        written.map_err(|error| Error::Input(format!("{}: {error}; choose a writable folder", path.display())))?;
    }
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    let row = |file: &crate::views::dashboards::File| {
        let bytes = Value::Count(file.content.len() as u64);
        vec![file.path.as_str().into(), file.kind.into(), Value::Count(file.items), bytes]
    };
    let report = Report {
        schema: "plimsoll.dashboards/v1".to_owned(),
        totals: vec![
            ("files".to_owned(), Value::Count(files.len() as u64)),
            ("bytes".to_owned(), Value::Count(bytes as u64)),
        ],
        table: Table {
            name: "files".to_owned(),
            columns: ["file", "kind", "items", "bytes"].map(str::to_owned).to_vec(),
            rows: files.iter().map(row).collect(),
            ..Table::default()
        },
        lead: vec![format!(
            "{} written to {}; docs/commands/dashboards.md explains how to import them.",
            counted(files.len() as u64, "file"),
            args.to.display()
        )],
        ..Report::default()
    };
    context.print(&report, FailOn::Never)
}
