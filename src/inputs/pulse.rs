//! The course of the load by audit logs.

use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::incident::pulse::{BUCKET, LoadSeries, bucket_of};
use crate::analysis::rollup::tile_for;
use crate::analysis::traffic::Query;
use crate::cli::{Context, Error, give_back};
use crate::inputs::breakdown;
use crate::model::time::{Bounds, Micros, SECOND, together};
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
    let piece = settle::rough_length(&found.streams).map_or(BUCKET, bucket_of);
    let piece = in_tiles(&found, piece);
    let query =
        Query { by: vec![Dim::Verb], filters: others()?, interval: Some(piece), since, until, ..Query::default() };
    let breakdown = breakdown::read(&query, found, None, false, context)?.0;
    give_back();
    Ok(breakdown.first.zip(breakdown.last).map(|span| LoadSeries::of_logs(&breakdown.rows, piece, span)))
}

/// A length of whole tiles, at least `length`: of the tiles that stored roll-ups have, and of those that they will have
/// together, with logs beside them. Each tile is a multiple of all shorter ones.
pub(crate) fn in_tiles(found: &Discovery, length: Micros) -> Micros {
    let Some(own) = found.streams.iter().filter_map(|own| own.rolled).max() else { return length };
    let span = together(found.rolled_span(), settle::rough_ends(&found.streams));
    let joined = span.map_or(1, |(from, to)| tile_for(to - from) * SECOND);
    let tile = own.max(joined);
    (length.max(1) + tile - 1) / tile * tile
}

/// All but the apiservers' own requests, of which there are many whenever one starts.
fn others() -> Result<Vec<Filter<Dim>>, Error> {
    Ok(vec!["user!=system:apiserver".parse().map_err(Error::usage)?])
}
