//! Values of some keys of a database, as they are now.

use super::open;
use super::opened::Opened;
use crate::cli::{Context, Error};
use crate::model::registry::{self, ObjectKey};
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::{KeyWorker, decode};
use hashbrown::HashMap;
use serde_json::Value;
use std::collections::BTreeMap;

/// The newest revision of a key, and its value if it lives.
type Newest = (Revision, Option<Vec<u8>>);

struct Worker<'a> {
    is_wanted: &'a (dyn Fn(&str) -> bool + Sync),
    found: HashMap<String, Newest>,
    /// Wanted keys that are no text: the newest revision, and whether it lives.
    odd: HashMap<Vec<u8>, (Revision, bool)>,
}

impl KeyWorker for Worker<'_> {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, _stored: usize) {
        let Ok(key) = std::str::from_utf8(kv.key) else {
            if (self.is_wanted)(&String::from_utf8_lossy(kv.key)) {
                let newest = self.odd.entry(kv.key.to_vec()).or_default();
                *newest = (*newest).max((at, !is_tombstone));
            }
            return;
        };
        if !(self.is_wanted)(key) {
            return;
        }
        let value = || (!is_tombstone).then(|| kv.value.to_vec());
        match self.found.get_mut(key) {
            Some(newest) if at > newest.0 => *newest = (at, value()),
            Some(_) => {}
            None => {
                self.found.insert(key.to_owned(), (at, value()));
            }
        }
    }
}

/// The wanted keys that live, by key, with their values; says what is damaged.
pub(crate) fn values(
    opened: &Opened,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
    context: &mut Context<'_>,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let (workers, walk) = opened.database.walk(context.settings.threads, false, || Worker {
        is_wanted,
        found: HashMap::new(),
        odd: HashMap::new(),
    });
    for damage in &walk.damages.listed {
        context.lost(format!("{}: {damage}; its objects are missing or outdated", opened.path))?;
    }
    let mut all: HashMap<String, Newest> = HashMap::new();
    let mut odd: BTreeMap<Vec<u8>, (Revision, bool)> = BTreeMap::new();
    for worker in workers {
        for (key, newest) in worker.found {
            let entry = all.entry(key).or_insert((Revision::default(), None));
            if newest.0 > entry.0 {
                *entry = newest;
            }
        }
        for (key, newest) in worker.odd {
            let entry = odd.entry(key).or_default();
            *entry = (*entry).max(newest);
        }
    }
    for (key, _) in odd.iter().filter(|(_, (_, lives))| *lives) {
        context.lost(format!("{}: its key is no text, so it is left out", String::from_utf8_lossy(key)))?;
    }
    let mut living: Vec<(String, Vec<u8>)> =
        all.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect();
    living.sort();
    Ok(living)
}

/// Objects of a database that is named, or of the first that sources hold: its path, and what `take` makes of each that
/// lives and is wanted.
pub(crate) fn objects<T>(
    database: Option<&str>,
    sources: &[String],
    is_wanted: &(dyn Fn(&ObjectKey<'_>) -> bool + Sync),
    take: impl Fn(&ObjectKey<'_>, &Value) -> T,
    context: &mut Context<'_>,
) -> Result<Option<(String, Vec<T>)>, Error> {
    let opened = match database {
        Some(path) => Some(open::open(path, context)?),
        None => open::first(sources, context)?,
    };
    let Some(opened) = opened else { return Ok(None) };
    let roots = registry::roots(None);
    let mut taken = Vec::new();
    let mut undecoded = 0_u64;
    for (key, value) in values(&opened, &|key| is_wanted(&registry::parse(key, &roots)), context)? {
        match decode::decode(&value) {
            Ok(decoded) => taken.push(take(&registry::parse(&key, &roots), &Value::Object(decoded.object))),
            Err(_) => undecoded += 1,
        }
    }
    if undecoded > 0 {
        context.lost(format!(
            "{}: {undecoded} objects can't be decoded and are left out; plimsoll etcd check lists them",
            opened.path
        ))?;
    }
    Ok(Some((opened.path.clone(), taken)))
}
