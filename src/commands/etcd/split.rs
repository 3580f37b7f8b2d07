//! `plimsoll etcd split`: which resources to move to an etcd of their own.

use super::SourceArgs;
use crate::analysis::keyspace::{By, Mode, by, split};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::Ask;
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;

/// Arguments of `plimsoll etcd split`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd split snapshot.db

A resource is worth a move with a fifth of the bytes (live and history) or of the writes since the last \
compaction; Events with a twentieth. Take a
snapshot shortly before a compaction, so that it shows 5 minutes of writes.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdSplit, Error> {
        Ok(question::EtcdSplit {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
        })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdSplit, context: &mut Context<'_>) -> Result<Report, Error> {
    let sort_by = context.sort_by(&split::COLUMNS)?;
    let opened = open::open_for(&question.source, question.at, context)?;
    let walked = opened.walked(question.prefix.as_deref(), &Ask::keys(Mode::By(By::Resource)), context);
    let file = opened.file(&walked, context)?;
    let (rows, total) = by::rows(&walked.space, &By::Resource, context.settings.threads);
    Ok(split::report(&rows, &total, file, sort_by.as_deref(), context.settings.top))
}
