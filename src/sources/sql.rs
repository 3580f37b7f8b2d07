//! SQL over tables that are Parquet files, by polars.

mod checked;
mod rewritten;

use crate::model::alike::most_alike;
use crate::model::dataset::NO_NAME;
use crate::model::problem::{Problem, ProblemKind, guarded};
use crate::model::report::Value;
use crate::model::time::{DAY, Micros, SECOND, format};
use checked::checked;
use polars::io::HiveOptions;
use polars::prelude::{
    AnyValue, Column, DataFrame, DataType, Engine, LazyFrame, NULL, PlRefPath, PolarsError, ScanArgsParquet, Schema,
    TimeUnit, UnionArgs, concat, lit,
};
use polars::sql::{SQLContext, extract_table_identifiers};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of one table that lie in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SqlFiles {
    /// Where partitions (`cluster=…/date=…`) begin, if there are any.
    pub partitions_below: Option<PathBuf>,
    pub files: Vec<PathBuf>,
}

/// A table, and where its rows are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SqlTable {
    pub name: String,
    pub places: Vec<SqlFiles>,
}

/// What a query came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SqlAnswer {
    /// Names of the columns, no two alike.
    pub columns: Vec<String>,
    /// A value for each of them.
    pub rows: Vec<Vec<Value>>,
}

/// The names of the tables that a query reads, in the order in which they are named.
pub fn tables_of(sql: &str) -> Result<Vec<String>, Problem> {
    on_a_deep_stack(|| {
        let sql = checked(sql, &[])?;
        extract_table_identifiers(&sql, false, true).map_err(|error| problem(&error))
    })
}

/// Answers a query; no more rows than `most` are kept, where that is given.
pub fn query(tables: &[SqlTable], sql: &str, most: Option<usize>) -> Result<SqlAnswer, Problem> {
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let frame = on_a_deep_stack(|| {
        let mut context = SQLContext::new();
        for table in tables {
            context.register(&table.name, frame(table).map_err(|error| problem(&error).at(&table.name))?);
        }
        let plan = context.execute(&checked(sql, &names)?).map_err(|error| problem(&error))?;
        let plan = match most {
            Some(most) => plan.limit(u32::try_from(most).unwrap_or(u32::MAX)),
            None => plan,
        };
        // Not all rows are in memory at once, where that can be helped.
        let answer = plan.collect_with_engine(Engine::Streaming).map_err(|error| problem(&error))?;
        Ok(answer.unwrap_single())
    })?;
    guarded(|| rows(&frame))
}

/// Bytes of stack for long queries, of which each operator is a step deeper.
const STACK: usize = 256 << 20;

/// Runs what goes deep, and may panic where a file is damaged or where polars lacks something; no more is printed than
/// the problem.
fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> Result<T, Problem> + Send) -> Result<T, Problem> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || guarded(work))?;
        thread.join().unwrap_or_else(|_| Err(Problem::malformed("")))
    });
    std::panic::set_hook(hook);
    done.map_err(|problem| match problem.kind {
        ProblemKind::Malformed => {
            Problem::malformed("the query could not be answered: a file is damaged, or polars lacks what it asks for")
                .hint("check the files, or ask in another way")
        }
        _ => problem,
    })
}

/// All rows of a table: those of its places below each other.
fn frame(table: &SqlTable) -> Result<LazyFrame, PolarsError> {
    let places: Vec<SqlFiles> = table.places.iter().flat_map(by_name).collect();
    let mut all = places.iter().map(scan).collect::<Result<Vec<LazyFrame>, PolarsError>>()?;
    match all.len() {
        1 => Ok(all.swap_remove(0)),
        _ => concat(all, UnionArgs { rechunk: false, ..UnionArgs::default() }),
    }
}

/// Files with a cluster's name, and those without. Where a condition on a partition is unknown, as `cluster <> 'eu'` of
/// no cluster, polars keeps all rows of the file (0.55); of a column it doesn't.
fn by_name(place: &SqlFiles) -> Vec<SqlFiles> {
    let (nameless, named): (Vec<PathBuf>, Vec<PathBuf>) =
        place.files.iter().cloned().partition(|file| is_nameless(place, file));
    let parts = [named, nameless].into_iter().filter(|files| !files.is_empty());
    parts.map(|files| SqlFiles { files, ..place.clone() }).collect()
}

/// Whether a file is of no cluster.
fn is_nameless(place: &SqlFiles, file: &Path) -> bool {
    let of = |folder: &PathBuf| file.starts_with(folder.join(format!("cluster={NO_NAME}")));
    place.partitions_below.as_ref().is_some_and(of)
}

fn scan(place: &SqlFiles) -> Result<LazyFrame, PolarsError> {
    let hive_options = match &place.partitions_below {
        Some(folder) => {
            let kinds = [("cluster", DataType::String), ("date", DataType::String), ("hour", DataType::Int64)];
            let has = |name: &str| {
                let part = format!("/{name}=");
                place
                    .files
                    .first()
                    .is_some_and(|file| file.to_string_lossy()[folder.as_os_str().len()..].contains(&part))
            };
            let schema: Schema =
                kinds.into_iter().filter(|(name, _)| has(name)).map(|(name, kind)| (name.into(), kind)).collect();
            HiveOptions {
                enabled: Some(true),
                hive_start_idx: folder.as_os_str().len(),
                schema: Some(Arc::new(schema)),
                try_parse_dates: false,
            }
        }
        None => HiveOptions::new_disabled(),
    };
    let paths = place.files.iter().map(|file| PlRefPath::new(file.to_string_lossy()));
    // A file of an earlier version lacks columns; names may hold what stands for others in a pattern.
    let args = ScanArgsParquet { hive_options, glob: false, allow_missing_columns: true, ..ScanArgsParquet::default() };
    let frame = LazyFrame::scan_parquet_files(paths.collect(), args)?;
    Ok(match place.files.first().is_some_and(|file| is_nameless(place, file)) {
        true => frame.with_column(lit(NULL).cast(DataType::String).alias("cluster")),
        false => frame,
    })
}

/// What polars says, without the names of its kinds of errors and of its own plans.
fn problem(error: &PolarsError) -> Problem {
    const SCHEMA: &str = ".schema lists tables and columns";
    let text = match error {
        PolarsError::Context { error, .. } => return problem(error),
        PolarsError::SQLInterface(text) | PolarsError::SQLSyntax(text) | PolarsError::ColumnNotFound(text) => {
            text.to_string()
        }
        other => other.to_string(),
    };
    let first = text.split("\n\nResolved plan").next().unwrap_or_default().trim_end_matches(['.', '\n']);
    if let PolarsError::ColumnNotFound(_) = error {
        // All columns that there are follow.
        let (what, all) = first.split_once("; valid columns: ").unwrap_or((first, ""));
        let wanted = what.split('"').nth(1).unwrap_or_default();
        let like = most_alike(all.split('"').skip(1).step_by(2), wanted);
        let hint = like.map_or(SCHEMA.to_owned(), |like| format!("is it {like}? {SCHEMA}"));
        return Problem::setting(format!("no such column: {wanted}")).hint(hint);
    }
    if first.starts_with("parquet: ") || first.contains("File out of specification") {
        return Problem::damaged(format!("a Parquet file can't be read: {first}")).hint("build the dataset again");
    }
    // What it does not know it writes out as it holds it.
    if let Some((what, _)) = first.split_once(" { ") {
        return Problem::setting(format!("polars does not support this: {what}")).hint("ask in another way");
    }
    let is_schema = first.contains("was not found") || first.contains("does not exist");
    let problem = Problem::setting(first.to_owned());
    if is_schema { problem.hint(SCHEMA) } else { problem }
}

fn rows(frame: &DataFrame) -> Result<SqlAnswer, Problem> {
    let columns: Vec<&Column> = frame.columns().iter().collect();
    let mut rows = Vec::with_capacity(frame.height());
    for row in 0..frame.height() {
        let value = |column: &&Column| Ok(value(&column.get(row).map_err(|error| problem(&error))?));
        rows.push(columns.iter().map(value).collect::<Result<Vec<Value>, Problem>>()?);
    }
    Ok(SqlAnswer { columns: columns.iter().map(|column| column.name().to_string()).collect(), rows })
}

/// Microseconds.
fn micros(value: i64, unit: TimeUnit) -> Micros {
    match unit {
        TimeUnit::Nanoseconds => value.div_euclid(1000),
        TimeUnit::Microseconds => value,
        TimeUnit::Milliseconds => value.saturating_mul(1000),
    }
}

fn whole(number: i128) -> Value {
    match u64::try_from(number) {
        Ok(count) => Value::Count(count),
        // In JSON all digits of a number below zero, too.
        Err(_) => i64::try_from(number).map_or(Value::Number(number as f64), |number| Value::Json(number.into())),
    }
}

fn real(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::None, |number| Value::Json(number.into()))
}

fn value(value: &AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::None,
        AnyValue::Boolean(truth) => Value::Json((*truth).into()),
        // Also empty ones, which are not null.
        AnyValue::String(text) => Value::Text((*text).to_owned()),
        AnyValue::StringOwned(text) => Value::Text(text.to_string()),
        AnyValue::UInt8(number) => whole((*number).into()),
        AnyValue::UInt16(number) => whole((*number).into()),
        AnyValue::UInt32(number) => whole((*number).into()),
        AnyValue::UInt64(number) => whole((*number).into()),
        AnyValue::Int8(number) => whole((*number).into()),
        AnyValue::Int16(number) => whole((*number).into()),
        AnyValue::Int32(number) => whole((*number).into()),
        AnyValue::Int64(number) => whole((*number).into()),
        AnyValue::Int128(number) => whole(*number),
        // With all of its digits.
        AnyValue::Float32(number) => real(f64::from(*number)),
        AnyValue::Float64(number) => real(*number),
        AnyValue::Date(days) => Value::Text(format(i64::from(*days) * DAY)[..10].to_owned()),
        AnyValue::Datetime(at, unit, _) => Value::Text(format(micros(*at, *unit))),
        AnyValue::DatetimeOwned(at, unit, _) => Value::Text(format(micros(*at, *unit))),
        AnyValue::Duration(length, unit) => real(micros(*length, *unit) as f64 / SECOND as f64),
        AnyValue::List(items) => Value::Json(items.iter().map(|item| json(&item)).collect()),
        AnyValue::Binary(bytes) => Value::Text(bytes.escape_ascii().to_string()),
        other => Value::Text(other.str_value().into_owned()),
    }
}

fn json(of: &AnyValue<'_>) -> serde_json::Value {
    match value(of) {
        Value::Text(text) => text.into(),
        Value::Count(count) => count.into(),
        Value::Number(number) => number.into(),
        Value::Json(json) => json,
        _ => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_a_query_are_known() {
        let sql = "with a as (select * from audit) select * from a join traffic t using (verb)";
        let tables = tables_of(sql).unwrap();
        assert!(tables.contains(&"audit".to_owned()) && tables.contains(&"traffic".to_owned()), "{tables:?}");
        for wrong in ["", "select", "select 1; select 2", "drop everything"] {
            assert!(tables_of(wrong).is_err(), "{wrong}");
        }
        let answer = query(&[], "select 1 as x, 2 as cluster, 3 as user, 4 as group", None).unwrap();
        assert_eq!(answer.columns, ["x", "cluster", "user", "group"]);
    }

    #[test]
    fn values_are_given_as_they_are() {
        let answer = query(
            &[],
            "select 1 as a, -2 as b, 1.5 as c, 'x' as d, '' as e, null as f, true as g, [1, 2] as h, \
             date '2026-11-20' as i, timestamp '2026-11-20 09:21:57' as j",
            None,
        )
        .unwrap();
        let expected = [
            Value::Count(1),
            Value::Json((-2).into()),
            Value::Json(1.5.into()),
            "x".into(),
            "".into(),
            Value::None,
            Value::Json(true.into()),
            Value::Json(serde_json::json!([1, 2])),
            "2026-11-20".into(),
            "2026-11-20T09:21:57Z".into(),
        ];
        assert_eq!(answer.rows, [expected]);
        assert_eq!(answer.columns.join(""), "abcdefghij");
    }
}
