//! `plimsoll forecast`: time until limits are reached.

mod asked;
mod inputs;

use crate::analysis::answer::Answer;
use crate::analysis::forecast::capacity::what_if;
use crate::analysis::forecast::report::{self, FIELDS, ForecastInput};
use crate::analysis::forecast::targets::{OBSERVED, targets};
use crate::analysis::forecast::{Options, forecast};
#[cfg(feature = "live")]
use crate::cli::PrometheusFlags;
use crate::cli::{Context, Error, FailOn, MomentFlags, TimeFlags, length_parser, side_by_side};
use crate::model::forecast::{Forecast, Grid, Reached, Target};
use crate::model::grid::History;
use crate::model::names::CGROUP_MEMORY;
use crate::model::question;
use crate::model::report::Report;
use crate::model::series::{DAY, Series};
use crate::model::time::{self, Micros};
use crate::model::units::duration;
use crate::views::text::plain;
use crate::views::{Format, forecast_svg};
use asked::{ForecastOptions, Season, Step};
use std::io::Write as _;
use std::path::PathBuf;

/// Series that are drawn with -o svg where --chart says nothing.
const PICTURES: usize = 6;

/// When limits will be reached: quotas, nodes, seats, etcd, memory, or any series.
///
/// Each series is put on a grid of hours, or of days; of about a hundred models the mean of those is taken that would
/// have predicted its own past best. What is said is the date by which the limit is reached, the range around it, and
/// how likely it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "SOURCE
  a store          the folder that plimsoll record keeps: all its series and their limits
  CSV              first line: name,LABEL…,time,value in any order; may be packed with gzip or zstd; - for \
standard input
  Parquet          the same columns, or a store's own files
  JSON             what Prometheus answers to /api/v1/query_range
  --prometheus     quotas, requests, nodes, objects, API requests, seats and etcd; --query adds series of \
your own

EXAMPLES
  plimsoll forecast history  # the store: what fills up first
  plimsoll forecast history -n web --horizon 60d
  plimsoll forecast --prometheus http://prometheus:9090 --fail-on critical
  plimsoll forecast history --add 'web:+200 pods' --from 2027-01-15
  plimsoll forecast queue.csv.gz --limit 'queue_depth=10k' --step 15m \\
    --horizon 2d --chart 1")]
pub struct Args {
    /// Stores that record keeps; CSV, Parquet or JSON files with series in time.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Which time to look at; without --since the last 60 days of hours, and the last three years of days.
    #[command(flatten)]
    time: TimeFlags,
    /// Moment of the forecast.
    #[command(flatten)]
    moment: MomentFlags,
    /// Only limits of this namespace (repeatable).
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,
    /// Only these series: name{label="value"}, or a regular expression on that text or on the name in the table
    /// (repeatable).
    #[arg(long, value_name = "SERIES")]
    select: Vec<String>,
    /// Use the highest value of each interval of this length: auto, 1h, 1d, or another that divides a day.
    #[arg(long, value_name = "LENGTH", default_value = "auto", value_parser = asked::step)]
    step: Step,
    /// Forecast this far ahead: 12h, 30d, 8w; at most twice the history.
    #[arg(long, value_name = "LENGTH", default_value = "30d", value_parser = length_parser(1, "12h, 30d, 8w"))]
    horizon: Micros,
    /// Seasons: auto, none, or lengths, 24h,7d.
    #[arg(long, value_name = "LENGTHS", default_value = "auto", value_parser = asked::season)]
    season: Season,
    /// Exclude exceptional times such as holidays from the fit: CSV with the columns from, until and name.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Set the limit of matching series: REGEX=NUMBER, or a quantity; the first match wins (repeatable).
    #[arg(long = "limit", value_name = "REGEX=LIMIT", value_parser = given, help_heading = "Limits")]
    limits: Vec<LimitFlag>,
    /// Limits by series: CSV with the columns series and limit.
    #[arg(long = "limits", value_name = "FILE", help_heading = "Limits")]
    limits_file: Option<PathBuf>,
    /// The quota of etcd where no series has it (default: etcd's own, 2Gi).
    #[arg(long, value_name = "SIZE", value_parser = asked::above_zero, help_heading = "Limits")]
    etcd_quota: Option<f64>,
    /// A limit that is reached within this time is a warning.
    #[arg(long, value_name = "LENGTH", default_value = "30d", value_parser = length_parser(1, "12h, 30d, 8w"),
        help_heading = "Limits")]
    warn_within: Micros,
    /// A limit that is reached within this time is critical; --fail-on gives the exit code.
    #[arg(long, value_name = "LENGTH", default_value = "7d", value_parser = length_parser(1, "12h, 30d, 8w"),
        help_heading = "Limits")]
    critical_within: Micros,
    /// Forecast with this added: '[NAMESPACE:]+N WHAT', as 'web:+200 pods', '+50 nodes' (repeatable).
    #[arg(long = "add", value_name = "WHAT", allow_hyphen_values = true, help_heading = "What if")]
    additions: Vec<String>,
    /// Forecast with this number of nodes.
    #[arg(long, value_name = "N", help_heading = "What if")]
    nodes: Option<u64>,
    /// Date from which --add counts: RFC 3339 or a date (default: now).
    #[arg(long, value_name = "DATE", value_parser = asked::date, help_heading = "What if")]
    from: Option<Micros>,
    /// Add the forecast by step, and the history, to each row of json and yaml.
    #[arg(long)]
    points: bool,
    /// Draw this many of the most urgent series; -o svg writes them as one picture.
    #[arg(long, value_name = "N")]
    chart: Option<usize>,
    /// Also forecast series that ended before the others, each from its own end.
    #[arg(long)]
    ended: bool,
    /// Name for series without one, such as results of expressions in JSON.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Which Prometheus to take history from.
    #[cfg(feature = "live")]
    #[command(flatten)]
    prometheus: PrometheusFlags,
}

/// `REGEX=LIMIT`, as it was written, once it has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LimitFlag(String);

fn given(text: &str) -> Result<LimitFlag, String> {
    asked::limit(text).map(|_| LimitFlag(text.to_owned()))
}

impl Args {
    /// What the flags ask of files.
    pub fn question(&self, now: Micros) -> Result<question::Forecast, Error> {
        let (at, bounds) = self.moment.bounds(&self.time, now).map_err(Error::Usage)?;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        Ok(question::Forecast {
            sources: self.sources.clone(),
            at,
            bounds,
            namespaces: self.namespaces.clone(),
            select: self.select.clone(),
            step: match self.step {
                Step::Auto => None,
                Step::Of(length) => Some(length),
            },
            horizon: self.horizon,
            season: match &self.season {
                Season::Auto => None,
                Season::Of(lengths) => Some(lengths.clone()),
            },
            events: path(&self.events),
            limits: self.limits.iter().map(|limit| limit.0.clone()).collect(),
            limits_file: path(&self.limits_file),
            etcd_quota: self.etcd_quota,
            warn_within: self.warn_within,
            critical_within: self.critical_within,
            additions: self.additions.clone(),
            nodes: self.nodes,
            from: self.from,
            points: self.points,
            chart: self.chart,
            ended: self.ended,
            name: self.name.clone(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if args.sources.is_empty() && !has_prometheus(args) {
        return Err(Error::Usage(
            "give a SOURCE: a store of plimsoll record, a CSV, Parquet or JSON file with series; or --prometheus URL"
                .to_owned(),
        ));
    }
    if context.settings.format == Format::Svg && (!args.additions.is_empty() || args.nodes.is_some()) {
        return Err(Error::Usage(
            "-o svg draws forecasts, not scenarios: remove --add and --nodes, or -o svg".to_owned(),
        ));
    }
    let question = args.question(context.io.now)?;
    #[cfg_attr(not(feature = "live"), expect(unused_mut, reason = "no Prometheus to query"))]
    let mut asked = ForecastOptions::new(&question, context.io.now)?;
    #[cfg(feature = "live")]
    asked.prometheus.clone_from(&args.prometheus);
    let report = make_report(&question, asked, context)?;
    if context.settings.format == Format::Svg {
        return draw(&report, context);
    }
    context.print(&report, FailOn::Never)
}

/// Answers the question.
pub(super) fn answer(question: &question::Forecast, context: &mut Context<'_>) -> Result<Answer, Error> {
    let asked = ForecastOptions::new(question, context.io.now)?;
    make_report(question, asked, context).map(Answer::of)
}

fn make_report(
    question: &question::Forecast,
    asked: ForecastOptions,
    context: &mut Context<'_>,
) -> Result<Report, Error> {
    let sort_by = context.sort_by(&FIELDS)?;
    let read = inputs::read(&question.sources, &asked, context)?;
    if read.longest() == 0 {
        let step = duration(read.step);
        return Err(Error::Input(format!("the history is shorter than a step of {step}; choose a shorter --step")));
    }
    let options = asked.options(read.step, read.longest())?;
    let plan = asked.plan.clone();
    if !plan.is_empty() {
        one_cluster(&read.histories)?;
    }
    let observed: Vec<(Series, Grid)> = if plan.is_empty() { Vec::new() } else { observed(&read.histories) };
    let targets = targets(read.histories, &asked.rules);
    if targets.is_empty() {
        let has_choice = !question.select.is_empty() || !question.namespaces.is_empty();
        let why = if has_choice {
            "--select and --namespace exclude all series that were read"
        } else {
            "a quota of 0 allows nothing and is not forecast"
        };
        return Err(Error::Input(format!("no series is left: {why}")));
    }
    let mut notes = read.notes;
    let as_of = asked.moment.map(|moment| format!("As of {}, by the data of that time.", time::format(moment)));
    let is_all = question.select.is_empty() && question.namespaces.is_empty();
    notes.extend(asked.rules.given.unused(&targets, is_all));
    notes.extend(age(&targets, &asked, context.io.now));
    let forecasts = forecast_all(&targets, &options, question.points, context);
    let is_svg = context.settings.format == Format::Svg;
    let input = ForecastInput {
        inputs: read.inputs,
        step: read.step,
        horizon: question.horizon,
        warn_within: question.warn_within as f64 / DAY as f64,
        critical_within: question.critical_within as f64 / DAY as f64,
        points: question.points,
        charts: question.chart.or(is_svg.then_some(PICTURES)),
        top: context.settings.top,
        sort_by,
        notes,
        ..ForecastInput::default()
    };
    let again = |place: usize| {
        targets.get(place).map(|target| forecast(&target.grid, target.limit, &options)).unwrap_or_default()
    };
    let mut report = report::report(&targets, &forecasts, &again, input);
    if !plan.is_empty() {
        let observed: Vec<(&Series, &Grid)> = observed.iter().map(|(series, grid)| (series, grid)).collect();
        let outcome = what_if(&plan, &observed, &targets, &forecasts, &|grid, limit| forecast(grid, limit, &options))
            .map_err(Error::usage)?;
        outcome.add_to(&targets, question.horizon, context.settings.top, &mut report);
    }
    report.lead.splice(0..0, as_of);
    Ok(report)
}

/// What is so many steps old, and days, is old.
const OLD: (Micros, Micros) = (3, 2 * DAY);

/// That the data ends long before now, where nobody asked for a time of it.
fn age(targets: &[Target], asked: &ForecastOptions, now: Micros) -> Option<String> {
    let end = targets.iter().map(|target| target.grid.end()).max()?;
    let step = targets.first()?.grid.step;
    let is_old = now - end > (OLD.0 * step).max(OLD.1);
    let text = || {
        let (age, end) = (duration(now - end), time::second(end));
        format!("The newest data is {age} old: dates, and days left, count from its end, {end}")
    };
    (is_old && asked.moment.is_none() && asked.window.1.is_none()).then(text)
}

/// Refuses to add to several clusters at once: nobody knows which of them grows.
fn one_cluster(histories: &[History]) -> Result<(), Error> {
    let mut clusters: Vec<&str> = histories.iter().map(|history| history.series.label("cluster")).collect();
    clusters.sort_unstable();
    clusters.dedup();
    match clusters[..] {
        [_, _, ..] => Err(Error::Usage(format!(
            "--add and --nodes require the data of one cluster; here are several: {}",
            clusters
                .iter()
                .map(|name| if name.is_empty() { "(none)".into() } else { plain(name) })
                .collect::<Vec<_>>()
                .join(", ")
        ))),
        _ => Ok(()),
    }
}

/// Limits that will be reached, the most urgent first: a name, and when; `None` where nothing can be forecast yet.
pub(super) fn limits(
    question: &question::Forecast,
    context: &mut Context<'_>,
) -> Result<Option<Vec<(String, Reached)>>, Error> {
    let asked = ForecastOptions::new(question, context.io.now)?;
    let read = inputs::read(&question.sources, &asked, context)?;
    let options = asked.options(read.step, read.longest())?;
    let targets = targets(read.histories, &asked.rules);
    let forecasts = forecast_all(&targets, &options, false, context);
    Ok(report::limits(&targets, &forecasts, question.horizon))
}

/// The most urgent series as one picture.
fn draw(report: &Report, context: &mut Context<'_>) -> Result<(), Error> {
    context.judge(report, FailOn::Never);
    if !forecast_svg::draw(&report.pictures, &mut context.io.out)? {
        return Err(Error::Input(
            "nothing to draw: --chart is 0, or every series has too little data; without -o svg the reason is shown"
                .to_owned(),
        ));
    }
    Ok(context.io.out.flush()?)
}

/// What the capacity model looks at: targets take the grids of most of it away.
fn observed(histories: &[History]) -> Vec<(Series, Grid)> {
    let is_observed = |series: &Series| {
        OBSERVED.contains(&series.name.as_str())
            && (series.name != CGROUP_MEMORY || series.label("kind") == "working_set")
    };
    let chosen = histories.iter().filter(|history| is_observed(&history.series));
    chosen.map(|history| (history.series.clone(), history.grid.clone())).collect()
}

#[cfg(feature = "live")]
fn has_prometheus(args: &Args) -> bool {
    args.prometheus.prometheus.is_some()
}

#[cfg(not(feature = "live"))]
fn has_prometheus(_: &Args) -> bool {
    false
}

/// The future of each target, on all threads. Without `with_paths` the steps are dropped at once: of forty thousand
/// series they are a gigabyte, and those few that are drawn are made again.
fn forecast_all(targets: &[Target], options: &Options, with_paths: bool, context: &Context<'_>) -> Vec<Forecast> {
    let shown = ("series", context.settings.progress);
    side_by_side(targets, context.settings.threads, shown, |target| {
        let mut forecast = forecast(&target.grid, target.limit, options);
        if !with_paths {
            forecast.path = Vec::new();
        }
        forecast
    })
}
