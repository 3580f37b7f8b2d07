//! `plimsoll etcd check`: whether a database is whole.

use super::SourceArgs;
use crate::analysis::keyspace::check::{self, Check, Revisions};
use crate::analysis::keyspace::{self, Mode};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::Opened;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;
use crate::sources::etcd::Walk;
use crate::sources::etcd::bolt::Fault;

/// Arguments of `plimsoll etcd check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # exit code 1 if it is damaged
  plimsoll etcd check snapshot.db
  # the SHA-256 of a large file takes longer than all else
  plimsoll etcd check snapshot.db --no-trailer

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

/// What it asks of the database.
pub(super) fn asks() -> Ask {
    Ask { mode: Mode::Links, looks: Looks::Whole, hashes: true }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdCheck, context: &mut Context<'_>) -> Result<Report, Error> {
    let opened = open::open_for(&question.source, question.at, context)?;
    let store = &opened.database.store;
    let walked = opened.walked(question.prefix.as_deref(), &asks(), context);
    let (space, walk, mut dropped) = (&walked.space, &walked.walk, walked.dropped.clone());
    let mut lives = false;
    space.each(|key, _| lives |= key.lives());
    if !lives {
        // Where nothing is to be kept, etcd leaves out nothing.
        dropped.clear();
    }
    let mut transactions: Vec<u64> = dropped.iter().map(|(_, main)| *main).collect();
    transactions.sort_unstable();
    let is_dropped = |key: &[u8], main| dropped.contains(&(keyspace::hash(key), main));
    let kv_hash = opened.database.kv_hash(walk, context.settings.threads, &transactions, is_dropped);
    let file = opened.file(&walked, context)?;
    let mut checks = structure(&opened, walk, question.no_trailer);
    let Revisions { values, revisions } = walked.revisions.clone();
    checks.extend([values, revisions]);
    let dangling = check::dangling(space, &store.leases.keys().copied().collect());
    let names = opened.names(space, &dangling.wanted(), context.settings.threads);
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
        Check::unknown("trailer", "not requested")
    } else {
        match bolt.trailer() {
            // etcdutl takes what is no whole number of such blocks, and no hash more, for neither.
            None if !bolt.file_bytes.is_multiple_of(512) => {
                let mut check = Check::new("trailer");
                check.count();
                check.fail(|| {
                    let rest = bolt.file_bytes % 512;
                    format!(
                        "the file ends {rest} bytes behind its pages: a snapshot's SHA-256 (32 bytes) was cut or \
                         something was appended, and etcdutl snapshot restore refuses it"
                    )
                });
                check
            }
            None => Check::unknown("trailer", "the file has none: it is a copy of member/snap/db, or truncated"),
            Some((sum, trailer)) => {
                let mut check = Check::new("trailer");
                check.count();
                if sum != trailer {
                    check.fail(|| "the SHA-256 of the file does not match the one at its end".to_owned());
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
        let reported = walk.damages.listed.iter().filter(|damage| damage.fault == fault).map(ToString::to_string);
        checks.push(Check {
            name,
            checked: Some(checked),
            failed: walk.damages.counts[fault as usize],
            what: reported.collect(),
        });
    }
    checks.push(match &opened.database.store.free_list {
        None => Check::unknown("free-list", "not stored, as etcd requires"),
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
