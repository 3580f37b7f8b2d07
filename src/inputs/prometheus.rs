//! From the flags that name a Prometheus to its history.

use crate::cli::{Context, Error, Progress, PrometheusFlags};
#[cfg(feature = "history")]
use crate::model::series::Point;
use crate::model::series::{Day, Series};
use crate::model::time::Micros;
use crate::model::units::{counted, grouped};
use crate::sources::prometheus::{Auth, Endpoint, PromError, Prometheus, Queries, Query, RangeStats, Window};
use crate::views::text::plain;

/// The days of each series of the queries of these names, one query after the other; says what it took, and what was
/// lost.
///
/// The series of a query have its name. Two queries do not come from the same instant: what changes meanwhile is seen
/// by the later one.
pub fn days(
    flags: &PrometheusFlags,
    step: Micros,
    names: &[&str],
    window: (Micros, Micros),
    context: &mut Context<'_>,
) -> Result<Vec<(Series, Vec<Day>)>, Error> {
    let mut all = Vec::new();
    ask(flags, step, names, window, context, &mut |prometheus, query, window, progress| {
        let found = prometheus.days(query, window, progress)?;
        let is_some = !found.is_empty();
        all.extend(found);
        Ok(is_some)
    })?;
    Ok(all)
}

/// The points of each series of the queries of these names, as they come; how many there were.
#[cfg(feature = "history")]
pub fn points(
    flags: &PrometheusFlags,
    step: Micros,
    names: &[&str],
    window: (Micros, Micros),
    context: &mut Context<'_>,
    take: &mut dyn FnMut(&Series, &[Point]),
) -> Result<u64, Error> {
    let stats = ask(flags, step, names, window, context, &mut |prometheus, query, window, progress| {
        let mut is_some = false;
        prometheus.range(query, window, progress, &mut |series, points| {
            is_some = true;
            take(series, points);
        })?;
        Ok(is_some)
    })?;
    Ok(stats.points)
}

/// What is done with a query: whether it gave anything.
type Each<'e> = dyn FnMut(&mut Prometheus, &Query, &Window, &Progress) -> Result<bool, PromError> + 'e;

fn ask(
    flags: &PrometheusFlags,
    step: Micros,
    names: &[&str],
    (from, until): (Micros, Micros),
    context: &mut Context<'_>,
    each: &mut Each<'_>,
) -> Result<RangeStats, Error> {
    let queries = queries(flags)?;
    let window = Window::new(from, until, step).map_err(error)?;
    let mut prometheus = Prometheus::new(&endpoint(flags)?).map_err(error)?;
    let progress = Progress::bytes(0, context.settings.progress);
    let standard = Queries::standard();
    let mut is_one = false;
    for name in names {
        let query = queries.get(name).map_err(error)?;
        if context.settings.verbose {
            context.notice(format!(
                "query {name}: {}",
                query.expression(step, &[flags.matchers.as_deref().unwrap_or_default()])
            ))?;
        }
        match each(&mut prometheus, query, &window, &progress) {
            Ok(true) if !is_one && standard.get(name).is_ok_and(|own| own == query) => {
                is_one = true;
                one_cluster(&prometheus.clusters(&window, &progress)).inspect_err(|_| progress.finish())?;
            }
            Ok(true) => {}
            Ok(false) => context.notice(format!("query {name}: Prometheus has no such series in this time"))?,
            Err(failed) => {
                progress.finish();
                return Err(error(failed));
            }
        }
    }
    progress.finish();
    let stats = prometheus.stats();
    report_stats(&stats, flags.max_samples, context)?;
    Ok(stats)
}

/// Clusters that an error names.
const NAMED: usize = 5;

/// Refuses several clusters: the queries have no label of theirs, and quotas of equal names would be taken for one.
fn one_cluster(clusters: &[String]) -> Result<(), Error> {
    let [first, _, ..] = clusters else { return Ok(()) };
    let mut named: Vec<String> = clusters.iter().take(NAMED).map(|name| plain(name).into_owned()).collect();
    if clusters.len() > NAMED {
        named.push("…".to_owned());
    }
    Err(Error::Usage(format!(
        "this Prometheus holds {} clusters ({}): choose one, as by --match 'cluster={first:?}'",
        clusters.len(),
        named.join(", ")
    )))
}

/// The standard queries, and what the flags put in their place.
pub fn queries(flags: &PrometheusFlags) -> Result<Queries, Error> {
    let mut queries = Queries::standard();
    if let Some(path) = &flags.queries_file {
        queries.read(path).map_err(error)?;
    }
    for text in &flags.queries {
        queries.set(text).map_err(error)?;
    }
    Ok(queries)
}

/// The Prometheus that the flags name.
pub fn endpoint(flags: &PrometheusFlags) -> Result<Endpoint, Error> {
    let url =
        flags.prometheus.clone().ok_or_else(|| Error::Usage("give a Prometheus with --prometheus URL".to_owned()))?;
    let auth = match (&flags.bearer_token_file, &flags.basic_auth_file, &flags.bearer_token, &flags.basic_auth) {
        (Some(path), ..) => Auth::BearerFile(path.clone()),
        (_, Some(path), ..) => Auth::BasicFile(path.clone()),
        (_, _, Some(token), _) => Auth::Bearer(token.clone()),
        (.., Some(pair)) => Auth::Basic(pair.clone()),
        _ => Auth::None,
    };
    let mut headers = Vec::new();
    for text in &flags.headers {
        let wrong = || Error::Usage("--header: write NAME: VALUE, as in 'X-Scope-OrgID: team-a'".to_owned());
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(Endpoint {
        url,
        auth,
        headers,
        ca_file: flags.ca_file.clone(),
        timeout: flags.query_timeout,
        max_samples: flags.max_samples,
        matchers: flags.matchers.clone().unwrap_or_default(),
        ..Endpoint::default()
    })
}

/// What was wrong with the command line is stats from what was wrong elsewhere.
fn error(error: PromError) -> Error {
    match error {
        PromError::Url { .. } | PromError::Header { .. } | PromError::Given(_) => Error::Usage(error.to_string()),
        _ => Error::Input(error.to_string()),
    }
}

/// Says what it took.
fn report_stats(stats: &RangeStats, limit: u64, context: &mut Context<'_>) -> Result<(), Error> {
    for warning in &stats.warnings {
        // A store behind Thanos that did not answer is a warning too: then part of the history is missing.
        context.lost(format!("Prometheus warns: {warning}"))?;
    }
    if stats.left_out + stats.histograms > 0 {
        context.notice(format!(
            "{} from Prometheus that are not finite numbers, and {}, are left out",
            counted(stats.left_out, "point"),
            counted(stats.histograms, "native histogram")
        ))?;
    }
    let by = if stats.is_measured { "by its own statistics" } else { "by the points in its answer" };
    if stats.heaviest > limit {
        context.notice(format!(
            "one query loaded {} samples, {by}: more than --max-samples {}",
            grouped(stats.heaviest),
            grouped(limit)
        ))?;
    }
    if context.settings.verbose {
        context.notice(format!(
            "{} in {} from Prometheus, {} retried, {} split; the largest loaded {} samples, {by}",
            counted(stats.points, "point"),
            if stats.queries == 1 { "1 query".to_owned() } else { format!("{} queries", grouped(stats.queries)) },
            grouped(stats.again),
            grouped(stats.too_heavy),
            grouped(stats.heaviest),
        ))?;
    }
    Ok(())
}
