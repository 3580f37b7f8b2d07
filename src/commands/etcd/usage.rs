//! `plimsoll etcd usage`: what fills the key space.

use super::SourceArgs;
use crate::analysis::keyspace::report::{self, Shape};
use crate::analysis::keyspace::{By, Mode, by};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;

/// Arguments of `plimsoll etcd usage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd usage snapshot.db
  plimsoll etcd usage snapshot.db --by resource --sort-by history_bytes
  # ReplicaSets and Pods count with their Deployment
  plimsoll etcd usage snapshot.db --by owner
  plimsoll etcd usage snapshot.db --by label:app.kubernetes.io/part-of
  plimsoll etcd usage snapshot.db --quota-bytes 8GiB --fail-on warning

ROWS (--by)
  prefix       resource and namespace (default)
  resource     group and resource
  namespace    namespace
  name-prefix  resource, namespace, and what names have in common: web-7d4b9c6f5-x2x9z is one of web-*
  kind         API version and kind, as the value has them
  owner        what stands on top of the owner references: Deployment, CronJob, custom resource
  manager      who wrote fields (managedFields); an object counts with each of its managers
  label:KEY    the value of a label")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Group rows by this: prefix, resource, namespace, name-prefix, kind, owner, manager, label:KEY.
    #[arg(long, default_value = "prefix", value_name = "WHAT")]
    by: By,
    /// Do not decode values: faster, without kinds, owners, managers, labels and the hash.
    #[arg(long)]
    keys_only: bool,
    /// The quota of the member (--quota-backend-bytes), to compare the size with: 8GiB (default: that of the bundle's
    /// metrics).
    #[arg(long, value_name = "BYTES", value_parser = super::parse_size)]
    quota_bytes: Option<u64>,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdUsage, Error> {
        Ok(question::EtcdUsage {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
            by: self.by.clone(),
            keys_only: self.keys_only,
            quota_bytes: self.quota_bytes,
        })
    }
}

/// Answers the question.
/// What it asks of the database.
pub(super) fn asks(question: &question::EtcdUsage) -> Ask {
    let looks = if question.keys_only { Looks::Keys } else { Looks::Living };
    Ask { mode: Mode::By(question.by.clone()), looks, hashes: !question.keys_only }
}

pub(super) fn answer(question: &question::EtcdUsage, context: &mut Context<'_>) -> Result<Report, Error> {
    if question.keys_only && matches!(question.by, By::Kind | By::Owner | By::Manager | By::Label(_)) {
        return Err(Error::Usage("--by kind, owner, manager and label decode values: remove --keys-only".to_owned()));
    }
    let opened = open::open_for(&question.source, question.at, context)?;
    let walked = opened.walked(question.prefix.as_deref(), &asks(question), context);
    let mut file = opened.file(&walked, context)?;
    file.quota = super::quota(question.quota_bytes, &question.source, context);
    let (rows, total) = by::rows(&walked.space, &question.by, context.settings.threads);
    // The report may take as much memory again. To unmap a large file, and to free what was kept of a million keys,
    // takes as long as to write the rows.
    std::thread::spawn(move || drop((opened, walked)));
    let shape = Shape { by: question.by.clone(), sort_by: context.settings.sort_by.clone(), top: context.settings.top };
    Ok(report::report(rows, &total, file, &shape))
}
