//! What lies in several places and is of one apiserver: its logs and pages in several bundles, files that were copied.

use super::content::Content;
use super::found::LogStream;
use super::open::Source;
use super::packing::Packing;
use super::pages::{PageFile, PageFolder, process_start};
use crate::model::time::{Micros, SECOND};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// How far files of one apiserver may overlap where one goes on where the other ends.
pub(super) const SLACK: Micros = 10 * SECOND;

/// Makes one log of those that bundles of one cluster have of one apiserver, and of files that begin with the same
/// event, whatever these are called; finds out which logs may have copies.
pub(super) fn logs(streams: &mut Vec<LogStream>) {
    let mut joined: Vec<LogStream> = Vec::new();
    // The first stream that begins one of its files with an event.
    let mut begun: HashMap<(String, u64), usize> = HashMap::new();
    let mut named: HashMap<(String, String), usize> = HashMap::new();
    for stream in streams.drain(..) {
        let (cluster, instance) = (stream.stream.cluster.clone(), stream.stream.instance.clone());
        let ids = stream.files.iter().flat_map(|file| &file.ids);
        let own: Vec<(String, u64)> = ids.map(|id| (cluster.clone(), *id)).collect();
        let is_named = !cluster.is_empty() && !instance.is_empty() && !is_rewritten(&stream);
        let name = is_named.then_some((cluster, instance));
        let alike = name.as_ref().and_then(|name| named.get(name)).copied();
        let twin = own.iter().filter_map(|id| begun.get(id)).copied().chain(alike).min();
        match twin.and_then(|twin| joined.get_mut(twin)) {
            Some(twin) => {
                twin.files.extend(stream.files);
                twin.files.sort_by(|a, b| (a.first, &a.path).cmp(&(b.first, &b.path)));
                twin.has_copies |= !follow_one_another(&twin.files);
            }
            None => joined.push(stream),
        }
        let place = twin.unwrap_or(joined.len() - 1);
        // What is a copy of another's log does not give that its name.
        let is_its_own = |(cluster, instance): &(String, String)| {
            joined.get(place).is_some_and(|own| (&own.stream.cluster, &own.stream.instance) == (cluster, instance))
        };
        if let Some(name) = name.filter(is_its_own) {
            named.entry(name).or_insert(place);
        }
        for id in own {
            begun.entry(id).or_insert(place);
        }
    }
    for (id, stream) in joined.iter_mut().enumerate() {
        stream.stream.id = id as u32;
        let is_export = stream.files.iter().any(|file| file.is_wrapped || file.content == Content::AuditDocument);
        let mut all = HashSet::new();
        let is_twice = stream.files.iter().flat_map(|file| &file.ids).any(|id| !all.insert(*id));
        stream.has_copies |= is_export || is_twice || overlap(&stream.files);
    }
    *streams = joined;
    look_for_copies_of_namesakes(streams);
}

/// Whether it is not as apiservers write it: rows of a dataset.
fn is_rewritten(stream: &LogStream) -> bool {
    stream.files.iter().any(|file| file.packing == Packing::Dataset)
}

/// Logs of apiservers of one name that no cluster tells apart are those of two clusters, or parts of one log: of what
/// is in both, each event is counted once.
fn look_for_copies_of_namesakes(streams: &mut [LogStream]) {
    let mut of: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (place, stream) in streams.iter().enumerate().filter(|(_, stream)| !stream.stream.instance.is_empty()) {
        of.entry((stream.stream.cluster.clone(), stream.stream.instance.clone())).or_default().push(place);
    }
    for places in of.into_values().filter(|places| places.len() > 1) {
        let mut all: Vec<&Source> = places.iter().flat_map(|place| &streams[*place].files).collect();
        all.sort_by_key(|file| file.first);
        if !follow_one_another(all) {
            places.iter().for_each(|place| streams[*place].has_copies = true);
        }
    }
}

/// Whether a file begins well before the one before it ends, as far as ends can be looked at.
fn overlap(files: &[Source]) -> bool {
    files.len() > 1
        && files.windows(2).any(|two| match (two[0].last_time(), two[1].first) {
            (Some(last), Some(first)) => first < last - SLACK,
            _ => false,
        })
}

/// Whether it is known of all files that each begins where the one before it ends, or later.
fn follow_one_another<'f>(files: impl IntoIterator<Item = &'f Source>) -> bool {
    let mut end: Option<Micros> = None;
    files.into_iter().enumerate().all(|(number, file)| {
        let follows = number == 0 || end.zip(file.first).is_some_and(|(end, first)| first >= end);
        end = Some(file).filter(|file| file.shows_its_end()).and_then(Source::last_time);
        follows
    })
}

/// (cluster, folder) → the instance that the folder names, and its pages.
pub(super) type Folders = BTreeMap<(String, PathBuf), (String, Vec<PageFile>)>;

/// Folders of pages, the pages of each by time; those that bundles have of one process, one after the other or at
/// times that overlap, are one.
pub(super) fn pages(folders: Folders) -> Vec<PageFolder> {
    let folder = |((cluster, place), (instance, mut pages)): ((String, PathBuf), (String, Vec<PageFile>))| {
        pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
        PageFolder { cluster, instance, place, pages }
    };
    let mut folders: Vec<Option<PageFolder>> = folders.into_iter().map(folder).map(Some).collect();
    let mut of: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (number, folder) in folders.iter().enumerate() {
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.instance.is_empty()) {
            of.entry((folder.cluster.clone(), folder.instance.clone())).or_default().push(number);
        }
    }
    for mut numbers in of.into_values().filter(|numbers| numbers.len() > 1) {
        numbers.sort_by_key(|number| folders[*number].as_ref().and_then(|folder| Some(folder.pages.first()?.at)));
        let mut kept: Vec<Joined> = Vec::new();
        for number in numbers {
            let Some(own) = folders[number].take() else { continue };
            let next = Joined::of(number, &own);
            match kept.iter_mut().find(|other| other.is_continued_by(&next)) {
                Some(into) => {
                    into.join(next);
                    if let Some(folder) = folders[into.number].as_mut() {
                        folder.join(own);
                    }
                }
                None => {
                    folders[number] = Some(own);
                    kept.push(next);
                }
            }
        }
    }
    folders.into_iter().flatten().collect()
}

/// A folder, and what its pages say of their processes.
struct Joined {
    number: usize,
    /// When the processes started whose pages are its first and its last, as far as these say so.
    started: BTreeSet<Micros>,
    first: Micros,
    last: Micros,
}

impl Joined {
    fn of(number: usize, folder: &PageFolder) -> Self {
        let ends = [folder.pages.first(), folder.pages.last()];
        let [first, last] = ends.map(|page| page.map_or(0, |page| page.at));
        let pages = ends.into_iter().flatten().take(if folder.pages.len() > 1 { 2 } else { 1 });
        Self { number, started: pages.filter_map(process_start).collect(), first, last }
    }

    /// Whether the pages of `next`, which begin no earlier, are those of one of its processes, or of one that was
    /// started when the last one had ended.
    fn is_continued_by(&self, next: &Self) -> bool {
        let is_later = next.first > self.last && next.started.iter().any(|start| *start >= self.last - SECOND);
        !self.started.is_disjoint(&next.started) || !self.started.is_empty() && is_later
    }

    fn join(&mut self, next: Self) {
        self.started.extend(next.started);
        self.last = self.last.max(next.last);
    }
}
