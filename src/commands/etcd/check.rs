//! `plimsoll etcd check`: whether a database is whole.

use super::SourceArgs;
use crate::analysis::keyspace::check::{self, Check, Revisions};
use crate::analysis::keyspace::{self, Hand, Keyspace, Mode};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open::{self, Opened};
use crate::model::keyspace::{Object, Want};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;
use crate::sources::etcd::bolt::Fault;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::{KeyWorker, Walk, object};
use std::collections::HashSet;

/// Arguments of `plimsoll etcd check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd check snapshot.db                 # exit code 1 if it is damaged
  plimsoll etcd check snapshot.db --no-trailer    # the SHA-256 of a large file takes longer than all else

CHECKS
  meta        both meta pages are valid            trailer     the SHA-256 that a snapshot ends with
  pages       each can be read, and is used once   key-order   keys ascend, in pages and between them
  free-list   no page of it is in use, if stored   entries     revisions, and messages that can be read
  values      objects can be decoded               revisions   what entries say of their revision
  leases      the lease of each key is there       namespaces  the namespace of each object is there
  owners      the owner of each object is there")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Do not check the SHA-256 at a snapshot's end.
    #[arg(long)]
    no_trailer: bool,
}

struct Folding<'s> {
    hand: Hand<'s>,
    revisions: Revisions,
    want: &'s Want,
}

impl KeyWorker for Folding<'_> {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, stored: usize) {
        let seen = open::seen(at, is_tombstone, kv, stored);
        let object = if is_tombstone { Object::default() } else { object::look(kv.value, self.want) };
        self.revisions.take(&seen, &object);
        self.hand.take_object(&seen, &object);
    }
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdCheck, Error> {
        Ok(question::EtcdCheck {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
            no_trailer: self.no_trailer,
        })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdCheck, context: &mut Context<'_>) -> Result<Report, Error> {
    let opened = open::open_for(&question.source, question.at, context)?;
    let store = &opened.database.store;
    let space = Keyspace::new(question.prefix.as_deref(), Mode::Links, store.compacted()).noting(store.compacting_to());
    space.expect(opened.database.key_pages());
    let want = space.want();
    let make = || Folding { hand: space.hand(), revisions: Revisions::default(), want: &want };
    let (workers, walk) = opened.database.walk(context.settings.threads, true, make);
    let mut revisions = Revisions::default();
    let mut dropped: HashSet<(u64, u64)> = HashSet::new();
    for worker in workers {
        revisions.merge(worker.revisions);
        dropped.extend(worker.hand.finish());
    }
    let mut lives = false;
    space.each(|key, _| lives |= key.lives());
    if !lives {
        // Where nothing is to be kept, etcd leaves out nothing.
        dropped.clear();
    }
    let mut transactions: Vec<u64> = dropped.iter().map(|(_, main)| *main).collect();
    transactions.sort_unstable();
    let is_dropped = |key: &[u8], main| dropped.contains(&(keyspace::hash(key), main));
    let kv_hash = opened.database.kv_hash(&walk, context.settings.threads, &transactions, is_dropped);
    let file = opened.file(&walk, context)?;
    let mut checks = structure(&opened, &walk, question.no_trailer);
    checks.extend([revisions.values, revisions.revisions]);
    let dangling = check::dangling(&space, &store.leases.keys().copied().collect());
    let names = opened.names(&space, &dangling.wanted(), context.settings.threads);
    checks.extend(dangling.checks(&names));
    Ok(check::report(checks, dangling.idle_leases(), Some(kv_hash), file))
}

/// What can be said of the file itself.
fn structure(opened: &Opened, walk: &Walk, no_trailer: bool) -> Vec<Check> {
    let bolt = &opened.database.bolt;
    let mut meta = Check::new("meta");
    for (number, is_valid) in bolt.metas_valid.iter().enumerate() {
        meta.count();
        if !is_valid {
            meta.fail(|| format!("meta page {number} is not valid; the other is used"));
        }
    }
    let mut checks = vec![meta];
    checks.push(if no_trailer {
        Check::unknown("trailer", "not asked for")
    } else {
        match bolt.trailer() {
            None => Check::unknown("trailer", "the file has none: it is a copy of member/snap/db, or was cut"),
            Some((sum, trailer)) => {
                let mut check = Check::new("trailer");
                check.count();
                if sum != trailer {
                    check.fail(|| "the SHA-256 of the file is not the one that it ends with".to_owned());
                }
                check
            }
        }
    });
    let entries = walk.buckets.iter().map(|bucket| bucket.entries).sum();
    for (name, fault, checked) in [
        ("pages", Fault::Page, walk.used.count()),
        ("key-order", Fault::Order, entries),
        ("entries", Fault::Entry, entries),
    ] {
        let told = walk.damages.told.iter().filter(|damage| damage.fault == fault).map(ToString::to_string);
        checks.push(Check {
            name,
            checked: Some(checked),
            failed: walk.damages.counts[fault as usize],
            what: told.collect(),
        });
    }
    checks.push(match &opened.database.store.free_list {
        None => Check::unknown("free-list", "not stored, as etcd wants it"),
        Some(listed) => {
            let mut check = Check::new("free-list");
            for page in listed {
                check.count();
                if walk.used.contains(*page) {
                    check.fail(|| format!("page {page} is in use"));
                }
            }
            check
        }
    });
    checks
}
