//! What OpenMetrics 1.0 demands of a page beyond its lines: families that stay together, the suffixes and
//! values that their types allow, and whole histograms. (The rules are those of the specification's sections on
//! "Metric types" and "Text format"; where it leaves room, what its parser tests say.)

use super::line::number;
use super::{CommentKind, Item};
use crate::model::sample::Sample;
use std::collections::HashSet;

/// Labels of one metric of a family, sorted: those that distinguish its points are left out.
type Group = Vec<(String, String)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Unknown,
    Gauge,
    Counter,
    Summary,
    Histogram,
    GaugeHistogram,
    Info,
    StateSet,
}

impl Type {
    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "unknown" => Self::Unknown,
            "gauge" => Self::Gauge,
            "counter" => Self::Counter,
            "summary" => Self::Summary,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            _ => return None,
        })
    }

    /// What a sample's name may have behind its family's.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["_total", "_created"],
            Self::Summary => &["", "_count", "_sum", "_created"],
            Self::Histogram => &["_bucket", "_count", "_sum", "_created"],
            Self::GaugeHistogram => &["_bucket", "_gcount", "_gsum"],
            Self::Info => &["_info"],
            Self::Unknown | Self::Gauge | Self::StateSet => &[""],
        }
    }
}

/// A family whose lines are being read.
#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: Option<Type>,
    unit: Option<String>,
    helped: bool,
    sampled: bool,
    group: Option<Group>,
    groups: HashSet<Group>,
    timestamp: Option<f64>,
    /// Series of the group at its latest time.
    series: HashSet<(String, Group)>,
    points: Points,
}

/// What was seen of a histogram's metric at one time.
#[derive(Debug, Default)]
struct Points {
    any: bool,
    bound: Option<f64>,
    below: f64,
    count: Option<f64>,
    sum: Option<f64>,
    gauge_sum: Option<f64>,
    negative_bounds: bool,
}

impl Points {
    fn check(&self) -> Result<(), &'static str> {
        if !self.any {
            return Ok(());
        }
        if self.bound != Some(f64::INFINITY) {
            return Err("a histogram without a +Inf bucket");
        }
        if self.count.is_some_and(|count| count != self.below) {
            return Err("a histogram whose count is not that of its +Inf bucket");
        }
        if (self.sum.is_some() || self.gauge_sum.is_some()) != self.count.is_some() {
            return Err("a histogram with only one of sum and count");
        }
        if self.negative_bounds && self.sum.is_some() {
            return Err("a histogram with a sum and negative bounds");
        }
        if !self.negative_bounds && self.gauge_sum.is_some_and(|sum| sum < 0.0) {
            return Err("a histogram with a negative sum and no negative bounds");
        }
        Ok(())
    }
}

/// Checks a page, item by item.
#[derive(Debug, Default)]
pub struct Checker {
    family: Option<Family>,
    names: HashSet<String>,
}

impl Checker {
    /// Takes the next item; what is wrong with it, if anything.
    pub fn item(&mut self, item: &Item<'_, '_>) -> Result<(), &'static str> {
        match item {
            Item::Eof => self.close(),
            Item::Blank => Err("an empty line"),
            Item::About(comment, name, text) => self.about(*comment, &text_of(name), &text_of(text)),
            Item::Sample(sample) => self.sample(sample),
            Item::Comment | Item::Bad(_) => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), &'static str> {
        let Some(family) = self.family.take() else { return Ok(()) };
        let kind = family.kind.unwrap_or(Type::Unknown);
        let mut clash = !self.names.insert(family.name.clone());
        for suffix in kind.suffixes().iter().filter(|suffix| !suffix.is_empty()) {
            clash |= !self.names.insert(format!("{}{suffix}", family.name));
        }
        if clash {
            return Err("a family whose name another one has or uses");
        }
        if let Some(unit) = family.unit.filter(|unit| !unit.is_empty()) {
            if !family.name.ends_with(&format!("_{unit}")) {
                return Err("a family whose name does not end in its unit");
            }
            if matches!(kind, Type::Info | Type::StateSet) {
                return Err("a unit for a family that can't have one");
            }
        }
        family.points.check()
    }

    fn about(&mut self, comment: CommentKind, name: &str, text: &str) -> Result<(), &'static str> {
        let mut closed = Ok(());
        if self.family.as_ref().is_none_or(|family| family.name != name) {
            closed = self.close();
            self.family = Some(Family { name: name.to_owned(), ..Family::default() });
        }
        let Some(family) = &mut self.family else { return closed };
        if family.sampled {
            return Err("a TYPE, HELP or UNIT after the family's samples");
        }
        let again = match comment {
            CommentKind::Help => std::mem::replace(&mut family.helped, true),
            CommentKind::Unit => family.unit.replace(text.to_owned()).is_some(),
            CommentKind::Type => {
                let kind = Type::of(text).ok_or("a TYPE unknown to OpenMetrics")?;
                family.kind.replace(kind).is_some()
            }
        };
        if again { Err("a second TYPE, HELP or UNIT of a family") } else { closed }
    }

    fn sample(&mut self, sample: &Sample<'_, '_>) -> Result<(), &'static str> {
        let name = sample.name.decode();
        let belongs = self.family.as_ref().is_some_and(|family| {
            let suffixes = family.kind.unwrap_or(Type::Unknown).suffixes();
            name.strip_prefix(family.name.as_str()).is_some_and(|rest| suffixes.contains(&rest))
        });
        let mut closed = Ok(());
        if !belongs {
            closed = self.close();
            self.family =
                Some(Family { name: name.clone().into_owned(), kind: Some(Type::Unknown), ..Family::default() });
        }
        let Some(family) = &mut self.family else { return closed };
        family.sampled = true;
        family.sample(sample, &name).and(closed)
    }
}

impl Family {
    fn sample(&mut self, sample: &Sample<'_, '_>, name: &str) -> Result<(), &'static str> {
        let kind = self.kind.unwrap_or(Type::Unknown);
        let suffix = name.strip_prefix(self.name.as_str()).unwrap_or_default();
        let label = |name: &str| sample.label(name).map(|value| value.decode().into_owned());
        let histogram = matches!(kind, Type::Histogram | Type::GaugeHistogram);
        // The label that distinguishes the points of one metric.
        let point = match kind {
            Type::Summary if suffix.is_empty() => Some("quantile"),
            Type::StateSet => Some(self.name.as_str()),
            _ if histogram && suffix == "_bucket" => Some("le"),
            _ => None,
        };
        let mut bound = None;
        if let Some(point) = point {
            let value = label(point).ok_or("a sample without the label that its type requires")?;
            if point == "le" || kind == Type::Summary {
                let number =
                    number(value.as_bytes()).filter(|n| !n.is_nan()).ok_or("a le or quantile that is not a number")?;
                if kind == Type::Summary && !(0.0..=1.0).contains(&number) {
                    return Err("a quantile that is not between 0 and 1");
                }
                if number.is_infinite() && !matches!(value.as_str(), "+Inf" | "-Inf") {
                    return Err("an infinite bound that is not written +Inf");
                }
                bound = Some(number);
            }
        }
        let mut labels: Group =
            sample.labels.iter().map(|l| (l.name.decode().into_owned(), l.value.decode().into_owned())).collect();
        labels.sort_unstable();
        let mut group = labels.clone();
        match kind {
            Type::Info => group.clear(),
            _ => group.retain(|(name, _)| point != Some(name.as_str())),
        }
        self.place(sample, name, labels, group, kind)?;
        values(sample, kind, suffix)?;
        if histogram {
            self.points.add(sample.value, suffix, bound)?;
        }
        Ok(())
    }

    /// Whether the sample stands where it may.
    fn place(
        &mut self,
        sample: &Sample<'_, '_>,
        name: &str,
        labels: Group,
        group: Group,
        kind: Type,
    ) -> Result<(), &'static str> {
        let same = self.group.as_ref() == Some(&group);
        let later = same && self.timestamp != sample.timestamp;
        if same {
            if self.timestamp.is_some() != sample.timestamp.is_some() {
                return Err("a timestamp on only some samples of a metric");
            }
            if self.timestamp > sample.timestamp && kind != Type::Info {
                return Err("a timestamp that goes back within a metric");
            }
        } else if self.groups.contains(&group) {
            return Err("a metric whose samples are not adjacent");
        }
        if !same || later {
            self.series.clear();
            let done = std::mem::take(&mut self.points);
            done.check()?;
        }
        self.timestamp = sample.timestamp;
        if !same {
            self.groups.insert(group.clone());
            self.group = Some(group);
        }
        // Times may have been cut to fewer digits: what seems to be a repetition need not be one.
        if !self.series.insert((name.to_owned(), labels)) && sample.timestamp.is_none() {
            return Err("the same series twice");
        }
        Ok(())
    }
}

impl Points {
    fn add(&mut self, value: f64, suffix: &str, bound: Option<f64>) -> Result<(), &'static str> {
        self.any = true;
        match suffix {
            "_bucket" => {
                let bound = bound.unwrap_or(f64::INFINITY);
                self.negative_bounds |= bound < 0.0;
                if self.bound.is_some_and(|before| bound <= before) {
                    return Err("buckets that are not in order");
                }
                if value < self.below {
                    return Err("a bucket that holds less than the one below it");
                }
                (self.bound, self.below) = (Some(bound), value);
            }
            "_count" | "_gcount" => self.count = Some(value),
            "_sum" => self.sum = Some(value),
            "_gsum" => self.gauge_sum = Some(value),
            _ => {}
        }
        Ok(())
    }
}

/// Whether a sample's value and exemplar are such as its type allows.
fn values(sample: &Sample<'_, '_>, kind: Type, suffix: &str) -> Result<(), &'static str> {
    let value = sample.value;
    match kind {
        Type::StateSet if value != 0.0 && value != 1.0 => return Err("a state that is neither 0 nor 1"),
        Type::Info if value != 1.0 => return Err("an info that is not 1"),
        Type::Summary if suffix.is_empty() && value < 0.0 => return Err("a quantile's value that is negative"),
        _ => {}
    }
    let counts = ["_total", "_sum", "_count", "_bucket", "_gcount", "_gsum"].contains(&suffix);
    if counts && value.is_nan() {
        return Err("a counter that is not a number");
    }
    if counts && suffix != "_gsum" && value < 0.0 {
        return Err("a counter that is negative");
    }
    let whole = matches!(kind, Type::Histogram | Type::GaugeHistogram | Type::Summary)
        && ["_count", "_bucket", "_gcount"].contains(&suffix);
    if whole && value.fract() != 0.0 {
        return Err("a count that is not a whole number");
    }
    if let Some(exemplar) = sample.exemplar {
        let allowed =
            matches!((kind, suffix), (Type::Histogram | Type::GaugeHistogram, "_bucket") | (Type::Counter, "_total"));
        if !allowed {
            return Err("an exemplar where none is allowed");
        }
        let length = |text: &str| text.chars().count();
        let labels: usize = exemplar.labels.iter().map(|l| length(&l.name.decode()) + length(&l.value.decode())).sum();
        if labels > 128 {
            return Err("an exemplar whose labels are longer than 128 characters");
        }
    }
    Ok(())
}

fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
