//! Stored roll-ups where Parquet can't be read.

use super::find::Found;
use super::open::{Source, SourceError};

/// Says that it can't be read.
pub(super) fn add(found: &mut Found, source: &Source) {
    let why = "this plimsoll was built without the 'history' feature and can't read roll-ups";
    found.errors.push(SourceError::Rolled(format!("{}: {why}", source.path)));
}
