//! Metrics pages: when each was taken, and one pass over many of them, folder by folder in order of time.

use super::exposition::{self, Problem, ProblemKind};
use super::open::{Place, Source};
use super::packing::Packing;
use crate::model::input::{InputReport, Loss, LossKind};
use crate::model::sample::Sample;
use crate::model::time::{self, Micros, SECOND};
use crate::sources::watcher::Watcher;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

/// A page may not be longer.
const LONGEST_PAGE: u64 = 1 << 30;

/// A page that is packed with Zstandard is unpacked at once if it is not longer, as nearly all are.
const AT_ONCE: u64 = 64 << 20;

/// How the time of a page is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// By its file's name.
    Name,
    /// It was read at that time.
    Read,
    /// By the timestamps of its samples.
    Samples,
    /// By its file's modification time, which copying may have changed.
    Modified,
}

/// A page.
#[derive(Debug)]
pub struct PageFile {
    /// Where its bytes are.
    pub source: Source,
    /// When it was taken.
    pub at: Micros,
    /// How that is known.
    pub clock: Clock,
}

impl PageFile {
    /// A page that was found; what has no time of its own is taken `now`.
    pub fn new(source: Source, now: Micros) -> Self {
        if let Some(part) = &source.part {
            return Self { at: part.first, clock: Clock::Name, source };
        }
        let (at, clock) = match &source.place {
            Place::File(path) => {
                let name = path.file_name().and_then(|name| time_in(&name.to_string_lossy()));
                let modified = || Some((modified(path)?, Clock::Modified));
                let stamped = source.first.map(|at| (at, Clock::Samples));
                name.map(|at| (at, Clock::Name)).or(stamped).or_else(modified).unwrap_or((now, Clock::Read))
            }
            _ => source.first.map_or((now, Clock::Read), |at| (at, Clock::Samples)),
        };
        Self { source, at, clock }
    }
}

impl PageFile {
    /// Its text, if it can be read once more.
    fn text(&self) -> Option<Vec<u8>> {
        let mut buffer = PageBuffer::default();
        buffer.fill(&mut self.source.again()?).ok()?;
        Some(buffer.text)
    }

    /// Whether it is the same page in another place.
    fn is_copy_of(&self, other: &Self) -> bool {
        self.text().zip(other.text()).is_some_and(|(own, other)| own == other)
    }

    /// A page that was read already.
    pub fn read(path: String, at: Micros, body: Vec<u8>) -> Self {
        Self { source: Source::of_bytes(path, body), at, clock: Clock::Read }
    }
}

/// The pages of one folder.
#[derive(Debug)]
pub struct PageFolder {
    /// The cluster, if a bundle names it.
    pub cluster: String,
    /// What the folder calls the instance.
    pub instance: String,
    /// Where it is; where pages of one process lie in several places, the first of these.
    pub place: PathBuf,
    /// In order of time.
    pub pages: Vec<PageFile>,
}

impl PageFolder {
    /// The same once more; `None` if a page can be read only once.
    pub(super) fn again(&self) -> Option<Self> {
        let page = |page: &PageFile| Some(PageFile { source: page.source.again()?, at: page.at, clock: page.clock });
        let pages = self.pages.iter().map(page).collect::<Option<_>>()?;
        let (cluster, instance, place) = (self.cluster.clone(), self.instance.clone(), self.place.clone());
        Some(Self { cluster, instance, place, pages })
    }

    /// Takes the pages of another in, but for those that it has already.
    pub(super) fn join(&mut self, other: Self) {
        let mut other: Vec<PageFile> = other.pages;
        other.retain(|page| !self.pages.iter().any(|own| own.at == page.at && own.is_copy_of(page)));
        self.pages.extend(other);
        self.pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
    }
}

/// When the process was started whose page it is, in µs since 1970; `None` where the page does not say so, or can be
/// read only once.
pub(super) fn process_start(page: &PageFile) -> Option<Micros> {
    let text = page.text()?;
    // Of the page one line is read: there may be thousands of pages.
    let name = b"\nprocess_start_time_seconds";
    let begins = std::iter::once(0).filter(|_| text.starts_with(&name[1..]));
    let at = begins.chain(memchr::memmem::find_iter(&text, name).map(|at| at + 1)).map(|at| &text[at..]);
    // With its end: a line without one breaks off.
    let line = |rest: &'_ [u8]| memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
    let mut started = None;
    for rest in at {
        exposition::read(
            &rest[..line(rest)],
            |sample| {
                if sample.name.is("process_start_time_seconds") {
                    started = Some(time::of_seconds(sample.value));
                }
            },
            |_| {},
        );
    }
    started
}

/// When a file was written.
pub(super) fn modified(path: &Path) -> Option<Micros> {
    let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_micros()).ok()
}

/// The time that a page's name shows: Unix seconds or milliseconds, or RFC 3339, possibly behind other words.
pub(super) fn time_in(name: &str) -> Option<Micros> {
    let end = [".txt", ".prom", ".metrics", ".om", ".json", ".yaml", ".yml", ".gz", ".zst"]
        .iter()
        .filter_map(|ending| name.find(ending))
        .min()
        .unwrap_or(name.len());
    let stem = &name[..end];
    let starts = std::iter::once(0).chain(stem.match_indices(['-', '_', ' ']).map(|(at, _)| at + 1));
    starts.filter_map(|start| seconds(&stem[start..]).or_else(|| date(&stem[start..]))).next()
}

/// Unix seconds, with or without a fraction, milli-, micro- or nanoseconds; of this century, so that no counter is
/// taken for a time.
fn seconds(text: &str) -> Option<Micros> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i64 = whole.parse().ok()?;
    match whole.len() {
        9..=10 if number > 946_684_800 => {
            let micros: i64 = format!("{:0<6.6}", fraction).parse().ok()?;
            Some(number * SECOND + micros)
        }
        13 if fraction.is_empty() => Some(number * 1000),
        14 if fraction.is_empty() => compact(whole),
        16 if fraction.is_empty() => Some(number),
        19 if fraction.is_empty() => Some(number / 1000),
        _ => None,
    }
}

/// `20261120091756`, in UTC.
fn compact(digits: &str) -> Option<Micros> {
    let (day, clock) = digits.split_at(8);
    date(&format!("{}-{}-{}T{clock}", &day[..4], &day[4..6], &day[6..])).filter(|at| *at > 0)
}

/// RFC 3339, also with `-` or nothing for `:`, and with `_` or a blank for `T`.
fn date(text: &str) -> Option<Micros> {
    let split = |mark: char| text.split_once(mark).filter(|(day, _)| day.len() == 10 || mark == 'T' || mark == 't');
    let (day, clock) = ['T', 't', '_', ' '].into_iter().find_map(split)?;
    // A `-` that has six digits before it begins an offset.
    let digits_before = |at: usize| clock[..at].bytes().filter(u8::is_ascii_digit).count() >= 6;
    let zone = clock.char_indices().find(|&(at, c)| matches!(c, 'Z' | 'z' | '+') || c == '-' && digits_before(at));
    let (clock, zone) = zone.map_or((clock, "Z".to_owned()), |(at, _)| (&clock[..at], offset(&clock[at..])));
    let (clock, fraction) =
        clock.split_once('.').map_or((clock, String::new()), |(clock, fraction)| (clock, format!(".{fraction}")));
    let digits: String = clock.chars().filter(char::is_ascii_digit).collect();
    if digits.len() != 6 || !clock.chars().all(|c| c.is_ascii_digit() || c == '-' || c == ':') {
        return None;
    }
    let (hour, rest) = digits.split_at(2);
    let (minute, second) = rest.split_at(2);
    time::parse_any(&format!("{day}T{hour}:{minute}:{second}{fraction}{zone}"))
}

/// `Z`, or an offset with its colon: `-05-00` is how a file's name has to write it.
fn offset(zone: &str) -> String {
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    match zone.chars().next() {
        Some(sign @ ('+' | '-')) if digits.len() == 4 => format!("{sign}{}:{}", &digits[..2], &digits[2..]),
        _ => zone.to_uppercase(),
    }
}

/// What is made of the pages of one folder.
pub trait PageWorker: Send {
    /// A page begins, which is called so in messages and was taken `at`.
    fn begin(&mut self, path: &str, at: Micros);

    /// Takes a sample of it.
    fn sample(&mut self, sample: &Sample<'_, '_>);

    /// The page ends, which was taken `at`.
    fn end(&mut self, at: Micros);
}

/// What reading gave, beside what the workers made of it.
#[derive(Debug, Default)]
pub struct PagesRead {
    /// One per page.
    pub inputs: Vec<InputReport>,
    /// What was lost, by page and kind.
    pub losses: Vec<Loss>,
}

/// Reads all pages, the folders side by side on up to `threads` threads; gives what `make` made for each folder.
pub fn read<W: PageWorker>(
    folders: Vec<PageFolder>,
    threads: usize,
    make: impl Fn(&PageFolder) -> W + Sync,
    watcher: &impl Watcher,
) -> (Vec<W>, PagesRead) {
    let count = folders.len();
    let queue = Mutex::new(folders.into_iter().enumerate().collect::<Vec<_>>().into_iter());
    let done = Mutex::new(Vec::with_capacity(count));
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((number, folder)) = next else { return };
            let mut worker = make(&folder);
            let mut read = PagesRead::default();
            let mut buffer = PageBuffer::default();
            for page in folder.pages {
                read_page(page, &mut buffer, &mut worker, &mut read, watcher);
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, worker, read));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count).max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(number, ..)| *number);
    let mut all = PagesRead::default();
    let mut workers = Vec::with_capacity(count);
    for (_, worker, read) in done {
        workers.push(worker);
        all.inputs.extend(read.inputs);
        all.losses.extend(read.losses);
    }
    (workers, all)
}

/// What one page after the other is read into.
#[derive(Default)]
pub struct PageBuffer {
    text: Vec<u8>,
    packed: Vec<u8>,
    unpacker: Option<Decompressor<'static>>,
}

impl std::fmt::Debug for PageBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of a page", self.text.len())
    }
}

impl PageBuffer {
    /// The page that was read last, unpacked.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Reads a page; in an error, how far it could be read remains.
    fn fill(&mut self, source: &mut Source) -> io::Result<()> {
        self.text.clear();
        if source.packing == Packing::Zstd
            && let Place::File(path) = &source.place
            && self.unpack_at_once(path).is_some()
        {
            return Ok(());
        }
        self.text.clear();
        let reader = source.reader().map_err(|error| io::Error::other(error.to_string()))?;
        reader.take(LONGEST_PAGE).read_to_end(&mut self.text).map(drop)
    }

    /// Unpacks a page that says how long it is, without a window of its own: that would be memory that the system has
    /// to clear for each page. `None` where it does not say so, or anything else is odd.
    fn unpack_at_once(&mut self, path: &Path) -> Option<()> {
        self.packed.clear();
        File::open(path).ok()?.take(AT_ONCE).read_to_end(&mut self.packed).ok()?;
        let length = get_frame_content_size(&self.packed).ok()?.filter(|length| *length <= AT_ONCE)?;
        self.text.reserve(usize::try_from(length).ok()?);
        if self.unpacker.is_none() {
            self.unpacker = Decompressor::new().ok();
        }
        self.unpacker.as_mut()?.decompress_to_buffer(&self.packed, &mut self.text).ok().map(drop)
    }
}

/// Whose samples a page holds. No process labels its own with an instance; Prometheus does, and its `/federate` gives
/// those of many processes as one page, where nothing could be counted.
#[derive(Default)]
struct Owners {
    /// Samples that were looked at.
    seen: usize,
    first: Option<String>,
    /// The first instance, and another.
    other: Option<(String, String)>,
}

impl Owners {
    /// What each of these processes says once, or often.
    const SHOWN_BY: [&str; 3] = ["process_start_time_seconds", "apiserver_request_total", "etcd_server_has_leader"];

    /// Of so many samples at the begin of a page one is labelled with an instance, or only the former may be.
    const LOOKED_AT: usize = 50;

    #[inline]
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.seen += 1;
        let is_labelled = self.seen <= Self::LOOKED_AT || self.first.is_some();
        if self.other.is_none() && (is_labelled || Self::SHOWN_BY.iter().any(|name| sample.name.is(name))) {
            self.compare(sample);
        }
    }

    #[inline(never)]
    fn compare(&mut self, sample: &Sample<'_, '_>) {
        let Some(instance) = sample.label("instance") else { return };
        match &self.first {
            None => self.first = Some(instance.decode().into_owned()),
            Some(first) if instance.is(first) => {}
            Some(first) => self.other = Some((first.clone(), instance.decode().into_owned())),
        }
    }
}

/// Reads one page into `buffer`, and gives it to `worker`.
pub fn read_page(
    mut page: PageFile,
    buffer: &mut PageBuffer,
    worker: &mut impl PageWorker,
    read: &mut PagesRead,
    watcher: &impl Watcher,
) {
    let path = page.source.path.clone();
    let mut losses: BTreeMap<LossKind, Loss> = BTreeMap::new();
    let mut lose = |kind, line, offset, detail: String| {
        let loss =
            losses.entry(kind).or_insert_with(|| Loss { kind, path: path.clone(), line, offset, count: 0, detail });
        loss.count += 1;
    };
    let result = buffer.fill(&mut page.source).map_err(|error| error.to_string());
    let bytes = buffer.text.as_slice();
    let damaged = result.is_err();
    if let Err(detail) = result {
        let kind = if page.source.packing == Packing::None { LossKind::Io } else { LossKind::Damaged };
        lose(kind, 0, bytes.len() as u64, detail);
    } else if bytes.len() as u64 == LONGEST_PAGE {
        lose(LossKind::PageTooLong, 0, LONGEST_PAGE, String::new());
    }
    worker.begin(&path, page.at);
    let mut latest: Option<f64> = None;
    let mut owners = Owners::default();
    let problem = |Problem { kind, line, offset, detail }| {
        let kind = match kind {
            ProblemKind::Line => LossKind::NotASample,
            ProblemKind::Repeated => LossKind::SeriesTwice,
            ProblemKind::Described => LossKind::DescribedTwice,
            ProblemKind::Type => LossKind::UnknownType,
            ProblemKind::Rule => LossKind::AgainstRule,
            ProblemKind::Empty => LossKind::NoSamples,
            ProblemKind::CutOff => {
                // Where unpacking broke off, that was said.
                if damaged {
                    return;
                }
                LossKind::PageCutOff
            }
        };
        lose(kind, line, offset, detail);
    };
    let summary = exposition::read(
        bytes,
        |sample| {
            latest = sample.timestamp.map_or(latest, |at| Some(latest.map_or(at, |latest| latest.max(at))));
            owners.sample(sample);
            worker.sample(sample);
        },
        problem,
    );
    let is_of_one = owners.other.is_none();
    if let Some((own, other)) = &owners.other {
        lose(LossKind::SeveralProcesses, 0, 0, format!("instance={own} and instance={other}"));
        // What else is wrong with it matters to nobody.
        losses.retain(|kind, _| *kind == LossKind::SeveralProcesses);
    }
    // What was looked at to find the page was only its beginning.
    let stamped = latest.filter(|_| page.clock == Clock::Samples).map(time::of_stamp);
    if is_of_one {
        worker.end(stamped.unwrap_or(page.at));
    }
    watcher.read(page.source.size);
    let skipped = losses.values().filter(|loss| !loss.kind.is_kept()).map(|loss| loss.count).sum();
    let first_error = losses.values().min_by_key(|loss| loss.line).map(Loss::to_string);
    let size = if page.source.size > 0 { page.source.size } else { bytes.len() as u64 };
    read.inputs.push(InputReport {
        path: path.clone(),
        kind: "metrics",
        bytes: size,
        records: summary.samples,
        skipped,
        first_error,
    });
    read.losses.extend(losses.into_values());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_times() {
        let at = 1_795_166_276 * SECOND;
        for name in [
            "1795166276.txt",
            "1795166276.txt.zst",
            "1795166276000.prom",
            "metrics-1795166276.gz",
            "apiserver_0_1795166276.txt",
            "2026-11-20T09:17:56Z.txt",
            "2026-11-20T09-17-56Z",
            "scrape-2026-11-20T09-17-56Z.txt.gz",
            "2026-11-20T09:17:56.metrics",
            "kube-apiserver-20261120T091756Z.om",
            "2026-11-20T04:17:56-05:00.txt",
            "2026-11-20T04-17-56-05-00.txt",
            "2026-11-20T10:17:56+01:00.txt",
            "2026-11-20_09-17-56.txt",
            "scrape 2026-11-20 09:17:56.txt",
            "metrics-20261120091756.txt",
            "1795166276000000.txt",
            "1795166276000000000.txt",
        ] {
            assert_eq!(time_in(name), Some(at), "{name}");
        }
        assert_eq!(time_in("1795166276.25.txt"), Some(at + SECOND / 4));
        assert_eq!(time_in("2026-11-20T09-17-56.5Z.txt"), Some(at + SECOND / 2));
        for name in ["metrics.txt", "10-0-0-12.txt", "page-1.txt", "123456789.txt", "v1.36.txt"] {
            assert_eq!(time_in(name), None, "{name}");
        }
    }

    #[test]
    fn pages_are_unpacked_whatever_their_frames_say() {
        use std::io::Write;
        let home = tempfile::tempdir().unwrap();
        let page: Vec<u8> = (0..20_000).flat_map(|n| format!("up{{n=\"{n}\"}} {n}\n").into_bytes()).collect();
        let with_length = zstd::bulk::compress(&page, 3).unwrap();
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.write_all(&page).unwrap();
        let without_length = encoder.finish().unwrap();
        assert_eq!(get_frame_content_size(&with_length).ok().flatten(), Some(page.len() as u64));
        assert_eq!(get_frame_content_size(&without_length).ok().flatten(), None);
        let twice = [with_length.clone(), with_length.clone()].concat();
        let cut = with_length[..with_length.len() / 2].to_vec();
        // The first frame is not all of it.
        let mut first = zstd::bulk::compress(&[b'\n'; 70_000], 3).unwrap();
        first.extend_from_slice(&with_length);
        let mut buffer = PageBuffer::default();
        let mut read = |name: &str, bytes: &[u8]| {
            let path = home.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut source = super::super::open::recognise(&Place::File(path)).unwrap();
            let result = buffer.fill(&mut source);
            (buffer.text().to_vec(), result.is_ok())
        };
        assert_eq!(read("a.zst", &with_length), (page.clone(), true));
        assert_eq!(read("b.zst", &without_length), (page.clone(), true));
        assert_eq!(read("c.zst", &twice), ([page.clone(), page.clone()].concat(), true));
        let (text, is_whole) = read("d.zst", &cut);
        assert!(!is_whole && page.starts_with(&text), "{} bytes", text.len());
        let (text, is_whole) = read("e.zst", &first);
        assert!(is_whole && text.ends_with(&page) && text.len() == 70_000 + page.len());
        assert_eq!(read("f.zst", &with_length), (page, true), "after one that was damaged");
    }
}
