//! `plimsoll clients --emit watch-cache`: what watch caches hold, by metrics; and who falls out, by audit logs.

use crate::analysis::clients::watch_cache::{CacheContext, report};
use crate::analysis::clients::{Clients, detect};
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages};
use crate::model::question;
use crate::model::report::Report;
use crate::sources::wanted::Wanted;

/// What they hold.
pub(super) fn answer(
    question: &question::Clients,
    selection: &Selection,
    context: &mut Context<'_>,
) -> Result<Report, Error> {
    if !question.emit.clients.is_empty() {
        return Err(Error::Usage(
            "--client can't be used with --emit watch-cache, which is about resources".to_owned(),
        ));
    }
    let mut found = found::find(&question.sources, Wanted::Both, context)?;
    let server = found::server_version(question.k8s_version.as_deref(), found.bundle.as_ref())?;
    let server = server.as_ref().and_then(|(version, _)| Minor::parse(version));
    pages::keep(&mut found.pages, selection.since, selection.until);
    let (facts, reported) = pages::facts(std::mem::take(&mut found.pages), Retention::Requests, context)?;
    let missing = || {
        Error::Input(
            "no metrics page here has watch-cache metrics (watch_cache_capacity); take two of each apiserver, some \
             minutes apart, with kubectl get --raw /metrics"
                .to_owned(),
        )
    };
    let mut known = CacheContext { inputs: reported.inputs, server, top: context.settings.top, profiles: None };
    if found.streams.is_empty() {
        return report(&facts, known).ok_or_else(missing);
    }
    let (rollup, outcome) = rollup::read(found.streams, selection, context)?;
    let sizes = crate::analysis::clients::cost::SizeContext::default();
    let clients = Clients::new(&rollup, server, &sizes);
    let findings = detect::all(&clients, context.settings.threads);
    known.inputs.extend(outcome.inputs);
    let known = CacheContext { profiles: Some((&clients, &findings)), ..known };
    report(&facts, known).ok_or_else(missing)
}
