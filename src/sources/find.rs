//! From what a person names (a path, a folder, a glob, `-`, a URL) to what there is to read: files found
//! and recognised, audit logs put together into streams, metrics pages by the folder they lie in.

use super::archive;
use super::arguments::expand_for;
use super::content::Content;
use super::found::{Discovery, LogStream, remembered};
use super::open::{FileId, Place, Source, SourceError, recognise};
use super::pages::{Clock, PageFile, PageFolder, time_in};
use super::wanted::Wanted;
use crate::model::bundle::Bundle;
use crate::model::event::Stream;
use crate::model::stray::{Days, KeptDays};
use crate::model::time::Micros;
use crate::model::uri::decoded_path;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Folder names that say what lies in them, not which apiserver wrote it.
const PLAIN_FOLDERS: [&str; 17] = [
    "apf",
    "dumps",
    "heap",
    "heaps",
    "pprof",
    "profiles",
    "audit",
    "audits",
    "log",
    "logs",
    "metrics",
    "scrapes",
    "apiserver",
    "kube-apiserver",
    "kubernetes",
    "forms",
    "damage",
];

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
    // (cluster, folder, family) → files: what belongs to one stream.
    let mut groups: BTreeMap<(String, PathBuf, String), Vec<(Source, String)>> = BTreeMap::new();
    let mut folders: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)> = BTreeMap::new();
    let mut dumps: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)> = BTreeMap::new();
    // (cluster, instance, family) of files without content.
    let mut empty: Vec<(String, String, String)> = Vec::new();
    // Clusters and instances that have metrics pages, whether or not these are wanted: logs beside them are called
    // alike.
    let mut paged: BTreeSet<(String, String)> = BTreeSet::new();
    // Files that are no pages, in folders that may have some.
    let mut odd: Vec<(PathBuf, bool, SourceError)> = Vec::new();
    let mut rolled: Vec<Source> = Vec::new();
    let mut bundles = Bundles::default();
    let mut named: Vec<Named<'_>> = Vec::new();
    let mut files: Vec<(usize, Place)> = Vec::new();
    for argument in arguments {
        match expand_for(argument, wanted == Wanted::Databases) {
            Ok((own, from_folder)) => {
                named.push(Named { argument, from_folder, files: own.len(), used: 0, logs: 0 });
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
        if content == Content::Metrics {
            let Belonging { cluster, instance, .. } = bundles.belongs(&source.place, argument, from_folder);
            paged.insert((cluster, instance));
        }
        if !wanted.wants(content) || content == Content::Empty && from_folder {
            let looks = content.in_words();
            let error = SourceError::NotWanted { path: source.path.clone(), looks, wanted };
            if content == Content::Empty && from_folder {
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
            } else {
                found.other_files += 1;
            }
            continue;
        }
        let is_log = !matches!(content, Content::Database | Content::Metrics | Content::Dump);
        (*used, *logs) = (*used + 1, *logs + usize::from(is_log));
        taken.extend(id.map(|id| (id, (1, usize::from(is_log)))));
        let Belonging { bundle, cluster, whole, family, instance, .. } =
            bundles.belongs(&source.place, argument, from_folder);
        found.bundle = found.bundle.take().or(bundle);
        if content == Content::Rollup {
            rolled.push(source);
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
    for (folder, certain, error) in odd {
        match certain || folders.keys().any(|(_, other)| *other == folder) {
            true => found.errors.push(error),
            false => found.other_files += 1,
        }
    }
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
    join_copies(&mut found.streams);
    super::rolled::add(&mut found, &rolled);
    found.pages = in_order(folders);
    set_stray_aside(&mut found);
    found.dumps = in_order(dumps);
    found
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

/// How far files of one apiserver may overlap where one goes on where the other ends.
const SLACK: Micros = 10_000_000;

/// Puts files that begin with the same event into one stream, whatever they are called, and finds out which streams may
/// have copies.
fn join_copies(streams: &mut Vec<LogStream>) {
    let mut joined: Vec<LogStream> = Vec::new();
    // The first stream that begins one of its files with an event.
    let mut begun: HashMap<(String, u64), usize> = HashMap::new();
    for stream in streams.drain(..) {
        let ids = stream.files.iter().flat_map(|file| &file.ids);
        let own: Vec<(String, u64)> = ids.map(|id| (stream.stream.cluster.clone(), *id)).collect();
        let twin = own.iter().filter_map(|id| begun.get(id)).min().copied();
        match twin.and_then(|twin| joined.get_mut(twin)) {
            Some(twin) => {
                twin.files.extend(stream.files);
                twin.files.sort_by(|a, b| (a.first, &a.path).cmp(&(b.first, &b.path)));
                twin.has_copies = true;
            }
            None => joined.push(stream),
        }
        let place = twin.unwrap_or(joined.len() - 1);
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
}

/// Whether a file begins well before the one before it ends, as far as ends can be looked at.
fn overlap(files: &[Source]) -> bool {
    files.len() > 1
        && files.windows(2).any(|two| match (two[0].last_time(), two[1].first) {
            (Some(last), Some(first)) => first < last - SLACK,
            _ => false,
        })
}

/// Takes out the pages that a wrong clock dated far away from all others. The time at which a file was copied says
/// nothing of that.
fn set_stray_aside(found: &mut Discovery) {
    let is_dated = |page: &PageFile| matches!(page.clock, Clock::Name | Clock::Samples);
    let mut days = Days::default();
    found
        .pages
        .iter()
        .flat_map(|folder| &folder.pages)
        .filter(|page| is_dated(page))
        .for_each(|page| days.add(page.at));
    let kept = days.kept();
    for folder in &mut found.pages {
        let (pages, stray): (Vec<_>, Vec<_>) =
            folder.pages.drain(..).partition(|page| !is_dated(page) || kept.takes(page.at));
        folder.pages = pages;
        found.errors.extend(stray.into_iter().map(|page| SourceError::Stray { path: page.source.path, at: page.at }));
    }
    found.pages.retain(|folder| !folder.pages.is_empty());
}

/// Folders of pages, the pages of each by time.
fn in_order(folders: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)>) -> Vec<PageFolder> {
    let folder = |((cluster, _), (instance, mut pages)): (_, (String, Vec<PageFile>))| {
        pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
        PageFolder { cluster, instance, pages }
    };
    folders.into_iter().map(folder).collect()
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

/// Midnight (UTC) before the first event, or the first page where there is no log.
pub fn day(found: &Discovery) -> Option<Micros> {
    const DAY: Micros = 86_400_000_000;
    let first = found.streams.iter().flat_map(|s| &s.files).filter_map(|file| file.first).min();
    let first = first.or_else(|| found.pages.iter().flat_map(|folder| &folder.pages).map(|page| page.at).min())?;
    Some(first.div_euclid(DAY) * DAY)
}

/// Bundles around folders, as far as these were looked at: a folder may have thousands of files.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    around: HashMap<PathBuf, Option<Bundle>>,
    /// Where arguments lie, in full.
    roots: HashMap<String, PathBuf>,
    /// By argument and folder, as it was found: what files in it are part of.
    folders: HashMap<(String, PathBuf), Belonging>,
}

/// What a file is part of.
#[derive(Debug, Clone, Default)]
pub(super) struct Belonging {
    /// The bundle around it.
    pub bundle: Option<Bundle>,
    /// The cluster that the bundle, or a folder `cluster=NAME`, names.
    pub cluster: String,
    /// The folder that it lies in.
    pub folder: PathBuf,
    /// That of all of its stream, above the folders of its partitions.
    pub whole: PathBuf,
    /// The family (name without what rotation adds) of its stream.
    pub family: String,
    /// The instance that its folder names.
    pub instance: String,
}

impl Bundles {
    /// The bundle that a folder is in, or is.
    fn around(&mut self, folder: &Path) -> Option<Bundle> {
        let read = || {
            folder.ancestors().take(4).find_map(|above| {
                let text = std::fs::read_to_string(above.join("bundle.yaml")).ok()?;
                serde_yaml_ng::from_str(&text).ok()
            })
        };
        self.around.entry(folder.to_owned()).or_insert_with(read).clone()
    }

    /// Derives them from a file's path.
    pub(super) fn belongs(&mut self, place: &Place, argument: &str, from_folder: bool) -> Belonging {
        let Place::File(path) = place else {
            let folder = PathBuf::from(argument);
            return Belonging { whole: folder.clone(), folder, ..Belonging::default() };
        };
        let family = family(&path.file_name().unwrap_or_default().to_string_lossy());
        let key = (argument.to_owned(), path.parent().unwrap_or(Path::new("")).to_owned());
        if let Some(known) = self.folders.get(&key) {
            return Belonging { family, ..known.clone() };
        }
        let own = self.of_folder(&key.1, argument, from_folder);
        self.folders.insert(key, own.clone());
        Belonging { family, ..own }
    }

    /// What all files in a folder are part of.
    fn of_folder(&mut self, folder: &Path, argument: &str, from_folder: bool) -> Belonging {
        // In full, so that a bundle around a relative path is found.
        let file = std::path::absolute(folder.join("file")).unwrap_or_else(|_| folder.join("file"));
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let root = match self.roots.get(argument) {
            Some(root) => root.clone(),
            None => {
                let root = std::path::absolute(archive::place(Path::new(argument))).unwrap_or_default();
                self.roots.entry(argument.to_owned()).or_insert(root).clone()
            }
        };
        let root: PathBuf = root.components().collect();
        // Partitions of a log are no logs of their own, and no apiservers.
        let mut whole = folder.as_path();
        while is_partition(whole) && whole != root {
            whole = whole.parent().unwrap_or(Path::new(""));
        }
        let below_root = from_folder && whole != root;
        // What a folder is for says nothing of whose it is: `cp-1/audit` and `cp-1/metrics` are cp-1's.
        let is_plain = |path: &Path| PLAIN_FOLDERS.contains(&name(path).as_str());
        let mut owner = whole;
        while below_root && is_plain(owner) && owner != root && !owner.join("bundle.yaml").exists() {
            owner = owner.parent().unwrap_or(Path::new(""));
        }
        let is_owned = below_root && owner != whole && owner != root && !owner.join("bundle.yaml").exists();
        let known_place = whole.parent().is_some_and(|above| PLAIN_FOLDERS.contains(&name(above).as_str()));
        let instance = name(whole);
        let is_instance = (below_root || known_place) && !PLAIN_FOLDERS.contains(&instance.as_str());
        let instance = match (is_instance, is_owned) {
            (true, _) => instance,
            (false, true) => name(owner),
            (false, false) => String::new(),
        };
        let bundle = self.around(&folder);
        let cluster = bundle.as_ref().map(|bundle| bundle.cluster.clone()).filter(|name| !name.is_empty());
        let cluster = cluster.or_else(|| value_of(&folder, "cluster")).unwrap_or_default();
        let instance = value_of(&folder, "instance").unwrap_or(instance);
        let whole = whole.to_owned();
        Belonging { bundle, cluster, folder, whole, family: String::new(), instance }
    }
}

/// Whether a folder holds a part of a log, as exports to object stores have them: `date=2026-11-20`, `2026/11/20/09`.
fn is_partition(folder: &Path) -> bool {
    static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = "^20[0-9]{2}([-_]?(0[1-9]|1[0-2])([-_]?(0[1-9]|[12][0-9]|3[01])([-_T]?[012][0-9])?)?)?$";
        Regex::new(pattern).ok()
    });
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if name.split_once('=').is_some_and(|(key, _)| !key.is_empty()) {
        return true;
    }
    let is_short = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_digit());
    DATE.as_ref().is_some_and(|date| date.is_match(&name)) || is_short && folder.parent().is_some_and(is_partition)
}

/// What a folder `KEY=VALUE` around a file says, as in a URL.
fn value_of(folder: &Path, key: &str) -> Option<String> {
    let names = folder.ancestors().filter_map(|above| above.file_name()?.to_str());
    let value = names.filter_map(|name| name.split_once('=')).find(|(own, _)| *own == key)?.1;
    (value != NO_VALUE).then(|| decoded_path(value).into_owned())
}

/// How Hive calls a partition without a value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A log's name without what rotation and packing add to it.
pub(super) fn family(name: &str) -> String {
    static ROTATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        // lumberjack -2006-01-02T15-04-05.000 before the extension; logrotate .1 or -20060102 after it.
        let pattern = r"(?x) (-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9-]+(\.[0-9]+)?) | (\.(gz|zst|zstd))$
            | (\.[0-9]+)(\.(gz|zst|zstd))?$ | (-[0-9]{8}(-[0-9]+)?)(\.(gz|zst|zstd))?$";
        Regex::new(pattern).ok()
    });
    match &*ROTATION {
        Some(rotation) => {
            let stem = rotation.replace_all(name, "");
            stem.strip_suffix(".log").unwrap_or(&stem).to_owned()
        }
        None => name.to_owned(),
    }
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
    fn partitions_are_of_one_log() {
        let belongs = |path: &str| {
            let own = Bundles::default().belongs(&Place::File(PathBuf::from(path)), "/exports", true);
            (own.cluster, own.whole.display().to_string(), own.instance)
        };
        let is = |cluster: &str, folder: &str, instance: &str| (cluster.into(), folder.into(), instance.into());
        // As Firehose writes them, and as Hive reads them.
        assert_eq!(belongs("/exports/2026/11/20/09/a.gz"), is("", "/exports", ""));
        assert_eq!(belongs("/exports/cp-1/2026-11-20/a.gz"), is("", "/exports/cp-1", "cp-1"));
        assert_eq!(belongs("/exports/cluster=eu%2F1/instance=cp-2/date=2026-11-20/a"), is("eu/1", "/exports", "cp-2"));
        assert_eq!(
            belongs("/exports/cluster=__HIVE_DEFAULT_PARTITION__/cp-2/a"),
            is("", "/exports/cluster=__HIVE_DEFAULT_PARTITION__/cp-2", "cp-2")
        );
        // Numbers alone are apiservers, too.
        assert_eq!(belongs("/exports/01/audit.log"), is("", "/exports/01", "01"));
    }

    #[test]
    fn rotated_files_are_one_family() {
        for name in [
            "audit.log",
            "audit.log.gz",
            "audit-2026-11-20T09-37-56.438.log",
            "audit-2026-11-20T09-37-56.438.log.zst",
            "audit.log.1",
            "audit.log.12.gz",
            "audit.log-20261120",
            "audit.log-20261120.gz",
        ] {
            assert_eq!(family(name), "audit", "{name}");
        }
        assert_ne!(family("audit-master-0.log"), family("audit-master-1.log"));
    }
}
