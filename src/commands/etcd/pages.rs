//! `plimsoll etcd pages`: how full a file's pages are.

use super::open::{self, SourceArgs};
use crate::analysis::keyspace::pages::{self, Bucket};
use crate::cli::{Context, Error, FailOn};
use crate::sources::etcd::KeyWorker;
use crate::sources::etcd::mvcc::{KeyValue, Revision};

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

/// Looks at no revision.
struct Nothing;

impl KeyWorker for Nothing {
    fn revision(&mut self, _: Revision, _: bool, _: &KeyValue<'_>, _: usize) {}
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let opened = open::open(&args.source.source, context)?;
    let (_, walk) = opened.database.walk(context.settings.threads, false, || Nothing);
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
    let buckets = walk.buckets.into_iter().map(|bucket| Bucket {
        name: bucket.name,
        entries: bucket.entries,
        depth: bucket.depth,
        branches: bucket.branches,
        leaves: bucket.leaves,
        overflow: bucket.overflow,
        branch_fills: bucket.branch_fills,
        leaf_fills: bucket.leaf_fills,
    });
    context.print(&pages::report(buckets.collect(), free, pages, file), FailOn::Never)
}
