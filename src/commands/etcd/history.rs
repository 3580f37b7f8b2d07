//! `plimsoll etcd history`: what is written again and again.

use super::SourceArgs;
use crate::analysis::keyspace::Mode;
use crate::analysis::keyspace::history::{self, By, Shape};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;

/// Arguments of `plimsoll etcd history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd history snapshot.db
  plimsoll etcd history snapshot.db --by resource --sort-by writes

The history reaches back to the last compaction: kube-apiserver compacts every 5 minutes what is older than \
5 minutes. etcd keeps no times; those in
the values (managedFields, creation, renewal of Leases) show how long it is.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Group rows by this.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: By,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdHistory, Error> {
        Ok(question::EtcdHistory {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
            by: self.by,
        })
    }
}

/// What it asks of the database.
pub(super) fn asks() -> Ask {
    Ask { mode: Mode::Plain, looks: Looks::Times, hashes: false }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdHistory, context: &mut Context<'_>) -> Result<Report, Error> {
    let sort_by = context.sort_by(&history::FIELDS)?;
    let opened = open::open_for(&question.source, question.at, context)?;
    let walked = opened.walked(question.prefix.as_deref(), &asks(), context);
    let file = opened.file(&walked, context)?;
    let space = &walked.space;
    let top = context.settings.top;
    let keys = if question.by == By::Key { history::keys(space, sort_by.as_deref(), top) } else { Vec::new() };
    let hashes: Vec<u64> = keys.iter().map(|key| key.hash).collect();
    let names = opened.names(space, &hashes, context.settings.threads);
    let shape = Shape { by: question.by, sort_by: sort_by.as_deref(), top };
    Ok(history::report(space, &keys, &names, walked.clock, file, &shape))
}
