//! `plimsoll clients --emit FORM`: what can be applied against the clients that were found.

use super::analysed::Analysed;
use super::{fence, gateway};
use crate::analysis::answer::Answer;
use crate::cli::{Context, Error};
use crate::inputs::flow::FlowFlags;
use crate::model::question::{self, Form, GatewayName};

/// Flags of `--emit`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Emit")]
pub struct EmitFlags {
    /// Print configuration instead of the profiles, as YAML (-o json: a report; -o wide: tables).
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "seats")]
    pub emit: Option<Form>,
    /// Emit for this client, even if it has no findings (repeatable): a user, a service account (NAMESPACE:NAME), or an
    /// agent.
    #[arg(long = "client", value_name = "USER", requires = "emit")]
    pub clients: Vec<String>,
    /// nominalConcurrencyShares of the throttled level [default: 5; of --emit fence: 1; 0 rejects every request, from
    /// Kubernetes 1.29 on].
    #[arg(long, value_name = "N", requires = "emit")]
    pub shares: Option<u32>,
    /// Also throttle clients that look like parts of the cluster: network, storage, webhooks, autoscaler, or the
    /// provider's own.
    #[arg(long, requires = "emit")]
    pub force: bool,
    /// Seats of an apiserver [default: by the bundle's metrics, else 600]: --max-requests-inflight +
    /// --max-mutating-requests-inflight.
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub server_seats: Option<u32>,
    /// With --emit fence: lift the limit in this many steps; each has more seats.
    #[arg(long, value_name = "N", requires = "emit", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub ramp: Option<u32>,
    /// With --emit gateway: only for this gateway [default: a document for each].
    #[arg(long, value_enum, value_name = "NAME", requires = "emit")]
    pub gateway: Option<GatewayName>,
    #[command(flatten)]
    pub flow: FlowFlags,
}

impl EmitFlags {
    /// What they ask.
    pub(super) fn question(&self) -> question::Emit {
        question::Emit {
            form: self.emit,
            clients: self.clients.clone(),
            shares: self.shares,
            force: self.force,
            server_seats: self.server_seats,
            ramp: self.ramp,
            gateway: self.gateway,
            flow_schemas: self.flow.flow_schemas.clone(),
        }
    }
}

/// Whether what is asked makes sense together, before anything is read.
pub(super) fn check(question: &question::Clients) -> Result<(), Error> {
    match question.emit.form {
        Some(form @ (Form::Flowschema | Form::Fence)) => fence::check(form, &question.emit, &question.sources),
        Some(Form::Gateway | Form::WatchCache) | None => Ok(()),
    }
}

/// The form that is asked for.
pub(super) fn answer(form: Form, analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<Answer, Error> {
    match form {
        Form::Flowschema | Form::Fence => fence::answer(form, analysed, context),
        Form::Gateway => gateway::answer(analysed, context),
        // It needs no profiles to begin with, and was answered before.
        Form::WatchCache => Ok(Answer::Manifests(String::new())),
    }
}
