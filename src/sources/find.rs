//! From what a person names (a path, a folder, a glob, `-`, a URL) to what there is to read: files found
//! and recognised, audit logs put together into streams, metrics pages by the folder they lie in.

use super::arguments::expand_for;
use super::belonging::{Belonging, Bundles, PLAIN_FOLDERS, part_of};
pub use super::belonging::{bundle_around, cluster_of};
use super::content::Content;
use super::datasets::Datasets;
use super::found::{Discovery, LogStream, remembered};
use super::joined::{self, Folders, SLACK};
use super::open::{FileId, Place, Source, SourceError, recognise};
use super::pages::{Clock, PageFile, time_in};
use super::wanted::Wanted;
use crate::model::event::Stream;
use crate::model::stray::{Days, KeptDays};
use crate::model::time::Micros;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Finds the audit logs behind `arguments`. What can't be used is reported beside what can.
pub fn audit_logs(arguments: &[String]) -> Discovery {
    find(arguments, Wanted::Logs, 0)
}

/// An argument, and what came of its files.
struct Named<'a> {
    argument: &'a str,
    from_folder: bool,
    files: usize,
    used: usize,
    logs: usize,
}

/// Finds what is wanted behind `arguments`. What can't be used is reported beside what can. Pages from pipes
/// and URLs are taken `now`.
pub fn find(arguments: &[String], wanted: Wanted, now: Micros) -> Discovery {
    remembered(arguments, wanted, || look(arguments, wanted, now))
}

fn look(arguments: &[String], wanted: Wanted, now: Micros) -> Discovery {
    let mut found = Discovery::default();
    let mut groups = Groups::new();
    let mut folders = Folders::new();
    let mut dumps = Folders::new();
    // (cluster, instance, family) of files without content.
    let mut empty: Vec<(String, String, String)> = Vec::new();
    // Clusters and instances that have metrics pages, whether or not these are wanted: logs beside them are called
    // alike.
    let mut paged: BTreeSet<(String, String)> = BTreeSet::new();
    // Files that are no pages, in folders that may have some.
    let mut odd: Vec<(PathBuf, bool, SourceError)> = Vec::new();
    let mut rolled: Vec<Source> = Vec::new();
    let mut datasets = Datasets::default();
    let mut bundles = Bundles::default();
    let mut named: Vec<Named<'_>> = Vec::new();
    let mut files: Vec<(usize, Place)> = Vec::new();
    for argument in arguments {
        match expand_for(argument, wanted == Wanted::Databases) {
            Ok((own, from_folder)) => {
                named.push(Named { argument, from_folder, files: own.len(), used: 0, logs: 0 });
                found.files += own.len();
                files.extend(own.into_iter().map(|file| (named.len() - 1, file)));
            }
            Err(error) => found.errors.push(error),
        }
    }
    // What two arguments name is read once, and so is what a link stands for that lies there itself.
    let is_link = |file: &Place| matches!(file, Place::File(path) if path.is_symlink());
    files.sort_by_cached_key(|(_, file)| is_link(file));
    // Whether it was used, and is a log.
    let mut taken: HashMap<FileId, (usize, usize)> = HashMap::new();
    for (number, file) in files {
        let Named { argument, from_folder, used, logs, .. } = &mut named[number];
        let (argument, from_folder) = (*argument, *from_folder);
        let id = if let Place::File(path) = &file { FileId::of(path) } else { None };
        if let Some(&(was_used, was_log)) = id.as_ref().and_then(|id| taken.get(id)) {
            (*used, *logs) = (*used + was_used, *logs + was_log);
            continue;
        }
        if let Some(id) = id {
            taken.insert(id, (0, 0));
        }
        let source = match recognise(&file) {
            Ok(source) => source,
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let content = source.content;
        if content == Content::CUT && from_folder && is_called_as(&source, wanted) {
            found.errors.push(SourceError::Cut(source.path.clone()));
            continue;
        }
        if content == Content::Metrics {
            let Belonging { cluster, instance, .. } = bundles.belongs(&source.place, argument, from_folder);
            paged.insert((cluster, instance));
        }
        if !wanted.wants(content) || content.is_nothing() && from_folder {
            let looks = content.in_words();
            let error = SourceError::NotWanted { path: source.path.clone(), looks, wanted };
            if content.is_nothing() && from_folder {
                let Belonging { cluster, family, instance, .. } = bundles.belongs(&source.place, argument, from_folder);
                empty.push((cluster, instance, family));
            }
            if !from_folder {
                found.errors.push(error);
            } else if matches!(wanted, Wanted::Pages | Wanted::Both)
                && content != Content::Dump
                && let Place::File(path) = &source.place
                && let Some(certain) = page_name(path)
            {
                let Belonging { whole, .. } = bundles.belongs(&source.place, argument, from_folder);
                odd.push((whole, certain, error));
            }
            continue;
        }
        if datasets.is_left(&source) {
            continue;
        }
        let is_log = !matches!(content, Content::Database | Content::Metrics | Content::Dump);
        (*used, *logs) = (*used + 1, *logs + usize::from(is_log));
        taken.extend(id.map(|id| (id, (1, usize::from(is_log)))));
        let Belonging { bundle, cluster, whole, family, instance, .. } =
            bundles.belongs(&source.place, argument, from_folder);
        let bundle = bundle.or_else(|| datasets.bundle(&source, &cluster));
        found.bundle = found.bundle.take().or(bundle);
        found.errors.extend(datasets.lost(&source));
        if content == Content::Rollup {
            rolled.push(source);
        } else if let Some(part) = &source.part {
            // Rows say whose they are.
            let (instance, whole) = (part.instance.clone(), whole.join(format!("instance={}", part.instance)));
            if part.pages.is_empty() {
                groups.entry((cluster, whole, String::new())).or_default().push((source, instance));
            } else {
                let pages = source.pages().into_iter().map(|page| PageFile::new(page, now));
                folders.entry((cluster, whole)).or_insert_with(|| (instance, Vec::new())).1.extend(pages);
            }
        } else if content == Content::Database {
            found.databases.push(source);
        } else if matches!(content, Content::Metrics | Content::Dump) {
            let instance = if let Place::Url(url) = &source.place { host(url) } else { instance };
            let of = if content == Content::Dump { &mut dumps } else { &mut folders };
            of.entry((cluster, whole)).or_insert_with(|| (instance, Vec::new())).1.push(PageFile::new(source, now));
        } else {
            groups.entry((cluster, whole, family)).or_default().push((source, instance));
        }
    }
    for Named { argument, files, used, logs, .. } in named.into_iter().filter(|named| named.from_folder) {
        if used == 0 && !odd.iter().any(|(_, certain, _)| *certain) {
            found.errors.push(SourceError::NothingHere { folder: argument.to_owned(), files, wanted });
        }
        if logs == 0 && wanted == Wanted::Both {
            found.without_logs.push((argument.to_owned(), files));
        }
    }
    // What is called by a time is missed as a page where others are.
    let is_missed = |(folder, certain, _): &(PathBuf, bool, SourceError)| {
        *certain || folders.keys().any(|(_, other)| other == folder)
    };
    found.errors.extend(odd.into_iter().filter(is_missed).map(|(.., error)| error));
    join_parts(&mut groups);
    join_objects(&mut groups);
    empty.retain(|(_, _, family)| groups.keys().any(|(_, _, other)| other == family));
    found.empty_logs = empty.into_iter().map(|(cluster, instance, _)| (cluster, instance)).collect();
    let mut families: BTreeMap<(String, PathBuf), usize> = BTreeMap::new();
    for (cluster, folder, _) in groups.keys() {
        *families.entry((cluster.clone(), folder.clone())).or_default() += 1;
    }
    for ((cluster, folder, family), mut files) in groups {
        files.sort_by(|(a, _), (b, _)| (a.first, &a.path).cmp(&(b.first, &b.path)));
        let mut instance = files.first().map(|f| f.1.clone()).unwrap_or_default();
        if families[&(cluster.clone(), folder)] > 1 {
            instance = family; // several logs in one folder: their names tell them apart
        }
        let id = found.streams.len() as u32;
        let files = files.into_iter().map(|(source, _)| source).collect();
        found.streams.push(LogStream {
            stream: Stream { id, cluster, instance },
            files,
            kept: KeptDays::default(),
            has_copies: false,
            rolled: None,
        });
    }
    name_logs(&mut found.streams, &paged);
    joined::logs(&mut found.streams);
    super::rolled::add(&mut found, &rolled);
    found.pages = joined::pages(folders);
    set_stray_aside(&mut found);
    found.dumps = joined::pages(dumps);
    found
}

/// The same sources, with the bundles of a folder that holds nothing else in its place: each has a time of its own.
pub fn bundles_of(sources: &[String]) -> Vec<String> {
    let below = |source: &String| {
        let entries = std::fs::read_dir(source).ok().filter(|_| bundle_around(Path::new(source)).is_none())?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, _>>().ok()?;
        let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let mut paths: Vec<PathBuf> = paths.into_iter().filter(|path| !is_hidden(path)).collect();
        paths.sort();
        let are_bundles = paths.len() > 1 && paths.iter().all(|path| path.join("bundle.yaml").is_file());
        are_bundles.then(|| paths.iter().map(|path| path.display().to_string()).collect::<Vec<String>>())
    };
    sources.iter().flat_map(|source| below(source).unwrap_or_else(|| vec![source.clone()])).collect()
}

/// (cluster, folder, family) → files, and the instances that their folders name: what belongs to one stream.
type Groups = BTreeMap<(String, PathBuf, String), Vec<(Source, String)>>;

/// Makes one log of files of a folder that are called alike but for a number where each goes on after the one before:
/// logs of several apiservers are of the same time.
fn join_parts(groups: &mut Groups) {
    // By cluster, folder and name without the number: the number of each family.
    type Parts = BTreeMap<(String, PathBuf, String), Vec<(Option<u64>, String)>>;
    let mut all = Parts::new();
    for (cluster, whole, family) in groups.keys() {
        if let Some((stem, number)) = part_of(family) {
            all.entry((cluster.clone(), whole.clone(), stem)).or_default().push((Some(number), family.clone()));
        }
    }
    for ((cluster, whole, stem), mut parts) in all {
        let key = |family: &String| (cluster.clone(), whole.clone(), family.clone());
        parts.sort_unstable();
        // What has no number is what is written to.
        parts.extend(groups.contains_key(&key(&stem)).then(|| (None, stem.clone())));
        let of: Vec<&[(Source, String)]> =
            parts.iter().filter_map(|(_, family)| Some(groups.get(&key(family))?.as_slice())).collect();
        // Of others it may be that they are parts of another log by now.
        if of.len() > 1
            && of.len() == parts.len()
            && follow_one_another(&of, parts.last().is_some_and(|own| own.0.is_none()))
        {
            let files: Vec<_> =
                parts.iter().flat_map(|(_, family)| groups.remove(&key(family)).unwrap_or_default()).collect();
            groups.insert((cluster, whole, stem), files);
        }
    }
}

/// Parts whose ends can't be looked at must be so many in the order of their numbers to be taken for parts of one log.
const MIN_PARTS: usize = 5;
/// A part goes on no later after the one before, in µs: else it is another log.
const GOES_ON_WITHIN: Micros = 60_000_000;
/// Bytes of packed parts, all together, that are unpacked to see where they end.
const MAX_UNPACKED: u64 = 32 << 20;

/// What is known of the times of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PartTimes {
    begin: Micros,
    /// `None` where its end can't be looked at.
    end: Option<Micros>,
    /// The last event that was seen.
    seen: Option<Micros>,
}

impl PartTimes {
    /// `None` where nobody knows when it begins.
    fn of(file: &Source, may_unpack: bool) -> Option<Self> {
        let ends = Some(file).filter(|file| may_unpack && !file.shows_its_end()).and_then(Source::ends_unpacked);
        let end = if file.shows_its_end() { file.last_time() } else { ends.map(|(_, last)| last) };
        let seen = end.or_else(|| file.head_times(usize::MAX).into_iter().max());
        Some(Self { begin: file.first.or(ends.map(|(first, _)| first))?, end, seen })
    }

    fn with(self, other: Self) -> Self {
        Self {
            begin: self.begin.min(other.begin),
            end: self.end.zip(other.end).map(|(a, b)| a.max(b)),
            seen: self.seen.max(other.seen),
        }
    }

    /// Whether another goes on where this one ends, as far as that can be seen.
    fn is_followed_by(self, next: Self) -> bool {
        match self.end {
            Some(end) => (end - SLACK..=end + GOES_ON_WITHIN).contains(&next.begin),
            None => next.begin - self.begin >= SLACK && self.seen.is_none_or(|seen| seen <= next.begin),
        }
    }
}

/// Whether logs, in the order of their numbers, follow one another in time; the last may be one without a number.
fn follow_one_another(parts: &[&[(Source, String)]], is_last_open: bool) -> bool {
    let hidden = parts.iter().copied().flatten().filter(|(file, _)| !file.shows_its_end());
    let may_unpack = hidden.map(|(file, _)| file.size).sum::<u64>() <= MAX_UNPACKED;
    let times = |part: &&[(Source, String)]| {
        let files = part.iter().map(|(file, _)| PartTimes::of(file, may_unpack));
        files.collect::<Option<Vec<_>>>()?.into_iter().reduce(PartTimes::with)
    };
    let Some(numbered) = parts.iter().map(times).collect::<Option<Vec<PartTimes>>>() else { return false };
    let mut in_time = numbered.clone();
    in_time.sort_unstable();
    if !in_time.windows(2).all(|two| two[0].is_followed_by(two[1])) {
        return false;
    }
    if in_time[..in_time.len() - 1].iter().all(|own| own.end.is_some()) {
        return true;
    }
    // Rotation counts up from the newest, others from the oldest; what has no number is written to, or was the first.
    let (numbered, open) = numbered.split_at(numbered.len() - usize::from(is_last_open));
    let in_order = numbered.is_sorted_by(|a, b| a.begin < b.begin) || numbered.is_sorted_by(|a, b| a.begin > b.begin);
    let ends = [in_time.first(), in_time.last()].map(|own| own.map(|own| own.begin));
    let is_at_an_end = open.first().is_none_or(|own| ends.contains(&Some(own.begin)));
    in_order && is_at_an_end && parts.len() >= MIN_PARTS
}

/// Makes one log of the objects in partitions of a folder that are each called otherwise, as those of object stores
/// are: what tells apiservers apart occurs in more than one partition.
fn join_objects(groups: &mut Groups) {
    // The families of each folder, and the partitions in which these occur.
    type Families = Vec<(String, BTreeSet<PathBuf>)>;
    let mut folders: BTreeMap<(String, PathBuf), Families> = BTreeMap::new();
    for ((cluster, whole, family), files) in &*groups {
        let within = |(file, _): &(Source, String)| match &file.place {
            Place::File(path) => path.parent().map(Path::to_owned),
            Place::Once(_) | Place::Url(_) => None,
        };
        let own = (family.clone(), files.iter().filter_map(within).collect());
        folders.entry((cluster.clone(), whole.clone())).or_default().push(own);
    }
    for ((cluster, whole), families) in folders {
        let all: BTreeSet<&PathBuf> = families.iter().flat_map(|(_, within)| within).collect();
        if families.len() > 1 && all.len() > 1 && families.iter().all(|(_, within)| within.len() == 1) {
            let mut take =
                |family: String| groups.remove(&(cluster.clone(), whole.clone(), family)).unwrap_or_default();
            let files = families.into_iter().flat_map(|(family, _)| take(family)).collect();
            groups.insert((cluster.clone(), whole.clone(), String::new()), files);
        }
    }
}

/// Calls logs in folders `audit`, `audit-1` as the folders of metrics pages beside them are called, so that both are
/// known to be of one apiserver: by their numbers, and the one that is left by the one that is left.
fn name_logs(streams: &mut [LogStream], paged: &BTreeSet<(String, String)>) {
    let number = |name: &str| {
        PLAIN_FOLDERS.iter().find_map(|plain| name.strip_prefix(plain)?.strip_prefix('-').map(str::to_owned))
    };
    for stream in streams.iter_mut() {
        let own = &stream.stream;
        let Some(number) = number(&own.instance) else { continue };
        let ending = format!("-{number}");
        let of = |(cluster, name): &&(String, String)| *cluster == own.cluster && name.ends_with(&ending);
        let alike: Vec<&String> = paged.iter().filter(of).map(|(_, name)| name).collect();
        let apiservers: Vec<&&String> = alike.iter().filter(|name| name.contains("apiserver")).collect();
        let name = match (alike.as_slice(), apiservers.as_slice()) {
            ([only], _) => Some((*only).clone()),
            (_, [only]) => Some((**only).clone()),
            _ => None,
        };
        stream.stream.instance = name.unwrap_or_else(|| stream.stream.instance.clone());
    }
    let clusters: BTreeSet<String> = streams.iter().map(|stream| stream.stream.cluster.clone()).collect();
    for cluster in clusters {
        let taken: BTreeSet<String> =
            streams.iter().filter(|own| own.stream.cluster == cluster).map(|own| own.stream.instance.clone()).collect();
        let is_free =
            |(of, name): &&(String, String)| *of == cluster && name.contains("apiserver") && !taken.contains(name);
        let free: Vec<&String> = paged.iter().filter(is_free).map(|(_, name)| name).collect();
        let mut unnamed: Vec<&mut LogStream> =
            streams.iter_mut().filter(|own| own.stream.cluster == cluster && own.stream.instance.is_empty()).collect();
        // With one log and one apiserver there is nothing to distinguish, and nothing to guess.
        if let ([log], [name]) = (unnamed.as_mut_slice(), free.as_slice())
            && taken.len() > 1
        {
            log.stream.instance = (*name).clone();
        }
    }
}

/// Takes out the pages that a wrong clock dated far away from all others. When a file was written says nothing of other
/// folders: what is dated by that is compared with the pages beside it.
fn set_stray_aside(found: &mut Discovery) {
    fn kept<'p>(pages: impl Iterator<Item = &'p PageFile>) -> KeptDays {
        let mut days = Days::default();
        pages.for_each(|page| days.add(page.at));
        days.kept()
    }
    let dated = |page: &&PageFile| matches!(page.clock, Clock::Name | Clock::Samples);
    let all = kept(found.pages.iter().flat_map(|folder| &folder.pages).filter(dated));
    for folder in &mut found.pages {
        let beside = kept(folder.pages.iter());
        let is_kept = |page: &PageFile| match page.clock {
            Clock::Name | Clock::Samples => all.takes(page.at),
            Clock::Modified => beside.takes(page.at),
            Clock::Read => true,
        };
        let (pages, stray): (Vec<_>, Vec<_>) = folder.pages.drain(..).partition(is_kept);
        folder.pages = pages;
        found.errors.extend(stray.into_iter().map(|page| SourceError::Stray { path: page.source.path, at: page.at }));
    }
    found.pages.retain(|folder| !folder.pages.is_empty());
}

/// Whether a file of which nothing can be unpacked is called as what is wanted is.
fn is_called_as(source: &Source, wanted: Wanted) -> bool {
    let Place::File(path) = &source.place else { return false };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let own = name(path);
    let is_log = own.contains(".log")
        || own.contains("audit")
        || path.ancestors().skip(1).take(2).any(|above| name(above).starts_with("audit"));
    let is_page = page_name(path) == Some(true);
    match wanted {
        Wanted::Logs => is_log,
        Wanted::Pages => is_page,
        Wanted::Both | Wanted::Dumps => is_log || is_page,
        Wanted::Databases => own.contains(".db") || own.contains("snap"),
        Wanted::Profiles => false,
    }
}

/// Whether a file is called like a metrics page: for certain if it lies in a folder `metrics` or is called so, not so
/// certainly if it is called by a time.
fn page_name(path: &Path) -> Option<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let below_metrics = path.parent().is_some_and(|folder| {
        let mut names = folder.components().rev().take(2).map(|c| c.as_os_str().to_string_lossy().into_owned());
        names.any(|name| name == "metrics" || name == "scrapes")
    });
    if (below_metrics || name.starts_with("metrics")) && !name.ends_with(".yaml") && !name.ends_with(".md") {
        return Some(true);
    }
    time_in(&name).map(|_| false)
}

/// Host and port of a URL.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

/// The first event, or the first page where there is no log.
pub fn begin(found: &Discovery) -> Option<Micros> {
    let first = found.streams.iter().flat_map(|s| &s.files).filter_map(|file| file.first).min();
    first.or_else(|| found.pages.iter().flat_map(|folder| &folder.pages).map(|page| page.at).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_link_stands_back_behind_what_it_stands_for() {
        let home = tempfile::tempdir().unwrap();
        let event = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{},"stageTimestamp":"2026-11-20T09:00:00.000000Z"}"#;
        std::fs::write(home.path().join("audit.log"), format!("{event}\n")).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink("audit.log", home.path().join(name)).unwrap();
        // One sorts before the log, one behind it.
        link("audit-current.log");
        link("latest.log");
        let folder = home.path().display().to_string();
        let found = audit_logs(&[folder.clone(), format!("{folder}/latest.log")]);
        let files: Vec<&str> =
            found.streams.iter().flat_map(|stream| &stream.files).map(|file| file.path.as_str()).collect();
        assert_eq!(files, [format!("{folder}/audit.log")]);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        // Nor is it read twice under two names of its own.
        std::fs::hard_link(home.path().join("audit.log"), home.path().join("kept.log")).unwrap();
        let found = audit_logs(std::slice::from_ref(&folder));
        assert_eq!(found.streams.iter().map(|stream| stream.files.len()).collect::<Vec<_>>(), [1]);
        std::fs::remove_file(home.path().join("kept.log")).unwrap();
        // Named by itself, a link is the file.
        assert_eq!(audit_logs(&[format!("{folder}/latest.log")]).streams.len(), 1);
        // Of what is not wanted, a link makes nothing that is.
        let pages = find(std::slice::from_ref(&folder), Wanted::Pages, 0);
        assert!(matches!(pages.errors.as_slice(), [SourceError::NothingHere { .. }]), "{:?}", pages.errors);
    }

    #[test]
    fn partitions_by_instance_are_logs_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let event = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{},"stageTimestamp":"2026-11-20T09:00:00.000000Z"}"#;
        for (place, name) in ["instance=a/date=2026-11-20", "date=2026-11-20/instance=b", "instance=a/date=2026-11-21"]
            .into_iter()
            .enumerate()
        {
            let folder = home.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let event = event.replace(r#""auditID":"a""#, &format!(r#""auditID":"{place}""#));
            std::fs::write(folder.join("audit.log"), event + "\n").unwrap();
        }
        let found = audit_logs(&[home.path().display().to_string()]).streams.into_iter();
        let found: Vec<_> = found.map(|own| (own.stream.instance, own.files.len())).collect();
        assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    }

    #[test]
    fn objects_of_a_store_are_one_log_whatever_they_are_called() {
        let home = tempfile::tempdir().unwrap();
        let event = |minute: u32| {
            format!(
                r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a{minute}","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{{}},"stageTimestamp":"2026-11-20T09:{minute:02}:00.000000Z"}}"#
            )
        };
        let write = |name: &str, minute: u32| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, event(minute) + "\n").unwrap();
        };
        write("one/2026/11/20/08/objectXkq2.log", 1);
        write("one/2026/11/20/09/objectPz9a.log", 2);
        write("one/2026/11/20/09/objectQw3b.log", 3);
        write("two/2026/11/20/08/cp-1.log", 4);
        write("two/2026/11/20/08/cp-2.log", 5);
        write("two/2026/11/20/09/cp-1.log", 6);
        write("two/2026/11/20/09/cp-2.log", 7);
        let streams = |folder: &str| {
            let found = audit_logs(&[home.path().join(folder).display().to_string()]);
            found.streams.into_iter().map(|own| (own.stream.instance, own.files.len())).collect::<Vec<_>>()
        };
        assert_eq!(streams("one"), [(String::new(), 3)]);
        assert_eq!(streams("two"), [("cp-1".to_owned(), 2), ("cp-2".to_owned(), 2)]);
    }
}
