//! The course of the load by audit logs.

use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::incident::pulse::{BUCKET, LoadSeries, bucket_of};
use crate::analysis::traffic::Query;
use crate::cli::{Context, Error, give_back};
use crate::inputs::breakdown;
use crate::model::question::Bounds;
use crate::sources::audit::settle;
use crate::sources::found::Discovery;

/// That of the logs that were found; `None` where there are none, or nothing is in them.
pub(crate) fn pulse_of_logs(
    found: Discovery,
    (since, until): Bounds,
    context: &mut Context<'_>,
) -> Result<Option<LoadSeries>, Error> {
    if found.streams.is_empty() {
        return Ok(None);
    }
    let piece = settle::rough_span(&found.streams).map_or(BUCKET, bucket_of);
    let piece = settle::in_tiles(&found.streams, piece);
    let query =
        Query { by: vec![Dim::Verb], filters: others()?, interval: Some(piece), since, until, ..Query::default() };
    let breakdown = breakdown::read(&query, found, None, false, context)?.0;
    give_back();
    Ok(breakdown.first.zip(breakdown.last).map(|span| LoadSeries::of_logs(&breakdown.rows, piece, span)))
}

/// All but the apiservers' own requests, of which there are many whenever one starts.
fn others() -> Result<Vec<Filter<Dim>>, Error> {
    Ok(vec!["user!=system:apiserver".parse().map_err(Error::usage)?])
}
