//! `plimsoll clients --emit gateway`: limits for a gateway before the apiservers.

use super::emit::{Analysed, GatewayName};
use crate::analysis::clients::gateway::{self, Asked, Gateway};
use crate::cli::{Context, Error, FailOn};
use crate::views::{Format, objects};
use std::io::Write as _;

/// Prints the limits.
pub(super) fn run(analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<(), Error> {
    let Analysed { args, clients, findings, outcome, .. } = analysed;
    let flags = &args.emit;
    if let Some(user) =
        flags.clients.iter().find(|user| !clients.list.iter().any(|profile| profile.who.user == user.as_str()))
    {
        return Err(Error::Usage(format!(
            "--client {user}: no request of this user is in the logs; plimsoll clients lists users"
        )));
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
