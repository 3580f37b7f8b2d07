//! Audit events that apiservers post (the webhook backend's EventList): appended to a log in the store's folder, which
//! is read on like any other. An answer of 200 means that they are on disk.

use super::is_plain_name;
use crate::actions::fresh;
use crate::actions::web::WebAnswer;
use crate::cli::Error;
use crate::inputs::recording::failed;
use crate::sources::clock;
use crate::sources::open::{Place, recognise};
use crate::sources::piece::identity;
use crate::sources::store::Store;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Folder in the store's; hidden, since it is no source of its own.
const FOLDER: &str = ".posted";

/// The log that is being written.
const CURRENT: &str = "audit.log";

/// A log is put aside from this size on, and removed when the store holds it.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// Events that are remembered, so that a batch that is posted again counts once.
const REMEMBERED: usize = 200_000;

/// Who posts where nobody says: the apiserver's name in the path.
const NAMELESS: &str = "webhook";

/// Longest name of an apiserver.
const MAX_NAME_BYTES: usize = 63;

/// The batch that an apiserver posts.
#[derive(Deserialize)]
struct EventList<'a> {
    kind: &'a str,
    /// `null` of none, as Go writes an empty slice.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// What was posted.
pub(super) struct Posted {
    folder: PathBuf,
    logs: Mutex<HashMap<String, PostedLog>>,
}

/// The log of one apiserver.
struct PostedLog {
    file: File,
    path: PathBuf,
    bytes: u64,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Posted {
    /// Opens the folder, made if need be.
    pub(super) fn open(store: &Path) -> Result<Self, Error> {
        let folder = store.join(FOLDER);
        fresh::folder(&folder).map_err(|error| Error::Input(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder, logs: Mutex::default() })
    }

    /// The logs, as a source to read.
    pub(super) fn source(&self) -> String {
        self.folder.display().to_string()
    }

    /// Takes a batch of an apiserver, named by the path behind `/audit`.
    pub(super) fn take(&self, path: &str, body: &[u8]) -> WebAnswer {
        let name = match path.trim_matches('/') {
            "" => NAMELESS,
            name => name,
        };
        if !is_plain_name(name, MAX_NAME_BYTES) {
            return WebAnswer::text(
                400,
                "the name of an apiserver has letters, digits, '.', '_' and '-': /audit/apiserver-0",
            );
        }
        let list: EventList<'_> = match serde_json::from_slice(body) {
            Ok(list) => list,
            Err(error) => return WebAnswer::text(400, format!("not an EventList of audit.k8s.io/v1: {error}")),
        };
        if list.kind != "EventList" {
            return WebAnswer::text(400, "not an EventList of audit.k8s.io/v1: its kind is another");
        }
        let items = list.items.unwrap_or_default();
        if let Some(bad) = items.iter().position(|item| !item.get().trim_start().starts_with('{')) {
            return WebAnswer::text(400, format!("items[{bad}] is not an object"));
        }
        match self.write(name, &items) {
            Ok(()) => WebAnswer::text(200, "written"),
            // The apiserver posts it again.
            Err(error) => WebAnswer::text(507, format!("can't write the events: {error}")),
        }
    }

    fn write(&self, name: &str, items: &[&RawValue]) -> io::Result<()> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if !logs.contains_key(name) {
            logs.insert(name.to_owned(), PostedLog::open(&self.folder.join(name))?);
        }
        let Some(log) = logs.get_mut(name) else { return Ok(()) };
        if log.bytes >= MAX_LOG_BYTES {
            log.put_aside()?;
        }
        log.append(items)
    }

    /// Removes logs that were put aside and that the store holds.
    pub(super) fn clean(&self, store: &Store) -> Result<(), Error> {
        let aside: Vec<PathBuf> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().filter_map(Result::ok))
            .map(|entry| entry.path())
            .filter(|path| path.file_name().is_some_and(|name| name != CURRENT))
            .collect();
        if aside.is_empty() {
            return Ok(());
        }
        let parts = store.rollups().map_err(failed)?;
        let read_to = parts.read_to();
        for path in aside {
            let Ok(source) = recognise(&Place::File(path.clone())) else { continue };
            let log = identity(&source).ok().flatten();
            if log.is_some_and(|log| read_to.get(log.as_str()).is_some_and(|to| *to >= source.size)) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }
}

impl PostedLog {
    fn open(folder: &Path) -> io::Result<Self> {
        fresh::folder(folder)?;
        let path = folder.join(CURRENT);
        let (mut known, mut order) = (HashSet::new(), VecDeque::new());
        let text = fs::read(&path).unwrap_or_default();
        // A killed process may have left half a line: it was not acknowledged, and comes again.
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1);
        for line in text[..whole].split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            let hash = xxh3_64(line);
            known.insert(hash);
            order.push_back(hash);
        }
        let file = fresh::append(&path)?;
        file.set_len(whole as u64)?;
        Ok(Self { file, path, bytes: whole as u64, known, order })
    }

    fn append(&mut self, items: &[&RawValue]) -> io::Result<()> {
        let (mut text, mut hashes) = (Vec::new(), Vec::new());
        for item in items {
            let start = text.len();
            // Line breaks between the parts of an object are blanks; those in strings are escaped.
            text.extend(item.get().bytes().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }));
            let hash = xxh3_64(&text[start..]);
            if self.known.contains(&hash) || hashes.contains(&hash) {
                text.truncate(start);
            } else {
                text.push(b'\n');
                hashes.push(hash);
            }
        }
        if let Err(error) = self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            // Nothing of a batch that is not acknowledged stays.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += text.len() as u64;
        for hash in hashes {
            self.known.insert(hash);
            self.order.push_back(hash);
        }
        while self.order.len() > REMEMBERED {
            self.order.pop_front().map(|hash| self.known.remove(&hash));
        }
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let now = clock::now();
        fs::rename(&self.path, self.path.with_file_name(format!("audit-{now}.log")))?;
        self.file = fresh::append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}
