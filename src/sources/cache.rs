//! The user's cache of roll-ups: what is in its folder, and which of it stands for logs as they are now.
//!
//! An entry is a folder `rollup-…` with [`ENTRY`], which shows the logs, and a stored roll-up of them beside it. A log
//! is known by its first line and by a hash of the bytes before the place to which it was read.

use super::archive_names;
use super::content::Content;
use super::open::{Place, Source};
use super::packing::{HEAD, Packing};
use super::piece::{identity, rest};
use super::rolled::{Rolled, checksum, open};
use crate::model::cached::{ENTRY, Entry, EntryFile, EntryStream, FORM};
use crate::model::input::Dedupe;
use crate::model::rollup::MANIFEST;
use crate::sources::found::LogStream;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use xxhash_rust::xxh3::Xxh3;

/// What folders of entries are called, with something of their own behind it.
pub const NAME: &str = "rollup-";

/// The folder of the roll-up in an entry.
pub const TABLES: &str = "rollup";

/// Samples of a file that are looked at between its beginning and its end.
const SAMPLES: u64 = 16;

/// Bytes of a sample.
const SAMPLE: u64 = 4 << 10;

/// A roll-up in the cache.
#[derive(Debug, Clone)]
pub struct CachedRollup {
    pub folder: PathBuf,
    /// The logs.
    pub entry: Entry,
    /// Their roll-up.
    pub rolled: Rolled,
}

/// What a cache holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// Entries that this plimsoll can use.
    pub kept: Vec<CachedRollup>,
    /// Folders of entries that are damaged.
    pub damaged: Vec<PathBuf>,
    /// Folders of entries that another version made.
    pub others: Vec<PathBuf>,
}

impl CachedRollup {
    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        bytes(&self.folder)
    }

    /// When it was used last.
    pub fn used(&self) -> SystemTime {
        used(&self.folder)
    }
}

/// Bytes of an entry's files.
pub fn bytes(folder: &Path) -> u64 {
    let of = |folder: &Path| -> u64 {
        let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        files.filter_map(|file| file.metadata().ok()).filter(|meta| meta.is_file()).map(|meta| meta.len()).sum()
    };
    of(folder) + of(&folder.join(TABLES))
}

/// When an entry was used last.
pub fn used(folder: &Path) -> SystemTime {
    fs::metadata(folder.join(ENTRY)).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The entries of a cache; a folder that is not there has none.
pub fn contents(cache: &Path) -> Contents {
    let mut all = Contents::default();
    let folders = fs::read_dir(cache).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    for folder in folders.filter(|folder| is_entry(folder)) {
        match read(&folder) {
            Ok(Some(kept)) => all.kept.push(kept),
            Ok(None) => all.others.push(folder),
            Err(()) => all.damaged.push(folder),
        }
    }
    all
}

/// Whether a folder is called as entries are, and has what makes it one.
fn is_entry(folder: &Path) -> bool {
    let is_named = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME));
    is_named && !folder.is_symlink() && folder.join(ENTRY).is_file()
}

/// `None` if another version made it.
fn read(folder: &Path) -> Result<Option<CachedRollup>, ()> {
    let text = fs::read(folder.join(ENTRY)).map_err(drop)?;
    let entry: Entry = serde_json::from_slice(&text).map_err(drop)?;
    if entry.form != FORM || entry.plimsoll != env!("CARGO_PKG_VERSION") {
        return Ok(None);
    }
    let manifest = folder.join(TABLES).join(MANIFEST);
    let (_, sum) = File::open(&manifest).and_then(checksum).map_err(drop)?;
    if !entry.is_intact() || format!("{sum:08x}") != entry.manifest {
        return Err(());
    }
    let rolled = open(&manifest).map_err(drop)?;
    match rolled.manifest.streams.len() == entry.streams.len() {
        true => Ok(Some(CachedRollup { folder: folder.to_owned(), entry, rolled })),
        false => Err(()),
    }
}

/// Whether all of these logs are files that can be read again, and lie where they stay.
pub fn can_be_kept(streams: &[LogStream]) -> bool {
    let stays = |file: &Source| match &file.place {
        Place::File(path) => !archive_names::is_unpacked(path),
        Place::Once(_) | Place::Url(_) => false,
    };
    !streams.is_empty() && streams.iter().all(|own| !own.is_rolled() && own.files.iter().all(stays))
}

/// Whether a file does not grow.
fn is_closed(source: &Source) -> bool {
    source.packing != Packing::None || source.content == Content::AuditDocument
}

/// A hash of what stands in a file before a byte: its beginning, its end, and samples between them.
fn print(source: &Source, to: u64) -> io::Result<Option<String>> {
    let Place::File(path) = &source.place else { return Ok(None) };
    let file = File::open(path)?;
    let mut hash = Xxh3::new();
    hash.update(&to.to_le_bytes());
    let mut block = vec![0; HEAD];
    let mut take = |at: u64, length: u64| {
        let block = &mut block[..length.min(to - at) as usize];
        file.read_exact_at(block, at).map(|()| hash.update(block))
    };
    let all = (HEAD as u64).min(to);
    let samples = (1..=SAMPLES).map(|n| (to / (SAMPLES + 1) * n, SAMPLE));
    let places = std::iter::once((0, all)).chain(samples).chain([(to - all, all)]);
    for (at, length) in places {
        match take(at, length) {
            Ok(()) => {}
            // It is shorter by now.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(format!("{:032x}", hash.digest128())))
}

/// Logs as an entry shows them, up to where each is to be taken for read; `None` if one can't be determined.
pub fn describe(streams: &[LogStream]) -> io::Result<Option<Vec<EntryStream>>> {
    let mut all = Vec::new();
    for own in streams {
        let mut files = Vec::new();
        for source in own.files.iter().filter(|file| file.size > 0) {
            let Ok(Some(log)) = identity(source) else { return Ok(None) };
            let is_closed = is_closed(source);
            files.push(EntryFile {
                path: source.path.clone(),
                log,
                is_closed,
                to: source.size,
                ..EntryFile::default()
            });
        }
        let (cluster, instance) = (own.stream.cluster.clone(), own.stream.instance.clone());
        all.push(EntryStream { cluster, instance, has_copies: own.has_copies, files });
    }
    Ok(Some(all))
}

/// Sets the prints of what was read of these logs; false where a file is not what it was any more.
pub fn mark(described: &mut [EntryStream], streams: &[LogStream]) -> io::Result<bool> {
    for (into, own) in described.iter_mut().zip(streams) {
        let sources = own.files.iter().filter(|file| file.size > 0);
        for (file, source) in into.files.iter_mut().zip(sources) {
            match print(source, file.to)? {
                Some(print) => file.print = print,
                None => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// Logs behind what an entry knows of them.
#[derive(Debug)]
pub struct Rest {
    /// As many as there are logs; those that gained nothing have no files.
    pub streams: Vec<LogStream>,
    pub bytes: u64,
}

/// What these logs, as [`describe`] shows them, have behind what an entry knows of them; `None` if it does not stand
/// for them.
pub fn behind(
    entry: &Entry,
    described: &[EntryStream],
    streams: &[LogStream],
    dedupe: Dedupe,
) -> io::Result<Option<Rest>> {
    let is_its = |(known, now): (&EntryStream, &EntryStream)| {
        let are_first = known.files.len() <= now.files.len()
            && known
                .files
                .iter()
                .zip(&now.files)
                .all(|(known, now)| known.log == now.log && known.is_closed == now.is_closed && known.to <= now.to);
        (&known.cluster, &known.instance, known.has_copies) == (&now.cluster, &now.instance, now.has_copies)
            && are_first
    };
    if entry.dedupe != dedupe || entry.streams.len() != described.len() {
        return Ok(None);
    }
    if !entry.streams.iter().zip(described).all(is_its) {
        return Ok(None);
    }
    let mut behind = Rest { streams: Vec::new(), bytes: 0 };
    for (known, own) in entry.streams.iter().zip(streams) {
        let mut files = Vec::new();
        for (place, source) in own.files.iter().filter(|file| file.size > 0).enumerate() {
            let Some(before) = known.files.get(place) else {
                behind.bytes += source.size;
                files.extend(source.again());
                continue;
            };
            if print(source, before.to)?.as_ref() != Some(&before.print) {
                return Ok(None);
            }
            if source.size > before.to {
                // Only the last one may have grown: what follows it would stand before what it gained.
                if before.is_closed || place + 1 < known.files.len() {
                    return Ok(None);
                }
                behind.bytes += source.size - before.to;
                files.extend(rest(source, before.to)?);
            }
        }
        // Copies of what was read before are not known any more.
        if !files.is_empty() && (own.has_copies || dedupe == Dedupe::Always) {
            return Ok(None);
        }
        behind.streams.push(LogStream { stream: own.stream.clone(), files, kept: own.kept.clone(), ..*own });
    }
    Ok(Some(behind))
}

/// Where the last whole line of a file ends that is no longer than `size`.
pub fn whole_lines(source: &Source, size: u64) -> io::Result<u64> {
    let Place::File(path) = &source.place else { return Ok(size) };
    let file = File::open(path)?;
    let (mut end, mut block) = (size, vec![0; HEAD]);
    while end > 0 {
        let start = end.saturating_sub(HEAD as u64);
        let block = &mut block[..(end - start) as usize];
        file.read_exact_at(block, start)?;
        if let Some(newline) = memchr::memrchr(b'\n', block) {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
