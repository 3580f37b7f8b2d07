//! A roll-up as it is stored: what it says of itself, and the rows of its tables.

use crate::actions::rollup::Give;
use crate::analysis::rollup::Rollup;
use crate::model::rollup::{Manifest, SCHEMA, StoredSource, StoredStream};
use crate::sources::audit::pass::Outcome;

/// Hands the rows of its tables to who writes them.
pub(crate) fn giving(rollup: &Rollup) -> Box<Give<'_>> {
    Box::new(|spec, each| {
        rollup.fields(spec.name, each);
    })
}

/// What a roll-up of these logs says of itself; the logs are those of `outcome`, in its order.
pub(crate) fn manifest(rollup: &Rollup, streams: &[(String, String)], outcome: &Outcome) -> Manifest {
    let names = streams.iter().map(|(cluster, instance)| (cluster.as_str(), instance.as_str()));
    let stream = |((cluster, instance), coverage)| StoredStream::new(cluster, instance, coverage);
    let (first, last) = rollup.span.map_or((None, None), |(first, last)| (Some(first), Some(last)));
    Manifest {
        schema: SCHEMA.to_owned(),
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        tile_seconds: rollup.tile_seconds(),
        first,
        last,
        late_events: rollup.late,
        open_requests: rollup.open,
        repeated_audit_ids: (rollup.repeated_ids.repeated, rollup.repeated_ids.estimated),
        objects_dropped: rollup.objects_dropped,
        notable_dropped: rollup.notable_dropped,
        operations_dropped: rollup.operations_dropped(),
        without: rollup.without().cloned().collect(),
        streams: names.zip(&outcome.coverage).map(stream).collect(),
        sources: outcome.inputs.iter().map(StoredSource::from).collect(),
        lost: outcome.losses.clone(),
        ..Manifest::default()
    }
}
