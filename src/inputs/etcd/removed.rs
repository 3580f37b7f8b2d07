//! Which objects are in one database and no more in a newer one, for `plimsoll guard`.

use super::open;
use super::opened::Ask;
use super::opened::Opened;
use crate::analysis::keyspace::Mode;
use crate::analysis::keyspace::diff::{self, Removed};
use crate::cli::{Context, Error};
use crate::model::time::Micros;
use std::sync::Arc;

/// What was deleted between two databases.
#[derive(Debug)]
pub(crate) struct Between {
    /// Deleted objects.
    pub(crate) removed: Removed,
    /// The files, the older first.
    pub(crate) files: Vec<String>,
    /// The cluster that they are of; empty where nobody says.
    pub(crate) cluster: String,
    /// When they were taken, as far as that is known.
    pub(crate) taken: [Option<Micros>; 2],
    /// The latest revision of each.
    revisions: [u64; 2],
}

/// Compares two databases that are named.
pub(crate) fn between(before: &str, after: &str, context: &mut Context<'_>) -> Result<Between, Error> {
    let sides = [open::open(before, context)?, open::open(after, context)?];
    let between = compare(sides, context)?;
    let [first, last] = between.revisions;
    if last < first {
        return Err(Error::Usage(format!(
            "--before {before} (revision {first}) is the later one, --after {after} (revision {last}) the earlier: \
             swap them"
        )));
    }
    Ok(between)
}

/// Compares the first and the last database that sources hold; nothing where there are not two.
pub(crate) fn within(sources: &[String], context: &mut Context<'_>) -> Result<Option<Between>, Error> {
    open::ends(sources, context)?.map(|sides| compare(sides, context)).transpose()
}

/// What it asks of each database.
pub(crate) fn asks() -> Ask {
    Ask::keys(Mode::Plain)
}

fn compare(sides: [Arc<Opened>; 2], context: &mut Context<'_>) -> Result<Between, Error> {
    let files = sides.iter().map(|side| side.path.clone()).collect();
    let (cluster, taken) = (sides[1].cluster(), sides.each_ref().map(|side| side.taken()));
    let walks = sides.each_ref().map(|side| side.walked(None, &asks(), context));
    let [old, new] = &walks;
    let mut revision = |side: usize| Ok::<_, Error>(sides[side].file(&walks[side], context)?.revision);
    let revisions = [revision(0)?, revision(1)?];
    let removed = diff::compare(&old.space, &new.space).removed();
    Ok(Between { removed, files, cluster, taken, revisions })
}
