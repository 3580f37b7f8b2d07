//! An open database, what may be asked of it, and what questions that are asked together share.

use crate::analysis::keyspace::check::Revisions;
use crate::analysis::keyspace::history::Clock;
use crate::analysis::keyspace::{Keyspace, Mode};
use crate::cli::Context;
use crate::model::keyspace::Want;
use crate::sources::etcd::{Database, Walk};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// An open database, and where it was found.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Its path, for people.
    pub path: String,
    /// Where it lies; `None` for what has no place in a file system.
    pub place: Option<PathBuf>,
    /// Bytes that were read, packed or not.
    pub size: u64,
    pub database: Database,
}

/// Unpacked databases that are kept open are no larger: they are in memory.
const KEPT_BYTES: u64 = 256 << 20;

/// Which values are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Looks {
    /// None: keys alone.
    #[default]
    Keys,
    /// Those that live.
    Living,
    /// All, for when they were written.
    Times,
    /// All, for whether they are whole.
    Whole,
}

/// What is asked of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// What is kept of each key.
    pub mode: Mode,
    /// Which values are looked at.
    pub looks: Looks,
    /// Whether the hashes of the database are computed.
    pub hashes: bool,
}

impl Ask {
    /// Of keys, without a look at values.
    pub(crate) fn keys(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// What is wanted of an object.
    pub(super) fn want(&self, space: &Keyspace) -> Want {
        Want { time: self.looks == Looks::Times, ..space.want() }
    }
}

/// What a walk came to.
#[derive(Debug)]
pub(crate) struct Walked {
    pub ask: Ask,
    /// All keys.
    pub space: Keyspace,
    /// The walk itself: what is damaged, which pages are used, the hash.
    pub walk: Arc<Walk>,
    /// The times that values show; of [`Looks::Times`].
    pub clock: Clock,
    /// What single revisions were looked at for; of [`Looks::Whole`].
    pub revisions: Revisions,
    /// Revisions that a compaction leaves out: hashes of keys and transactions; of [`Looks::Whole`].
    pub dropped: HashSet<(u64, u64)>,
}

/// What questions that are asked together share of databases, so that none is opened or walked for each of them.
#[derive(Debug, Default)]
pub(crate) struct SharedDatabases {
    opened: Vec<Arc<Opened>>,
    /// By path and prefix.
    pub(super) walked: Vec<(String, Option<String>, Arc<Walked>)>,
}

impl SharedDatabases {
    /// Begins to share.
    pub(crate) fn begin(context: &mut Context<'_>) {
        context.shared.replace(Some(Self::default()));
    }

    /// Ends it, and frees what was kept.
    pub(crate) fn end(context: &mut Context<'_>) {
        if let Some(shared) = context.shared.replace::<Self>(None) {
            // To free what was kept of a million keys takes as long as to write a report.
            std::thread::spawn(move || drop(shared));
        }
    }

    /// A database that is open already.
    pub(super) fn opened(context: &Context<'_>, path: &str) -> Option<Arc<Opened>> {
        context.shared.get::<Self>()?.opened.iter().find(|opened| opened.path == path).cloned()
    }

    /// Keeps a database open, if there are others who may ask for it.
    pub(super) fn keep(context: &mut Context<'_>, opened: &Arc<Opened>) {
        if let Some(shared) = context.shared.get_mut::<Self>()
            && (opened.database.bolt.is_mapped() || opened.database.bolt.file_bytes <= KEPT_BYTES)
        {
            shared.opened.push(Arc::clone(opened));
        }
    }
}
