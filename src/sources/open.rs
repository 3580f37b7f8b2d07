//! From what a person names (a path, a folder, a glob, `-`, a URL) to the files to read: found,
//! recognised by content, and put together into streams.

use crate::model::bundle::Bundle;
use crate::model::event::Stream;
use crate::model::time::{Micros, TimeParser};
use crate::sources::audit;
use crate::sources::split::Splitter;
use regex::Regex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// How much of a file is looked at to tell what it is.
pub(super) const HEAD: usize = 64 << 10;

/// Folder names that say what lies in them, not which apiserver wrote it.
const PLAIN_FOLDERS: [&str; 9] = ["audit", "audits", "log", "logs", "apiserver", "kube-apiserver", "kubernetes", "forms", "damage"];

/// An input that could not be opened or is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system would not open or read it.
    #[error("{path}: {error}{}", hint(error))]
    Io {
        /// What was to be read.
        path: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// A glob that matches nothing.
    #[error("{0}: no file matches this pattern")]
    NoMatch(String),
    /// A file that holds something else.
    #[error(
        "{path}: not an audit log ({looks}); plimsoll traffic reads audit logs as JSON lines, EventLists, or the exports of EKS, GKE and AKS"
    )]
    NotAudit {
        /// The file.
        path: String,
        /// What it looks like.
        looks: &'static str,
    },
    /// A folder without any audit log.
    #[error("{0}: no audit log in this folder (looked at {1} files); is audit logging on, and does its policy log anything?")]
    NothingHere(String, usize),
    /// URLs need the `live` feature.
    #[error("{0}: this plimsoll was built without the 'live' feature and can't read URLs; download it and name the file")]
    NoUrls(String),
}

/// What to do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; check the path, or put a pattern in quotes",
        io::ErrorKind::PermissionDenied => "; audit logs mostly belong to root: run as root, or copy the file",
        _ => "",
    }
}

/// What a file holds, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Audit events, one line or one wrapper at a time.
    AuditLines,
    /// A JSON document over several lines, or several on one line.
    AuditDocument,
    /// Nothing at all.
    Empty,
    /// Something else, in words.
    Other(&'static str),
}

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all: it can be read at any place.
    None,
    /// gzip, possibly several members.
    Gzip,
    /// Zstandard, possibly several frames.
    Zstd,
}

/// Where the bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A regular file.
    File(PathBuf),
    /// Standard input, or something else that can be read only once.
    Once(PathBuf),
    /// An HTTP or HTTPS URL.
    Url(String),
}

/// One input, recognised.
#[derive(Debug)]
pub struct Source {
    /// How it is named in messages.
    pub path: String,
    /// Where its bytes are.
    pub place: Place,
    /// Bytes on disk; 0 where not known.
    pub size: u64,
    /// How it is packed.
    pub packing: Packing,
    /// What it holds.
    pub content: Content,
    /// The first event's time, if one was seen in the head.
    pub(super) first: Option<Micros>,
    /// What was read to recognise an input that can be read only once.
    head: Vec<u8>,
    rest: Option<Box<dyn ReadSend>>,
}

trait ReadSend: Read + Send + Sync {}
impl<T: Read + Send + Sync> ReadSend for T {}

impl std::fmt::Debug for dyn ReadSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a reader")
    }
}

/// Files that make up one log, in order.
#[derive(Debug)]
pub struct LogStream {
    /// Which apiserver's log it is.
    pub stream: Stream,
    /// Its files, oldest first.
    pub files: Vec<Source>,
}

/// What was found behind the arguments.
#[derive(Debug, Default)]
pub struct Found {
    /// The logs.
    pub streams: Vec<LogStream>,
    /// The bundle's description, from the first `bundle.yaml` that was met.
    pub bundle: Option<Bundle>,
    /// Files in folders that hold something else; they are left to other commands.
    pub other_files: usize,
    /// Inputs that could not be used.
    pub errors: Vec<SourceError>,
}

/// Finds the audit logs behind `arguments`. What can't be used is reported beside what can.
pub fn audit_logs(arguments: &[String]) -> Found {
    let mut found = Found::default();
    // (cluster, folder, family) → files: what belongs to one stream.
    let mut groups: BTreeMap<(String, PathBuf, String), Vec<(Source, String)>> = BTreeMap::new();
    for argument in arguments {
        let (files, from_folder) = match expand(argument) {
            Ok(found) => found,
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let looked_at = files.len();
        let mut used = 0;
        for file in files {
            let source = match recognise(&file) {
                Ok(source) => source,
                Err(error) => {
                    found.errors.push(error);
                    continue;
                }
            };
            match source.content {
                Content::Other(looks) if !from_folder => {
                    found.errors.push(SourceError::NotAudit { path: source.path, looks });
                    continue;
                }
                Content::Other(_) | Content::Empty if from_folder => {
                    found.other_files += 1;
                    continue;
                }
                _ => used += 1,
            }
            let (bundle, folder, family, instance) = belongs(&source.place, argument, from_folder);
            let cluster = bundle.as_ref().map(|b| b.cluster.clone()).unwrap_or_default();
            found.bundle = found.bundle.take().or(bundle);
            groups.entry((cluster, folder, family)).or_default().push((source, instance));
        }
        if from_folder && used == 0 {
            found.errors.push(SourceError::NothingHere(argument.clone(), looked_at));
        }
    }
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
    found
}

/// From the first event seen at the start of any file to the last seen near the end of any; `None`
/// unless all can be read at any place.
pub fn span(found: &Found) -> Option<Micros> {
    let files = || found.streams.iter().flat_map(|s| &s.files);
    let first = files().filter_map(|file| file.first).min()?;
    let last = files().map(last_time).collect::<Option<Vec<_>>>()?.into_iter().max()?;
    (last > first).then_some(last - first)
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

/// The files that an argument names, and whether it named a folder.
pub(super) fn expand(argument: &str) -> Result<(Vec<Place>, bool), SourceError> {
    if argument == "-" {
        return Ok((vec![Place::Once(PathBuf::from("/dev/stdin"))], false));
    }
    if argument.starts_with("http://") || argument.starts_with("https://") {
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

/// Looks at the start of an input to tell what it holds.
pub fn recognise(place: &Place) -> Result<Source, SourceError> {
    let path = match place {
        Place::Once(path) if path == Path::new("/dev/stdin") => "-".to_owned(),
        Place::File(path) | Place::Once(path) => path.display().to_string(),
        Place::Url(url) => url.clone(),
    };
    let io = |error| SourceError::Io { path: path.clone(), error };
    let mut raw = open_raw(place, &path)?;
    let mut head = Vec::new();
    raw.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(io)?;
    let packing = match head.as_slice() {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => Packing::None,
    };
    let mut plain = Vec::new();
    match packing {
        Packing::None => plain.clone_from(&head),
        // A damaged stream shows what it can: whoever reads it meets the damage again and says so.
        _ => drop(unpack(packing, Cursor::new(&head)).map(|r| r.take(HEAD as u64).read_to_end(&mut plain))),
    }
    let (content, first) = look(&plain);
    let (size, keep) = match place {
        Place::File(path) => (std::fs::metadata(path).map_err(io)?.len(), false),
        _ => (0, true),
    };
    Ok(Source {
        path: path.clone(),
        place: place.clone(),
        size,
        packing,
        content,
        first,
        head: if keep { head } else { Vec::new() },
        rest: keep.then_some(raw),
    })
}

fn open_raw(place: &Place, path: &str) -> Result<Box<dyn ReadSend>, SourceError> {
    match place {
        Place::Once(path) if path == Path::new("/dev/stdin") => Ok(Box::new(io::stdin())),
        Place::File(file) | Place::Once(file) => {
            let file = File::open(file).map_err(|error| SourceError::Io { path: path.to_owned(), error })?;
            Ok(Box::new(file))
        }
        Place::Url(url) => open_url(url),
    }
}

#[cfg(feature = "live")]
fn open_url(url: &str) -> Result<Box<dyn ReadSend>, SourceError> {
    let agent = ureq::Agent::config_builder().user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))).build().new_agent();
    let response = agent.get(url).call().map_err(|error| SourceError::Io { path: url.to_owned(), error: io::Error::other(error) })?;
    Ok(Box::new(response.into_body().into_reader()))
}

#[cfg(not(feature = "live"))]
fn open_url(url: &str) -> Result<Box<dyn ReadSend>, SourceError> {
    Err(SourceError::NoUrls(url.to_owned()))
}

/// What `head` is the start of, and the time of the first event in it.
pub(super) fn look(head: &[u8]) -> (Content, Option<Micros>) {
    if head.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
        return (if head.is_empty() { Content::Empty } else { Content::AuditLines }, None);
    }
    let text = head.trim_ascii_start();
    let line_end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let mut first = None;
    let mut events = 0;
    // The first whole line may be damaged: look at a few.
    for line in text.split(|&b| b == b'\n').take(8) {
        audit::read_line(line, &mut |event| {
            events += 1;
            first = first.or_else(|| TimeParser::default().parse_json(event.at));
        });
    }
    let mentions = |what: &[u8]| memchr::memmem::find(text, what).is_some();
    let is_json = text.starts_with(b"{") || text.starts_with(b"[");
    let is_audit = events > 0 || is_json && mentions_audit(&mentions);
    if is_audit {
        // One JSON value to a line, unless the first line plainly is not one.
        let lines = events > 0 && !text.starts_with(b"[") && !runs_together(&text[..line_end]);
        let starts_value = text.starts_with(b"{") || text.starts_with(b"[");
        let first_line = text[..line_end].trim_ascii_end();
        let open_ended = matches!(first_line.last(), Some(b'{' | b'[' | b','));
        let document = starts_value
            && (!lines || runs_together(first_line))
            && (open_ended || text.starts_with(b"[") || line_end == text.len() || runs_together(first_line));
        return (if document { Content::AuditDocument } else { Content::AuditLines }, first);
    }
    let looks = if text.starts_with(b"# HELP") || text.starts_with(b"# TYPE") {
        "it looks like Prometheus metrics"
    } else if text.get(16..20) == Some(&[0xed, 0xda, 0x0c, 0xed]) || head.get(16..20) == Some(&[0xed, 0xda, 0x0c, 0xed]) {
        "it looks like an etcd snapshot"
    } else if text.starts_with(b"{") || text.starts_with(b"[") {
        "it is JSON without audit events"
    } else if std::str::from_utf8(&head[..head.len().min(512)]).is_ok_and(|t| !t.contains('\0')) {
        "it is text without audit events"
    } else {
        "it is binary data"
    };
    (Content::Other(looks), None)
}

/// Whether JSON text names what only audit events, or wrappers of them, hold.
fn mentions_audit(mentions: &impl Fn(&[u8]) -> bool) -> bool {
    mentions(b"audit.k8s.io/") || mentions(b"\"auditID\"") || mentions(br#"\"auditID\""#) || mentions(b"google.cloud.audit.AuditLog")
}

/// Whether JSON objects follow one another without a newline.
fn runs_together(line: &[u8]) -> bool {
    line.starts_with(b"{")
        && crate::model::walk::skip_value(line, 0).is_some_and(|(end, _)| line[end..].trim_ascii_start().starts_with(b"{"))
}

/// Unpacks `reader`.
pub fn unpack<'r>(packing: Packing, reader: impl Read + Send + 'r) -> io::Result<Box<dyn Read + Send + 'r>> {
    Ok(match packing {
        Packing::None => Box::new(reader),
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(128 << 10, reader))),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(reader)?),
    })
}

impl Source {
    /// Whether it can be read at any place, by several threads.
    pub fn is_seekable(&self) -> bool {
        matches!(self.place, Place::File(_)) && self.packing == Packing::None && self.content != Content::AuditDocument
    }

    /// Its bytes, unpacked; of a JSON document, its values a line each. Inputs that can be read only
    /// once give their bytes to the first who asks.
    pub fn reader(&mut self) -> Result<Box<dyn Read + Send>, SourceError> {
        let io = |error| SourceError::Io { path: self.path.clone(), error };
        let raw: Box<dyn Read + Send> = match self.rest.take() {
            Some(rest) => Box::new(Cursor::new(std::mem::take(&mut self.head)).chain(rest)),
            None => Box::new(open_raw(&self.place, &self.path)?),
        };
        let plain = unpack(self.packing, raw).map_err(io)?;
        Ok(match self.content {
            Content::AuditDocument => Box::new(Splitter::new(plain)),
            _ => plain,
        })
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
