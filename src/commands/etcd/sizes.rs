//! How large the objects of a database are as JSON, for `plimsoll clients`.

use super::open::{self, Pass};
use crate::analysis::clients::sizes::Sizes;
use crate::analysis::keyspace::{Key, Keyspace, Links, Mode, hash};
use crate::cli::{Context, Error};
use crate::model::registry;
use crate::sources::etcd::KeyWorker;
use crate::sources::etcd::decode;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use std::io::{self, Write};

/// Counts bytes.
#[derive(Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Measuring<'s> {
    space: &'s Keyspace,
    sizes: Sizes,
}

impl KeyWorker for Measuring<'_> {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, _stored: usize) {
        let is_newest = |(key, _): (Key, Links)| key.latest == at.main && key.lives();
        if is_tombstone || !self.space.get(hash(kv.key)).is_some_and(is_newest) {
            return;
        }
        let key = String::from_utf8_lossy(kv.key);
        let of = registry::parse(&key, self.space.roots());
        if of.resource.is_empty() {
            return;
        }
        let mut counter = Counter::default();
        let written = decode::decode(kv.value)
            .ok()
            .filter(|decoded| serde_json::to_writer(&mut counter, &decoded.object).is_ok());
        self.sizes.unread += u64::from(written.is_none());
        let bytes = if written.is_some() { counter.0 } else { kv.value.len() as u64 };
        self.sizes.add((of.group, of.resource), of.namespace, bytes);
    }
}

/// Measures every object that lives in the database.
pub(in crate::commands) fn sizes(source: &str, context: &mut Context<'_>) -> Result<Sizes, Error> {
    let opened = open::open(source, context)?;
    let space = Keyspace::new(None, Mode::Plain, opened.database.store.compacted());
    opened.fold(&space, Pass { decode: false, hashes: false }, context)?;
    let make = || Measuring { space: &space, sizes: Sizes::default() };
    let (workers, _) = opened.database.walk(context.settings.threads, false, make);
    let mut all = Sizes::of_file(&opened.path);
    workers.into_iter().for_each(|worker| all.merge(worker.sizes));
    Ok(all)
}
