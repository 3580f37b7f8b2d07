//! `plimsoll dataset query`: SQL over datasets and roll-ups, and over logs, pages, databases and objects as they are.

use super::building::failed;
use super::named::{QUERIES, query};
use super::sources::build;
use crate::actions::fresh::Temporary;
use crate::actions::rollup::write;
use crate::cli::{Context, Error, FailOn};
use crate::inputs::manifest::{giving, manifest};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::model::dataset::{AUDIT, CAPTURED, EVENTS, TableColumn, table_names};
use crate::model::input::InputReport;
use crate::model::problem::ProblemKind;
use crate::model::report::{Report, Table, Value};
use crate::model::rollup::{Kind, MANIFEST, SEAMS, TABLES, TableSpec, kind};
use crate::model::units::counted;
use crate::sources::dataset;
use crate::sources::find;
use crate::sources::found::LogStream;
use crate::sources::open::Place;
use crate::sources::rolled;
use crate::sources::sql::{self, SqlFiles, SqlTable};
use crate::sources::store::{ROLLUPS, Store};
use crate::sources::wanted::Wanted;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// A query is not longer, in bytes.
const LONGEST_QUERY: u64 = 1 << 20;

/// Rows that people are shown where they ask for no other number.
const SHOWN_ROWS: usize = 1000;

/// Arguments of `plimsoll dataset query`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll dataset query top-clients events/
  plimsoll dataset query \"select verb, count(*) as n from audit
    where code = 429 group by verb\" /var/log/kubernetes/
  # tables and columns; queries that have a name
  plimsoll dataset query .schema
  plimsoll dataset query .queries
  # a query in a file, or from stdin
  plimsoll dataset query @slow.sql events/ -o csv
  # roll-ups have tables of their own
  plimsoll dataset query \"select user, sum(requests) as n
    from traffic group by user\" week/

Tables and columns: docs/dataset.md, docs/rollup.md.")]
pub(super) struct Args {
    /// SQL, the name of a query, @FILE, @- for stdin, .schema or .queries.
    #[arg(value_name = "SQL")]
    sql: String,
    /// Datasets, roll-ups, stores, audit logs, metrics pages, databases of etcd, objects, bundles.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match args.sql.as_str() {
        ".schema" => return context.print(&schema(), FailOn::Never),
        ".queries" => return context.print(&queries(), FailOn::Never),
        name if name.starts_with('.') => {
            return Err(Error::Usage(format!("{name}: unknown; write .schema, .queries or SQL")));
        }
        _ => {}
    }
    context.refuse_sort("a query orders its rows itself; write order by {field}")?;
    let sql = text(&args.sql)?;
    let asked = sql::tables_of(&sql).map_err(|problem| Error::Usage(problem.to_string()))?;
    let names: BTreeSet<&str> = asked.iter().map(String::as_str).filter(|name| is_table(name)).collect();
    if args.sources.is_empty() {
        return Err(Error::Usage("name a SOURCE: a dataset, a roll-up, logs, a bundle".to_owned()));
    }
    let mut found = Tables::default();
    found.fill(&args.sources, &names, context)?;
    let mut all = Vec::new();
    for name in names {
        all.push(found.table(name, &args.sources)?);
    }
    let most = context.settings.asked_top().filter(|top| *top < usize::MAX);
    let answer = sql::query(&all, &sql, most).map_err(|problem| match problem.kind {
        ProblemKind::Setting => Error::Usage(problem.to_string()),
        _ => Error::Input(format!("{}: {problem}", args.sources.join(", "))),
    })?;
    let count = answer.rows.len();
    let shown = SHOWN_ROWS.min(count);
    let table_of = |rows| Table {
        name: "rows".to_owned(),
        columns: answer.columns.clone(),
        rows,
        is_raw: true,
        ..Table::default()
    };
    let for_people = most.is_none().then(|| vec![table_of(answer.rows[..shown].to_vec())]);
    let mut notes = Vec::new();
    if most.is_none() && count > shown {
        notes.push(format!("{shown} of {count} rows are shown; --top {count}, -o csv and -o json have all."));
    }
    if count == 0 {
        notes.push("No rows.".to_owned());
    }
    let report = Report {
        schema: "plimsoll.dataset-query/v1".to_owned(),
        inputs: found.inputs,
        totals: vec![("rows".to_owned(), Value::Count(count as u64))],
        people: for_people,
        table: table_of(answer.rows),
        notes,
        ..Report::default()
    };
    context.print(&report, FailOn::Never)
}

/// The SQL that is meant.
fn text(argument: &str) -> Result<String, Error> {
    if let Some(named) = query(argument) {
        return Ok(named.sql.to_owned());
    }
    if !argument.contains(char::is_whitespace) && !argument.starts_with('@') {
        let names: Vec<&str> = QUERIES.iter().map(|query| query.name).collect();
        let like = names.iter().find(|name| strsim::jaro_winkler(name, argument) > 0.9);
        if let Some(like) = like {
            return Err(Error::Usage(format!("{argument}: no query has this name; is it {like}?")));
        }
        return Err(Error::Usage(format!(
            "{argument}: no query has this name; write SQL, or one of {}",
            names.join(", ")
        )));
    }
    let Some(path) = argument.strip_prefix('@') else { return Ok(argument.to_owned()) };
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().take(LONGEST_QUERY).read_to_string(&mut text),
        path => std::fs::File::open(path).and_then(|file| file.take(LONGEST_QUERY).read_to_string(&mut text)),
    };
    read.map_err(|error| failed(&path, &error))?;
    Ok(text)
}

/// Tables of roll-ups.
fn rolled_tables() -> impl Iterator<Item = &'static TableSpec> {
    TABLES.iter().chain([&SEAMS])
}

fn is_table(name: &str) -> bool {
    table_names().any(|own| own == name) || rolled_tables().any(|own| own.name == name)
}

/// Where the rows of tables are.
#[derive(Debug, Default)]
struct Tables {
    tables: Vec<SqlTable>,
    inputs: Vec<InputReport>,
    /// What was made for this query, and is removed behind it.
    made: Vec<Temporary>,
}

impl Tables {
    fn add(&mut self, name: &str, files: SqlFiles) {
        if files.files.is_empty() {
            return;
        }
        match self.tables.iter_mut().find(|table| table.name == name) {
            Some(table) => table.places.push(files),
            None => self.tables.push(SqlTable { name: name.to_owned(), places: vec![files] }),
        }
    }

    /// A table that a query names.
    fn table(&self, name: &str, sources: &[String]) -> Result<SqlTable, Error> {
        let found = self.tables.iter().find(|table| table.name == name).cloned();
        found.ok_or_else(|| {
            let have: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
            let hint = match name {
                AUDIT => "it takes audit logs or a dataset of some; a roll-up holds no single events",
                "metrics" => "it takes metrics pages or a dataset of some",
                "keyspace" => "it takes a database of etcd or a dataset of some",
                "quotas" => "it takes Kubernetes objects with ResourceQuotas or a dataset of some",
                _ => "a table of roll-ups: give a roll-up, or audit logs",
            };
            let also = if have.is_empty() { String::new() } else { format!(" (found: {})", have.join(", ")) };
            Error::Input(format!("{name}: nothing in {} holds this table; {hint}{also}", sources.join(", ")))
        })
    }

    /// Finds the files of the tables that are wanted, and makes those that are not there yet.
    fn fill(&mut self, sources: &[String], names: &BTreeSet<&str>, context: &mut Context<'_>) -> Result<(), Error> {
        let mut others = Vec::new();
        let mut taken = BTreeSet::new();
        for source in sources {
            let path = Path::new(source);
            // All of a dataset, or what of it lies below a folder.
            let (folder, part) = match dataset::around(path) {
                _ if dataset::is_dataset(path) => (path.to_owned(), None),
                Some(folder) => (folder, std::fs::canonicalize(path).ok()),
                None => {
                    others.push(source.clone());
                    continue;
                }
            };
            let mut bytes = 0;
            for name in names.iter().copied().filter(|name| table_names().any(|own| own == *name)) {
                let mut files = dataset::files(&folder, name).map_err(|error| failed(source, &error))?;
                files.retain(|file| part.as_ref().is_none_or(|part| file.starts_with(part)));
                files.retain(|file| taken.insert(std::fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
                bytes += files.iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum::<u64>();
                self.add(name, SqlFiles { partitions_below: Some(folder.join(name)), files });
            }
            self.inputs.push(InputReport { path: source.clone(), kind: "dataset", bytes, ..InputReport::default() });
        }
        if others.is_empty() {
            return Ok(());
        }
        let others: Vec<String> = others.into_iter().map(rollups_of).collect();
        self.roll_ups(&others, names, context)?;
        // A roll-up holds no single events.
        let is_rolled = |source: &String| {
            let folder = Path::new(source);
            folder.join(MANIFEST).is_file() || folder.ends_with(ROLLUPS)
        };
        let raw: Vec<String> = others.into_iter().filter(|source| !is_rolled(source)).collect();
        if !raw.is_empty() && table_names().any(|name| names.contains(name)) {
            self.events(&raw, names, context)?;
        }
        Ok(())
    }

    /// Tables of roll-ups: those of folders, and of logs that have none.
    fn roll_ups(&mut self, sources: &[String], names: &BTreeSet<&str>, context: &mut Context<'_>) -> Result<(), Error> {
        let wanted: Vec<&TableSpec> = rolled_tables().filter(|spec| names.contains(spec.name)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let found = find::find(sources, Wanted::Logs, context.io.now);
        found.errors.iter().try_for_each(|error| context.lost(error))?;
        let (stored, logs): (Vec<LogStream>, Vec<LogStream>) =
            found.streams.into_iter().partition(LogStream::is_rolled);
        let mut folders = BTreeSet::new();
        for file in stored.iter().flat_map(|stream| &stream.files) {
            let Place::File(path) = &file.place else { continue };
            if folders.insert(path.clone()) {
                let own = rolled::open(path).map_err(|problem| Error::Input(problem.to_string()))?;
                for spec in &wanted {
                    let file = own.folder.join(spec.file(None));
                    let files = if file.is_file() { vec![file] } else { Vec::new() };
                    self.add(spec.name, SqlFiles { partitions_below: None, files });
                }
                self.inputs.push(InputReport { path: file.path.clone(), kind: "rollup", ..InputReport::default() });
            }
        }
        if folders.len() > 1 {
            context.notice(format!(
                "{} stand below one another: a watch that crosses from one into the next counts in both; plimsoll \
                 rollup SOURCE --to DIR makes one of them",
                counted(folders.len() as u64, "roll-up")
            ))?;
        }
        if logs.is_empty() {
            return Ok(());
        }
        let streams: Vec<(String, String)> =
            logs.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone())).collect();
        let (rollup, outcome) = rollup::read(logs, &Selection::default(), context)?;
        let home = self.temporary()?;
        let folder = home.join("rollup");
        let about = manifest(&rollup, &streams, &outcome);
        write(&folder, &about, &giving(&rollup), &[]).map_err(|error| failed(&folder.display(), &error))?;
        for spec in wanted {
            self.add(spec.name, SqlFiles { partitions_below: None, files: vec![folder.join(spec.file(None))] });
        }
        self.inputs.extend(outcome.inputs);
        Ok(())
    }

    /// Events and captures, as a dataset that lasts as long as the query.
    fn events(&mut self, sources: &[String], names: &BTreeSet<&str>, context: &mut Context<'_>) -> Result<(), Error> {
        let home = self.temporary()?;
        let is_wanted = |name: &str| names.contains(name);
        let added = build(sources, &home, &is_wanted, context)?;
        if added.events > 0 {
            let what = counted(added.events, "event");
            context.notice(format!("{what} made into a dataset for this query; plimsoll dataset build keeps one"))?;
        }
        self.inputs.extend(added.inputs);
        for name in table_names().filter(|name| is_wanted(name)) {
            let files = dataset::files(&home, name).map_err(|error| failed(&home.display(), &error))?;
            self.add(name, SqlFiles { partitions_below: Some(home.join(name)), files });
        }
        Ok(())
    }

    fn temporary(&mut self) -> Result<PathBuf, Error> {
        let home = Temporary::make("query").map_err(|error| Error::Input(error.to_string()))?;
        let path = home.path().to_owned();
        self.made.push(home);
        Ok(path)
    }
}

/// Of a store, its roll-ups; else the source itself.
fn rollups_of(source: String) -> String {
    let folder = Path::new(&source);
    match Store::is_store(folder) && folder.join(ROLLUPS).is_dir() {
        true => folder.join(ROLLUPS).display().to_string(),
        false => source,
    }
}

/// Tables, columns and types.
fn schema() -> Report {
    let text = |text: &str| Value::text(text.replace('`', ""));
    let of_dataset = |table: &'static str, columns: &'static [TableColumn]| {
        columns.iter().map(move |own| vec![table.into(), own.name.into(), own.kind.name().into(), text(own.meaning)])
    };
    let partitions = |table: &'static str, has_hour: bool| {
        let hour = has_hour.then_some(["hour", "int64", "hour of the day, UTC"]);
        [["cluster", "string", "the cluster, as its bundle names it"], ["date", "string", "the day, UTC: 2026-11-20"]]
            .into_iter()
            .chain(hour)
            .map(move |own| [table].into_iter().chain(own).map(Value::from).collect::<Vec<Value>>())
    };
    let mut rows: Vec<Vec<Value>> = of_dataset(AUDIT, &EVENTS).chain(partitions(AUDIT, true)).collect();
    for table in CAPTURED {
        rows.extend(of_dataset(table.name, table.columns).chain(partitions(table.name, false)));
    }
    for spec in rolled_tables() {
        let kind_of = |name: &str| match kind(name) {
            Kind::Number => "int64",
            Kind::Truth => "boolean",
            Kind::Text => "string",
        };
        let row = |name: &&'static str| vec![spec.name.into(), (*name).into(), kind_of(name).into(), Value::None];
        rows.extend(spec.columns.iter().map(row));
    }
    Report {
        schema: "plimsoll.dataset-schema/v1".to_owned(),
        totals: vec![("columns".to_owned(), Value::Count(rows.len() as u64))],
        table: Table {
            name: "columns".to_owned(),
            columns: ["dataset_table", "dataset_column", "column_type", "meaning"].map(str::to_owned).to_vec(),
            rows,
            ..Table::default()
        },
        notes: vec![
            "audit, metrics, keyspace, quotas: docs/dataset.md. The other tables are those of roll-ups: docs/rollup.md."
                .to_owned(),
        ],
        ..Report::default()
    }
}

/// Queries that have a name.
fn queries() -> Report {
    let rows: Vec<Vec<Value>> =
        QUERIES.iter().map(|own| vec![own.name.into(), own.about.into(), own.sql.into()]).collect();
    Report {
        schema: "plimsoll.dataset-queries/v1".to_owned(),
        totals: vec![("queries".to_owned(), Value::Count(rows.len() as u64))],
        table: Table {
            name: "queries".to_owned(),
            columns: ["query", "meaning", "text"].map(str::to_owned).to_vec(),
            rows,
            ..Table::default()
        },
        ..Report::default()
    }
}
