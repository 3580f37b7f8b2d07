//! One input: where its bytes are, how they are packed, and what they are, recognised by how they begin.

use super::content::Content;
use super::packing::{Begin, HEAD, Packing, read_head, unpack};
use crate::model::dataset::{PageRows, Part, hour_of};
use crate::model::input::LossKind;
use crate::model::problem::Problem;
use crate::model::time::{Micros, Span};
use crate::model::units::counted;
use crate::sources::split::Splitter;
use crate::sources::wanted::Wanted;
use crate::sources::{archive_names, audit, dataset};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Lines of one end of a file that are looked at to see which times it is about. Folders may have thousands of files,
/// and where so few mislead, the count of days says so.
pub(super) const EDGE: usize = 16;

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
    #[error("{path}: {}", not_wanted(looks, *wanted))]
    NotWanted {
        /// The file.
        path: String,
        /// What it looks like.
        looks: &'static str,
        /// What it should have been.
        wanted: Wanted,
    },
    /// It is packed, and nothing of it can be unpacked, so nobody knows what it holds.
    #[error("{0}: cut off or damaged in its first block; copy it again, or test it with zstd -t or gzip -t")]
    Cut(String),
    /// A metrics page that is dated far away from all others.
    #[error("{path}: dated {}, which {}; {}", crate::model::time::format(*at), LossKind::Stray.explain().0,
        LossKind::Stray.explain().1)]
    Stray {
        /// The page.
        path: String,
        /// When it says that it was taken.
        at: Micros,
    },
    /// A folder without anything of what is wanted.
    #[error("{folder}: {}", nothing_here(*files, *wanted))]
    NothingHere {
        folder: String,
        /// How many files were looked at.
        files: usize,
        /// What was looked for.
        wanted: Wanted,
    },
    /// What is wrong with a stored roll-up, or missing from a dataset.
    #[error("{0}")]
    Stored(Problem),
    /// URLs need the `live` feature.
    #[error(
        "{0}: this plimsoll was built without the 'live' feature and can't read URLs; download it and name the file"
    )]
    NoUrls(String),
}

impl SourceError {
    /// Whether a part of what was named is missing, whatever it is read for; else it is something else.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Cut(_) | Self::Stray { .. } | Self::Stored(_))
    }
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Stored(problem) => problem,
            SourceError::Io { path, error } => Self::from(error).at(path),
            other => Self::malformed(other.to_string()),
        }
    }
}

/// What to do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "; connection refused",
        io::ErrorKind::NotFound => "; check the path, or quote a pattern",
        io::ErrorKind::PermissionDenied => "; run as root, or copy the file",
        _ => "",
    }
}

fn not_wanted(looks: &str, wanted: Wanted) -> String {
    match wanted {
        Wanted::Logs => {
            format!(
                "not an audit log ({looks}); plimsoll reads audit logs as JSON lines, EventLists, or the exports of \
                 EKS, GKE and AKS"
            )
        }
        Wanted::Databases => {
            format!("not an etcd database ({looks}); take one with etcdctl snapshot save, or copy member/snap/db")
        }
        Wanted::Profiles => format!("not a Go profile ({looks}); take one with kubectl get --raw /debug/pprof/heap"),
        Wanted::Pages => format!("not a metrics page ({looks}); take one with kubectl get --raw /metrics"),
        Wanted::Dumps => format!(
            "neither a dump page of API Priority and Fairness nor an audit log or a metrics page ({looks}); take one \
             with kubectl get --raw '/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1'"
        ),
        Wanted::Both => format!(
            "neither an audit log nor a metrics page ({looks}); plimsoll reads audit logs as JSON lines, EventLists, \
             or the exports of EKS, GKE and AKS, and what GET /metrics gives"
        ),
    }
}

fn nothing_here(files: usize, wanted: Wanted) -> String {
    let files = counted(files as u64, "file");
    match wanted {
        Wanted::Logs => {
            format!(
                "no audit log in this folder (looked at {files}); check that audit logging is on, and its \
                 policy"
            )
        }
        Wanted::Databases => {
            format!("no etcd database in this folder (looked at {files}); take one with etcdctl snapshot save")
        }
        Wanted::Profiles => {
            format!(
                "no Go profile in this folder (looked at {files}); take one with kubectl get --raw \
                 /debug/pprof/heap"
            )
        }
        Wanted::Pages => {
            format!("no metrics page in this folder (looked at {files}); take some with kubectl get --raw /metrics")
        }
        Wanted::Dumps => format!(
            "no dump page of API Priority and Fairness in this folder (looked at {files}); take one with \
             kubectl get --raw '/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1'"
        ),
        Wanted::Both => format!(
            "no audit log and no metrics page in this folder (looked at {files}); check that audit logging is \
             on, and its policy"
        ),
    }
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
    /// Whether it is packed, or a piece of what is: nobody goes on writing its last line.
    pub(super) was_packed: bool,
    /// What it holds.
    pub content: Content,
    /// The first event's time, if one was seen in the head.
    pub(super) first: Option<Micros>,
    /// Which events it begins with (`audit::twice::identity`).
    pub(super) ids: Vec<u64>,
    /// Whether its first event stands in the wrapper of a log service.
    pub(super) is_wrapped: bool,
    /// Of a dataset's file, what it shows of its events or pages.
    pub(super) part: Option<Part>,
    /// What was read to recognise an input that can be read only once.
    head: Vec<u8>,
    rest: Option<Box<dyn ReadSend>>,
}

/// What could not be read.
#[cfg(feature = "history")]
struct Broken(io::Error);

#[cfg(feature = "history")]
impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }
}

pub(super) trait ReadSend: Read + Send + Sync {}
impl<T: Read + Send + Sync> ReadSend for T {}

impl std::fmt::Debug for dyn ReadSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a reader")
    }
}

/// What can be read only once, while somebody looks whether it is for them: its start, and the rest.
#[derive(Clone)]
struct Begun {
    head: Vec<u8>,
    rest: Arc<Mutex<Box<dyn ReadSend>>>,
}

/// The start of an input, and the rest.
type Opened = (Vec<u8>, Box<dyn ReadSend>);

impl Begun {
    /// What a path names, opened unless somebody has begun it.
    fn of(path: &Path, open: impl FnOnce() -> Result<Opened, SourceError>) -> Result<Opened, SourceError> {
        let known = begun().get(path).cloned();
        let own = match known {
            Some(own) => own,
            None => {
                let (head, rest) = open()?;
                let own = Self { head, rest: Arc::new(Mutex::new(rest)) };
                begun().insert(path.to_owned(), own.clone());
                own
            }
        };
        Ok((own.head.clone(), Box::new(own)))
    }
}

impl Read for Begun {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner).read(into)
    }
}

/// Those of which nobody has read more than the start. A command that takes logs as well as objects looks at standard
/// input twice: what the first look took is there for the second.
static BEGUN: LazyLock<Mutex<HashMap<PathBuf, Begun>>> = LazyLock::new(Mutex::default);

fn begun() -> MutexGuard<'static, HashMap<PathBuf, Begun>> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files that are remembered as they were recognised.
const REMEMBERED: usize = 65_536;

/// A file that was changed less than this before may be changed again without a trace: clocks of file systems tick some
/// times a second.
const SETTLED: Duration = Duration::from_secs(2);

/// What shows that a file is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    file: FileId,
    bytes: u64,
    changed: SystemTime,
}

/// Files as they were recognised. A report asks twenty times what a folder holds, the terminal UI at each step.
static RECOGNISED: LazyLock<Mutex<HashMap<PathBuf, (Identity, Source)>>> = LazyLock::new(Mutex::default);

/// What identifies a file, if it has not been changed just now.
fn identity(path: &Path) -> Option<Identity> {
    let meta = std::fs::metadata(path).ok()?;
    let changed = meta.modified().ok()?;
    let is_settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED);
    let file = FileId::of_metadata(&meta);
    (is_settled && meta.is_file()).then_some(Identity { file, bytes: meta.len(), changed })
}

/// A file, by whatever names and links it is reached: its device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// That of a path; `None` where there is no file, or where the system has no such numbers.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let own = Self::of_metadata(&std::fs::metadata(path).ok()?);
        (own != Self(0, 0)).then_some(own)
    }

    #[cfg(unix)]
    fn of_metadata(meta: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(meta.dev(), meta.ino())
    }

    #[cfg(not(unix))]
    fn of_metadata(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

/// Looks at the start of an input to determine what it holds; of a file that was looked at before and has not changed
/// since, it is known.
pub fn recognise(place: &Place) -> Result<Source, SourceError> {
    let Place::File(path) = place else { return look_into(place) };
    let Some(identity) = identity(path) else { return look_into(place) };
    let known = || RECOGNISED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, source)) = known().get(path).filter(|(other, _)| *other == identity)
        && let Some(source) = source.again()
    {
        return Ok(source);
    }
    let source = look_into(place)?;
    if let Some(own) = source.again() {
        let mut known = known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(path.clone(), (identity, own));
    }
    Ok(source)
}

fn look_into(place: &Place) -> Result<Source, SourceError> {
    let path = match place {
        Place::Once(path) if path == Path::new("/dev/stdin") => "-".to_owned(),
        Place::File(path) | Place::Once(path) => archive_names::shown(path),
        Place::Url(url) => url.clone(),
    };
    let io = |error| SourceError::Io { path: path.clone(), error };
    let open = || {
        let mut raw = open_raw(place, &path)?;
        let head = read_head(&mut raw).map_err(io)?;
        Ok((head, raw))
    };
    let (head, raw) = match place {
        Place::Once(once) => Begun::of(once, open)?,
        Place::File(_) | Place::Url(_) => open()?,
    };
    let begin = Begin::of(&head);
    let part = if head.starts_with(PARQUET) { part_of(place, &path)? } else { None };
    let (packing, (content, first)) = match &part {
        Some(own) if own.pages.is_empty() => (Packing::Dataset, (Content::AuditLines, Some(own.first))),
        Some(own) => (Packing::Dataset, (Content::Metrics, Some(own.first))),
        None => (begin.packing, begin.look()),
    };
    let (ids, is_wrapped) = if content.is_log() { audit::begin(&begin.plain) } else { (Vec::new(), false) };
    let (size, keep) = match place {
        Place::File(path) => (std::fs::metadata(path).map_err(io)?.len(), false),
        _ => (0, true),
    };
    Ok(Source {
        path: path.clone(),
        place: place.clone(),
        size,
        packing,
        was_packed: packing != Packing::None,
        content,
        first,
        ids,
        is_wrapped,
        part,
        head: if keep { head } else { Vec::new() },
        rest: keep.then_some(raw),
    })
}

/// How Parquet begins.
const PARQUET: &[u8] = b"PAR1";

/// What a file of a dataset shows of its events or pages; `None` where it is none.
fn part_of(place: &Place, shown: &str) -> Result<Option<Part>, SourceError> {
    let Place::File(path) = place else { return Ok(None) };
    let unreadable = |error| SourceError::Io { path: shown.to_owned(), error };
    dataset::part(path).map_err(unreadable)
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
    // As Prometheus waits for a page; what follows may be large.
    let begins_within = Some(std::time::Duration::from_secs(10));
    let agent = ureq::Agent::config_builder()
        .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(begins_within)
        .timeout_recv_response(begins_within)
        .build()
        .new_agent();
    let failed = |error: ureq::Error| match error {
        ureq::Error::Io(error) => error,
        other => io::Error::other(other),
    };
    let response =
        agent.get(url).call().map_err(|error| SourceError::Io { path: url.to_owned(), error: failed(error) })?;
    Ok(Box::new(response.into_body().into_reader()))
}

#[cfg(not(feature = "live"))]
fn open_url(url: &str) -> Result<Box<dyn ReadSend>, SourceError> {
    Err(SourceError::NoUrls(url.to_owned()))
}

impl Source {
    /// What was read already, under the name that messages give it.
    pub fn of_bytes(path: String, bytes: Vec<u8>) -> Self {
        let packing = Packing::of(&bytes);
        let (place, content, rest) =
            (Place::Url(path.clone()), Content::Metrics, Some(Box::new(io::empty()) as Box<dyn ReadSend>));
        Self {
            path,
            place,
            size: 0,
            packing,
            was_packed: packing != Packing::None,
            content,
            first: None,
            ids: Vec::new(),
            is_wrapped: false,
            part: None,
            head: bytes,
            rest,
        }
    }

    /// What `reader` gives of it, unpacked, to be read once.
    #[cfg(feature = "history")]
    pub(super) fn piece(&self, mut reader: Box<dyn ReadSend>) -> Self {
        let mut head = Vec::new();
        // Whoever reads it gets what came before it broke, and then what broke it.
        let rest = match reader.by_ref().take(HEAD as u64).read_to_end(&mut head) {
            Ok(_) => reader,
            Err(error) => Box::new(Broken(error)),
        };
        let place = if let Place::File(path) = &self.place { Place::Once(path.clone()) } else { self.place.clone() };
        let Self { path, ids, .. } = self;
        let (path, ids) = (path.clone(), ids.clone());
        let was_packed = self.packing != Packing::None;
        Self { path, place, ids, packing: Packing::None, was_packed, part: None, head, rest: Some(rest), ..*self }
    }

    /// Whether something of what can be read once is left.
    #[cfg(feature = "history")]
    pub(super) fn has_more(&self) -> bool {
        !self.head.is_empty()
    }

    /// The same once more, to be read from its start; `None` if it can be read only once.
    pub fn again(&self) -> Option<Self> {
        let Self { path, place, ids, part, .. } = self;
        let (path, place, ids, part) = (path.clone(), place.clone(), ids.clone(), part.clone());
        let again = Self { path, place, ids, part, head: Vec::new(), rest: None, ..*self };
        matches!(self.place, Place::File(_)).then_some(again)
    }

    /// Of a dataset's file of events: the hour whose partition it lies in, and when its first and last event were.
    pub fn hour(&self) -> Option<(Span, Span)> {
        let (Some(part), Place::File(path)) = (&self.part, &self.place) else { return None };
        let hour = hour_of(path).filter(|_| part.pages.is_empty())?;
        Some((hour, (part.first, part.last)))
    }

    /// Times of the events in so many lines, at most, at its start, as far as that can be looked at without taking
    /// anything from it.
    pub fn head_times(&self, lines: usize) -> Vec<Micros> {
        if let Some(part) = &self.part {
            return vec![part.first];
        }
        let head = match &self.place {
            Place::File(path) => File::open(path).and_then(read_head).unwrap_or_default(),
            Place::Once(_) | Place::Url(_) => self.head.clone(),
        };
        audit::times_in(Begin::of(&head).plain.split(|&byte| byte == b'\n').take(lines))
    }

    /// Times of the events in the last `lines` lines; empty where its end can't be looked at.
    pub fn tail_times(&self, lines: usize) -> Vec<Micros> {
        if let Some(part) = &self.part {
            return vec![part.last];
        }
        let Place::File(path) = &self.place else { return Vec::new() };
        if !self.is_seekable() {
            return Vec::new();
        }
        let read = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(self.size.saturating_sub(HEAD as u64)))?;
            let mut tail = Vec::new();
            file.take(HEAD as u64).read_to_end(&mut tail)?;
            Ok::<_, std::io::Error>(tail)
        };
        audit::times_in(read().unwrap_or_default().trim_ascii_end().rsplit(|&byte| byte == b'\n').take(lines))
    }

    /// The time of the last event near its end, where that can be looked at.
    pub(super) fn last_time(&self) -> Option<Micros> {
        self.tail_times(EDGE).into_iter().max()
    }

    /// The times of the first and the last event near its ends; it is read for that.
    pub(super) fn ends_unpacked(&self) -> Option<(Micros, Micros)> {
        let mut reader = self.again()?.reader().ok()?;
        let (mut head, mut tail, mut block) = (Vec::new(), Vec::new(), vec![0; HEAD]);
        loop {
            match reader.read(&mut block) {
                Ok(0) => break,
                Ok(count) => {
                    if head.len() < 2 * HEAD {
                        head.extend_from_slice(&block[..count]);
                    }
                    tail.extend_from_slice(&block[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            let surplus = tail.len().saturating_sub(2 * HEAD);
            if surplus > HEAD {
                tail.drain(..surplus);
            }
        }
        let first = audit::times_in(head.split(|&byte| byte == b'\n').take(EDGE)).into_iter().min();
        let last = audit::times_in(tail.trim_ascii_end().rsplit(|&byte| byte == b'\n').take(EDGE)).into_iter().max();
        first.zip(last)
    }

    /// Whether it can be read at any place, by several threads.
    pub fn is_seekable(&self) -> bool {
        matches!(self.place, Place::File(_)) && self.packing == Packing::None && self.content != Content::AuditDocument
    }

    /// The pages in a dataset's file of samples, each as a source.
    pub(super) fn pages(&self) -> Vec<Self> {
        let Some(mut file) = self.again() else { return Vec::new() };
        file.part = None;
        let of = |(part, page): (&Part, PageRows)| {
            let part = Part { first: page.at, last: page.at, instance: part.instance.clone(), pages: vec![page] };
            Some(Self { first: Some(page.at), part: Some(part), ..file.again()? })
        };
        let pages = self.part.iter().flat_map(|part| part.pages.iter().map(move |page| (part, *page)));
        pages.filter_map(of).collect()
    }

    /// Whether its end can be looked at.
    pub(super) fn shows_its_end(&self) -> bool {
        self.is_seekable() || self.part.is_some()
    }

    /// Its bytes, unpacked; of a JSON document, its values a line each. Inputs that can be read only
    /// once give their bytes to the first who asks.
    pub fn reader(&mut self) -> Result<Box<dyn Read + Send>, SourceError> {
        let io = |error| SourceError::Io { path: self.path.clone(), error };
        if let (Some(part), Place::File(path)) = (&self.part, &self.place) {
            let reader = match part.pages.first() {
                Some(page) => dataset::page(path, *page),
                None => dataset::lines(path, &part.instance),
            };
            return reader.map_err(io);
        }
        if let Place::Once(once) = &self.place {
            begun().remove(once);
        }
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
