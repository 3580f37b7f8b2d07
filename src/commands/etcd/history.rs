//! `plimsoll etcd history`: what is written again and again.

use super::SourceArgs;
use crate::analysis::keyspace::history::{self, By, Clock, Shape};
use crate::analysis::keyspace::{Hand, Keyspace, Mode};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::model::keyspace::{Object, Want};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::{KeyWorker, object};

/// Arguments of `plimsoll etcd history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd history snapshot.db
  plimsoll etcd history snapshot.db --by resource --sort-by writes

The history reaches back to the last compaction: kube-apiserver compacts every 5 minutes what is older than 5 minutes. etcd keeps no times; those in
the values (managedFields, creation, renewal of Leases) tell how long it is.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// What rows are made by.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    by: By,
}

struct Folding<'s> {
    hand: Hand<'s>,
    clock: Clock,
    compacted: u64,
    want: Want,
}

impl KeyWorker for Folding<'_> {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize) {
        let seen = open::seen(at, is_tombstone, kv, stored);
        let object = if is_tombstone { Object::default() } else { object::look(kv.value, &self.want) };
        self.clock.take(object.written, at.main > self.compacted);
        self.hand.take_object(&seen, &object);
    }
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

/// Answers the question.
pub(super) fn answer(question: &question::EtcdHistory, context: &mut Context<'_>) -> Result<Report, Error> {
    let opened = open::open_for(&question.source, question.at, context)?;
    let compacted = opened.database.store.compacted();
    let space = Keyspace::new(question.prefix.as_deref(), Mode::Plain, compacted);
    let want = Want { time: true, ..Want::default() };
    let make = || Folding { hand: space.hand(), clock: Clock::default(), compacted, want: want.clone() };
    let (workers, walk) = opened.database.walk(context.settings.threads, false, make);
    let mut clock = Clock::default();
    // What a worker still holds is counted once it is gone.
    workers.into_iter().for_each(|worker| clock.merge(worker.clock));
    let file = opened.file(&walk, context)?;
    let (sort_by, top) = (context.settings.sort_by.clone(), context.settings.top);
    let keys = if question.by == By::Key { history::keys(&space, sort_by.as_deref(), top) } else { Vec::new() };
    let hashes: Vec<u64> = keys.iter().map(|key| key.hash).collect();
    let names = opened.names(&space, &hashes, context.settings.threads);
    let shape = Shape { by: question.by, sort_by: sort_by.as_deref(), top };
    Ok(history::report(&space, &keys, &names, clock, file, &shape))
}
