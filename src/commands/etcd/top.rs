//! `plimsoll etcd top`: the largest objects.

use super::SourceArgs;
use crate::analysis::keyspace::{Mode, top};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;

/// Arguments of `plimsoll etcd top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd top snapshot.db
  plimsoll etcd top snapshot.db --sort-by managed_fields_bytes --top 10

--sort-by takes live_bytes (default), history_bytes, revisions, managed_fields_bytes, annotation_bytes, \
last_applied_bytes, modified (the revision of the last write).")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdTop, Error> {
        Ok(question::EtcdTop {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
        })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdTop, context: &mut Context<'_>) -> Result<Report, Error> {
    let sort_by = context.sort_by(&top::SORTED)?;
    let opened = open::open_for(&question.source, question.at, context)?;
    let ask = Ask { looks: Looks::Living, ..Ask::keys(Mode::Plain) };
    let walked = opened.walked(question.prefix.as_deref(), &ask, context);
    let (space, file) = (&walked.space, opened.file(&walked, context)?);
    let count = context.settings.top;
    let keys = top::keys(space, sort_by.as_deref(), count);
    let hashes: Vec<u64> = keys.iter().map(|key| key.hash).collect();
    let names = opened.names(space, &hashes, context.settings.threads);
    Ok(top::report(space, &keys, &names, file, sort_by.as_deref(), count))
}
