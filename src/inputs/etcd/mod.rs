//! Databases of etcd: opened, walked, and what commands other than `etcd` take from them.

pub mod compared;
pub mod newest;
pub mod open;
pub mod opened;
pub mod removed;
pub mod sizes;
pub mod walked;

use crate::cli::{Context, Error};
use crate::model::time::Micros;
use crate::sources::find;
use crate::sources::wanted::Wanted;

/// Paths of the database that was written first and of the one that was written last, of those that sources hold; none
/// where there are not two.
pub(crate) fn ends(sources: &[String], context: &mut Context<'_>) -> Result<Vec<String>, Error> {
    Ok(open::ends(sources, context)?.into_iter().flatten().map(|opened| opened.path.clone()).collect())
}

/// Path of the newest database at or before a moment; it is said which.
pub(crate) fn path_at(sources: &[String], moment: Micros, context: &mut Context<'_>) -> Result<String, Error> {
    Ok(open::open_at(sources, moment, context)?.path.clone())
}

/// Whether sources hold a database.
pub(crate) fn has_any(sources: &[String], context: &Context<'_>) -> bool {
    !find::find(sources, Wanted::Databases, context.io.now).databases.is_empty()
}
