//! Stored roll-ups where Parquet can't be read.

use super::open::{Source, SourceError};
use crate::model::problem::Problem;
use crate::sources::found::Discovery;

/// Says that they can't be read.
pub(super) fn add(found: &mut Discovery, sources: &[Source]) {
    let why = "this plimsoll was built without the 'history' feature and can't read roll-ups";
    let problem = |source: &Source| SourceError::Stored(Problem::unanswered(why).at(&source.path));
    found.errors.extend(sources.iter().map(problem));
}
