//! An expression over a stretch of time, cut so that no query loads more samples at once than the limit.
//!
//! How heavy an instant is, is measured first: `count(…)` of the expression at few instants, then at more of them, with
//! Prometheus' own statistics (`peakSamples`) where it gives some. From that follows how many steps fit into a query.
//! What is found too heavy all the same is halved; a single step that is too heavy is cut by the values of a label.

use super::answer::Answer;
use super::client::{Client, Endpoint, Fault};
use super::error::PromError;
use super::queries::Query;
use crate::model::series::{Day, DayFold, Point, Series};
use crate::model::time::{HOUR, Micros, SECOND};
use crate::model::units::grouped;
use crate::sources::watcher::Watcher;
use std::collections::HashMap;

/// The most points of a series in one query: Prometheus gives at most 11,000.
const MAX_POINTS: i64 = 10_000;
/// Instants at which the weight of a query is measured, at most.
const PROBES: i64 = 64;
/// What may have been heavier between two of them.
const MARGIN: f64 = 1.25;
/// Answers in a row that did not come in time, after which there is no use in asking for less.
const MAX_TIMEOUTS_IN_A_ROW: u32 = 4;
/// What a Kubernetes cluster shows of itself.
const KUBERNETES: [&str; 4] = [
    "kube_resourcequota",
    "kube_node_status_allocatable",
    "apiserver_request_total",
    "etcd_mvcc_db_total_size_in_bytes",
];
/// Series of one query that are kept.
const SERIES: u64 = 2_097_152;
/// Distinct warnings that are kept.
const WARNINGS: usize = 20;

/// A stretch of time and the step in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: Micros,
    until: Micros,
    step: Micros,
}

impl Window {
    /// The whole steps between two times. Steps are counted from 1970, so that days hold whole ones where the step
    /// divides a day.
    pub fn new(from: Micros, until: Micros, step: Micros) -> Result<Self, PromError> {
        if !(SECOND..=HOUR).contains(&step) || step % 1_000 != 0 {
            return Err(PromError::Given("--step must be between 1s and 1h, in whole milliseconds".to_owned()));
        }
        let down = |at: Micros| at.div_euclid(step) * step;
        let (from, until) = (down(from + step - 1), down(until));
        if from >= until {
            return Err(PromError::Given(
                "no whole step fits between --since and --until; choose a shorter --step".to_owned(),
            ));
        }
        Ok(Self { from, until, step })
    }

    /// The beginning of the first step.
    pub fn from(&self) -> Micros {
        self.from
    }

    /// The end of the last step.
    pub fn until(&self) -> Micros {
        self.until
    }

    /// The step.
    pub fn step(&self) -> Micros {
        self.step
    }

    fn steps(&self) -> i64 {
        (self.until - self.from) / self.step
    }
}

/// What it took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RangeStats {
    /// Queries that were answered, those that measure included.
    pub queries: u64,
    /// Tries beyond the first.
    pub again: u64,
    /// Queries that were too heavy and were asked in parts.
    pub too_heavy: u64,
    /// Points that came.
    pub points: u64,
    /// Points that are no finite numbers.
    pub left_out: u64,
    /// Native histograms, which are left out.
    pub histograms: u64,
    /// The most samples that one query held in Prometheus' memory at once; where it does not say so, the most points of
    /// an answer.
    pub heaviest: u64,
    /// Whether Prometheus said so each time.
    pub is_measured: bool,
    /// What it warns of, each once.
    pub warnings: Vec<String>,
}

/// A Prometheus that is asked.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    limit: u64,
    matchers: String,
    stats: RangeStats,
}

/// What is asked for at once in time: all, or what has one of these values of a label.
struct Part {
    values: Option<Vec<String>>,
    from: i64,
}

/// What a step of an expression loads.
enum Weight {
    /// So many samples, with a margin.
    Samples(f64),
    /// More than the server gives even of one instant; what it said.
    Beyond(String),
}

/// How a part ended.
enum Ended {
    /// It is all there.
    Whole,
    /// From a step on it must be cut by label.
    Cut { at: i64, weight: f64, why: String },
}

impl Prometheus {
    /// Takes the flags to heart; asks nothing yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, PromError> {
        if endpoint.max_samples == 0 {
            return Err(PromError::Given("--max-samples must be above zero".to_owned()));
        }
        let stats = RangeStats { is_measured: true, ..RangeStats::default() };
        Ok(Self {
            client: Client::new(endpoint)?,
            limit: endpoint.max_samples,
            matchers: endpoint.matchers.trim().to_owned(),
            stats,
        })
    }

    /// What it took until now.
    pub fn stats(&self) -> RangeStats {
        RangeStats { again: self.client.again, ..self.stats.clone() }
    }

    /// The values of the label `cluster` that series of Kubernetes have in a window, by the matchers; none where the
    /// server does not list values of labels.
    pub fn clusters(&mut self, window: &Window, watcher: &dyn Watcher) -> Vec<String> {
        let of = format!("{{__name__=~\"{}\",{}}}", KUBERNETES.join("|"), self.matchers);
        let (from, until) = (seconds(window.from), seconds(window.until));
        let form = [("match[]", of.as_str()), ("start", from.as_str()), ("end", until.as_str())];
        let mut values = self.client.values("cluster", &form, watcher).map(|found| found.data).unwrap_or_default();
        values.sort_unstable();
        values
    }

    /// Asks a query over a window. `take` gets each series' points in order of time, in runs of at least one.
    ///
    /// A point of a query of windows ([`Query::is_of_windows`]) has the time at which its window begins, any other its
    /// own.
    pub fn range(
        &mut self,
        query: &Query,
        window: &Window,
        watcher: &dyn Watcher,
        take: &mut dyn FnMut(&Series, &[Point]),
    ) -> Result<(), PromError> {
        let mut parts = vec![Part { values: None, from: 0 }];
        while let Some(part) = parts.pop() {
            if let Ended::Cut { at, weight, why } = self.part(query, window, &part, watcher, take)? {
                let smaller = self.cut(query, window, part, weight, &why, watcher)?;
                parts.extend(smaller.into_iter().rev().map(|values| Part { values: Some(values), from: at }));
            }
        }
        Ok(())
    }

    /// The days of each series of a query, ascending.
    pub fn days(
        &mut self,
        query: &Query,
        window: &Window,
        watcher: &dyn Watcher,
    ) -> Result<Vec<(Series, Vec<Day>)>, PromError> {
        let mut folds: HashMap<Series, (DayFold, Vec<Day>)> = HashMap::new();
        let mut is_over = false;
        self.range(query, window, watcher, &mut |series, points| {
            if !folds.contains_key(series) {
                is_over |= folds.len() as u64 >= SERIES;
                if is_over {
                    return;
                }
                folds.insert(series.clone(), Default::default());
            }
            if let Some((fold, days)) = folds.get_mut(series) {
                days.extend(points.iter().filter_map(|point| fold.add(*point)));
            }
        })?;
        if is_over {
            return Err(PromError::Series { name: query.name.clone(), limit: SERIES });
        }
        let mut all: Vec<(Series, Vec<Day>)> = folds
            .into_iter()
            .map(|(series, (mut fold, mut days))| {
                days.extend(fold.finish());
                (series, days)
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    }

    /// Asks a part from its first step on, chunk by chunk.
    fn part(
        &mut self,
        query: &Query,
        window: &Window,
        part: &Part,
        watcher: &dyn Watcher,
        take: &mut dyn FnMut(&Series, &[Point]),
    ) -> Result<Ended, PromError> {
        let expression = query.expression(window.step, &[&self.matchers, &matcher(query, part)]);
        let limit = self.limit as f64;
        let mut weight = match self.weigh(query, window, part.from, &expression, watcher)? {
            Weight::Samples(weight) => weight,
            Weight::Beyond(why) => return Ok(Ended::Cut { at: part.from, weight: f64::INFINITY, why }),
        };
        let (mut at, mut room, mut slow) = (part.from, MAX_POINTS, 0);
        while at < window.steps() {
            if weight > limit {
                return Ok(Ended::Cut {
                    at,
                    weight,
                    why: format!("it loads about {} samples", grouped(weight as u64)),
                });
            }
            let count = ((limit / weight) as i64).clamp(1, room).min(window.steps() - at);
            match self.chunk(query, window, &expression, (at, window.step, count), self.limit, watcher) {
                Ok(answer) => {
                    if let Some(peak) = answer.peak {
                        weight = weight.max(peak as f64 / count as f64);
                    }
                    self.hand_on(query, window, answer, take);
                    at += count;
                    slow = 0;
                }
                Err(Fault::TooHeavy { why, is_slow }) => {
                    self.stats.too_heavy += 1;
                    slow = if is_slow { slow + 1 } else { 0 };
                    if count == 1 || slow >= MAX_TIMEOUTS_IN_A_ROW {
                        return Ok(Ended::Cut { at, weight, why });
                    }
                    room = count / 2;
                }
                Err(fault) => return Err(about(query, fault)),
            }
        }
        Ok(Ended::Whole)
    }

    /// The samples that a step of an expression loads, the heaviest of those looked at, with a margin; or why that
    /// can't be known.
    ///
    /// First one instant is looked at, then twice as many as before for as long as they are light.
    fn weigh(
        &mut self,
        query: &Query,
        window: &Window,
        from: i64,
        expression: &str,
        watcher: &dyn Watcher,
    ) -> Result<Weight, PromError> {
        let counting = format!("count({expression})");
        let steps = window.steps() - from;
        let mut weight: Option<f64> = None;
        let mut probes = 1;
        loop {
            // Instants at the ends of as many equal stretches.
            let gap = steps / probes;
            let first = from + steps - 1 - gap * (probes - 1);
            let answer = match self.chunk(
                query,
                window,
                &counting,
                (first, gap.max(1) * window.step, probes),
                2 * PROBES as u64,
                watcher,
            ) {
                Ok(answer) => answer,
                Err(Fault::TooHeavy { why, .. }) => {
                    self.stats.too_heavy += 1;
                    return Ok(weight.map_or(Weight::Beyond(why), |weight| Weight::Samples(weight * MARGIN)));
                }
                Err(fault) => return Err(about(query, fault)),
            };
            let counts: Vec<f64> = answer.rows.iter().flat_map(|row| row.1.iter().map(|point| point.value)).collect();
            let (most, sum) = (counts.iter().copied().fold(0.0, f64::max), counts.iter().sum::<f64>());
            // What an expression loads beside what it gives: what it sums, windows, both sides of a join.
            let beside = answer.peak.filter(|_| sum > 0.0).map_or(1.0, |peak| (peak as f64 / sum).max(1.0));
            let found = (most * beside).max(1.0);
            // What one instant loads beside its own is spread over more of them: later measures are better, unless more
            // was there.
            weight = Some(if probes == 1 { found } else { found.max(most) });
            let next = probes * 2;
            if next > PROBES || next > steps || found * MARGIN * next as f64 > self.limit as f64 {
                return Ok(Weight::Samples(found * MARGIN));
            }
            probes = next;
        }
    }

    /// One query: from a step on, so far apart, so many.
    fn chunk(
        &mut self,
        query: &Query,
        window: &Window,
        expression: &str,
        (first, apart, count): (i64, Micros, i64),
        points: u64,
        watcher: &dyn Watcher,
    ) -> Result<Answer, Fault> {
        let start = window.from + first * window.step;
        // A window's last millisecond: then it holds what is of this step, its first instant included, and nothing of
        // the next.
        let start = if query.is_of_windows() { start + window.step - 1_000 } else { start };
        let end = start + apart * (count - 1);
        let form =
            [("query", expression), ("start", &seconds(start)), ("end", &seconds(end)), ("step", &seconds(apart))];
        let mut answer = self.client.query("query_range", &form, points, watcher)?;
        self.stats.queries += 1;
        if answer.kind != "matrix" {
            return Err(Fault::Bad(format!("it gives a {}, not series", answer.kind)));
        }
        let came: usize = answer.rows.iter().map(|row| row.1.len()).sum();
        self.stats.is_measured &= answer.peak.is_some();
        self.stats.heaviest = self.stats.heaviest.max(answer.peak.unwrap_or(came as u64));
        self.warn(std::mem::take(&mut answer.warnings));
        Ok(answer)
    }

    fn warn(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            let warning = crate::sources::live::foreign(&warning);
            if self.stats.warnings.len() < WARNINGS && !self.stats.warnings.contains(&warning) {
                self.stats.warnings.push(warning);
            }
        }
    }

    fn hand_on(&mut self, query: &Query, window: &Window, answer: Answer, take: &mut dyn FnMut(&Series, &[Point])) {
        self.stats.left_out += answer.left_out;
        self.stats.histograms += answer.histograms;
        for (mut labels, mut points) in answer.rows {
            labels.remove("__name__");
            labels.retain(|_, value| !value.is_empty());
            if query.is_of_windows() {
                // Also where something between here and Prometheus has moved times to whole steps.
                points.iter_mut().for_each(|point| point.at = (point.at - 1_000).div_euclid(window.step) * window.step);
            }
            points.retain(|point| (window.from..window.until).contains(&point.at));
            self.stats.points += points.len() as u64;
            if !points.is_empty() {
                take(&Series { name: query.name.clone(), labels }, &points);
            }
        }
    }

    /// Smaller parts of one that is too heavy: by the values of the query's label.
    fn cut(
        &mut self,
        query: &Query,
        window: &Window,
        part: Part,
        weight: f64,
        why: &str,
        watcher: &dyn Watcher,
    ) -> Result<Vec<Vec<String>>, PromError> {
        let limit = self.limit;
        let heavy = |part: String, next: String| PromError::TooHeavy {
            name: query.name.clone(),
            part,
            limit,
            why: why.to_owned(),
            next,
        };
        let raise = if weight.is_finite() {
            format!("raise --max-samples to {} or more", weight.ceil())
        } else {
            "raise --max-samples, or the server's own limit".to_owned()
        };
        let Some(label) = query.splits_by() else {
            return Err(heavy(
                "it".to_owned(),
                format!("{raise}, or put $match into its braces, so that it can be split by label"),
            ));
        };
        let values = match part.values {
            Some(values) if values.len() < 2 => {
                let value = values.first().map(String::as_str).unwrap_or_default();
                return Err(heavy(format!("{label}={value:?}"), raise));
            }
            Some(values) => values,
            None => {
                let form = [("start", seconds(window.from - window.step)), ("end", seconds(window.until))];
                let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let found = self.client.values(label, &form, watcher).map_err(|fault| about(query, fault))?;
                self.stats.queries += 1;
                self.warn(found.warnings);
                // What has no such label is matched by an empty value.
                let mut values = found.data;
                values.push(String::new());
                values.sort_unstable();
                values.dedup();
                values
            }
        };
        if values.len() < 2 {
            return Err(heavy(
                "it".to_owned(),
                format!("{raise}, or set `split` to a label of its series, which {label} is not"),
            ));
        }
        let parts = if weight.is_finite() { (2.0 * weight / self.limit as f64).ceil() as usize } else { 2 };
        let size = values.len().div_ceil(parts.clamp(2, values.len()));
        Ok(values.chunks(size).map(<[String]>::to_vec).collect())
    }
}

/// The matcher of a part.
fn matcher(query: &Query, part: &Part) -> String {
    let (Some(label), Some(values)) = (query.splits_by(), &part.values) else { return String::new() };
    let any = values.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|");
    let quoted = any.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{label}=~\"{quoted}\"")
}

/// Seconds with milliseconds, as the API takes them.
fn seconds(at: Micros) -> String {
    let millis = at.div_euclid(1_000);
    format!("{}.{:03}", millis.div_euclid(1_000), millis.rem_euclid(1_000))
}

fn about(query: &Query, fault: Fault) -> PromError {
    match fault {
        Fault::Final(error) => error,
        Fault::Bad(what) | Fault::TooHeavy { why: what, .. } => PromError::Query { name: query.name.clone(), what },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::MINUTE;

    #[test]
    fn a_window_is_whole_steps() {
        let window = Window::new(MINUTE + 1, 10 * MINUTE + 7, 5 * MINUTE).unwrap();
        assert_eq!((window.from(), window.until(), window.steps()), (5 * MINUTE, 10 * MINUTE, 1));
        assert!(Window::new(MINUTE, 9 * MINUTE, 5 * MINUTE).is_err());
        for step in [0, 999, 500_000, 3_601 * SECOND, SECOND + 1] {
            assert!(Window::new(0, 100 * MINUTE, step).is_err(), "{step}");
        }
    }

    #[test]
    fn values_of_labels_are_matched_as_they_are() {
        let query = Query { name: "x".to_owned(), promql: "x{$match}".to_owned(), split: Some("a".to_owned()) };
        let part = Part { values: Some(vec![String::new(), "b.c|d".to_owned(), "\"\\".to_owned()]), from: 0 };
        assert_eq!(matcher(&query, &part), r#"a=~"|b\\.c\\|d|\"\\\\""#);
        assert_eq!(matcher(&query, &Part { values: None, from: 0 }), "");
        assert_eq!((seconds(1_500_000), seconds(299_999_000)), ("1.500".to_owned(), "299.999".to_owned()));
    }
}
