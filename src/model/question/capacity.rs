//! Questions about capacity: quotas, and when limits are reached.

use super::Line;
use crate::model::series::DAY;
use crate::model::time::{Bounds, Micros};

/// Where quotas and their usage are read from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaSources {
    /// Objects, bundles, audit logs beside them, stores.
    pub sources: Vec<String>,
    /// What stood at this time: the newest capture at or before it, and usage up to it.
    pub at: Option<Micros>,
    /// Which time.
    pub bounds: Bounds,
    /// Namespaces; empty: all.
    pub namespaces: Vec<String>,
}

impl QuotaSources {
    fn line(&self, command: &str) -> Line {
        Line::new(&["quota", command])
            .sources(&self.sources)
            .time("--at", self.at)
            .bounds(self.bounds)
            .each("--namespace", &self.namespaces)
    }
}

/// Which peak a proposal starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PeakOf {
    /// The most that was used.
    #[default]
    Max,
    /// The 99.9th percentile of all samples.
    #[value(name = "p99.9")]
    P999,
    /// The 99th percentile of all samples.
    P99,
}

/// `plimsoll quota propose`.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaPropose {
    /// What is read.
    pub source: QuotaSources,
    /// Which peak of usage.
    pub peak: PeakOf,
    /// What is added to it, as a share.
    pub headroom: f64,
    /// A peak that did not last so long is a spike.
    pub min_duration: Micros,
    /// Whether spikes are left out.
    pub without_spikes: bool,
    /// Namespaces with the same value of this label are one project.
    pub project_label: Option<String>,
    /// Namespaces with the same value of this annotation are one project.
    pub project_annotation: Option<String>,
    /// A file that names projects.
    pub projects: Option<String>,
    /// Resources; empty: all.
    pub resources: Vec<String>,
    /// Whether manifests may lower limits.
    pub allow_decrease: bool,
    /// Whether LimitRanges are added.
    pub limit_range: bool,
    /// Whether quotas for the API itself are asked for.
    pub api: bool,
    /// For how many users.
    pub clients: usize,
    /// Seats of an apiserver.
    pub server_seats: Option<u32>,
    /// Files with FlowSchemas.
    pub flow_schemas: Vec<String>,
}

impl Default for QuotaPropose {
    fn default() -> Self {
        Self {
            source: QuotaSources::default(),
            peak: PeakOf::Max,
            headroom: Self::HEADROOM,
            min_duration: Self::MIN_DURATION,
            without_spikes: false,
            project_label: None,
            project_annotation: None,
            projects: None,
            resources: Vec::new(),
            allow_decrease: false,
            limit_range: false,
            api: false,
            clients: Self::CLIENTS,
            server_seats: None,
            flow_schemas: Vec::new(),
        }
    }
}

impl QuotaPropose {
    /// The default of `--headroom`.
    pub const HEADROOM: f64 = 0.2;
    /// The default of `--min-duration`.
    pub const MIN_DURATION: Micros = 15 * 60 * 1_000_000;
    /// The default of `--clients`.
    pub const CLIENTS: usize = 10;

    pub(super) fn line(&self) -> Line {
        self.source
            .line("propose")
            .text("--peak", (self.peak != PeakOf::Max).then(|| super::requests::value_name(self.peak)))
            .text("--headroom", (self.headroom != Self::HEADROOM).then_some(self.headroom))
            .length("--min-duration", (self.min_duration != Self::MIN_DURATION).then_some(self.min_duration))
            .switch("--without-spikes", self.without_spikes)
            .text("--project-label", self.project_label.as_ref())
            .text("--project-annotation", self.project_annotation.as_ref())
            .text("--projects", self.projects.as_ref())
            .each("--resource", &self.resources)
            .switch("--allow-decrease", self.allow_decrease)
            .switch("--limit-range", self.limit_range)
            .switch("--api", self.api)
            .text("--clients", (self.clients != Self::CLIENTS).then_some(self.clients))
            .text("--server-seats", self.server_seats)
            .each("--flow-schemas", &self.flow_schemas)
    }
}

/// `plimsoll quota check`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaCheck {
    /// What is read.
    pub source: QuotaSources,
    /// From this share of the limit on a quota is near to it.
    pub warn: Option<f64>,
    /// From this share on it is critical.
    pub critical: Option<f64>,
    /// It is critical, too, if its trend reaches the limit within so many days.
    pub days: Option<f64>,
    /// Labels that name a namespace's owner.
    pub owner_keys: Vec<String>,
    /// A configuration of alerts.
    pub alerts: Option<String>,
}

impl QuotaCheck {
    pub(super) fn line(&self) -> Line {
        self.source
            .line("check")
            .text("--warn", self.warn)
            .text("--critical", self.critical)
            .text("--days", self.days)
            .each("--owner-key", &self.owner_keys)
            .text("--alerts", self.alerts.as_ref())
    }
}

/// `plimsoll quota lint`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QuotaLint {
    /// What is read.
    pub source: QuotaSources,
    /// Labels that name a namespace's owner.
    pub owner_keys: Vec<String>,
}

impl QuotaLint {
    pub(super) fn line(&self) -> Line {
        self.source.line("lint").each("--owner-key", &self.owner_keys)
    }
}

/// `plimsoll forecast`.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Stores, and files with series in time.
    pub sources: Vec<String>,
    /// The moment as of which the forecast is made.
    pub at: Option<Micros>,
    /// Which time.
    pub bounds: Bounds,
    /// Namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// Series; empty: all.
    pub select: Vec<String>,
    /// The length of an interval; `None`: by the history.
    pub step: Option<Micros>,
    /// How far is looked ahead.
    pub horizon: Micros,
    /// Lengths of seasons; `None`: as they are found; empty: none.
    pub season: Option<Vec<Micros>>,
    /// A file with exceptions.
    pub events: Option<String>,
    /// `REGEX=LIMIT`: limits of series that match.
    pub limits: Vec<String>,
    /// A file with limits by series.
    pub limits_file: Option<String>,
    /// The quota of etcd in bytes.
    pub etcd_quota: Option<f64>,
    /// A limit that is reached within this time is a warning.
    pub warn_within: Micros,
    /// A limit that is reached within this time is critical.
    pub critical_within: Micros,
    /// What is added: `web:+200 pods`.
    pub additions: Vec<String>,
    /// How many nodes there will be.
    pub nodes: Option<u64>,
    /// From when on.
    pub from: Option<Micros>,
    /// Whether rows hold the future step by step.
    pub points: bool,
    /// How many series are drawn.
    pub chart: Option<usize>,
    /// Whether series that ended are predicted too.
    pub ended: bool,
    /// The name of series that have none.
    pub name: Option<String>,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            at: None,
            bounds: (None, None),
            namespaces: Vec::new(),
            select: Vec::new(),
            step: None,
            horizon: Self::HORIZON,
            season: None,
            events: None,
            limits: Vec::new(),
            limits_file: None,
            etcd_quota: None,
            warn_within: Self::WARN_WITHIN,
            critical_within: Self::CRITICAL_WITHIN,
            additions: Vec::new(),
            nodes: None,
            from: None,
            points: false,
            chart: None,
            ended: false,
            name: None,
        }
    }
}

impl Forecast {
    /// The default of `--horizon`.
    pub const HORIZON: Micros = 30 * DAY;
    /// The default of `--warn-within`.
    pub const WARN_WITHIN: Micros = 30 * DAY;
    /// The default of `--critical-within`.
    pub const CRITICAL_WITHIN: Micros = 7 * DAY;

    pub(super) fn line(&self) -> Line {
        let lengths = |all: &Vec<Micros>| match all.is_empty() {
            true => "none".to_owned(),
            false => all.iter().map(|length| format!("{}s", length / 1_000_000)).collect::<Vec<_>>().join(","),
        };
        Line::new(&["forecast"])
            .sources(&self.sources)
            .time("--at", self.at)
            .bounds(self.bounds)
            .each("--namespace", &self.namespaces)
            .each("--select", &self.select)
            .length("--step", self.step)
            .length("--horizon", (self.horizon != Self::HORIZON).then_some(self.horizon))
            .text("--season", self.season.as_ref().map(lengths))
            .text("--events", self.events.as_ref())
            .each("--limit", &self.limits)
            .text("--limits", self.limits_file.as_ref())
            .text("--etcd-quota", self.etcd_quota)
            .length("--warn-within", (self.warn_within != Self::WARN_WITHIN).then_some(self.warn_within))
            .length(
                "--critical-within",
                (self.critical_within != Self::CRITICAL_WITHIN).then_some(self.critical_within),
            )
            .each("--add", &self.additions)
            .text("--nodes", self.nodes)
            .time("--from", self.from)
            .switch("--points", self.points)
            .text("--chart", self.chart)
            .switch("--ended", self.ended)
            .text("--name", self.name.as_ref())
    }
}
