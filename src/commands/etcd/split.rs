//! `plimsoll etcd split`: which resources to move to an etcd of their own.

use super::open::{Pass, SourceArgs};
use crate::analysis::keyspace::{By, Keyspace, Mode, by, split};
use crate::cli::{Context, Error, FailOn};

/// Arguments of `plimsoll etcd split`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd split snapshot.db

A resource is worth a move with a fifth of the bytes (live and history) or of the writes since the last compaction; Events with a twentieth. Take a
snapshot shortly before a compaction, so that it shows 5 minutes of writes.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let opened = args.source.open(context)?;
    let space = Keyspace::new(args.source.prefix.as_deref(), Mode::By(By::Resource), opened.database.store.compacted());
    let (file, _) = opened.fold(&space, Pass { decode: false, hashes: false }, context)?;
    let (rows, total) = by::rows(&space, &By::Resource, context.settings.threads);
    context.print(&split::report(&rows, &total, file, context.settings.top), FailOn::Never)
}
