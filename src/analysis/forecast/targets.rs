//! Which series have a future that matters, and what limits them: from histories to targets.
//!
//! The names of series are those that `plimsoll record` writes (docs/history.md). A series of any other name is a
//! target of its own.

use super::words::{grouped, title};
use crate::analysis::quota::collect::{ALLOCATABLE, LIMITS, OBJECTS, QUOTA, REQUESTS};
use crate::model::forecast::{ASSUMED_QUOTA, Grid, Part, Target, Unit};
use crate::model::grid::History;
use crate::model::names::{
    APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, CGROUP_MEMORY, CLUSTER_REQUESTS,
    ETCD_DB, ETCD_IN_USE, ETCD_QUOTA, NAMESPACE_USAGE,
};
use crate::model::problem::Problem;
use crate::model::quota::is_bytes;
use crate::model::series::{DAY, Selector, Series};
use crate::model::time::Micros;
use crate::model::units::counted;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The part of a sum that holds all that are not named.
pub const OTHERS: &str = "(others)";
/// Parts of a sum that are named: so many of the largest, and so many of those that grew most.
const NAMED: usize = 25;
/// A source without a sample for longer than this has ended; until then its last value holds.
const STANDS: Micros = DAY;
/// etcd's own quota where `--quota-backend-bytes` is not set (etcd, server/storage/quota.go: DefaultQuotaBytes).
const ETCD_DEFAULT: f64 = 2.0 * 1024.0 * 1024.0 * 1024.0;

/// Lines of a list of limits that a sentence names.
const NAMED_LINES: usize = 5;

/// Series that a person picks.
#[derive(Debug, Clone)]
pub enum Pick {
    /// Those with these labels.
    Exact(Selector),
    /// Those whose text, or whose name for people, matches.
    Text(Regex),
}

impl Pick {
    /// Reads `name{label="value",…}`, or a regular expression on the text of a series.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        match selector(text.trim()) {
            Some(selector) => Ok(Self::Exact(selector)),
            None => Regex::new(text).map(Self::Text).map_err(|error| {
                let what = "neither name{label=\"value\"} nor a valid regular expression";
                Problem::setting(format!("'{text}' is {what}: {error}"))
            }),
        }
    }

    fn takes(&self, series: &Series, text: &str) -> bool {
        match self {
            Self::Exact(selector) => selector.matches(series),
            Self::Text(regex) => regex.is_match(text) || regex.is_match(&title(series)),
        }
    }
}

/// `name{a="b",…}` with at least one pair, values with the escapes of a metrics page.
fn selector(text: &str) -> Option<Selector> {
    let (name, rest) = text.split_once('{')?;
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':')) {
        return None;
    }
    let mut labels = Vec::new();
    let mut rest = rest.trim_start();
    while !rest.starts_with('}') {
        let (label, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((label.trim().to_owned(), value));
        rest = behind[end..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    (rest == "}" && !labels.is_empty()).then(|| Selector { name: name.to_owned(), labels })
}

/// Limits that a person gives. The first pattern that matches wins, then the list; both come before what is known.
#[derive(Debug, Clone, Default)]
pub struct GivenLimits {
    /// Patterns on the text of a series, with their limit.
    pub patterns: Vec<(Regex, f64)>,
    /// Limits by the text of a series, or by its name alone.
    pub listed: HashMap<String, f64>,
    /// Where the list is from.
    pub list: String,
    /// The quota of etcd, where no series shows it.
    pub etcd_quota: Option<f64>,
}

impl GivenLimits {
    /// The limit of a series, and where it is from.
    fn of(&self, series: &Series, text: &str) -> Option<(f64, String)> {
        let title = if self.patterns.is_empty() { String::new() } else { title(series) };
        let matches = |pattern: &Regex| pattern.is_match(text) || pattern.is_match(&title);
        if let Some((pattern, limit)) = self.patterns.iter().find(|(pattern, _)| matches(pattern)) {
            return Some((*limit, by_pattern(pattern)));
        }
        let listed = self.listed.get(text).or_else(|| self.listed.get(&series.name));
        listed.map(|limit| (*limit, self.list.clone()))
    }

    /// Sentences about limits that no target has; about lines of the list only where these are all targets.
    pub fn unused(&self, targets: &[Target], is_all: bool) -> Vec<String> {
        let from: HashSet<&str> = targets.iter().map(|target| target.limit_from.as_str()).collect();
        let mut unused: Vec<String> = self
            .patterns
            .iter()
            .map(|(pattern, _)| by_pattern(pattern))
            .filter(|text| !from.contains(text.as_str()))
            .collect();
        if !self.listed.is_empty() && !from.contains(self.list.as_str()) {
            unused.push(format!("--limits {}", self.list));
        }
        let texts: HashSet<String> = targets.iter().map(|target| target.series.to_string()).collect();
        let names: HashSet<&str> = targets.iter().map(|target| target.series.name.as_str()).collect();
        let is_there = |key: &&String| texts.contains(*key) || names.contains(key.as_str());
        if is_all && from.contains(self.list.as_str()) {
            let mut lines: Vec<&String> = self.listed.keys().filter(|key| !is_there(key)).collect();
            lines.sort_unstable();
            let more = lines.len().saturating_sub(NAMED_LINES);
            let mut named: Vec<String> =
                lines.iter().take(NAMED_LINES).map(|line| format!("{line} of --limits {}", self.list)).collect();
            named
                .extend((more > 0).then(|| format!("{} of --limits {}", counted(more as u64, "more line"), self.list)));
            unused.extend(named);
        }
        let how = "matches no series; use a name from the table, or name{label=\"value\"} as in -o json";
        unused.into_iter().map(|text| format!("{text} {how}")).collect()
    }
}

/// Where a limit is from that a pattern gives.
fn by_pattern(pattern: &Regex) -> String {
    format!("--limit {pattern}")
}

/// Which targets are wanted.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Only these; all where it is empty.
    pub picks: Vec<Pick>,
    /// Only those of these namespaces; all where it is empty.
    pub namespaces: Vec<String>,
    pub given: GivenLimits,
    /// Whether what the capacity model looks at is needed as well.
    pub with_observed: bool,
}

/// Series that the capacity model looks at.
pub const OBSERVED: [&str; 10] = [
    OBJECTS,
    REQUESTS,
    LIMITS,
    APISERVER_OBJECTS,
    APISERVER_OBJECT_BYTES,
    APISERVER_RPS,
    ETCD_DB,
    ETCD_IN_USE,
    ALLOCATABLE,
    CGROUP_MEMORY,
];

impl Rules {
    fn picks(&self, series: &Series, text: &str) -> bool {
        self.picks.iter().any(|pick| pick.takes(series, text))
    }

    /// Whether a series is a target although it is none by itself.
    fn asks_for(&self, series: &Series) -> bool {
        if self.picks.is_empty() && self.given.patterns.is_empty() && self.given.listed.is_empty() {
            return false;
        }
        let text = series.to_string();
        self.picks(series, &text) || self.given.of(series, &text).is_some()
    }

    /// Whether the history of a series is needed at all.
    pub fn needs(&self, series: &Series) -> bool {
        let is_observed = self.with_observed && OBSERVED.contains(&series.name.as_str());
        role(series) != Role::None || is_observed || self.asks_for(series)
    }

    fn wants(&self, target: &Target) -> bool {
        let is_of =
            self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == target.series.label("namespace"));
        is_of && (self.picks.is_empty() || self.picks(&target.series, &target.series.to_string()))
    }
}

/// What a series is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Target,
    /// The limit of another.
    Limit,
    /// Part of a sum.
    Part,
    /// Neither.
    None,
}

fn role(series: &Series) -> Role {
    match series.name.as_str() {
        QUOTA => match series.label("type") {
            "hard" => Role::Limit,
            _ => Role::Target,
        },
        REQUESTS => match series.label("resource") {
            "cpu" | "memory" => Role::Part,
            _ => Role::None,
        },
        OBJECTS if series.label("resource") == "pods" => Role::Part,
        ALLOCATABLE | ETCD_QUOTA => Role::Limit,
        APISERVER_RPS if series.label("flow_schema").is_empty() => Role::Part,
        APISERVER_SEATS | CGROUP_MEMORY => match series.label("kind") {
            "executing" | "working_set" => Role::Target,
            "limit" => Role::Limit,
            _ => Role::None,
        },
        OBJECTS | LIMITS | NAMESPACE_USAGE | ETCD_IN_USE => Role::None,
        _ => Role::Target,
    }
}

/// What a series counts, by its name and the resource that it is about.
pub fn unit(series: &Series) -> Unit {
    let resource = series.label("resource");
    match series.name.as_str() {
        QUOTA | REQUESTS | LIMITS | OBJECTS | ALLOCATABLE | NAMESPACE_USAGE | CLUSTER_REQUESTS => match resource {
            "cpu" | "requests.cpu" | "limits.cpu" => Unit::Cores,
            _ if is_bytes(resource) => Unit::Bytes,
            _ => Unit::Count,
        },
        name if name.ends_with("_bytes_per_second") => Unit::BytesPerSecond,
        name if name.ends_with("_bytes") => Unit::Bytes,
        name if name.ends_with("_rps") || name.ends_with("_per_second") => Unit::PerSecond,
        name if name.ends_with("_cores") => Unit::Cores,
        _ => Unit::Count,
    }
}

/// The label by which Prometheus and its like distinguish clusters.
const CLUSTER: &str = "cluster";

/// Labels of a limit but for what distinguishes it from what it limits, and the limit.
type Labelled = (BTreeMap<String, String>, f64);

/// Limits of one kind, by what they are limits of.
#[derive(Debug, Default)]
struct Paired(HashMap<Vec<String>, Vec<Labelled>>);

impl Paired {
    /// What distinguishes a limit from what it limits.
    const SIDES: [&str; 2] = ["type", "kind"];

    fn key(series: &Series, labels: &[&str]) -> Vec<String> {
        labels.iter().map(|label| series.label(label).to_owned()).collect()
    }

    fn others(series: &Series) -> BTreeMap<String, String> {
        let mut others = series.labels.clone();
        others.retain(|label, _| !Self::SIDES.contains(&label.as_str()));
        others
    }

    fn take(&mut self, series: &Series, labels: &[&str], value: f64) {
        self.0.entry(Self::key(series, labels)).or_default().push((Self::others(series), value));
    }

    /// The limit with the same labels in all; else the least of those of the same cluster that agree in `labels`.
    fn of(&self, series: &Series, labels: &[&str]) -> Option<f64> {
        let own = Self::others(series);
        let all = self.0.get(&Self::key(series, labels))?;
        let same = all.iter().find(|(others, _)| *others == own).map(|(_, value)| *value);
        let is_of = |others: &BTreeMap<String, String>| {
            others.get(CLUSTER).is_none_or(|cluster| own.get(CLUSTER).is_none_or(|other| other == cluster))
        };
        same.or_else(|| all.iter().filter(|(others, _)| is_of(others)).map(|(_, value)| *value).reduce(f64::min))
    }
}

const OF_QUOTA: [&str; 3] = ["namespace", "resourcequota", "resource"];
const OF_SEATS: [&str; 1] = ["priority_level"];
const OF_CGROUP: [&str; 1] = ["path"];
const OF_ETCD: [&str; 1] = ["instance"];

/// Limits that series show: the last value of each.
#[derive(Debug, Default)]
struct SeriesLimits {
    hard: Paired,
    seats: Paired,
    cgroups: Paired,
    etcd: Paired,
    /// The quota of each etcd, with its cluster.
    etcds: Vec<(String, f64)>,
    /// Of each cluster and resource the nodes: when each was last seen, and what it can hold.
    nodes: BTreeMap<(String, String), Vec<(Micros, f64)>>,
}

impl SeriesLimits {
    fn take(&mut self, history: &History) {
        let (series, last) = (&history.series, history.last.value);
        match series.name.as_str() {
            QUOTA => self.hard.take(series, &OF_QUOTA, last),
            APISERVER_SEATS => self.seats.take(series, &OF_SEATS, last),
            CGROUP_MEMORY => self.cgroups.take(series, &OF_CGROUP, last),
            ETCD_QUOTA => {
                self.etcd.take(series, &OF_ETCD, last);
                self.etcds.push((series.label(CLUSTER).to_owned(), last));
            }
            ALLOCATABLE => {
                let of = (series.label(CLUSTER).to_owned(), series.label("resource").to_owned());
                self.nodes.entry(of).or_default().push((history.last.at, last))
            }
            _ => {}
        }
    }

    /// Capacity of all nodes of a cluster. A node without a sample for a day no longer exists.
    fn allocatable(&self, of: &Series) -> Option<(f64, String)> {
        let nodes = self.nodes.get(&(of.label(CLUSTER).to_owned(), of.label("resource").to_owned()))?;
        let latest = nodes.iter().map(|(at, _)| *at).max()?;
        let here: Vec<f64> = nodes.iter().filter(|(at, _)| latest - at < DAY).map(|(_, value)| *value).collect();
        // Prometheus gives the sum, in one series without a node.
        let of = if here.len() == 1 { "the nodes".to_owned() } else { counted(here.len() as u64, "node") };
        Some((here.iter().sum(), format!("allocatable of {of}")))
    }

    /// The limit of a target that is a series of its own.
    fn of(&self, history: &History, given: &GivenLimits) -> Option<(f64, String)> {
        let series = &history.series;
        match series.name.as_str() {
            QUOTA => {
                let hard = self.hard.of(series, &OF_QUOTA)?;
                Some((hard, format!("hard of quota {}", series.label("resourcequota"))))
            }
            // What is exempt is not held back by its limit, which shrinks to what it takes.
            APISERVER_SEATS => self
                .seats
                .of(series, &OF_SEATS)
                .filter(|_| series.label("priority_level") != "exempt")
                .map(|limit| (limit, "seats of the priority level".to_owned())),
            CGROUP_MEMORY => self.cgroups.of(series, &OF_CGROUP).map(|limit| (limit, "limit of the cgroup".to_owned())),
            ETCD_DB => self.etcd(series, history.last.value, given),
            _ => None,
        }
    }

    fn etcd(&self, series: &Series, now: f64, given: &GivenLimits) -> Option<(f64, String)> {
        if let Some(limit) = self.etcd.of(series, &OF_ETCD) {
            return Some((limit, "quota of this etcd".to_owned()));
        }
        // Members are set up alike; the one with the least room is the first to stop the cluster.
        let members = self.etcds.iter().filter(|(cluster, _)| cluster == series.label(CLUSTER));
        if let Some(limit) = members.map(|(_, limit)| *limit).reduce(f64::min) {
            return Some((limit, "quota of etcd's other members".to_owned()));
        }
        if let Some(limit) = given.etcd_quota {
            return Some((limit, "--etcd-quota".to_owned()));
        }
        // A database above the default has another quota, which nobody reported.
        (now < ETCD_DEFAULT).then(|| (ETCD_DEFAULT, ASSUMED_QUOTA.to_owned()))
    }
}

/// The targets of histories, by series, with their limits. All grids have the same step.
pub fn targets(histories: Vec<History>, rules: &Rules) -> Vec<Target> {
    let mut known = SeriesLimits::default();
    histories.iter().filter(|history| role(&history.series) == Role::Limit).for_each(|history| known.take(history));
    // A database that its instances show is not reported once more by the apiservers.
    let members = histories
        .iter()
        .filter(|history| history.series.name == ETCD_DB && !history.series.label("instance").is_empty())
        .map(|history| history.series.label(CLUSTER).to_owned())
        .collect::<HashSet<String>>();
    let mut found = Vec::new();
    let mut sums: BTreeMap<Series, Vec<Part>> = BTreeMap::new();
    for history in histories {
        let role = role(&history.series);
        let is_double = history.series.name == ETCD_DB
            && history.series.label("instance").is_empty()
            && members.contains(history.series.label(CLUSTER));
        let is_own = match role {
            Role::Target => !is_double,
            Role::Limit => false,
            Role::Part | Role::None => rules.asks_for(&history.series),
        };
        match part(&history.series) {
            Some((sum, name)) if is_own => sums.entry(sum).or_default().push(Part { name, grid: history.grid.clone() }),
            Some((sum, name)) => {
                sums.entry(sum).or_default().push(Part { name, grid: history.grid });
                continue;
            }
            None => {}
        }
        if is_own {
            found.extend(own(history, &known, rules));
        }
    }
    let fill = filling(&found);
    for target in found.iter_mut().filter(|target| target.series.name == ETCD_DB) {
        target.parts.clone_from(&fill);
    }
    found.extend(sums.into_iter().filter_map(|(series, parts)| sum(series, parts, &known, rules)));
    found.retain(|target| rules.wants(target) && !target.grid.values.is_empty());
    found.sort_by(|a, b| a.series.cmp(&b.series));
    found.dedup_by(|a, b| a.series == b.series);
    distinguish(&mut found);
    found
}

/// Gives targets of one name what distinguishes them: the labels in which they differ.
fn distinguish(found: &mut [Target]) {
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    found.iter().enumerate().for_each(|(at, target)| alike.entry(title(&target.series)).or_default().push(at));
    for places in alike.into_values().filter(|places| places.len() > 1) {
        let first = found[places[0]].series.labels.clone();
        let differs = |label: &String| places.iter().any(|at| found[*at].series.labels.get(label) != first.get(label));
        let mut labels: BTreeSet<String> = places
            .iter()
            .flat_map(|at| found[*at].series.labels.keys())
            .filter(|label| differs(label))
            .cloned()
            .collect();
        let is_enough = |label: &String| {
            let values: HashSet<&str> = places.iter().map(|at| found[*at].series.label(label)).collect();
            values.len() == places.len()
        };
        // One label that differs in each is enough, the cluster before all.
        let one = labels.iter().filter(|label| is_enough(label)).min_by_key(|label| *label != CLUSTER).cloned();
        if let Some(one) = one {
            labels = BTreeSet::from([one]);
        }
        for at in places {
            let series = &found[at].series;
            let pairs: Vec<String> = labels.iter().map(|label| format!("{label}={}", series.label(label))).collect();
            found[at].apart = pairs.join(", ");
        }
    }
}

/// A target that is a series of its own; none where nothing may be used of it at all.
fn own(history: History, known: &SeriesLimits, rules: &Rules) -> Option<Target> {
    let text = history.series.to_string();
    let limit = rules.given.of(&history.series, &text).or_else(|| known.of(&history, &rules.given));
    // A quota of zero forbids something: no use of it is to come.
    if history.series.name == QUOTA && limit.as_ref().is_some_and(|(limit, _)| *limit <= 0.0) {
        return None;
    }
    let (limit, limit_from) = limit.map_or((None, String::new()), |(limit, from)| (Some(limit), from));
    Some(Target {
        unit: unit(&history.series),
        series: history.series,
        grid: history.grid,
        limit,
        limit_from,
        parts: Vec::new(),
        apart: String::new(),
    })
}

/// Which sum a series is part of, and as what.
fn part(series: &Series) -> Option<(Series, String)> {
    let of_cluster = |mut sum: Series| {
        sum.labels.extend(series.labels.get_key_value(CLUSTER).map(|(name, value)| (name.clone(), value.clone())));
        sum
    };
    let of = |resource: &str| of_cluster(Series::new(CLUSTER_REQUESTS, &[("resource", resource)]));
    match series.name.as_str() {
        REQUESTS if role(series) == Role::Part => {
            Some((of(series.label("resource")), series.label("namespace").to_owned()))
        }
        OBJECTS if role(series) == Role::Part => Some((of("pods"), series.label("namespace").to_owned())),
        APISERVER_RPS if role(series) == Role::Part => {
            let subresource = series.label("subresource");
            let slash = if subresource.is_empty() { "" } else { "/" };
            Some((
                of_cluster(Series::new(APISERVER_RPS, &[])),
                format!("{} {}{slash}{subresource}", series.label("verb"), grouped(series)),
            ))
        }
        APISERVER_OBJECTS => Some((of_cluster(Series::new(APISERVER_OBJECTS, &[])), grouped(series))),
        _ => None,
    }
}

/// What fills etcd: the bytes of each resource.
fn filling(found: &[Target]) -> Vec<Part> {
    let sizes = found.iter().filter(|target| target.series.name == APISERVER_OBJECT_BYTES);
    let parts: Vec<Part> =
        sizes.map(|target| Part { name: grouped(&target.series), grid: target.grid.clone() }).collect();
    parts.first().map(|part| part.grid.step).map_or_else(Vec::new, |step| named(parts, step))
}

/// The target that parts make together.
fn sum(series: Series, parts: Vec<Part>, known: &SeriesLimits, rules: &Rules) -> Option<Target> {
    let step = parts.first()?.grid.step;
    let text = series.to_string();
    let found = rules.given.of(&series, &text).or_else(|| match series.name.as_str() {
        CLUSTER_REQUESTS => known.allocatable(&series),
        _ => None,
    });
    let (limit, limit_from) = found.map_or((None, String::new()), |(limit, from)| (Some(limit), from));
    let grid = add_up(parts.iter().map(|part| &part.grid), step);
    Some(Target {
        unit: unit(&series),
        series,
        grid,
        limit,
        limit_from,
        parts: named(parts, step),
        apart: String::new(),
    })
}

/// Intervals of a sum, at most: 455 days of five minutes.
const MAX_INTERVALS: i64 = 131_072;

/// The sum of grids: of intervals in which one of them has a value. Between its own values a part stands at its last
/// one for up to a day; before its first and long after its last it is zero.
fn add_up<'g>(grids: impl Iterator<Item = &'g Grid> + Clone, step: Micros) -> Grid {
    let filled = grids.clone().filter(|grid| !grid.values.is_empty());
    let (Some(from), Some(end)) = (filled.clone().map(|grid| grid.from).min(), filled.map(Grid::end).max()) else {
        return Grid { step, ..Grid::default() };
    };
    // Parts that lie years apart have a sum of their last years only.
    let from = from.max(end - MAX_INTERVALS * step);
    let count = usize::try_from((end - from) / step).unwrap_or_default();
    let stands = usize::try_from(STANDS / step).unwrap_or(1).max(1);
    let mut values = vec![f64::NAN; count];
    let mut standing = vec![0.0; count];
    for grid in grids.filter(|grid| !grid.values.is_empty()) {
        // Negative where it begins before what is summed up.
        let offset = (grid.from - from) / step;
        let first = usize::try_from(offset).unwrap_or_default();
        let skipped = usize::try_from(-offset).unwrap_or_default();
        let mut last: Option<(usize, f64)> = None;
        for place in first..count {
            match grid.values.get(skipped + place - first).filter(|value| !value.is_nan()) {
                Some(value) => {
                    last = Some((place, *value));
                    values[place] = if values[place].is_nan() { *value } else { values[place] + value };
                }
                None => match last {
                    Some((seen, value)) if place - seen <= stands => standing[place] += value,
                    _ if skipped + place - first >= grid.values.len() => break,
                    _ => {}
                },
            }
        }
    }
    // What stands counts where another part has a value of its own; a sum of nothing but what stands is a gap.
    values.iter_mut().zip(standing).for_each(|(value, standing)| *value += standing);
    Grid { from, step, values }
}

/// The largest parts and those that grew most, by name; the rest as one.
fn named(mut parts: Vec<Part>, step: Micros) -> Vec<Part> {
    if parts.len() > 2 * NAMED {
        let end = parts.iter().map(|part| part.grid.end()).max().unwrap_or_default();
        let last = |part: &Part| match part.grid.values.last() {
            // What has ended is not large any more.
            Some(last) if end - part.grid.end() <= STANDS => *last,
            _ => 0.0,
        };
        let grown = |part: &Part| {
            last(part) - part.grid.values.iter().copied().find(|value| !value.is_nan()).unwrap_or_default()
        };
        parts.sort_by(|a, b| last(b).total_cmp(&last(a)).then_with(|| a.name.cmp(&b.name)));
        let mut rest = parts.split_off(NAMED);
        rest.sort_by(|a, b| grown(b).abs().total_cmp(&grown(a).abs()).then_with(|| a.name.cmp(&b.name)));
        let others = rest.split_off(NAMED.min(rest.len()));
        parts.append(&mut rest);
        if !others.is_empty() {
            parts.push(Part { name: OTHERS.to_owned(), grid: add_up(others.iter().map(|part| &part.grid), step) });
        }
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

#[cfg(test)]
mod tests;
