//! Reads one cluster.

use super::Bounded;
use super::sources::NamedCluster;
use crate::analysis::clients::cost::{Metered, SizeContext};
use crate::analysis::clients::{Clients, detect};
use crate::analysis::fleet::{ClusterInput, ClusterState, LOOKED_AT, Recorded};
use crate::analysis::incident::answers::Answers;
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::capacity;
use crate::cli::{Context, Error};
use crate::commands::forecast;
use crate::inputs::load::{self, Load};
use crate::model::cause::Source;
use crate::model::forecast::Reached;
use crate::model::names::{APISERVER_SEATS, CGROUP_MEMORY, CLUSTER_REQUESTS, ETCD_DB};
use crate::model::question;
use crate::model::series::{DAY, Selector};
use crate::model::time::{Bounds, MINUTE, Micros, together};
use crate::sources::found::Discovery;
use crate::sources::store::{Store, StoreError};
use std::path::Path;
use std::sync::Arc;

/// Series that limit a cluster as a whole: a quota of one namespace is its owner's.
const OF_THE_CLUSTER: [&str; 4] = [ETCD_DB, APISERVER_SEATS, CLUSTER_REQUESTS, CGROUP_MEMORY];

/// What is known of a cluster.
pub(super) fn read(own: &NamedCluster, asked: &Bounded, context: &mut Context<'_>) -> Result<ClusterState, Error> {
    let mut stores = Vec::new();
    for source in own.sources.iter().map(Path::new).filter(|source| Store::is_store(source)) {
        // Its roll-ups may be readable all the same.
        match Store::open(source) {
            Ok(store) => stores.push(store),
            Err(error) => context.lost(error)?,
        }
    }
    let (mut load, found) = match Load::look(&own.sources, asked.bounds, context) {
        Ok(looked) => looked,
        // A store may hold series alone.
        Err(_) if !stores.is_empty() => (Load { bounds: asked.bounds, ..Load::default() }, Discovery::default()),
        Err(error) => return Err(error),
    };
    let version = found.bundle.as_ref().map(|own| own.kubernetes_version.clone()).unwrap_or_default();
    for error in &found.errors {
        context.lost(error)?;
    }
    if asked.bounds.0.is_none()
        && let Some(end) = load::end(&found).into_iter().chain(load.bounds.1).min()
    {
        // On whole minutes, which are edges of tiles.
        let from = (end - LOOKED_AT).div_euclid(MINUTE) * MINUTE;
        load.bounds.0 = load.bounds.0.max(Some(from));
    }
    load.pages(found, context)?;
    if let (true, [_]) = (load.clusters.len() > 1, &own.sources[..]) {
        context.lost(format!(
            "it holds {} clusters ({}), which are judged as one: give logs, roll-ups or a store of each, or a dataset",
            load.clusters.len(),
            load.clusters.join(", ")
        ))?;
    }
    let rollup = load.whole(context)?;
    load.rollups = match (load.pieces().len(), &rollup) {
        (1, Some(rollup)) => vec![Arc::clone(rollup)],
        _ => load.rolled(context)?,
    };
    load.course(None);
    let is_judged = [Source::Audit, Source::Metrics].into_iter().any(|kind| load.has(kind));
    let episodes = load.judge(None, &Answers::default(), &own.shown());
    let episodes = Some(episodes).filter(|all| is_judged && !(all.is_empty() && load.is_short));
    let rollup = rollup.filter(|own| own.span.is_some());
    let mut span = together(load.span, rollup.as_ref().and_then(|own| own.span));
    let recorded = recorded(&stores, load.bounds, context)?;
    if let Some(last) = recorded.last().filter(|_| span.is_none()) {
        span = Some((load.bounds.0.unwrap_or(last - LOOKED_AT).min(last), last));
    }
    let server = Minor::parse(capacity::version(&load.facts)).or_else(|| Minor::parse(&version));
    let known = SizeContext { snapshot: None, metrics: Metered::new(&load.facts) };
    let clients = rollup.as_deref().map(|rollup| Clients::new(rollup, server, &known));
    let of_clients = clients.as_ref().map_or_else(Vec::new, |own| detect::all(own, context.settings.threads));
    let limits = limits(&stores, asked, context);
    Ok(ClusterState::new(ClusterInput {
        name: own.name.clone().unwrap_or_else(|| called(&load, own)),
        source: own.shown(),
        owner: load.owner.clone(),
        version,
        span,
        episodes,
        rollup: rollup.as_ref().map(Arc::as_ref),
        facts: &load.facts,
        recorded,
        limits,
        clients: clients.as_ref().map(|own| (own, of_clients.as_slice())),
        to: asked.to,
    }))
}

/// What its data calls a cluster, or else where it lies.
fn called(load: &Load, own: &NamedCluster) -> String {
    match load.clusters.is_empty() {
        true => place(own),
        false => load.clusters.join(", "),
    }
}

/// The last part of the path of the first source.
pub(super) fn place(own: &NamedCluster) -> String {
    let first = own.sources.first().map(String::as_str).unwrap_or_default();
    let full = std::path::absolute(first).unwrap_or_default();
    full.file_name().map_or_else(|| first.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What stores recorded in the time looked at.
fn recorded(stores: &[Store], bounds: Bounds, context: &mut Context<'_>) -> Result<Recorded, Error> {
    let mut recorded = Recorded::default();
    for store in stores {
        let listing = store.list().map_err(|error| Error::Input(error.to_string()))?;
        let last = listing.points.keys().chain(listing.logs.keys()).max();
        let Some(last) = last.map(|day| Micros::from(day + 1) * DAY) else { continue };
        let until = bounds.1.unwrap_or(Micros::MAX);
        let mut losses = Vec::new();
        let mut read = |from: Micros| {
            let mut own = Recorded::default();
            store.points(&Selector::default(), (from, until), &mut losses, &mut |series, points| {
                own.take(series, points);
                Ok(())
            })?;
            Ok(own)
        };
        // Where nobody says from when on, of the last day: when that ends, only its points say.
        let from = bounds.0.unwrap_or(last.min(until) - 2 * LOOKED_AT);
        let own = read(from).and_then(|own| match own.last().filter(|_| bounds.0.is_none()) {
            Some(last) => read(last - LOOKED_AT),
            None => Ok(own),
        });
        recorded.merge(own.map_err(|error: StoreError| Error::Input(error.to_string()))?);
        losses.iter().try_for_each(|loss| context.lost(loss))?;
    }
    Ok(recorded)
}

/// When limits of the cluster will be reached; `None` where nothing can be forecast.
fn limits(stores: &[Store], asked: &Bounded, context: &mut Context<'_>) -> Option<Vec<(String, Reached)>> {
    if stores.is_empty() {
        return None;
    }
    let question = question::Forecast {
        sources: stores.iter().map(|store| store.folder.display().to_string()).collect(),
        select: vec![format!("^({})\\b", OF_THE_CLUSTER.join("|"))],
        horizon: asked.horizon,
        at: asked.bounds.1,
        ..question::Forecast::default()
    };
    // A store without such series has no forecast, and says so where it is asked for one.
    forecast::limits(&question, context).ok().flatten()
}
