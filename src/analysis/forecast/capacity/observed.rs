//! What the history says of how things depend on one another: sums by day, and ratios between them.

use crate::analysis::forecast::words::grouped;
use crate::analysis::quota::collect::{ALLOCATABLE, LIMITS, OBJECTS, QUOTA, REQUESTS};
use crate::analysis::robust::{Line, line};
use crate::model::forecast::{Grid, Unit};
use crate::model::names::{APISERVER_OBJECTS, APISERVER_RPS};
use crate::model::series::{DAY, Series};
use crate::model::time::Micros;
use crate::model::units::amount;
use std::collections::BTreeMap;

/// Days that are looked at.
const DAYS: i64 = 60;

/// Days that both must be known on for a slope to be reported.
const MIN_DAYS: usize = 10;

/// How much of its own height something must have varied by, for what follows it to be reported.
const VARIED: f64 = 0.1;

/// The highest value of each day.
pub type Daily = BTreeMap<i64, f64>;

/// The history that ratios are taken from. All grids have the same step.
#[derive(Debug)]
pub struct Observed<'h> {
    history: &'h [(&'h Series, &'h Grid)],
    /// Which of them are of a namespace.
    by_namespace: BTreeMap<&'h str, Vec<usize>>,
    /// From when on.
    from: Micros,
    /// When the newest of all ends.
    pub end: Micros,
    step: Micros,
}

impl<'h> Observed<'h> {
    /// Looks at the last days of a history.
    pub fn new(history: &'h [(&'h Series, &'h Grid)]) -> Self {
        let end = history.iter().map(|(_, grid)| grid.end()).max().unwrap_or_default();
        let step = history.iter().map(|(_, grid)| grid.step).find(|step| *step > 0).unwrap_or(DAY);
        let mut by_namespace: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, (series, _)) in
            history.iter().enumerate().filter(|(_, (series, _))| !series.label("namespace").is_empty())
        {
            by_namespace.entry(series.label("namespace")).or_default().push(index);
        }
        Self { history, by_namespace, from: (end - DAYS * DAY).div_euclid(DAY) * DAY, end, step }
    }

    /// All series that are meant.
    pub fn all(&self, is_meant: impl Fn(&Series) -> bool) -> impl Iterator<Item = (&'h Series, &'h Grid)> {
        self.history.iter().copied().filter(move |(series, _)| is_meant(series))
    }

    /// The sum of all series that are meant, by interval, then the highest of each day. `value` is what a value counts
    /// for. A series that says nothing of an interval counts as nothing there; a day is lower for it only if that goes
    /// on for all of the day.
    pub fn sum(&self, is_meant: impl Fn(&Series) -> bool, value: impl Fn(f64) -> f64) -> Daily {
        self.add(self.all(is_meant).map(|(_, grid)| grid), value)
    }

    fn add<'g>(&self, grids: impl Iterator<Item = &'g Grid>, value: impl Fn(f64) -> f64) -> Daily {
        let length = ((self.end - self.from) / self.step).max(0) as usize + 1;
        let mut sums = vec![f64::NAN; length];
        for grid in grids {
            for (index, one) in grid.values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let at = (grid.at(index) - self.from).div_euclid(self.step);
                let Some(sum) = usize::try_from(at).ok().and_then(|at| sums.get_mut(at)) else { continue };
                *sum = if sum.is_nan() { 0.0 } else { *sum } + value(*one);
            }
        }
        let mut days = Daily::new();
        for (index, sum) in sums.into_iter().enumerate().filter(|(_, sum)| sum.is_finite()) {
            let day = (self.from + index as Micros * self.step).div_euclid(DAY);
            let highest = days.entry(day).or_insert(sum);
            *highest = highest.max(sum);
        }
        days
    }

    /// What a namespace has of a resource as quotas name it: by its pods and objects, else by what its quotas count.
    pub fn namespace(&self, namespace: &str, resource: &str) -> Daily {
        let (name, label) = match (resource.strip_prefix("requests."), resource.strip_prefix("limits.")) {
            (Some(of), _) if of != "storage" => (REQUESTS, of),
            (_, Some(of)) => (LIMITS, of),
            _ => (OBJECTS, resource),
        };
        let of = self
            .by_namespace
            .get(namespace)
            .into_iter()
            .flatten()
            .filter_map(|index| self.history.get(*index))
            .copied();
        let plain = of.clone().filter(|(series, _)| series.name == name && series.label("resource") == label);
        let plain = self.add(plain.map(|(_, grid)| grid), |value| value);
        if !plain.is_empty() {
            return plain;
        }
        // Each quota counts the same again: one is enough, the first.
        let mut quotas = of.filter(|(series, _)| {
            series.name == QUOTA && series.label("type") == "used" && same(series.label("resource")) == resource
        });
        self.add(quotas.next().map(|(_, grid)| grid).into_iter(), |value| value)
    }

    /// Namespaces of which pods are known.
    pub fn namespaces(&self) -> Vec<&'h str> {
        let has_pods = |series: &Series| {
            same(series.label("resource")) == "pods" && matches!(series.name.as_str(), OBJECTS | QUOTA)
        };
        let mut names: Vec<&str> =
            self.all(has_pods).map(|(series, _)| series.label("namespace")).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Pods of the cluster: as apiservers count them, else the sum of what namespaces have.
    pub fn pods(&self) -> Daily {
        let counted = self.objects("pods");
        if counted.is_empty() {
            self.sum(|series| series.name == OBJECTS && series.label("resource") == "pods", |v| v)
        } else {
            counted
        }
    }

    /// Nodes: as apiservers count them, else those that say what they can hold.
    pub fn nodes(&self) -> Daily {
        let counted = self.objects("nodes");
        if counted.is_empty() {
            // Each node once: by whichever resource is reported most of them.
            let of = |resource: &str| {
                self.sum(
                    |series| {
                        series.name == ALLOCATABLE
                            && series.label("resource") == resource
                            && !series.label("node").is_empty()
                    },
                    |_| 1.0,
                )
            };
            ["pods", "cpu", "memory"]
                .map(of)
                .into_iter()
                .max_by(|a, b| now(a).unwrap_or(0.0).total_cmp(&now(b).unwrap_or(0.0)))
                .unwrap_or_default()
        } else {
            counted
        }
    }

    /// Objects of a resource, named with its group: `jobs.batch`.
    pub fn objects(&self, resource: &str) -> Daily {
        self.sum(|series| series.name == APISERVER_OBJECTS && grouped(series) == resource, |v| v)
    }

    /// All objects.
    pub fn all_objects(&self) -> Daily {
        self.sum(|series| series.name == APISERVER_OBJECTS, |v| v)
    }

    /// Requests a second of series that are meant.
    pub fn requests(&self, is_meant: impl Fn(&Series) -> bool) -> Daily {
        self.sum(|series| series.name == APISERVER_RPS && is_meant(series), |v| v)
    }
}

/// The one name of resources that quotas have two of.
pub fn same(resource: &str) -> &str {
    match resource {
        "cpu" => "requests.cpu",
        "memory" => "requests.memory",
        "ephemeral-storage" => "requests.ephemeral-storage",
        "count/pods" => "pods",
        "count/services" => "services",
        "count/configmaps" => "configmaps",
        "count/secrets" => "secrets",
        "count/persistentvolumeclaims" => "persistentvolumeclaims",
        "count/replicationcontrollers" => "replicationcontrollers",
        "count/resourcequotas" => "resourcequotas",
        other => other,
    }
}

/// The last of the days: how much there is now.
pub fn now(daily: &Daily) -> Option<f64> {
    daily.last_key_value().map(|(_, value)| *value)
}

/// How sure a ratio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    /// Both varied together, and the slope is known to a quarter.
    Measured,
    /// Both varied together, but the slope may be quite another.
    Rough,
    /// What is there now, divided: nothing varied enough to decide more.
    Untested,
    /// It follows from what words mean.
    Given,
}

impl Sure {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Rough => "rough",
            Self::Untested => "not tested",
            Self::Given => "given",
        }
    }
}

/// How much more of one thing comes with one more of another, and why that is believed.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumption {
    /// What of what: `requests.cpu per pod of web`.
    pub name: String,
    pub ratio: f64,
    /// What it counts.
    pub unit: Unit,
    /// Between which values it lies in 95 of 100 cases, where that is known.
    pub interval: Option<(f64, f64)>,
    /// What it was taken from.
    pub from: String,
    /// How sure it is.
    pub sure: Sure,
}

/// What to believe where history does not show that one thing follows another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Else {
    /// They go together by their nature: what is there now, divided.
    Ratio,
    /// The same, unless history varied enough to show that they do not.
    RatioIfUntested,
    /// That it stays.
    Nothing,
}

/// Whether one thing follows another also where what both grow by in time is taken away: whatever grows seems to follow
/// all else that does.
fn follows_detrended(by: &Daily, of: &Daily) -> bool {
    let detrended = |daily: &Daily| {
        let points: Vec<(f64, f64)> = daily.iter().map(|(day, value)| (*day as f64, *value)).collect();
        let slope = line(&points).map_or(0.0, |line| line.slope);
        points.into_iter().map(|(day, value)| (day as i64, value - slope * day)).collect::<Daily>()
    };
    let (by, of) = (detrended(by), detrended(of));
    let both: Vec<(f64, f64)> = by.iter().filter_map(|(day, x)| Some((*x, *of.get(day)?))).collect();
    line(&both).is_some_and(|line| line.interval.0 > 0.0)
}

/// How much more of `of` comes with one more of `by`: the slope between them (Theil and Sen, over days), where `by`
/// varied enough and the slope is surely above zero; else what `otherwise` says. `None` where nothing is known or
/// nothing follows.
pub fn link(name: &str, unit: Unit, by_name: &str, by: &Daily, of: &Daily, otherwise: Else) -> Option<Assumption> {
    let both: Vec<(f64, f64)> = by.iter().filter_map(|(day, x)| Some((*x, *of.get(day)?))).collect();
    let (least, most) =
        both.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), (x, _)| (least.min(*x), most.max(*x)));
    let mut distinct: Vec<f64> = both.iter().map(|(x, _)| *x).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    let varied = both.len() >= MIN_DAYS && distinct.len() >= 4 && most - least >= VARIED * most.abs();
    let follows = |line: &Line| line.interval.0 > 0.0 && (otherwise != Else::Nothing || follows_detrended(by, of));
    if varied && let Some(line) = line(&both).filter(follows) {
        let (low, high) = line.interval;
        let sure = if high - low <= 0.5 * line.slope { Sure::Measured } else { Sure::Rough };
        let from = format!(
            "slope over {} days, {by_name} from {} to {}",
            both.len(),
            amount(Unit::Count, least),
            amount(Unit::Count, most)
        );
        return Some(Assumption {
            name: name.to_owned(),
            ratio: line.slope,
            unit,
            interval: Some((low, high)),
            from,
            sure,
        });
    }
    if otherwise == Else::Nothing || varied && otherwise == Else::RatioIfUntested {
        return None;
    }
    let (x, y) = both.last().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0)?;
    let why = if varied { "the slope over days is not significant" } else { "too little change to estimate a slope" };
    let from = format!("{} for {} {by_name} now; {why}", amount(unit, y), amount(Unit::Count, x));
    Some(Assumption { name: name.to_owned(), ratio: y / x, unit, interval: None, from, sure: Sure::Untested })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daily(values: impl IntoIterator<Item = f64>) -> Daily {
        values.into_iter().enumerate().map(|(day, value)| (day as i64, value)).collect()
    }

    #[test]
    fn a_slope_needs_what_varied_and_what_followed() {
        let pods = daily((0..30).map(|day| 100.0 + f64::from(day % 10) * 5.0));
        let base = |per: f64| daily((0..30).map(|day| 40.0 + per * (100.0 + f64::from(day % 10) * 5.0)));
        let follows = link("x", Unit::Cores, "pods", &pods, &base(0.5), Else::Nothing).unwrap();
        assert_eq!(
            (follows.ratio, follows.sure, follows.interval),
            (0.5, Sure::Measured, Some((0.5, 0.5))),
            "not 90 / 100"
        );
        let still = daily((0..30).map(|_| 77.0));
        assert_eq!(link("x", Unit::Cores, "pods", &pods, &still, Else::RatioIfUntested), None);
        let by_nature = link("x", Unit::Cores, "pods", &pods, &still, Else::Ratio).unwrap();
        assert_eq!((by_nature.ratio, by_nature.sure), (77.0 / 145.0, Sure::Untested));
        // Ten in a hundred is the least; below it the ratio is all that is known.
        let steady = daily((0..30).map(|day| 1000.0 + f64::from(day % 10)));
        let of = daily((0..30).map(|_| 500.0));
        assert_eq!(
            link("x", Unit::Cores, "pods", &steady, &of, Else::RatioIfUntested).map(|found| found.ratio),
            Some(500.0 / 1009.0)
        );
        assert_eq!(link("x", Unit::Cores, "pods", &steady, &of, Else::Nothing), None);
        assert_eq!(link("x", Unit::Cores, "pods", &Daily::new(), &of, Else::Ratio), None);
        assert_eq!(link("x", Unit::Cores, "pods", &daily([0.0]), &of, Else::Ratio), None, "nothing is divided by zero");
    }

    #[test]
    fn what_only_grows_along_does_not_follow() {
        let wobble = |day: u32| f64::from(day * 7 % 11);
        let pods = daily((0..40).map(|day| 100.0 + 2.0 * f64::from(day) + 5.0 * wobble(day)));
        let grows = daily((0..40).map(|day| 1_000.0 + 30.0 * f64::from(day) + wobble(day * 3 + 1)));
        assert_eq!(link("x", Unit::Count, "pods", &pods, &grows, Else::Nothing), None);
        // What belongs to pods by its nature does.
        assert!(link("x", Unit::Count, "pods", &pods, &grows, Else::Ratio).is_some());
        let follows: Daily = pods.iter().map(|(day, pods)| (*day, 3.0 * pods + 7.0)).collect();
        let found = link("x", Unit::Count, "pods", &pods, &follows, Else::Nothing).unwrap();
        assert!((found.ratio - 3.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn sums_are_by_interval_not_by_day() {
        let hour = DAY / 24;
        let grid = |values: &[f64]| Grid { from: 100 * DAY, step: hour, values: values.to_vec() };
        let (a, b) = (
            Series::new(OBJECTS, &[("namespace", "a"), ("resource", "pods")]),
            Series::new(OBJECTS, &[("namespace", "b"), ("resource", "pods")]),
        );
        let (x, y) = (grid(&[9.0, 1.0, f64::NAN]), grid(&[1.0, 9.0, 2.0]));
        let history = [(&a, &x), (&b, &y)];
        let observed = Observed::new(&history);
        assert_eq!(observed.pods(), Daily::from([(100, 10.0)]), "never eighteen at once");
        assert_eq!(observed.namespace("a", "pods"), Daily::from([(100, 9.0)]));
        assert_eq!(observed.namespaces(), ["a", "b"]);
    }
}
