//! `plimsoll clients --emit FORM`: what can be applied against the clients that were found.

use crate::analysis::clients::Clients;
use crate::analysis::clients::detect::Found;
use crate::analysis::clients::gateway::{self, Asked, Gateway};
use crate::cli::{Context, Error, FailOn};
use crate::sources::audit::pass::Outcome;
use crate::views::{Format, objects};
use std::io::Write as _;

/// What to print in place of the profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// Limits for gateways before the apiservers, for the clients with findings of warning or critical, or those of --client.
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
    /// Print this in place of the profiles, as YAML (-o json: a report).
    #[arg(long, value_enum, value_name = "FORM", conflicts_with = "seats")]
    pub emit: Option<Emit>,
    /// A user to emit for, whether something was found or not (repeatable): system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "client", value_name = "USER", requires = "emit")]
    pub clients: Vec<String>,
    /// With --emit gateway: only for this gateway [default: a document for each].
    #[arg(long, value_enum, value_name = "NAME", requires = "emit")]
    pub gateway: Option<GatewayName>,
}

/// What the analysis gave.
pub(super) struct Analysed<'a, 'r> {
    pub(super) flags: &'a EmitFlags,
    pub(super) clients: &'a Clients<'r>,
    pub(super) findings: &'a [Found<'r>],
    pub(super) outcome: Outcome,
}

/// Prints the form.
pub(super) fn run(form: Emit, analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<(), Error> {
    match form {
        Emit::Gateway => gateways(analysed, context),
        // It needs no profiles to begin with, and was run before.
        Emit::WatchCache => Ok(()),
    }
}

fn gateways(analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<(), Error> {
    let Analysed { flags, clients, findings, outcome } = analysed;
    if let Some(user) = flags.clients.iter().find(|user| !clients.list.iter().any(|profile| profile.who.user == user.as_str())) {
        return Err(Error::Usage(format!("--client {user}: no request of this user is in the logs; plimsoll clients lists users")));
    }
    let (limits, refused) = gateway::limits(clients, findings, Asked { users: &flags.clients });
    for (whom, why) in refused {
        context.say(format!("no limit for {whom:?}: {why}"))?;
    }
    let only = flags.gateway.map(|name| match name {
        GatewayName::Kubegateway => Gateway::KubeGateway,
        GatewayName::Envoy => Gateway::Envoy,
    });
    if matches!(context.settings.format, Format::Table | Format::Yaml) {
        let documents = gateway::documents(&limits, only);
        if documents.is_empty() {
            context.say("no client to limit: no finding of severity warning or critical is about one; --client USER names others")?;
        }
        for (comments, document) in documents {
            objects::yaml(&comments, &document, &mut context.io.out)?;
        }
        return Ok(context.io.out.flush()?);
    }
    let limits: Vec<_> = limits.into_iter().filter(|limit| only.is_none_or(|only| only == limit.gateway)).collect();
    context.print(&gateway::report(clients, &limits, outcome.inputs), FailOn::Never)
}
