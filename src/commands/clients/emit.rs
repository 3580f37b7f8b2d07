//! `plimsoll clients --emit FORM`: what can be applied against the clients that were found.

use super::{Args, fence, gateway};
use crate::analysis::clients::Clients;
use crate::analysis::clients::detect::Found;
use crate::analysis::metrics::facts::Facts;
use crate::cli::{Context, Error};
use crate::commands::flow::FlowFlags;
use crate::commands::rollup::Selection;
use crate::sources::audit::pass::Outcome;

/// What to print in place of the profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// FlowSchemas and a PriorityLevelConfiguration that fence the clients with findings of warning or critical, or
    /// those of --client.
    Flowschema,
    /// The emergency form for one --client: a level that refuses, and steps to open it again.
    Fence,
    /// Limits for gateways before the apiservers, for the clients with findings of warning or critical, or those of
    /// --client.
    Gateway,
    /// How many seconds of history each watch cache holds, by metrics pages, and who falls out of it.
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

/// Flags of `--emit`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Emit")]
pub struct EmitFlags {
    /// Print this in place of the profiles, as YAML (-o json: a report; -o wide: tables).
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "seats")]
    pub emit: Option<Emit>,
    /// A client to emit for, whether something was found or not (repeatable): a user, a service account
    /// (NAMESPACE:NAME), or an agent.
    #[arg(long = "client", value_name = "USER", requires = "emit")]
    pub clients: Vec<String>,
    /// nominalConcurrencyShares of the fence [default: 5; of --emit fence: 1; 0 rejects every request, from Kubernetes
    /// 1.29 on].
    #[arg(long, value_name = "N", requires = "emit")]
    pub shares: Option<u32>,
    /// Also against what looks like a part of the cluster: its network, storage, webhooks, autoscaler, or the
    /// provider's own.
    #[arg(long, requires = "emit")]
    pub force: bool,
    /// Seats of an apiserver: --max-requests-inflight + --max-mutating-requests-inflight [default: by the bundle's
    /// metrics, else 600].
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub server_seats: Option<u32>,
    /// With --emit fence: this many further steps, each with more seats, to open it again.
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub ramp: Option<u32>,
    /// With --emit gateway: only for this gateway [default: a document for each].
    #[arg(long, value_enum, value_name = "NAME", requires = "emit")]
    pub gateway: Option<GatewayName>,
    #[command(flatten)]
    pub flow: FlowFlags,
}

/// Whether the flags make sense together, before anything is read.
pub(super) fn check(args: &Args) -> Result<(), Error> {
    match args.emit.emit {
        Some(form @ (Emit::Flowschema | Emit::Fence)) => fence::check(form, &args.emit, &args.sources),
        Some(Emit::Gateway | Emit::WatchCache) | None => Ok(()),
    }
}

/// What the analysis gave.
pub(super) struct Analysed<'a, 'r> {
    pub(super) args: &'a Args,
    pub(super) selection: &'a Selection,
    pub(super) clients: &'a Clients<'r>,
    pub(super) findings: &'a [Found<'r>],
    pub(super) facts: &'a Facts,
    pub(super) outcome: Outcome,
}

/// Prints the form.
pub(super) fn run(form: Emit, analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<(), Error> {
    match form {
        Emit::Flowschema | Emit::Fence => fence::run(form, analysed, context),
        Emit::Gateway => gateway::run(analysed, context),
        // It needs no profiles to begin with, and was run before.
        Emit::WatchCache => Ok(()),
    }
}
