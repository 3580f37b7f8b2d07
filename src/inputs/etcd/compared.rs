//! Databases as `plimsoll compare` takes them.

use super::open;
use super::opened::Ask;
use crate::analysis::compare::states::Database;
use crate::analysis::keyspace::{By, Mode, by};
use crate::cli::{Context, Error};
use crate::model::input::InputReport;

/// The latest database that sources hold, by resource; nothing where they hold none.
pub(crate) fn database(
    sources: &[String],
    context: &mut Context<'_>,
) -> Result<Option<(Database, Vec<InputReport>)>, Error> {
    let Some(opened) = open::last(sources, context)? else { return Ok(None) };
    let walked = opened.walked(None, &Ask::keys(Mode::Plain), context);
    let file = opened.file(&walked, context)?;
    let (rows, total) = by::rows(&walked.space, &By::Resource, context.settings.threads);
    Ok(Some((Database { rows, total, db_bytes: file.db_bytes, in_use_bytes: file.in_use_bytes }, file.inputs)))
}
