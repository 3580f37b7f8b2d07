//! Databases as `plimsoll compare` takes them.

use super::open::{self, Pass};
use crate::analysis::compare::states::Database;
use crate::analysis::keyspace::{By, Keyspace, Mode, by};
use crate::cli::{Context, Error};
use crate::model::input::InputReport;

/// The latest database that sources hold, by resource; nothing where they hold none.
pub(crate) fn database(
    sources: &[String],
    context: &mut Context<'_>,
) -> Result<Option<(Database, Vec<InputReport>)>, Error> {
    let Some(opened) = open::last(sources, context)? else { return Ok(None) };
    let space = Keyspace::new(None, Mode::Plain, opened.database.store.compacted());
    let (file, _) = opened.fold(&space, Pass { decode: false, hashes: false }, context)?;
    let (rows, total) = by::rows(&space, &By::Resource, context.settings.threads);
    Ok(Some((Database { rows, total, db_bytes: file.db_bytes, in_use_bytes: file.in_use_bytes }, file.inputs)))
}
