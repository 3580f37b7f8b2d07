//! Captures of a cluster's objects: the files of one folder, or those that a person names.

use crate::model::input::InputReport;
use crate::model::objects::Objects;
use crate::model::problem::{Problem, ProblemKind};
use crate::model::time::Micros;
use crate::sources::arguments::expand;
use crate::sources::belonging::{Belonging, Bundles};
use crate::sources::content::Content;
use crate::sources::objects::{TEMPLATE, head, is_template, read, whole};
use crate::sources::open::{Place, Source, SourceError, recognise};
use crate::sources::pages::time_in;
use std::collections::BTreeMap;
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

/// Finds and reads objects in the files and folders among `arguments`. A file that is named, but holds something else,
/// is left to others.
pub fn find(arguments: &[String]) -> Captures {
    let mut all = Captures::default();
    // (cluster, folder or nothing, time) → objects: a capture is what lies in one folder under one time.
    let mut captures: BTreeMap<(String, PathBuf, Micros), (String, Objects)> = BTreeMap::new();
    let mut bundles = Bundles::default();
    for argument in arguments.iter().filter(|argument| *argument == "-" || !argument.contains("://")) {
        // What is wrong with an argument is taken from whoever looks for other things in it.
        let Ok((files, from_folder)) = expand(argument) else { continue };
        for place in files {
            let Ok(mut source) = recognise(&place) else { continue };
            if !matches!(source.content, Content::Other(_) | Content::AuditDocument) || !looks_so(&mut source) {
                continue;
            }
            let Belonging { cluster, folder, .. } = bundles.belongs(&place, argument, from_folder);
            let path = source.path.clone();
            let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "bundle.yaml" {
                continue;
            }
            let above = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let at =
                [name, above].iter().find_map(|name| time_in(name)).or_else(|| modified(&place)).unwrap_or_default();
            // What a person names one by one is one capture.
            let folder = if from_folder { folder } else { PathBuf::new() };
            match bytes(&mut source) {
                Ok(bytes) => {
                    let mut objects = Objects::default();
                    let read = read::objects(&bytes, &mut objects);
                    let is_read = read.is_ok();
                    let (records, skipped, first_error) = match read {
                        Ok(taken) => {
                            let (records, skipped) = (taken.objects, taken.skipped.len() as u64);
                            let error = |what| CaptureError::Malformed { path: path.clone(), what };
                            let error = taken.problem().map(error).map(Arc::new);
                            let text = error.as_ref().map(ToString::to_string);
                            all.errors.extend(error);
                            (records, skipped, text)
                        }
                        // It is an audit log, whose damage whoever reads logs reports.
                        Err(_) if source.content == Content::AuditDocument => continue,
                        Err(what) => {
                            let is_template = is_template(&bytes, &what.to_string());
                            let path = path.clone();
                            let error = if is_template {
                                CaptureError::Template { path }
                            } else {
                                CaptureError::Malformed { path, what }
                            };
                            let text = error.to_string();
                            all.errors.push(Arc::new(error));
                            (0, 1, Some(text))
                        }
                    };
                    if is_read {
                        let around = Path::new(&path).parent().filter(|_| from_folder);
                        let place = around.map_or_else(|| path.clone(), |folder| folder.display().to_string());
                        let (_, all) = captures.entry((cluster, folder, at)).or_insert((place, Objects::default()));
                        merge(all, objects);
                    }
                    all.inputs.push(InputReport {
                        path,
                        kind: "objects",
                        bytes: bytes.len() as u64,
                        records,
                        skipped,
                        first_error,
                    });
                }
                Err(error) => all.errors.push(Arc::new(error)),
            }
        }
    }
    // Files that are named one by one carry times of their own: the latest is the capture's.
    let mut named: BTreeMap<String, (String, Micros, Objects)> = BTreeMap::new();
    let capture = |cluster, at, path, mut objects: Objects| {
        objects.settle();
        Capture { cluster, at, path, objects: Arc::new(objects) }
    };
    for ((cluster, folder, at), (path, objects)) in captures {
        if folder.as_os_str().is_empty() {
            let (_, latest, all) = named.entry(cluster).or_insert_with(|| (path, at, Objects::default()));
            *latest = at.max(*latest);
            merge(all, objects);
        } else {
            all.captures.push(capture(cluster, at, path, objects));
        }
    }
    all.captures.extend(named.into_iter().map(|(cluster, (path, at, objects))| capture(cluster, at, path, objects)));
    all.captures.sort_by(|a, b| (&a.cluster, a.at).cmp(&(&b.cluster, b.at)));
    all
}

/// Takes in the objects of another file.
fn merge(into: &mut Objects, from: Objects) {
    #[rustfmt::skip]
    let Objects {
        namespaces, quotas, limit_ranges, pods, workloads, nodes, claims, services, webhooks, counts, old_writings,
        kinds,
    } = from;
    into.namespaces.extend(namespaces);
    into.quotas.extend(quotas);
    into.limit_ranges.extend(limit_ranges);
    into.pods.extend(pods);
    into.workloads.extend(workloads);
    into.nodes.extend(nodes);
    into.claims.extend(claims);
    into.services.extend(services);
    into.webhooks.extend(webhooks);
    counts.into_iter().for_each(|(key, count)| *into.counts.entry(key).or_default() += count);
    into.old_writings.extend(old_writings);
    into.kinds.extend(kinds);
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
    let is_named = has(b"apiVersion") && (has(b"kind") || has(b"items"));
    let begins_with_items = || head.trim_ascii_start().starts_with(b"{") && has(b"\"items\"");
    !has(b"audit.k8s.io") && (is_named || begins_with_items() && is_list(source))
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
