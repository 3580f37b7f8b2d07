//! What a log has gained since it was read: whole lines from an offset on, whatever the file is called by now and
//! however it is packed.

use super::content::Content;
use super::open::{Place, Source, SourceError};
use super::packing::{HEAD, Packing, unpack};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_128;

/// A last line without an end is taken once nobody has written to its file for so long.
const SETTLED: Duration = Duration::from_secs(60);

/// Lines of a log that were not read yet.
#[derive(Debug)]
pub struct Piece {
    /// They, as a source that can be read once.
    pub source: Source,
    /// Where they end.
    pub end: End,
}

/// Where lines end, in bytes of the unpacked log.
#[derive(Debug)]
pub enum End {
    /// At this byte.
    Fixed(u64),
    /// Behind what was read so far: of a packed log nobody knows before.
    Counted(Arc<Progress>),
}

/// How far something was read.
#[derive(Debug, Default)]
pub struct Progress {
    /// The byte behind the last line that was whole; behind the last byte where it was read to its end.
    at: AtomicU64,
    is_damaged: AtomicBool,
}

impl End {
    /// The byte behind the last; of a packed log once it was read.
    pub fn at(&self) -> u64 {
        match self {
            Self::Fixed(at) => *at,
            Self::Counted(progress) => progress.at.load(Ordering::Relaxed),
        }
    }

    /// Whether reading broke off there, as it does in the copy of a packed log that is still being written: what lies
    /// behind is not known, and may be there the next time.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Counted(progress) if progress.is_damaged.load(Ordering::Relaxed))
    }
}

/// Which log a file holds: a hash of its first line. `None` while that has no end.
pub fn identity(source: &Source) -> Result<Option<String>, SourceError> {
    let Some(mut again) = source.again() else { return Ok(None) };
    // Of a document over several lines, the beginning.
    let is_document = again.content == Content::AuditDocument;
    again.content = Content::AuditLines;
    let mut head = Vec::new();
    let read = again.reader()?.take(HEAD as u64).read_to_end(&mut head);
    read.map_err(|error| SourceError::Io { path: source.path.clone(), error })?;
    let line = match memchr::memchr(b'\n', &head) {
        _ if is_document => head.as_slice(),
        Some(end) => &head[..end],
        None if head.len() == HEAD => head.as_slice(),
        None if is_settled(source) => head.as_slice(),
        None => return Ok(None),
    };
    Ok(Some(format!("{:032x}", xxh3_128(line))))
}

/// What stands in a log from `from` on; `None` if that is nothing.
pub fn piece(source: &Source, from: u64) -> io::Result<Option<Piece>> {
    let Place::File(path) = &source.place else { return Ok(None) };
    let mut file = File::open(path)?;
    if source.content == Content::AuditDocument {
        let whole = source.again().filter(|_| from == 0);
        return Ok(whole.map(|source| Piece { end: End::Fixed(source.size.max(1)), source }));
    }
    if source.packing == Packing::None {
        let end = lines_to(&file, from, is_settled(source))?;
        if end <= from {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(from))?;
        let progress = Arc::new(Progress { at: AtomicU64::new(end), ..Progress::default() });
        let lines = Lines { file, read: from, lines: from, end, progress: progress.clone() };
        return Ok(Some(Piece { source: source.piece(Box::new(lines)), end: End::Counted(progress) }));
    }
    let progress = Arc::new(Progress::default());
    let reader = Mutex::new(unpack(source.packing, file)?);
    let mut reader = Counted { reader, read: 0, progress: progress.clone() };
    io::copy(&mut reader.by_ref().take(from), &mut io::sink())?;
    let piece = Piece { source: source.piece(Box::new(reader)), end: End::Counted(progress) };
    Ok((piece.source.has_more() || piece.end.is_damaged()).then_some(piece))
}

/// All that stood in a file that can be read at any place from `from` on when it was found, an unfinished last line
/// too.
pub fn rest(source: &Source, from: u64) -> io::Result<Option<Source>> {
    let Place::File(path) = &source.place else { return Ok(None) };
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    Ok(Some(source.piece(Box::new(file.take(source.size.saturating_sub(from))))))
}

/// Where the last whole line ends; the end of the file if nobody writes to it.
fn lines_to(file: &File, from: u64, is_settled: bool) -> io::Result<u64> {
    let size = file.metadata()?.len();
    if is_settled {
        return Ok(size);
    }
    let (mut end, mut block) = (size, vec![0; HEAD]);
    while end > from {
        let start = end.saturating_sub(HEAD as u64).max(from);
        let block = &mut block[..(end - start) as usize];
        file.read_exact_at(block, start)?;
        if let Some(newline) = memchr::memrchr(b'\n', block) {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(from)
}

/// Whether nobody has written to it for a while.
fn is_settled(source: &Source) -> bool {
    let Place::File(path) = &source.place else { return true };
    let changed = std::fs::metadata(path).and_then(|meta| meta.modified());
    changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED))
}

/// Lines of a log up to where they ended when it was looked at. Who empties it meanwhile (`copytruncate`) takes the
/// rest away: it is read on from the copy.
struct Lines {
    file: File,
    /// Up to here it was read.
    read: u64,
    /// Up to here that is whole lines.
    lines: u64,
    end: u64,
    /// Where what was read ends.
    progress: Arc<Progress>,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.read).unwrap_or(usize::MAX).min(into.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.file.read(&mut into[..most])?;
        if count == 0 {
            self.progress.at.store(self.lines, Ordering::Relaxed);
            let lacking = self.end - self.read;
            self.end = self.read;
            let what = format!("became shorter while it was read, by {lacking} bytes; read its copy, too");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if let Some(newline) = memchr::memrchr(b'\n', &into[..count]) {
            self.lines = self.read + newline as u64 + 1;
        }
        self.read += count as u64;
        Ok(count)
    }
}

/// Notes how far it was read.
struct Counted {
    /// Never shared, as its type says to others.
    reader: Mutex<Box<dyn Read + Send>>,
    /// The bytes that it gave.
    read: u64,
    progress: Arc<Progress>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let result = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).read(into);
        match &result {
            Ok(0) if !into.is_empty() => self.progress.at.store(self.read, Ordering::Relaxed),
            Ok(count) => {
                if let Some(newline) = memchr::memrchr(b'\n', &into[..*count]) {
                    self.progress.at.store(self.read + newline as u64 + 1, Ordering::Relaxed);
                }
                self.read += *count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.progress.is_damaged.store(true, Ordering::Relaxed),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::open::recognise;

    #[test]
    fn a_log_that_is_emptied_is_read_on_from_its_copy() {
        let home = tempfile::tempdir().unwrap();
        let event = |number: u32| {
            format!(
                r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"{number:>900}","stage":"ResponseComplete"}}"#
            ) + "\n"
        };
        let all: String = (0..1000).map(event).collect();
        let [log, copy] = ["audit.log", "audit.log.1"].map(|name| home.path().join(name));
        std::fs::write(&log, &all).unwrap();
        let open = |path: &std::path::Path| recognise(&Place::File(path.to_owned())).unwrap();
        let Piece { mut source, end } = piece(&open(&log), 0).unwrap().unwrap();
        assert_eq!(end.at(), all.len() as u64);
        std::fs::write(&copy, &all).unwrap();
        File::create(&log).unwrap();
        let mut text = String::new();
        let failed = source.reader().unwrap().read_to_string(&mut text).unwrap_err();
        assert!(failed.to_string().contains("became shorter while it was read"), "{failed}");
        // What was read of it, without the line that broke off.
        let read = end.at() as usize;
        assert!(read > 0 && read < all.len() && all[..read].ends_with('\n'), "{read}");
        let Piece { mut source, end } = piece(&open(&copy), read as u64).unwrap().unwrap();
        let mut rest = String::new();
        source.reader().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), end.at()), (&all[read..], all.len() as u64));
    }
}
