//! How large the objects of a database are as JSON, for `plimsoll clients`.

use super::open;
use super::opened::Ask;
use crate::analysis::clients::cost::as_json;
use crate::analysis::clients::sizes::{Size, Sizes};
use crate::analysis::keyspace::{Key, Keyspace, Links, Mode, hash};
use crate::cli::{Context, Error};
use crate::model::registry;
use crate::sources::etcd::KeyWorker;
use crate::sources::etcd::decode;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Counts bytes of JSON as Go writes it: `<`, `>`, `&`, and two kinds of line ends as six bytes.
#[derive(Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let escaped = memchr::memchr3_iter(b'<', b'>', b'&', bytes).count();
        let ends = memchr::memmem::find_iter(bytes, b"\xe2\x80\xa8").count()
            + memchr::memmem::find_iter(bytes, b"\xe2\x80\xa9").count();
        self.0 += (bytes.len() + 5 * escaped + 3 * ends) as u64;
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
        let written = decode::decode(kv.value).ok().filter(|decoded| {
            let object = as_listed(decoded.object.clone(), registry::is_built_in(of.group, of.resource), at.main);
            serde_json::to_writer(&mut counter, &object).is_ok()
        });
        self.sizes.unread += u64::from(written.is_none());
        let stored = Size { objects: 1, bytes: kv.value.len() as u64 };
        // A comma stands between items.
        let bytes = if written.is_some() { counter.0 + 1 } else { as_json(of.group, of.resource, stored) };
        self.sizes.add((of.group, of.resource), of.namespace, bytes);
    }
}

/// An object as it stands in a LIST: its version is that of its last write, which is not stored; a typed list says once
/// what its items are.
fn as_listed(mut object: Map<String, Value>, is_typed: bool, version: u64) -> Map<String, Value> {
    if is_typed {
        object.shift_remove("apiVersion");
        object.shift_remove("kind");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("resourceVersion").or_insert_with(|| version.to_string().into());
    }
    object
}

/// Measures every object that lives in the database.
pub(crate) fn sizes(source: &str, context: &mut Context<'_>) -> Result<Sizes, Error> {
    let opened = open::open(source, context)?;
    let walked = opened.walked(None, &Ask::keys(Mode::Plain), context);
    opened.file(&walked, context)?;
    let make = || Measuring { space: &walked.space, sizes: Sizes::default() };
    let (workers, _) = opened.database.walk(context.settings.threads, false, make);
    let mut all = Sizes::of_file(&opened.path);
    workers.into_iter().for_each(|worker| all.merge(worker.sizes));
    Ok(all)
}
