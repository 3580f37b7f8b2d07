//! The database that a command is about, and one pass over it.

use super::opened::{Looks, Opened, SharedDatabases, Walked};
use crate::analysis::keyspace::file::File;
use crate::analysis::keyspace::{self, Keyspace};
use crate::cli::{Context, Error};
use crate::inputs::found::usable;
use crate::model::input::InputReport;
use crate::model::moment::{Capture, too_early, up_to};
use crate::model::time::Micros;
use crate::sources::etcd::bolt::Bolt;
use crate::sources::etcd::map::Data;
use crate::sources::etcd::mvcc::{KeyValue, Revision};
use crate::sources::etcd::{Database, KeyWorker, Walk, taken};
use crate::sources::find;
use crate::sources::open::{Place, Source};
use crate::sources::packing::Packing;
use crate::sources::wanted::Wanted;
use crate::views::text::plain;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

/// Opens the database that a question is about: of several in a folder the latest, or the newest at or before a moment.
pub(crate) fn open_for(source: &String, at: Option<Micros>, context: &mut Context<'_>) -> Result<Arc<Opened>, Error> {
    match at {
        Some(moment) => open_at(std::slice::from_ref(source), moment, context),
        None => open(source, context),
    }
}

/// Opens the database that the argument names; of several in a folder the one that was written last.
pub(crate) fn open(argument: &str, context: &mut Context<'_>) -> Result<Arc<Opened>, Error> {
    let found = find::find(&[argument.to_owned()], Wanted::Databases, context.io.now);
    let is_some = !found.databases.is_empty();
    let found = usable(found, is_some, context)?;
    let names: Vec<String> = found.databases.iter().map(|source| source.path.clone()).collect();
    let mut opened: Option<Arc<Opened>> = None;
    let mut foreign: Vec<String> = Vec::new();
    for mut source in found.databases {
        match read(&mut source, context)? {
            Err(why) => foreign.push(why),
            Ok(now) => {
                let of = |opened: &Arc<Opened>| opened.database.bolt.meta.transaction;
                if opened.as_ref().is_none_or(|other| of(&now) > of(other)) {
                    opened = Some(now);
                }
            }
        }
    }
    let Some(opened) = opened else { return Err(Error::inputs(foreign)) };
    for error in &foreign {
        context.lost(error)?;
    }
    if names.len() > 1 {
        context.notice(format!(
            "{argument} contains {} etcd databases; using the latest, {}",
            names.len(),
            opened.path
        ))?;
    }
    Ok(opened)
}

/// Opens the newest of the databases that were taken at or before a moment, and says which it is.
pub(crate) fn open_at(arguments: &[String], moment: Micros, context: &mut Context<'_>) -> Result<Arc<Opened>, Error> {
    let found = find::find(arguments, Wanted::Databases, context.io.now);
    for error in &found.errors {
        context.lost(error)?;
    }
    let mut dated: Vec<(Micros, Arc<Opened>)> = Vec::new();
    let mut unused: Vec<String> = Vec::new();
    for mut source in found.databases {
        match read(&mut source, context)? {
            Err(why) => unused.push(why),
            Ok(opened) => match opened.taken() {
                Some(at) => dated.push((at, opened)),
                None => unused.push(format!("{}: its time is unknown", plain(&source.path))),
            },
        }
    }
    for error in &unused {
        context.lost(error)?;
    }
    let what = "etcd database";
    // Of two of one second the one with more transactions is the newer.
    dated.sort_by_key(|(_, opened)| opened.database.bolt.meta.transaction);
    let mut taken = up_to(moment, dated, |(at, _)| *at).map_err(|earliest| {
        let earliest = earliest.as_ref().map(|(at, opened)| (opened.path.as_str(), *at));
        Error::Usage(too_early(moment, what, earliest))
    })?;
    let Some((at, opened)) = taken.pop() else {
        return Err(Error::Usage(too_early(moment, what, None)));
    };
    context.shows(Capture { path: opened.path.clone(), taken: at, moment });
    Ok(opened)
}

/// The database that was written first, and the one that was written last, of those that sources hold; none where there
/// are not two, or those of several clusters.
pub(crate) fn ends(arguments: &[String], context: &mut Context<'_>) -> Result<Option<[Arc<Opened>; 2]>, Error> {
    let Ends { of_one_cluster, ends } = extremes(arguments, context)?;
    Ok(<[Arc<Opened>; 2]>::try_from(ends).ok().filter(|_| of_one_cluster))
}

/// The database that was written first, of those that sources hold.
pub(crate) fn first(arguments: &[String], context: &mut Context<'_>) -> Result<Option<Arc<Opened>>, Error> {
    Ok(extremes(arguments, context)?.ends.into_iter().next())
}

/// The database that was written last, of those that sources hold.
pub(crate) fn last(arguments: &[String], context: &mut Context<'_>) -> Result<Option<Arc<Opened>>, Error> {
    Ok(extremes(arguments, context)?.ends.pop())
}

/// The databases that were written first and last, of those that sources hold.
struct Ends {
    /// Whether all that sources hold are of one cluster, as far as that is known.
    of_one_cluster: bool,
    /// In order.
    ends: Vec<Arc<Opened>>,
}

fn extremes(arguments: &[String], context: &mut Context<'_>) -> Result<Ends, Error> {
    let mut ends: Vec<Arc<Opened>> = Vec::new();
    let mut clusters: BTreeSet<String> = BTreeSet::new();
    let mut foreign = None;
    for mut source in find::find(arguments, Wanted::Databases, context.io.now).databases {
        match read(&mut source, context)? {
            Ok(opened) => ends.push(opened),
            Err(why) => foreign = foreign.or(Some(why)),
        }
        ends.sort_by_key(|opened| opened.database.bolt.meta.transaction);
        if ends.len() > 2 {
            clusters.insert(ends.remove(1).cluster());
        }
    }
    clusters.extend(ends.iter().map(|opened| opened.cluster()));
    clusters.remove("");
    if clusters.len() > 1 {
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        context.notice_once(format!(
            "etcd databases of several clusters ({}) are not compared with one another; give those of one",
            names.join(", ")
        ))?;
        return Ok(Ends { of_one_cluster: false, ends });
    }
    match foreign.filter(|_| ends.is_empty()) {
        Some(error) => Err(Error::Input(error)),
        None => Ok(Ends { of_one_cluster: true, ends }),
    }
}

/// Opens a database that was found, and when it was taken; says why it is none.
#[cfg(feature = "history")]
#[expect(clippy::type_complexity, reason = "one pair, once")]
pub(crate) fn dated(
    source: &mut Source,
    context: &mut Context<'_>,
) -> Result<Result<(Arc<Opened>, Option<Micros>), String>, Error> {
    Ok(read(source, context)?.map(|opened| {
        let at = opened.taken();
        (opened, at)
    }))
}

/// Reads a database, unless it is open already; of another program's file, what it is.
fn read(source: &mut Source, context: &mut Context<'_>) -> Result<Result<Arc<Opened>, String>, Error> {
    if let Some(opened) = SharedDatabases::opened(context, &source.path) {
        return Ok(Ok(opened));
    }
    let bolt = bolt(source)?;
    let size = if source.size > 0 { source.size } else { bolt.file_bytes };
    Ok(match Database::read(bolt) {
        Ok(database) => {
            let place = if let Place::File(path) = &source.place { Some(path.clone()) } else { None };
            let opened = Arc::new(Opened { path: source.path.clone(), place, size, database });
            SharedDatabases::keep(context, &opened);
            Ok(opened)
        }
        Err(error) => Err(format!("{}: {error}", plain(&source.path))),
    })
}

fn bolt(source: &mut Source) -> Result<Bolt, Error> {
    let input = |what: String| Error::Input(what);
    let data = match (&source.place, source.packing) {
        (Place::File(path), Packing::None) => {
            Data::map(path).map_err(|error| input(format!("{}: {error}", source.path)))?
        }
        _ => {
            let mut bytes = Vec::new();
            let reader = source.reader().map_err(|error| input(error.to_string()))?;
            reader
                .take(64 << 30)
                .read_to_end(&mut bytes)
                .map_err(|error| input(format!("{}: {error}", source.path)))?;
            Data::Memory(bytes)
        }
    };
    Bolt::open(data).map_err(|error| input(format!("{}: {error}", source.path)))
}

impl Opened {
    /// When it was taken, as far as that is known.
    pub(crate) fn taken(&self) -> Option<Micros> {
        taken(self.place.as_deref(), &self.database)
    }

    /// The cluster that it is of, as its bundle or a folder around it says; else empty.
    pub(crate) fn cluster(&self) -> String {
        self.place.as_deref().map(find::cluster_of).unwrap_or_default()
    }

    /// What is known of the file after a pass; says what is damaged.
    pub(crate) fn file(&self, walked: &Walked, context: &mut Context<'_>) -> Result<File, Error> {
        let mut file = self.pages(&walked.walk, context)?;
        file.hash = file.hash.filter(|_| walked.ask.hashes);
        file.decoded = walked.ask.looks != Looks::Keys;
        Ok(file)
    }

    /// The same after a walk that looked at pages alone.
    pub(crate) fn pages(&self, walk: &Walk, context: &mut Context<'_>) -> Result<File, Error> {
        for damage in &walk.damages.listed {
            context.lost(format!(
                "{}: {damage}; its contents are not counted. Take another snapshot, or one of another member",
                self.path
            ))?;
        }
        let Database { bolt, store, .. } = &self.database;
        let records = walk.buckets.iter().filter(|bucket| !bucket.name.is_empty()).map(|bucket| bucket.entries).sum();
        let entries = walk.buckets.iter().filter(|bucket| !["", "key"].contains(&bucket.name.as_str()));
        Ok(File {
            inputs: vec![InputReport {
                path: self.path.clone(),
                kind: "etcd",
                bytes: self.size,
                records,
                skipped: walk.damages.count(),
                first_error: walk.damages.listed.first().map(ToString::to_string),
            }],
            db_bytes: bolt.db_bytes(),
            in_use_bytes: walk.used.count() * u64::from(bolt.meta.page_size),
            page_size: u64::from(bolt.meta.page_size),
            revision: walk.revision,
            compacted: store.compacted(),
            compacting: store.compaction_is_under_way(),
            hash: walk.hash.filter(|_| walk.damages.count() == 0),
            entries: entries.map(|bucket| (bucket.name.clone(), bucket.entries)).collect(),
            damages: (walk.damages.listed.iter().map(ToString::to_string).collect(), walk.damages.count()),
            quota: None,
            decoded: true,
            consistent_index: store.consistent_index,
            term: store.term,
            storage_version: store.storage_version.clone(),
            members: store
                .members
                .iter()
                .map(|m| (m.name.clone(), m.peer_urls.first().cloned().unwrap_or_default()))
                .collect(),
            alarms: store.alarms.iter().map(|(member, alarm)| (format!("{member:x}"), (*alarm).to_owned())).collect(),
            leases: store.leases.len() as u64,
        })
    }

    /// The texts of keys of which only the hashes are known: the latest revision of each has it.
    pub(crate) fn names(&self, space: &Keyspace, hashes: &[u64], threads: usize) -> HashMap<u64, String> {
        let mut found = HashMap::new();
        // A look-up reads a leaf or two; of more keys than that is worth, the one pass over all leaves finds the names.
        let few = if hashes.len() <= self.database.key_pages() / 4 { hashes } else { &[] };
        for hash in few {
            let Some((key, _)) = space.get(*hash) else { continue };
            self.database.keys_of(key.latest, |text| {
                if keyspace::hash(text) == *hash {
                    found.insert(*hash, String::from_utf8_lossy(text).into_owned());
                }
            });
        }
        // So it does where the order of keys is damaged.
        let wanted: HashSet<u64> =
            hashes.iter().copied().filter(|hash| !found.contains_key(hash) && space.get(*hash).is_some()).collect();
        if !wanted.is_empty() {
            let (workers, _) = self.database.walk(threads, false, || Naming { wanted: &wanted, found: HashMap::new() });
            found.extend(workers.into_iter().flat_map(|worker| worker.found));
        }
        found
    }
}

/// Finds the texts of keys.
struct Naming<'s> {
    wanted: &'s HashSet<u64>,
    found: HashMap<u64, String>,
}

impl KeyWorker for Naming<'_> {
    fn revision(&mut self, _: Revision, _: bool, kv: &KeyValue<'_>, _: usize) {
        let hash = keyspace::hash(kv.key);
        if self.wanted.contains(&hash) && !self.found.contains_key(&hash) {
            self.found.insert(hash, String::from_utf8_lossy(kv.key).into_owned());
        }
    }
}
