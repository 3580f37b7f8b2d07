//! `plimsoll etcd pages`: how full a file's pages are.

use super::open::SourceArgs;
use crate::analysis::keyspace::pages;
use crate::cli::{Context, Error, FailOn};

/// Arguments of `plimsoll etcd pages`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd pages snapshot.db
  plimsoll etcd pages member/snap/db -o json")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let opened = args.source.open(context)?;
    let (_, walk) = opened.database.walk(context.settings.threads, false, || ());
    let file = opened.file(&walk, context)?;
    let pages = opened.database.bolt.meta.pages.min(opened.database.bolt.file_bytes / file.page_size.max(1));
    let mut free = Vec::new();
    let mut run = 0;
    for page in 0..pages {
        if walk.used.contains(page) {
            free.extend((run > 0).then_some(run));
            run = 0;
        } else {
            run += 1;
        }
    }
    free.extend((run > 0).then_some(run));
    context.print(&pages::report(walk.buckets, free, pages, file), FailOn::Never)
}
