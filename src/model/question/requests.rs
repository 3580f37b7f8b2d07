//! Questions about requests: who sends what, and how it went.

use super::Line;
use crate::model::report::Severity;
use crate::model::time::{self, Bounds, Micros};

/// What requests are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Audit logs.
    Audit,
    /// Metrics pages.
    Metrics,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Metrics => "metrics",
        }
    }
}

/// `plimsoll traffic`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    /// Audit logs, metrics pages, bundles.
    pub sources: Vec<String>,
    /// Dimensions, by name.
    pub by: Vec<String>,
    /// Conditions.
    pub filters: Vec<String>,
    /// What is read where there are both; `None`: logs.
    pub from: Option<Kind>,
    /// Whether the state of the control plane is asked for in place of rows.
    pub health: bool,
    /// Which time.
    pub bounds: Bounds,
    /// Whether rows are split by intervals.
    pub series: bool,
    /// Length of an interval; `None`: by the span.
    pub interval: Option<Micros>,
    /// What it is compared with.
    pub baseline: Vec<String>,
    /// The apiservers' version.
    pub k8s_version: Option<String>,
    /// Files with FlowSchemas.
    pub flow_schemas: Vec<String>,
}

impl Traffic {
    /// The default of `--by`.
    pub const BY: [&'static str; 2] = ["verb", "resource"];

    pub(super) fn line(&self) -> Line {
        Line::new(&["traffic"])
            .sources(&self.sources)
            .text("--from", self.from.map(Kind::name))
            .list("--by", if self.health && self.by == Self::BY { &[] } else { &self.by })
            .switch("--health", self.health)
            .switch("--series", self.series)
            .length("--interval", self.interval)
            .each("--where", &self.filters)
            .bounds(self.bounds)
            .each("--baseline", &self.baseline)
            .text("--k8s-version", self.k8s_version.as_ref())
            .each("--flow-schemas", &self.flow_schemas)
    }
}

/// What `clients --emit` prints in place of the profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// FlowSchemas and a PriorityLevelConfiguration that throttle the clients with findings of warning or critical, or
    /// those of --client.
    Flowschema,
    /// The emergency form for one --client: a level that rejects, and steps to open it again.
    Fence,
    /// Limits for gateways before the apiservers, for the clients with findings of warning or critical, or those of
    /// --client.
    Gateway,
    /// Seconds of history in each watch cache, by metrics pages, and clients that fall behind it.
    WatchCache,
}

/// A gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GatewayName {
    /// KubeGateway: flow control by user.
    Kubegateway,
    /// Envoy: local rate limits by user agent.
    Envoy,
}

/// What `clients` emits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Emit {
    /// In which form; `None`: profiles are shown.
    pub form: Option<Form>,
    /// For which clients; empty: for those with findings.
    pub clients: Vec<String>,
    /// nominalConcurrencyShares.
    pub shares: Option<u32>,
    /// Whether parts of the cluster are throttled too.
    pub force: bool,
    /// Seats of an apiserver.
    pub server_seats: Option<u32>,
    /// Steps to open a fence again.
    pub ramp: Option<u32>,
    /// For which gateway; `None`: for all.
    pub gateway: Option<GatewayName>,
    /// Files with FlowSchemas.
    pub flow_schemas: Vec<String>,
}

/// `plimsoll clients`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clients {
    /// Audit logs, bundles; with `seats` dump pages of API Priority and Fairness.
    pub sources: Vec<String>,
    /// Conditions on clients.
    pub filters: Vec<String>,
    /// Whether the holders of seats are asked for.
    pub seats: bool,
    /// A database of etcd that shows the size of objects.
    pub objects: Option<String>,
    /// Which time.
    pub bounds: Bounds,
    /// The apiservers' version.
    pub k8s_version: Option<String>,
    /// What is emitted in place of profiles.
    pub emit: Emit,
}

impl Clients {
    pub(super) fn line(&self) -> Line {
        let Emit { form, clients, shares, force, server_seats, ramp, gateway, flow_schemas } = &self.emit;
        Line::new(&["clients"])
            .sources(&self.sources)
            .switch("--seats", self.seats)
            .text("--emit", form.map(value_name))
            .each("--client", clients)
            .text("--shares", shares.as_ref())
            .switch("--force", *force)
            .text("--server-seats", server_seats.as_ref())
            .text("--ramp", ramp.as_ref())
            .text("--gateway", gateway.map(value_name))
            .each("--flow-schemas", flow_schemas)
            .each("--where", &self.filters)
            .text("--objects", self.objects.as_ref())
            .bounds(self.bounds)
            .text("--k8s-version", self.k8s_version.as_ref())
    }
}

/// The name of a flag's value.
pub(super) fn value_name<T: clap::ValueEnum>(value: T) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// `plimsoll balance`.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// Audit logs, metrics pages, bundles.
    pub sources: Vec<String>,
    /// Conditions on clients.
    pub filters: Vec<String>,
    /// Within which time the recommended `--goaway-chance` evens the load out.
    pub within: Micros,
    /// Which time.
    pub bounds: Bounds,
}

impl Balance {
    /// The default of `--within`.
    pub const WITHIN: Micros = 600_000_000;

    pub(super) fn line(&self) -> Line {
        Line::new(&["balance"])
            .sources(&self.sources)
            .each("--where", &self.filters)
            .length("--within", (self.within != Self::WITHIN).then_some(self.within))
            .bounds(self.bounds)
    }
}

/// `plimsoll compare`.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// What was.
    pub before: String,
    /// What came after; `None`: two windows of `before`.
    pub after: Option<String>,
    /// The windows of both.
    pub windows: [Bounds; 2],
    /// Conditions on clients.
    pub filters: Vec<String>,
    /// Smaller changes are left out, as a share.
    pub at_least: f64,
    /// `METRIC=PCT`: what must not rise by more.
    pub fail_on_increase: Vec<String>,
}

impl Compare {
    /// The default of `--at-least`.
    pub const AT_LEAST: f64 = 0.05;

    pub(super) fn line(&self) -> Line {
        let window = |(from, to): Bounds| {
            let side = |at: Option<Micros>| at.map_or_else(String::new, time::format);
            (from.is_some() || to.is_some()).then(|| format!("{}..{}", side(from), side(to)))
        };
        let sources: Vec<String> = std::iter::once(&self.before).chain(&self.after).cloned().collect();
        Line::new(&["compare"])
            .sources(&sources)
            .text("--before", window(self.windows[0]))
            .text("--after", window(self.windows[1]))
            .each("--where", &self.filters)
            .text("--at-least", (self.at_least != Self::AT_LEAST).then(|| format!("{}%", self.at_least * 100.0)))
            .each("--fail-on-increase", &self.fail_on_increase)
    }
}

/// `plimsoll controllers`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Controllers {
    /// Metrics pages, audit logs, pods, bundles.
    pub sources: Vec<String>,
    /// What stood at this time: pods of the newest capture at or before it, the rest up to it.
    pub at: Option<Micros>,
    /// Which time.
    pub bounds: Bounds,
}

impl Controllers {
    pub(super) fn line(&self) -> Line {
        Line::new(&["controllers"]).sources(&self.sources).time("--at", self.at).bounds(self.bounds)
    }
}

/// `plimsoll guard events`.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardEvents {
    /// Audit logs, bundles.
    pub sources: Vec<String>,
    /// Which time.
    pub bounds: Bounds,
    /// Conditions.
    pub filters: Vec<String>,
    /// Kinds of operations; empty: all.
    pub kinds: Vec<String>,
    /// The lowest severity.
    pub severity: Option<Severity>,
    /// Operations that lie no farther apart are one row.
    pub window: Micros,
    /// Labels that name a namespace's owner.
    pub owner_keys: Vec<String>,
    /// Databases of etcd from before and after.
    pub databases: Option<[String; 2]>,
}

impl Default for GuardEvents {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            bounds: (None, None),
            filters: Vec::new(),
            kinds: Vec::new(),
            severity: None,
            window: Self::WINDOW,
            owner_keys: Vec::new(),
            databases: None,
        }
    }
}

impl GuardEvents {
    /// The default of `--window`.
    pub const WINDOW: Micros = 60_000_000;

    pub(super) fn line(&self) -> Line {
        let [before, after] =
            self.databases.as_ref().map_or([None, None], |[before, after]| [Some(before), Some(after)]);
        Line::new(&["guard", "events"])
            .sources(&self.sources)
            .bounds(self.bounds)
            .each("--where", &self.filters)
            .list("--kind", &self.kinds)
            .text("--severity", self.severity.map(Severity::name))
            .length("--window", (self.window != Self::WINDOW).then_some(self.window))
            .each("--owner-key", &self.owner_keys)
            .text("--before", before)
            .text("--after", after)
    }
}
