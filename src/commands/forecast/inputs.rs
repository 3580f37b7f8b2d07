//! From stores, files and Prometheus to the histories of series, all on one grid.

use super::asked::{ForecastOptions, Step};
use crate::cli::{Context, Error};
use crate::model::grid::{Gathering, History, SERIES, UNWANTED};
use crate::model::input::InputReport;
use crate::model::problem::{Problem, ProblemKind};
use crate::model::series::{DAY, Day, Point, Selector, Series};
use crate::model::time::{HOUR, Micros, format};
use crate::model::units::{counted, duration};
use crate::sources::store::import::{self, Sink, Taken};
use crate::sources::store::{Ask, Listing, Store, StoreError};
use std::collections::BTreeSet;
use std::path::Path;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Every series with a point that is not left out, in their order.
    pub(super) histories: Vec<History>,
    /// The length of an interval.
    pub(super) step: Micros,
    /// The sources.
    pub(super) inputs: Vec<InputReport>,
    /// What to say of it.
    pub(super) notes: Vec<String>,
}

impl Read {
    /// Intervals of the longest history.
    pub(super) fn longest(&self) -> usize {
        self.histories.iter().map(|history| history.grid.values.len()).max().unwrap_or_default()
    }
}

/// Days of points from which on hours are as good as days: four weeks.
const MIN_DAYS: i32 = 28;
/// Days that a Prometheus is asked for where days are wanted.
#[cfg(feature = "live")]
const DAYS: i64 = 400;

/// Reads all sources.
pub(super) fn read(sources: &[String], asked: &ForecastOptions, context: &mut Context<'_>) -> Result<Read, Error> {
    let mut stores = Vec::new();
    for source in sources {
        let path = Path::new(source);
        if path.is_dir() {
            let store = Store::open(path).map_err(|error| Error::Input(refused(source, &error)))?;
            let mut listing = store.list().map_err(failed)?;
            // What was recorded later was not known then.
            let last = asked.moment.map_or(i32::MAX, Day::of);
            listing.points.retain(|day, _| *day <= last);
            listing.logs.retain(|day, _| *day <= last);
            listing.days.retain(|place| place.from <= last);
            stores.push((source, store, listing));
        }
    }
    let is_on_days = match asked.step {
        Step::Auto => stores.iter().any(|(.., listing)| !has_hours(listing)),
        Step::Of(step) => step >= DAY,
    };
    let mut read = Read::default();
    let mut all = gathering(asked, is_on_days)?.before(context.io.now + DAY);
    for (source, store, _) in &stores {
        read.inputs.push(stored(source, store, asked, is_on_days, &mut all, context)?);
    }
    for source in sources.iter().filter(|source| !Path::new(source).is_dir()) {
        read.inputs.push(file(source, asked, &mut all, context)?);
    }
    read.inputs.extend(prometheus(asked, is_on_days, &mut all, context)?);
    if all.is_empty() {
        let has_none = read.inputs.iter().all(|input| input.records == 0 && input.skipped == 0);
        let why = if has_none { ": it has no points" } else { "; --select and --limit add others" };
        return Err(Error::Input(format!("{}: no series here is forecast by default{why}", of(sources))));
    }
    let is_sparse = asked.step == Step::Auto && !is_on_days && !all.is_dense();
    if is_sparse {
        for (source, store, _) in &stores {
            stored(source, store, asked, true, &mut all, context)?;
        }
    }
    read.step = match asked.step {
        Step::Of(step) => step,
        Step::Auto if is_on_days || is_sparse => DAY,
        Step::Auto => HOUR,
    };
    let strays;
    (read.histories, strays) = all.finish(is_sparse);
    if strays > 0 {
        let points = counted(strays, "point");
        let of = of(sources);
        context.lost(format!("{of}: {points} in the future ignored: a clock was wrong; --until now excludes them"))?;
    }
    if read.histories.is_empty() {
        if let Some(moment) = asked.moment {
            return Err(Error::Usage(format!(
                "--at {}: {} has no point from then or before",
                format(moment),
                of(sources)
            )));
        }
        let window = if asked.window == (None, None) { "" } else { "; --since and --until exclude all" };
        return Err(Error::Input(format!("{}: no points{window}", of(sources))));
    }
    ended(&mut read, asked);
    Ok(read)
}

fn of(sources: &[String]) -> String {
    if sources.is_empty() { "Prometheus".to_owned() } else { sources.join(", ") }
}

fn failed(error: StoreError) -> Error {
    Error::Input(error.to_string())
}

/// What to do about a folder that is not a store.
fn refused(source: &str, error: &StoreError) -> String {
    match error {
        StoreError::NoStore(_) => format!(
            "{source}: this folder is not a plimsoll store; give a store, or CSV, Parquet or JSON files with series \
             (docs/history.md). Of a bundle: plimsoll record {source} --once --store history"
        ),
        other => other.to_string(),
    }
}

/// The grids that are filled: on `auto` hours, and days in case that hours are mostly empty.
fn gathering<'a>(asked: &'a ForecastOptions, is_on_days: bool) -> Result<Gathering<'a>, Error> {
    let shape = |step| asked.shape(step).map_err(Error::Usage);
    let (fine, days) = match asked.step {
        Step::Of(step) => (shape(step)?, None),
        Step::Auto if is_on_days => (shape(DAY)?, None),
        Step::Auto => (shape(HOUR)?, Some(shape(DAY)?)),
    };
    Ok(Gathering::new(fine, days, asked.window, |series| asked.rules.needs(series)))
}

/// The days that a store has, and whether their hours are enough: of four weeks, or of half of the days.
fn has_hours(listing: &Listing) -> bool {
    let points: BTreeSet<i32> = listing.points.keys().chain(listing.logs.keys()).copied().collect();
    let mut known = points.clone();
    listing.days.iter().for_each(|place| known.extend(place.from..place.until));
    let span = |days: &BTreeSet<i32>| days.last().zip(days.first()).map_or(0, |(last, first)| last - first + 1);
    span(&points) >= MIN_DAYS || span(&points) * 2 >= span(&known)
}

/// Reads a store: its points, or its days.
fn stored(
    source: &str,
    store: &Store,
    asked: &ForecastOptions,
    is_on_days: bool,
    all: &mut Gathering<'_>,
    context: &mut Context<'_>,
) -> Result<InputReport, Error> {
    let mut losses = Vec::new();
    let mut records = 0;
    let mut is_over = false;
    let (since, until) = asked.window;
    if is_on_days {
        let ask = Ask {
            selector: Selector::default(),
            // Days are counted from 1970, and no store is from before or will see the year 2200. A day counts as a
            // whole.
            from: since.map_or(0, |since| Day::of(since + DAY - 1)),
            until: until.map_or(84_000, Day::of),
            with_sketch: false,
        };
        let mut each = |series: Series, days: Vec<Day>| {
            match all.series(&series) {
                Some(UNWANTED) => {}
                Some(id) => {
                    records += days.iter().map(|day| day.count).sum::<u64>();
                    days.iter().for_each(|day| all.day(id, day));
                }
                None => is_over = true,
            }
            Ok(())
        };
        store.days(&ask, &mut losses, &mut each).map_err(failed)?;
    } else {
        // As many days as are kept of a series, before the last one that there is.
        let listing = store.list().map_err(failed)?;
        // Days that lie ahead of the present are those of a clock that was wrong, unless there are no others.
        let today = asked.moment.map_or_else(|| Day::of(context.io.now + DAY), Day::of);
        let known = || listing.points.keys().chain(listing.logs.keys());
        let last = known().filter(|day| **day <= today).max().or_else(|| known().max());
        let back = last.map_or(0, |last| Micros::from(last + 1) * DAY - asked.back());
        let from = since.unwrap_or(if asked.with_ended { 0 } else { back });
        let mut each = |series: &Series, points: &[Point]| {
            match all.series(series) {
                Some(UNWANTED) => {}
                Some(id) => {
                    records += points.len() as u64;
                    points.iter().for_each(|point| all.point(id, *point));
                }
                None => is_over = true,
            }
            Ok(())
        };
        store
            .points(&Selector::default(), (from, until.unwrap_or(Micros::MAX)), &mut losses, &mut each)
            .map_err(failed)?;
    }
    if is_over {
        return Err(too_many(source));
    }
    for loss in &losses {
        context.lost(loss)?;
    }
    let (skipped, first_error) = (losses.len() as u64, losses.first().map(ToString::to_string));
    Ok(InputReport { path: source.to_owned(), kind: "store", bytes: 0, records, skipped, first_error })
}

fn too_many(source: &str) -> Error {
    Error::Input(format!("{source}: more than {} series; give --select, or fewer sources", SERIES))
}

/// Takes what is read of a file.
struct SeriesSink<'a, 'g> {
    all: &'a mut Gathering<'g>,
}

impl Sink for SeriesSink<'_, '_> {
    fn series(&mut self, series: &Series) -> Result<usize, Problem> {
        if series.name.is_empty() {
            return Err(Problem::malformed("the series has no name"));
        }
        self.all.series(series).ok_or_else(|| Problem::new(ProblemKind::TooLarge, format!("more than {SERIES} series")))
    }

    fn sample(&mut self, series: usize, at: Micros, value: f64) -> Taken {
        self.all.point(series, Point { at, value });
        Ok(())
    }
}

/// Reads CSV, Parquet, or an answer of Prometheus.
fn file(
    source: &str,
    asked: &ForecastOptions,
    all: &mut Gathering<'_>,
    context: &mut Context<'_>,
) -> Result<InputReport, Error> {
    let bytes = std::fs::metadata(source).map_or(0, |data| data.len());
    let before = all.len();
    let input = |records, first_error: Option<String>| InputReport {
        path: source.to_owned(),
        kind: "samples",
        bytes,
        records,
        skipped: u64::from(first_error.is_some()),
        first_error,
    };
    match import::read(source, asked.name.as_deref(), &mut SeriesSink { all }) {
        Ok(imported) => {
            if imported.not_finite > 0 {
                context.notice(format!(
                    "{source}: {} left out: not finite numbers",
                    counted(imported.not_finite, "value")
                ))?;
            }
            Ok(input(imported.samples, None))
        }
        Err(refused) if all.len() == before => Err(Error::input(refused)),
        Err(refused) => {
            context.lost(format!("{refused}; the data before it is used"))?;
            Ok(input(0, Some(refused.to_string())))
        }
    }
}

/// Queries of Prometheus, the name of the series that they stand for in a store, and a label that distinguishs them.
#[cfg(feature = "live")]
const QUERIES: [(&str, &str, &str, &str); 12] = [
    ("quota-used", QUOTA, "type", "used"),
    ("quota-hard", QUOTA, "type", "hard"),
    ("requests", REQUESTS, "", ""),
    ("allocatable", ALLOCATABLE, "", ""),
    ("objects", APISERVER_OBJECTS, "", ""),
    ("object-bytes", APISERVER_OBJECT_BYTES, "", ""),
    ("api-rps", APISERVER_RPS, "", ""),
    ("flow-rps", APISERVER_RPS, "", ""),
    ("seats-executing", APISERVER_SEATS, "kind", "executing"),
    ("seats-limit", APISERVER_SEATS, "kind", "limit"),
    ("etcd-db", ETCD_DB, "", ""),
    ("etcd-quota", ETCD_QUOTA, "", ""),
];
#[cfg(feature = "live")]
use crate::{
    analysis::quota::collect::{ALLOCATABLE, QUOTA, REQUESTS},
    model::names::{APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, ETCD_DB, ETCD_QUOTA},
};

/// The series that a store would have.
#[cfg(feature = "live")]
fn recorded(series: &Series) -> Series {
    let mut series = series.clone();
    if let Some((_, name, label, value)) = QUERIES.iter().find(|(query, ..)| *query == series.name) {
        (*name).clone_into(&mut series.name);
        if !label.is_empty() {
            series.labels.insert((*label).to_owned(), (*value).to_owned());
        }
        if *name == APISERVER_RPS
            && let Some(verb) = series.labels.get_mut("verb")
        {
            // As audit logs and stores have them.
            *verb = match verb.as_str() {
                "POST" => "create".to_owned(),
                "PUT" => "update".to_owned(),
                "APPLY" => "patch".to_owned(),
                "WATCHLIST" => "watch".to_owned(),
                other => other.to_ascii_lowercase(),
            };
        }
    }
    series
}

/// Asks the Prometheus that is named, if there is one.
#[cfg(feature = "live")]
fn prometheus(
    asked: &ForecastOptions,
    is_on_days: bool,
    all: &mut Gathering<'_>,
    context: &mut Context<'_>,
) -> Result<Option<InputReport>, Error> {
    use crate::inputs::prometheus;
    use crate::sources::prometheus::Queries;
    let Some(url) = &asked.prometheus.prometheus else { return Ok(None) };
    let until = asked.window.1.unwrap_or(context.io.now);
    let back = if is_on_days { DAYS * DAY } else { asked.back() };
    let window = (asked.window.0.unwrap_or(until - back), until);
    let mut names: Vec<String> = QUERIES.iter().map(|(query, ..)| (*query).to_owned()).collect();
    // Queries of a person's own are series of their own.
    let standard = Queries::standard();
    names.extend(
        prometheus::queries(&asked.prometheus)?
            .iter()
            .map(|query| query.name.clone())
            .filter(|name| standard.get(name).is_err()),
    );
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut is_over = false;
    let mut verbs: std::collections::HashMap<(usize, Micros), f64> = Default::default();
    let mut take = |series: &Series, points: &[Point]| match all.series(&recorded(series)) {
        Some(UNWANTED) => {}
        Some(id) if series.name == "api-rps" => {
            // Two verbs of metrics may be one of audit logs: PATCH and APPLY.
            points.iter().for_each(|point| *verbs.entry((id, point.at)).or_default() += point.value);
        }
        Some(id) => points.iter().for_each(|point| all.point(id, *point)),
        None => is_over = true,
    };
    let records = prometheus::points(&asked.prometheus, asked.ask_step(), &names, window, context, &mut take)?;
    verbs.into_iter().for_each(|((id, at), value)| all.point(id, Point { at, value }));
    if is_over {
        return Err(too_many(url));
    }
    Ok(Some(InputReport { path: url.clone(), kind: "prometheus", bytes: 0, records, skipped: 0, first_error: None }))
}

#[cfg(not(feature = "live"))]
fn prometheus(
    _: &ForecastOptions,
    _: bool,
    _: &mut Gathering<'_>,
    _: &mut Context<'_>,
) -> Result<Option<InputReport>, Error> {
    Ok(None)
}

/// Leaves out what ended long before the last of all, as what was deleted does; says so.
fn ended(read: &mut Read, asked: &ForecastOptions) {
    let Some(last) = read.histories.iter().map(|history| history.last.at).max() else { return };
    let long = DAY.max(3 * read.step);
    let is_gone = |history: &History| last - history.last.at > long;
    let gone: Vec<String> =
        read.histories.iter().filter(|history| is_gone(history)).map(|history| history.series.to_string()).collect();
    let Some(first) = gone.first().filter(|_| !asked.with_ended) else { return };
    read.notes.push(format!(
        "{} ended more than {} before the last point of all ({}) and {} left out, such as {first}; --ended includes \
         them",
        counted(gone.len() as u64, "series"),
        duration(long),
        format(last),
        if gone.len() == 1 { "is" } else { "are" }
    ));
    read.histories.retain(|history| !is_gone(history));
}
