//! Captures of a cluster's objects: the files of one folder, or those that a person names.

use crate::model::input::InputReport;
use crate::model::objects::Objects;
use crate::model::problem::{Problem, ProblemKind};
use crate::model::time::{DAY, Micros};
use crate::sources::arguments::expand;
use crate::sources::belonging::{Belonging, Bundles};
use crate::sources::clock;
use crate::sources::content::Content;
use crate::sources::objects::{TEMPLATE, head, is_template, read, whole};
use crate::sources::open::{Place, Source, SourceError, recognise};
use crate::sources::pages::time_in;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Bytes of a file that are read: the pods of a cluster with 35,000 are some 300 MB.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// How much of a file is looked at to see whether it holds objects.
const HEAD: u64 = 4 << 10;

/// A file whose objects can't be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is what a tool makes objects of.
    #[error("{path}: {TEMPLATE}")]
    Template {
        /// The file.
        path: String,
    },
    /// It is not JSON or YAML, or an object in it is not as it should be.
    #[error("{path}: {what}; take it with kubectl get KIND -A -o json")]
    Malformed {
        /// The file.
        path: String,
        /// Where and what.
        what: Problem,
    },
}

/// The objects of one cluster at one time.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// The cluster, as its bundle names it; else empty.
    pub cluster: String,
    /// When they were taken, by the name of the folder or file, else by when the file was written.
    pub at: Micros,
    /// Whether the name of a folder or file says so: then it is one of several that were taken one after the other.
    pub is_dated: bool,
    /// The folder that they lie in; of files that were named one by one, the first.
    pub path: String,
    pub objects: Arc<Objects>,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Captures {
    /// By cluster and time.
    pub captures: Vec<Capture>,
    /// The files that were read.
    pub inputs: Vec<InputReport>,
    /// What can't be read.
    pub errors: Vec<Arc<CaptureError>>,
}

/// 2014-06-06, the day of Kubernetes' first commit.
const KUBERNETES: Micros = 16_227 * DAY;

/// Finds and reads objects in the files and folders among `arguments`. A file that is named, but holds something else,
/// is left to others.
pub fn find(arguments: &[String]) -> Captures {
    let mut all = Captures::default();
    // A capture is what lies in one folder under one time.
    let mut captures: BTreeMap<CaptureKey, (String, Objects)> = BTreeMap::new();
    // Those that no name dates.
    let mut undated: HashSet<CaptureKey> = HashSet::new();
    let mut files = Vec::new();
    let mut bundles = Bundles::default();
    for argument in arguments.iter().filter(|argument| *argument == "-" || !argument.contains("://")) {
        // What is wrong with an argument is taken from whoever looks for other things in it.
        let Ok((places, from_folder)) = expand(argument) else { continue };
        for place in places {
            let Ok(mut source) = recognise(&place) else { continue };
            if source.content == Content::CUT && from_folder && is_called_so(&place) {
                all.errors.push(Arc::new(SourceError::Cut(source.path).into()));
                continue;
            }
            if !matches!(source.content, Content::Other(_) | Content::AuditDocument) || !looks_so(&mut source) {
                continue;
            }
            let Belonging { cluster, folder, .. } = bundles.belongs(&place, argument, from_folder);
            let name = Path::new(&source.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "bundle.yaml" {
                continue;
            }
            let above = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let named = [name, above].iter().find_map(|name| time_in(name));
            let at = named.or_else(|| modified(&place)).unwrap_or_else(clock::now);
            // What a person names one by one is one capture.
            let folder = if from_folder { folder } else { PathBuf::new() };
            files.push(ObjectFile { cluster, folder, at, is_dated: named.is_some(), source });
        }
    }
    // An object that several files of a capture have is one, as it was last.
    let mut met: HashMap<CaptureKey, HashSet<u64>> = HashMap::new();
    let mut newest_first: Vec<(usize, ObjectFile)> = files.into_iter().enumerate().collect();
    newest_first.sort_by_key(|(_, file)| std::cmp::Reverse(file.at));
    let mut read: BTreeMap<usize, (Option<InputReport>, Option<CaptureError>)> = BTreeMap::new();
    for (number, mut file) in newest_first {
        let is_named = file.folder.as_os_str().is_empty();
        let of = (file.cluster.clone(), file.folder.clone(), if is_named { 0 } else { file.at });
        let met = met.entry(of).or_default();
        let mut objects = Objects { met: std::mem::take(met), ..Objects::default() };
        let taken = file.take(&mut objects);
        *met = std::mem::take(&mut objects.met);
        if taken.0.as_ref().is_some_and(|input| input.records > 0 || input.skipped == 0) {
            let ObjectFile { cluster, folder, at, is_dated, source } = file;
            let around = Path::new(&source.path).parent().filter(|_| !is_named);
            let place = around.map_or_else(|| source.path.clone(), |folder| folder.display().to_string());
            let key = (cluster, folder, at);
            if !is_dated && !is_named {
                undated.insert(key.clone());
            }
            let (_, all) = captures.entry(key).or_insert((place, Objects::default()));
            all.merge(objects);
        }
        read.insert(number, taken);
    }
    for (input, error) in read.into_values() {
        all.inputs.extend(input);
        all.errors.extend(error.map(Arc::new));
    }
    let captures = together(captures, &undated, met);
    // Files that are named one by one carry times of their own: the latest is the capture's.
    let mut named: BTreeMap<String, (String, Micros, Objects)> = BTreeMap::new();
    let capture = |cluster, (at, is_dated), path, mut objects: Objects| {
        objects.settle();
        Capture { cluster, at, is_dated, path, objects: Arc::new(objects) }
    };
    for ((cluster, folder, at), (path, objects)) in captures {
        if folder.as_os_str().is_empty() {
            let (_, latest, all) = named.entry(cluster).or_insert_with(|| (path, at, Objects::default()));
            *latest = at.max(*latest);
            all.merge(objects);
        } else {
            let is_dated = !undated.contains(&(cluster.clone(), folder, at));
            all.captures.push(capture(cluster, (at, is_dated), path, objects));
        }
    }
    all.captures
        .extend(named.into_iter().map(|(cluster, (path, at, objects))| capture(cluster, (at, false), path, objects)));
    all.captures.sort_by(|a, b| (&a.cluster, a.at).cmp(&(&b.cluster, b.at)));
    set_stray_aside(&mut all);
    all
}

/// Takes out captures that are named by a time before there was Kubernetes, unless all are: a clock was not set. Others
/// may be as far apart as anybody wants.
fn set_stray_aside(all: &mut Captures) {
    let is_stray = |capture: &mut Capture| capture.is_dated && capture.at < KUBERNETES;
    if all.captures.iter_mut().all(is_stray) {
        return;
    }
    for Capture { path, at, .. } in all.captures.extract_if(.., is_stray) {
        all.errors.push(Arc::new(SourceError::Stray { path, at }.into()));
    }
}

/// Cluster, folder (none for files that are named one by one), time.
type CaptureKey = (String, PathBuf, Micros);

/// Makes one capture of files of a folder that were written one after the other, as by a loop over namespaces or kinds,
/// and have no object in common. The time of the last one is the capture's.
fn together(
    captures: BTreeMap<CaptureKey, (String, Objects)>,
    undated: &HashSet<CaptureKey>,
    mut met: HashMap<CaptureKey, HashSet<u64>>,
) -> BTreeMap<CaptureKey, (String, Objects)> {
    let mut all: Vec<(CaptureKey, (String, Objects))> = Vec::with_capacity(captures.len());
    // The objects of the last one.
    let mut last: HashSet<u64> = HashSet::new();
    for (key, (place, objects)) in captures {
        let own = if undated.contains(&key) { met.remove(&key).unwrap_or_default() } else { HashSet::new() };
        match all.last_mut() {
            Some((before, (_, into)))
                if undated.contains(&key)
                    && undated.contains(before)
                    && (&before.0, &before.1) == (&key.0, &key.1)
                    && own.is_disjoint(&last) =>
            {
                *before = key;
                into.merge(objects);
                last.extend(own);
            }
            _ => {
                all.push((key, (place, objects)));
                last = own;
            }
        }
    }
    all.into_iter().collect()
}

/// Whether a file of which nothing can be unpacked is called as files of objects are.
fn is_called_so(place: &Place) -> bool {
    let Place::File(path) = place else { return false };
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    [".json", ".yaml", ".yml"].iter().any(|ending| name.contains(ending))
}

/// A file of objects.
struct ObjectFile {
    cluster: String,
    /// That it lies in; empty of one that is named.
    folder: PathBuf,
    at: Micros,
    /// Whether its name, or its folder's, says when it was taken.
    is_dated: bool,
    source: Source,
}

impl ObjectFile {
    /// Takes its objects; what was read, and what is wrong with it. Of an audit log neither: whoever reads logs
    /// reports its damage.
    fn take(&mut self, objects: &mut Objects) -> (Option<InputReport>, Option<CaptureError>) {
        let path = self.source.path.clone();
        let bytes = match bytes(&mut self.source) {
            Ok(bytes) => bytes,
            Err(error) => return (None, Some(error)),
        };
        let mut taken = read::objects(&bytes, objects);
        let broken = taken.broken.take();
        let is_none = broken.is_some() || taken.objects == 0 && !taken.skipped.is_empty();
        if is_none && self.source.content == Content::AuditDocument {
            return (None, None);
        }
        let (records, skipped) = (taken.objects, taken.skipped.len() as u64 + u64::from(broken.is_some()));
        let error = broken.or_else(|| taken.problem()).map(|what| match is_template(&bytes, &what.to_string()) {
            true => CaptureError::Template { path: path.clone() },
            false => CaptureError::Malformed { path: path.clone(), what },
        });
        let first_error = error.as_ref().map(ToString::to_string);
        let input = InputReport { path, kind: "objects", bytes: bytes.len() as u64, records, skipped, first_error };
        (Some(input), error)
    }
}

/// Whether the start of a file says that it holds Kubernetes objects.
fn looks_so(source: &mut Source) -> bool {
    if !matches!(source.place, Place::File(_)) {
        return source.content != Content::AuditDocument;
    }
    let Some(head) = head(source, HEAD) else { return false };
    let has = |words: &[u8]| memchr::memmem::find(&head, words).is_some();
    // Some write the items of a list before they say what it is.
    let is_list =
        |source: &mut Source| whole(source, MAX_FILE_BYTES).ok().flatten().is_some_and(|bytes| read::is_list(&bytes));
    // An EventList of an audit log is one, too; it is a log.
    let is_json = matches!(head.trim_ascii_start().first(), Some(b'{' | b'['));
    // A program may hold these words, too.
    let has_key = || head.split(|byte| *byte == b'\n').any(|line| is_key(line, b"apiVersion:"));
    let is_named = has(b"apiVersion") && (has(b"kind") || has(b"items")) && (is_json || has_key());
    let begins_with_items = || head.trim_ascii_start().starts_with(b"{") && has(b"\"items\"");
    // An object may mention audit events in its text, as a policy for them does that lies in a ConfigMap.
    let is_log = is_json && has(b"\"audit.k8s.io/");
    !is_log && (is_named || begins_with_items() && is_list(source))
}

/// Whether a line of YAML begins with a key, of a list's item perhaps.
fn is_key(line: &[u8], key: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"- ").unwrap_or(line).trim_ascii_start().starts_with(key)
}

fn modified(place: &Place) -> Option<Micros> {
    let Place::File(path) = place else { return None };
    let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

fn bytes(source: &mut Source) -> Result<Vec<u8>, CaptureError> {
    whole(source, MAX_FILE_BYTES)?.ok_or_else(|| CaptureError::Malformed {
        path: source.path.clone(),
        what: Problem::new(ProblemKind::TooLarge, "longer than 2 GiB"),
    })
}
