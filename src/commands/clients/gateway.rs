//! `plimsoll clients --emit gateway`: limits for a gateway before the apiservers.

use super::analysed::{Analysed, writes_manifests};
use crate::analysis::answer::Answer;
use crate::analysis::clients::gateway::{self, Gateway, GatewayOptions};
use crate::analysis::clients::named;
use crate::cli::{Context, Error};
use crate::model::question::GatewayName;
use crate::views::objects;
use crate::views::text::plain;

/// The limits.
pub(super) fn answer(analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<Answer, Error> {
    let Analysed { question, clients, findings, outcome, .. } = analysed;
    let flags = &question.emit;
    let mut users: Vec<String> = Vec::new();
    for asked in &flags.clients {
        let user = named::resolve(clients, asked)
            .map_err(|why| Error::Usage(plain(&format!("--client {asked}: {why}")).into_owned()))?;
        if let Some(why) = gateway::protected(user).filter(|_| !flags.force) {
            return Err(Error::Usage(
                plain(&format!("--client {user}: no limit: {why}; --force overrides this")).into_owned(),
            ));
        }
        users.push(user.to_owned());
    }
    let (limits, refused) = gateway::limits(clients, findings, GatewayOptions { users: &users });
    for (whom, why) in refused {
        context.notice(format!("no limit for {whom:?}: {why}"))?;
    }
    let only = flags.gateway.map(|name| match name {
        GatewayName::Kubegateway => Gateway::KubeGateway,
        GatewayName::Envoy => Gateway::Envoy,
    });
    if writes_manifests(context) {
        let documents = gateway::documents(&limits, only);
        if documents.is_empty() {
            context
                .notice("no client to limit: none has a warning or critical finding; choose one with --client USER")?;
        }
        return Ok(Answer::Manifests(objects::documents(&documents)));
    }
    let limits: Vec<_> = limits.into_iter().filter(|limit| only.is_none_or(|only| only == limit.gateway)).collect();
    Ok(Answer::of(gateway::report(clients, &limits, outcome.inputs)))
}
