//! `plimsoll clients --emit gateway`: limits for a gateway before the apiservers.

use super::emit::{Analysed, GatewayName};
use crate::analysis::clients::gateway::{self, Asked, Gateway};
use crate::analysis::clients::named;
use crate::cli::{Context, Error, FailOn};
use crate::views::text::plain;
use crate::views::{Format, objects};
use std::io::Write as _;

/// Prints the limits.
pub(super) fn run(analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<(), Error> {
    let Analysed { args, clients, findings, outcome, .. } = analysed;
    let flags = &args.emit;
    let mut users: Vec<String> = Vec::new();
    for asked in &flags.clients {
        let user = named::resolve(clients, asked)
            .map_err(|why| Error::Usage(plain(&format!("--client {asked}: {why}")).into_owned()))?;
        if let Some(why) = gateway::protected(user).filter(|_| !flags.force) {
            return Err(Error::Usage(
                plain(&format!("--client {user}: no limit: {why}; --force makes one all the same")).into_owned(),
            ));
        }
        users.push(user.to_owned());
    }
    let (limits, refused) = gateway::limits(clients, findings, Asked { users: &users });
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
