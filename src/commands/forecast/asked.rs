//! What is asked for: the flags of `plimsoll forecast`, read and checked.

use crate::analysis::forecast::Options;
use crate::analysis::forecast::capacity::Plan;
use crate::analysis::forecast::targets::{GivenLimits, Pick, Rules};
use crate::cli::Error;
#[cfg(any(feature = "live", test))]
use crate::model::grid::Shape;
use crate::model::question::{self, Forecast};
use crate::model::series::DAY;
use crate::model::time::{Bounds, HOUR, MINUTE, Micros, parse_any, parse_utc};
use crate::model::units::{duration, parse_duration};
use crate::sources::limits;
use regex::Regex;
use std::path::Path;

/// How far back is looked where `--since` is not given and steps are shorter than a day.
const BACK: Micros = 60 * DAY;
/// The same for days and longer: three years.
const BACK_DAYS: Micros = 1_096 * DAY;
/// Intervals of a series that are held.
const MAX_STEPS: i64 = 100_000;
/// Steps that are looked ahead.
const AHEAD: i64 = 10_000;
/// Steps that nobody means, however short the history is.
const FARTHEST: i64 = 1_000_000;

/// The length of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Hours where there are enough of them, else days.
    Auto,
    Of(Micros),
}

/// Seasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Season {
    /// As they are found.
    Auto,
    /// These; none where it is empty.
    Of(Vec<Micros>),
}

/// The flags, read.
#[derive(Debug)]
pub(super) struct ForecastOptions {
    /// The length of an interval.
    pub(super) step: Step,
    /// From when on, and until when.
    pub(super) window: Bounds,
    /// The moment as of which the forecast is made.
    pub(super) moment: Option<Micros>,
    /// Whether series that ended are forecast from their own end.
    pub(super) with_ended: bool,
    /// Name for series that have none.
    pub(super) name: Option<String>,
    /// Which series, and their limits.
    pub(super) rules: Rules,
    /// How far ahead.
    pub(super) horizon: Micros,
    /// What is to come on top.
    pub(super) plan: Plan,
    season: Season,
    events: Vec<(Micros, Micros)>,
    /// Which Prometheus; none unless the command line names one.
    #[cfg(feature = "live")]
    pub(super) prometheus: crate::cli::PrometheusFlags,
    now: Micros,
}

/// Reads `auto` or a length.
pub(super) fn step(text: &str) -> Result<Step, String> {
    if text == "auto" {
        return Ok(Step::Auto);
    }
    let length = parse_duration(text).filter(|length| (MINUTE..=28 * DAY).contains(length));
    let is_even = |length: &Micros| DAY % length == 0 || length % DAY == 0;
    length
        .filter(is_even)
        .map(Step::Of)
        .ok_or_else(|| "write auto, a length from 1m to 28d that divides a day, or whole days: 1h, 15m, 1d".to_owned())
}

/// Reads `auto`, `none`, or lengths with commas.
pub(super) fn season(text: &str) -> Result<Season, String> {
    match text {
        "auto" => Ok(Season::Auto),
        "none" => Ok(Season::Of(Vec::new())),
        _ => {
            let lengths: Option<Vec<Micros>> = text.split(',').map(parse_duration).collect();
            let mut lengths = lengths.ok_or_else(|| "auto, none, or lengths: 24h,7d".to_owned())?;
            lengths.sort_unstable();
            lengths.dedup();
            Ok(Season::Of(lengths))
        }
    }
}

/// Reads RFC 3339, or a date with or without a time of day.
pub(super) fn date(text: &str) -> Result<Micros, String> {
    parse_any(text).or_else(|| parse_utc(text)).ok_or_else(|| "2026-12-24 or 2026-12-24T08:00:00Z".to_owned())
}

/// Reads a size that is not nothing.
pub(super) fn above_zero(text: &str) -> Result<f64, String> {
    let amount = limits::amount(text).map_err(|error| error.to_string())?;
    Some(amount).filter(|amount| *amount > 0.0).ok_or_else(|| "write a size above zero, as 8Gi".to_owned())
}

/// Reads `REGEX=NUMBER`, split at its last `=`: a pattern may hold labels.
pub(super) fn limit(text: &str) -> Result<(Regex, f64), String> {
    let form = "write REGEX=NUMBER or a quantity, as etcd_db_bytes=8Gi";
    let (pattern, amount) = text.rsplit_once('=').ok_or(form)?;
    let pattern = Regex::new(pattern).map_err(|error| format!("{error}; {form}"))?;
    let amount = limits::amount(amount).map_err(|error| format!("{error}; {form}"))?;
    if amount < 0.0 {
        return Err(format!("a limit is not below 0; {form}"));
    }
    Ok((pattern, amount))
}

impl ForecastOptions {
    /// Reads what is asked, and the files that it names.
    pub(super) fn new(question: &Forecast, now: Micros) -> Result<Self, Error> {
        fn usage<P: std::fmt::Display>(flag: &'static str) -> impl Fn(P) -> Error {
            move |problem| Error::Usage(format!("{flag}: {problem}"))
        }
        let patterns = question.limits.iter().map(|text| limit(text)).collect::<Result<Vec<_>, _>>();
        let patterns = patterns.map_err(usage("--limit"))?;
        let mut given = GivenLimits { patterns, etcd_quota: question.etcd_quota, ..GivenLimits::default() };
        if let Some(path) = question.limits_file.as_deref().map(Path::new) {
            given.listed = limits::limits(path).map_err(Error::input)?;
            given.list = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        }
        let events = question.events.as_deref().map(Path::new);
        let events = events.map_or(Ok(Vec::new()), limits::events).map_err(Error::input)?;
        let picks = question.select.iter().map(|text| Pick::parse(text)).collect::<Result<Vec<_>, _>>();
        let picks = picks.map_err(usage("--select"))?;
        let plan = Plan::parse(&question.additions, question.nodes, question.from).map_err(Error::usage)?;
        let with_observed = !plan.is_empty();
        Ok(Self {
            step: question.step.map_or(Step::Auto, Step::Of),
            window: question::up_to(question.at, question.bounds),
            moment: question.at,
            with_ended: question.ended,
            name: question.name.clone(),
            rules: Rules { picks, namespaces: question.namespaces.clone(), given, with_observed },
            plan,
            horizon: question.horizon,
            season: question.season.clone().map_or(Season::Auto, Season::Of),
            events,
            #[cfg(feature = "live")]
            prometheus: crate::cli::PrometheusFlags::default(),
            now,
        })
    }

    /// How far back series are kept at most, where the beginning is not given.
    pub(super) fn back(&self) -> Micros {
        match self.step {
            Step::Of(step) if step >= DAY => BACK_DAYS,
            _ => BACK,
        }
    }

    /// The shape of a grid with this step.
    pub(super) fn shape(&self, step: Micros) -> Result<Shape, String> {
        let back = match self.window {
            (Some(since), until) => (until.unwrap_or(self.now) - since).max(step),
            _ if step >= DAY => BACK_DAYS,
            _ => BACK,
        };
        // One more: neither end need be a multiple of the step.
        let most = back / step + 1;
        if most > MAX_STEPS {
            return Err(format!(
                "--since {} back is more than {MAX_STEPS} steps of {}; choose a longer --step",
                duration(back),
                duration(step)
            ));
        }
        // What is not cut by --since is cut to whole steps.
        let most = if self.window.0.is_some() { most } else { most - 1 };
        Ok(Shape { step, most: usize::try_from(most).unwrap_or(1).max(1) })
    }

    /// The step that a Prometheus is asked for, of which the grid's is a multiple.
    #[cfg(feature = "live")]
    pub(super) fn ask_step(&self) -> Micros {
        let (mut a, mut b) = match self.step {
            Step::Auto => return HOUR,
            Step::Of(step) => (step, HOUR),
        };
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    /// The options of the forecast, given the length of an interval and how many of them the longest history has: none
    /// is carried further ahead than twice that.
    pub(super) fn options(&self, step: Micros, longest: usize) -> Result<Options, Error> {
        let steps = (self.horizon + step - 1) / step;
        if steps.min(2 * longest as i64) > AHEAD || steps > FARTHEST {
            let (horizon, step) = (duration(self.horizon), duration(step));
            return Err(Error::Usage(format!(
                "--horizon {horizon} is more than {AHEAD} steps of {step}; choose a longer --step, or a shorter \
                 --horizon"
            )));
        }
        let steps = steps.min(AHEAD);
        let seasons = match &self.season {
            Season::Auto => None,
            Season::Of(lengths) => {
                let in_steps = |length: &Micros| {
                    let steps = usize::try_from(length / step).unwrap_or_default();
                    if length % step == 0 && steps >= 2 { Ok(steps) } else { Err((*length, step)) }
                };
                let seasons = lengths.iter().map(in_steps).collect::<Result<Vec<usize>, _>>();
                Some(seasons.map_err(|(length, step)| {
                    let (length, step) = (duration(length), duration(step));
                    Error::Usage(format!(
                        "--season {length} is not two or more whole steps of {step}; choose another --step"
                    ))
                })?)
            }
        };
        Ok(Options { steps: usize::try_from(steps).unwrap_or(1), seasons, events: self.events.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        assert_eq!((step("auto"), step("1h"), step("1d")), (Ok(Step::Auto), Ok(Step::Of(HOUR)), Ok(Step::Of(DAY))));
        for bad in ["", "7h", "36h", "30s", "5", "29d"] {
            assert!(step(bad).is_err(), "{bad}");
        }
        assert_eq!(season("7d,24h"), Ok(Season::Of(vec![DAY, 7 * DAY])));
        assert_eq!((season("none"), season("auto")), (Ok(Season::Of(Vec::new())), Ok(Season::Auto)));
        assert!(season("daily").is_err());
        let (pattern, amount) = limit(r#"a\{b="c"=8Gi"#).unwrap();
        assert_eq!((pattern.as_str(), amount), (r#"a\{b="c""#, 8_589_934_592.0));
        for bad in ["a", "a=", "(=1", "a=much", "a=-5"] {
            assert!(limit(bad).unwrap_err().contains("REGEX=NUMBER"), "{bad}");
        }
    }
}
