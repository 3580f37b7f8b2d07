//! Stored roll-ups where Parquet can't be read.

use super::open::{Source, SourceError};
use crate::sources::found::Discovery;

/// Says that they can't be read.
pub(super) fn add(found: &mut Discovery, sources: &[Source]) {
    let why = "this plimsoll was built without the 'history' feature and can't read roll-ups";
    found.errors.extend(sources.iter().map(|source| SourceError::Rolled(format!("{}: {why}", source.path))));
}
