//! `plimsoll cache`: roll-ups that are kept across runs.

use crate::actions::cache as writing;
use crate::cli::{Context, Error, FailOn};
use crate::model::report::{Report, Table, Value};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{bytes, counted};
use crate::sources::cache::{self as reading, CachedRollup};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Arguments of `plimsoll cache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll cache ls
  plimsoll cache ls -o json | jq '.rows[] | {log, bytes, used}'
  plimsoll cache clear
  # reads the log in spite of the cache
  plimsoll clients /var/log/kubernetes/ --no-cache

What is cached, when the cache answers, and when the log is read: docs/rollup.md, section 8.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// List cached roll-ups.
    #[command(after_help = "EXAMPLES
  plimsoll cache ls -o json | jq '.rows[] | {log, bytes, used}'")]
    Ls,
    /// Remove all roll-ups from the cache.
    #[command(after_help = "EXAMPLES
  plimsoll cache clear")]
    Clear,
}

/// Columns of `cache ls`.
const COLUMNS: [&str; 9] = ["log", "apiservers", "from", "to", "covers", "bytes", "made", "age", "used"];

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let Some(cache) = context.settings.cache.folder.clone() else {
        return Err(Error::Usage(
            "the cache is off: no home folder is set, or --no-cache is given; set a folder with --cache".to_owned(),
        ));
    };
    match args.what {
        What::Ls => ls(&cache, context),
        What::Clear => clear(&cache, context),
    }
}

fn ls(cache: &Path, context: &mut Context<'_>) -> Result<(), Error> {
    let contents = reading::contents(cache);
    let (others, damaged) = (contents.others.len(), contents.damaged.len());
    let mut kept = contents.kept;
    kept.sort_by_key(|kept| (std::cmp::Reverse(kept.used()), kept.folder.clone()));
    let all: u64 = kept.iter().map(CachedRollup::bytes).sum();
    let now = context.io.now;
    let mut notes = Vec::new();
    if others > 0 {
        notes.push(format!("{} of another version of plimsoll.", counted(others as u64, "more entry")));
    }
    if damaged > 0 {
        notes.push(format!("{} can't be read; the next access removes it.", counted(damaged as u64, "more entry")));
    }
    let limit = bytes(context.settings.cache.size as f64);
    let report = Report {
        schema: "plimsoll.cache/v1".to_owned(),
        totals: vec![
            ("entries".to_owned(), Value::Count(kept.len() as u64)),
            ("bytes".to_owned(), Value::Count(all)),
            ("limit_bytes".to_owned(), Value::Count(context.settings.cache.size)),
        ],
        table: Table {
            name: "entries".to_owned(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: kept.iter().map(|kept| row(kept, now)).collect(),
            ..Table::default()
        },
        lead: vec![format!(
            "{} in {}: {} of at most {limit}.",
            counted(kept.len() as u64, "roll-up"),
            cache.display(),
            bytes(all as f64)
        )],
        notes,
        ..Report::default()
    };
    context.print(&report, FailOn::Never)
}

fn row(kept: &CachedRollup, now: Micros) -> Vec<Value> {
    let manifest = &kept.rolled.manifest;
    let paths: Vec<&str> = kept.entry.files().map(|file| file.path.as_str()).collect();
    let log = match paths.as_slice() {
        [first, .., last] => format!("{first} … {last} ({} files)", paths.len()),
        [only] => (*only).to_owned(),
        [] => String::new(),
    };
    let names = kept.entry.streams.iter().map(|own| match (own.cluster.as_str(), own.instance.as_str()) {
        ("", instance) => instance.to_owned(),
        (cluster, "") => cluster.to_owned(),
        (cluster, instance) => format!("{cluster}/{instance}"),
    });
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    let at = |at: Option<Micros>| Value::Text(at.map(time::format).unwrap_or_default());
    let used = kept.used().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
    vec![
        Value::Text(log),
        Value::Text(names.into_iter().collect::<Vec<_>>().join(" ")),
        at(manifest.first),
        at(manifest.last),
        Value::Count(kept.entry.covers()),
        Value::Count(kept.bytes()),
        at(Some(kept.entry.made)),
        Value::Number((now - kept.entry.made).max(0) as f64 / SECOND as f64),
        at(Micros::try_from(used).ok()),
    ]
}

fn clear(cache: &Path, context: &mut Context<'_>) -> Result<(), Error> {
    let contents = reading::contents(cache);
    let kept = contents.kept.into_iter().map(|kept| kept.folder);
    let folders: Vec<PathBuf> = kept.chain(contents.others).chain(contents.damaged).collect();
    let mut freed = 0;
    for folder in &folders {
        freed += reading::bytes(folder);
        let failed = |error: std::io::Error| Error::Input(format!("{}: {error}", folder.display()));
        writing::remove(folder).map_err(failed)?;
    }
    writing::clean(cache, Duration::ZERO);
    let report = Report {
        schema: "plimsoll.cache-clear/v1".to_owned(),
        totals: vec![
            ("entries".to_owned(), Value::Count(folders.len() as u64)),
            ("bytes".to_owned(), Value::Count(freed)),
        ],
        lead: vec![format!(
            "{} removed from {}: {}.",
            counted(folders.len() as u64, "roll-up"),
            cache.display(),
            bytes(freed as f64)
        )],
        ..Report::default()
    };
    context.print(&report, FailOn::Never)
}
