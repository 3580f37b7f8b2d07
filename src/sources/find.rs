//! From what a person names (a path, a folder, a glob, `-`, a URL) to what there is to read: files found
//! and recognised, audit logs put together into streams, metrics pages by the folder they lie in.

use super::content::Content;
use super::open::{HEAD, Place, Source, SourceError, recognise};
use super::pages::{PageFile, PageFolder, time_in};
use crate::model::bundle::Bundle;
use crate::model::event::Stream;
use crate::model::time::{Micros, TimeParser};
use crate::sources::{audit, cgroup};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
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

/// Files that make up one log, in order.
#[derive(Debug)]
pub struct LogStream {
    /// Which apiserver's log it is.
    pub stream: Stream,
    /// Its files, oldest first.
    pub files: Vec<Source>,
}

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Audit logs.
    Logs,
    /// Metrics pages.
    Pages,
    /// Both.
    Both,
    /// etcd's database.
    Databases,
    /// Go profiles; `sources::pprof` finds them.
    Profiles,
    /// Dump pages of API Priority and Fairness, and what can be read beside them: logs and metrics pages.
    Dumps,
}

impl Wanted {
    fn wants(self, content: Content) -> bool {
        match content {
            Content::AuditLines | Content::AuditDocument => matches!(self, Self::Logs | Self::Both | Self::Dumps),
            Content::Metrics => matches!(self, Self::Pages | Self::Both | Self::Dumps),
            Content::Dump => self == Self::Dumps,
            Content::Database => self == Self::Databases,
            // An empty log is a log without events; a page is never empty.
            Content::Empty => matches!(self, Self::Logs | Self::Both),
            Content::Profile | Content::Other(_) => false,
        }
    }
}

/// What was found behind the arguments.
#[derive(Debug, Default)]
pub struct Found {
    /// The logs.
    pub streams: Vec<LogStream>,
    /// Clusters and instances of empty files in folders that are called as the logs are.
    pub empty_logs: Vec<(String, String)>,
    /// The metrics pages, by folder.
    pub pages: Vec<PageFolder>,
    /// Dump pages of API Priority and Fairness, by folder.
    pub dumps: Vec<PageFolder>,
    /// etcd's databases.
    pub databases: Vec<Source>,
    /// The bundle's description, from the first `bundle.yaml` that was met.
    pub bundle: Option<Bundle>,
    /// Files in folders that hold something else; they are left to other commands.
    pub other_files: usize,
    /// Folders that were named and hold no audit log, with the number of files looked at.
    pub without_logs: Vec<(String, usize)>,
    /// Inputs that could not be used.
    pub errors: Vec<SourceError>,
}

/// Finds the audit logs behind `arguments`. What can't be used is reported beside what can.
pub fn audit_logs(arguments: &[String]) -> Found {
    find(arguments, Wanted::Logs, 0)
}

/// Finds what is wanted behind `arguments`. What can't be used is reported beside what can. Pages from pipes
/// and URLs are taken `now`.
pub fn find(arguments: &[String], wanted: Wanted, now: Micros) -> Found {
    let mut found = Found::default();
    // (cluster, folder, family) → files: what belongs to one stream.
    let mut groups: BTreeMap<(String, PathBuf, String), Vec<(Source, String)>> = BTreeMap::new();
    let mut folders: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)> = BTreeMap::new();
    let mut dumps: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)> = BTreeMap::new();
    // (cluster, instance, family) of files without content.
    let mut empty: Vec<(String, String, String)> = Vec::new();
    // Files that are no pages, in folders that may have some.
    let mut odd: Vec<(PathBuf, bool, SourceError)> = Vec::new();
    for argument in arguments {
        let (files, from_folder) = match expand(argument) {
            Ok(found) => found,
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let looked_at = files.len();
        let (mut used, mut logs) = (0, 0);
        for file in files {
            let source = match recognise(&file) {
                Ok(source) => source,
                Err(error) => {
                    found.errors.push(error);
                    continue;
                }
            };
            let content = source.content;
            if !wanted.wants(content) || content == Content::Empty && from_folder {
                let looks = content.in_words();
                let error = SourceError::NotWanted { path: source.path.clone(), looks, wanted };
                if content == Content::Empty && from_folder {
                    let (bundle, _, family, instance) = belongs(&source.place, argument, from_folder);
                    empty.push((bundle.map(|bundle| bundle.cluster).unwrap_or_default(), instance, family));
                }
                if !from_folder {
                    found.errors.push(error);
                } else if matches!(wanted, Wanted::Pages | Wanted::Both)
                    && content != Content::Dump
                    && let Place::File(path) = &source.place
                    && let Some(certain) = page_name(path)
                {
                    let (_, folder, ..) = belongs(&source.place, argument, from_folder);
                    odd.push((folder, certain, error));
                } else {
                    found.other_files += 1;
                }
                continue;
            }
            used += 1;
            let (bundle, folder, family, instance) = belongs(&source.place, argument, from_folder);
            let cluster = bundle.as_ref().map(|b| b.cluster.clone()).unwrap_or_default();
            found.bundle = found.bundle.take().or(bundle);
            if content == Content::Database {
                found.databases.push(source);
            } else if matches!(content, Content::Metrics | Content::Dump) {
                let instance = if let Place::Url(url) = &source.place { host(url) } else { instance };
                let of = if content == Content::Dump { &mut dumps } else { &mut folders };
                of.entry((cluster, folder))
                    .or_insert_with(|| (instance, Vec::new()))
                    .1
                    .push(PageFile::new(source, now));
            } else {
                logs += 1;
                groups.entry((cluster, folder, family)).or_default().push((source, instance));
            }
        }
        if from_folder && used == 0 && !odd.iter().any(|(_, certain, _)| *certain) {
            found.errors.push(SourceError::NothingHere { folder: argument.clone(), files: looked_at, wanted });
        }
        if from_folder && logs == 0 && wanted == Wanted::Both {
            found.without_logs.push((argument.clone(), looked_at));
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
        found.streams.push(LogStream { stream: Stream { id, cluster, instance }, files });
    }
    found.pages = in_order(folders);
    found.dumps = in_order(dumps);
    found
}

/// Folders of pages, the pages of each by time.
fn in_order(folders: BTreeMap<(String, PathBuf), (String, Vec<PageFile>)>) -> Vec<PageFolder> {
    let folder = |((cluster, _), (instance, mut pages)): (_, (String, Vec<PageFile>))| {
        pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
        PageFolder { cluster, instance, pages }
    };
    folders.into_iter().map(folder).collect()
}

/// Whether a file is called like a metrics page: for certain if it lies in a folder `metrics` or is called so, not so certainly if it is called by a time.
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

/// From the first event seen at the start of any file to the last seen near the end of any; `None`
/// unless all can be read at any place.
pub fn span(found: &Found) -> Option<Micros> {
    let files = || found.streams.iter().flat_map(|s| &s.files);
    let first = files().filter_map(|file| file.first).min()?;
    let last = files().map(last_time).collect::<Option<Vec<_>>>()?.into_iter().max()?;
    (last > first).then_some(last - first)
}

/// Midnight (UTC) before the first event, or the first page where there is no log.
pub fn day(found: &Found) -> Option<Micros> {
    const DAY: Micros = 86_400_000_000;
    let first = found.streams.iter().flat_map(|s| &s.files).filter_map(|file| file.first).min();
    let first = first.or_else(|| found.pages.iter().flat_map(|folder| &folder.pages).map(|page| page.at).min())?;
    Some(first.div_euclid(DAY) * DAY)
}

/// The time of the last event in the last part of a file that can be read at any place.
fn last_time(source: &Source) -> Option<Micros> {
    use std::io::{Seek, SeekFrom};
    let Place::File(path) = &source.place else { return None };
    if !source.is_seekable() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(source.size.saturating_sub(HEAD as u64))).ok()?;
    let mut tail = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut tail).ok()?;
    let mut last = None;
    for line in tail.split(|&b| b == b'\n') {
        audit::read_line(line, &mut |event| last = last.max(TimeParser::default().parse_json(event.at)));
    }
    last
}

/// Whether an argument is a URL.
pub fn is_url(argument: &str) -> bool {
    argument.starts_with("http://") || argument.starts_with("https://")
}

/// Whether an argument is asked for what is now, rather than read from files.
pub fn is_live(argument: &str) -> bool {
    is_url(argument) || cgroup::is_live(Path::new(argument))
}

/// The files that an argument names, and whether it named a folder.
pub fn expand(argument: &str) -> Result<(Vec<Place>, bool), SourceError> {
    if argument == "-" {
        return Ok((vec![Place::Once(PathBuf::from("/dev/stdin"))], false));
    }
    if is_url(argument) {
        return Ok((vec![Place::Url(argument.to_owned())], false));
    }
    let path = Path::new(argument);
    let io = |error| SourceError::Io { path: argument.to_owned(), error };
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            let mut files = Vec::new();
            walk(path, &mut files, 0).map_err(io)?;
            files.sort();
            Ok((files.into_iter().map(Place::File).collect(), true))
        }
        Ok(meta) if meta.is_file() => Ok((vec![Place::File(path.to_owned())], false)),
        Ok(_) => Ok((vec![Place::Once(path.to_owned())], false)),
        Err(_) if argument.contains(['*', '?', '[']) => {
            let matches = glob::glob(argument).map_err(|bad| io(io::Error::other(bad.to_string())))?;
            let mut files: Vec<PathBuf> = matches.filter_map(Result::ok).filter(|p| p.is_file()).collect();
            files.sort();
            if files.is_empty() {
                return Err(SourceError::NoMatch(argument.to_owned()));
            }
            Ok((files.into_iter().map(Place::File).collect(), false))
        }
        Err(error) => Err(io(error)),
    }
}

/// All regular files below `folder`; hidden ones and links to folders are left out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, depth: u8) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth < 16 {
            walk(&entry.path(), files, depth + 1)?;
        } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The bundle around a file, the folder and family of its stream, and the instance its folder names.
pub(super) fn belongs(place: &Place, argument: &str, from_folder: bool) -> (Option<Bundle>, PathBuf, String, String) {
    let Place::File(path) = place else {
        return (None, PathBuf::from(argument), String::new(), String::new());
    };
    // In full, so that a bundle around a relative path is found.
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let family = family(&path.file_name().unwrap_or_default().to_string_lossy());
    let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let root = std::path::absolute(argument).unwrap_or_default();
    let below_root = from_folder && folder != root.components().collect::<PathBuf>();
    let known_place = folder.parent().is_some_and(|above| PLAIN_FOLDERS.contains(&name(above).as_str()));
    let instance = name(&folder);
    let is_instance = (below_root || known_place) && !PLAIN_FOLDERS.contains(&instance.as_str());
    let instance = if is_instance { instance } else { String::new() };
    let bundle = folder.ancestors().take(4).find_map(|above| {
        let text = std::fs::read_to_string(above.join("bundle.yaml")).ok()?;
        serde_yaml_ng::from_str(&text).ok()
    });
    (bundle, folder, family, instance)
}

/// A log's name without what rotation and packing add to it.
pub(super) fn family(name: &str) -> String {
    static ROTATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        // lumberjack -2006-01-02T15-04-05.000 before the extension; logrotate .1 or -20060102 after it.
        Regex::new(r"(?x) (-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9-]+(\.[0-9]+)?) | (\.(gz|zst|zstd))$ | (\.[0-9]+)(\.(gz|zst|zstd))?$ | (-[0-9]{8}(-[0-9]+)?)(\.(gz|zst|zstd))?$").ok()
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
