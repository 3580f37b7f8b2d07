//! `plimsoll etcd pages`: how full a file's pages are.

use super::SourceArgs;
use crate::analysis::keyspace::pages;
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;

/// Arguments of `plimsoll etcd pages`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd pages snapshot.db
  plimsoll etcd pages member/snap/db -o json")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdPages, Error> {
        Ok(question::EtcdPages {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
        })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdPages, context: &mut Context<'_>) -> Result<Report, Error> {
    let opened = open::open_for(&question.source, question.at, context)?;
    let (_, walk) = opened.database.walk(context.settings.threads, false, || ());
    let file = opened.pages(&walk, context)?;
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
    Ok(pages::report(walk.buckets, free, pages, file))
}
