//! The log: files of checksummed frames that are only appended to. (Form: docs/history.md.)
//!
//! A file holds samples of one day and belongs to one writer, which holds a lock on it. A frame that is whole and on
//! disk is acknowledged. At the end of a file whose writer was killed there may be part of a frame: nobody was notified
//! that it is safe, so nothing is lost. What is wrong before that is.

use crate::model::time::Micros;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// What a file begins with, before the day and a checksum of both.
pub const MAGIC: &[u8; 8] = b"PLMSLOG1";
/// Bytes before the first frame.
pub const HEAD: u64 = 16;
/// What a frame begins with.
const FRAME: &[u8; 4] = b"\xf5PLF";
/// Bytes of a frame before its content: [`FRAME`], length, checksum of both, checksum of the content.
const FRAME_HEAD: usize = 16;
/// The longest content of a frame.
pub const MAX_BLOCK_BYTES: usize = 8 << 20;

/// The first bytes of a file.
pub fn head(day: i32) -> [u8; HEAD as usize] {
    let mut head = [0; HEAD as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&day.to_le_bytes());
    let sum = crc32c::crc32c(&head[..12]);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Puts a frame together.
#[derive(Debug, Default)]
pub struct Encoder {
    first_id: u32,
    keys: Vec<u8>,
    key_count: u64,
    samples: Vec<u8>,
    sample_count: u64,
    last: (u32, Micros),
}

impl Encoder {
    /// A frame whose first new series has this number.
    pub fn new(first_id: u32) -> Self {
        Self { first_id, ..Self::default() }
    }

    /// Names the next series.
    pub fn name(&mut self, key: &str) {
        put(&mut self.keys, key.len() as u64);
        self.keys.extend_from_slice(key.as_bytes());
        self.key_count += 1;
    }

    /// Adds a sample.
    pub fn sample(&mut self, id: u32, at: Micros, value: f64) {
        put(&mut self.samples, zigzag(i64::from(id) - i64::from(self.last.0)));
        put(&mut self.samples, zigzag(at.wrapping_sub(self.last.1)));
        self.samples.extend_from_slice(&value.to_le_bytes());
        self.sample_count += 1;
        self.last = (id, at);
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.keys.len() + self.samples.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.sample_count == 0 && self.key_count == 0
    }

    /// The frame as it is written.
    pub fn finish(self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(FRAME_HEAD + self.len() + 32);
        frame.resize(FRAME_HEAD, 0);
        put(&mut frame, u64::from(self.first_id));
        put(&mut frame, self.key_count);
        frame.extend_from_slice(&self.keys);
        put(&mut frame, self.sample_count);
        frame.extend_from_slice(&self.samples);
        let (length, content) = ((frame.len() - FRAME_HEAD) as u32, crc32c::crc32c(&frame[FRAME_HEAD..]));
        frame[..4].copy_from_slice(FRAME);
        frame[4..8].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c::crc32c(&frame[..8]);
        frame[8..12].copy_from_slice(&sum.to_le_bytes());
        frame[12..16].copy_from_slice(&content.to_le_bytes());
        frame
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// A frame that was read.
#[derive(Debug)]
pub struct Frame<'f> {
    /// The number of the first series that it names.
    pub first_id: u32,
    /// The series that it names.
    pub keys: Vec<&'f str>,
    count: u64,
    samples: &'f [u8],
}

impl<'f> Frame<'f> {
    fn read(mut content: &'f [u8]) -> Option<Self> {
        let first_id = u32::try_from(take(&mut content)?).ok()?;
        let count = take(&mut content)?;
        let mut keys = Vec::new();
        for _ in 0..count {
            let length = usize::try_from(take(&mut content)?).ok()?;
            keys.push(std::str::from_utf8(content.get(..length)?).ok()?);
            content = &content[length..];
        }
        let count = take(&mut content)?;
        Some(Self { first_id, keys, count, samples: content })
    }

    /// Its samples: number of the series, when, what. Whether all could be read.
    pub fn each(&self, mut sample: impl FnMut(u32, Micros, f64)) -> bool {
        let (mut bytes, mut id, mut at) = (self.samples, 0i64, 0i64);
        for _ in 0..self.count {
            let (Some(next), Some(later)) = (take(&mut bytes), take(&mut bytes)) else { return false };
            let Some((value, rest)) = bytes.split_first_chunk::<8>() else { return false };
            bytes = rest;
            (id, at) = (id.wrapping_add(unzigzag(next)), at.wrapping_add(unzigzag(later)));
            let Ok(id) = u32::try_from(id) else { return false };
            sample(id, at, f64::from_le_bytes(*value));
        }
        true
    }
}

/// What a file came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Where its last whole frame ends.
    pub end: u64,
    /// Whether part of a frame follows.
    pub is_torn: bool,
    /// Where it is damaged, in bytes from its start.
    pub damaged: Vec<u64>,
}

/// Reads a file's frames, up to `limit` bytes of it.
pub fn scan(path: &Path, limit: u64, mut each: impl FnMut(&Frame<'_>)) -> io::Result<Scanned> {
    let file = File::open(path)?;
    let size = file.metadata()?.len().min(limit);
    let mut file = BufReader::with_capacity(256 << 10, file);
    let mut scanned = Scanned::default();
    let mut begin = [0; HEAD as usize];
    if size < HEAD {
        scanned.is_torn = size > 0;
        return Ok(scanned);
    }
    file.read_exact(&mut begin)?;
    let mut at = HEAD;
    let sum = crc32c::crc32c(&begin[..12]);
    if &begin[..8] != MAGIC || begin[12..] != sum.to_le_bytes() {
        if rest_is_zero(&mut file, 0, size)? {
            scanned.is_torn = true;
            return Ok(scanned);
        }
        file.seek(SeekFrom::Start(HEAD))?;
        scanned.damaged.push(0);
    }
    scanned.end = HEAD;
    let mut content = Vec::new();
    while at < size {
        if size - at < FRAME_HEAD as u64 {
            scanned.is_torn = true;
            break;
        }
        let mut begin = [0; FRAME_HEAD];
        file.read_exact(&mut begin)?;
        let Some((length, sum)) = frame_head(&begin) else {
            if rest_is_zero(&mut file, at, size)? {
                scanned.is_torn = true;
                break;
            }
            scanned.damaged.push(at);
            match next_frame(&mut file, at + 1, size)? {
                Some(next) => at = next,
                None => break,
            }
            file.seek(SeekFrom::Start(at))?;
            continue;
        };
        let end = at + (FRAME_HEAD + length) as u64;
        if end > size {
            scanned.is_torn = true;
            break;
        }
        content.resize(length, 0);
        file.read_exact(&mut content)?;
        let frame = if crc32c::crc32c(&content) == sum { Frame::read(&content) } else { None };
        match frame {
            Some(frame) => {
                each(&frame);
                scanned.end = end;
            }
            // A machine that lost power may have made room for a frame and not filled it.
            None if end == size && content.iter().rev().take(64).all(|byte| *byte == 0) => {
                scanned.is_torn = true;
                break;
            }
            None => scanned.damaged.push(at),
        }
        at = end;
    }
    Ok(scanned)
}

/// Length and checksum of a frame's content.
fn frame_head(head: &[u8; FRAME_HEAD]) -> Option<(usize, u32)> {
    let number = |at: usize| head[at..].first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let length = number(4)? as usize;
    let is_one = &head[..4] == FRAME && number(8)? == crc32c::crc32c(&head[..8]) && length <= MAX_BLOCK_BYTES;
    is_one.then_some((length, number(12)?))
}

/// Whether nothing but zeros follows.
fn rest_is_zero(file: &mut BufReader<File>, at: u64, size: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let mut left = size - at;
    let mut bytes = vec![0; 64 << 10];
    while left > 0 {
        let wanted = bytes.len().min(left as usize);
        file.read_exact(&mut bytes[..wanted])?;
        if bytes[..wanted].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        left -= wanted as u64;
    }
    Ok(true)
}

/// Where the next frame begins.
fn next_frame(file: &mut BufReader<File>, mut at: u64, size: u64) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; 1 << 20];
    while at + FRAME_HEAD as u64 <= size {
        file.seek(SeekFrom::Start(at))?;
        let wanted = bytes.len().min((size - at) as usize);
        file.read_exact(&mut bytes[..wanted])?;
        let heads = memchr::memmem::find_iter(&bytes[..wanted], FRAME);
        let found = heads.filter_map(|place| Some((place, bytes[place..wanted].first_chunk::<FRAME_HEAD>()?)));
        if let Some((place, _)) = found.filter(|(_, head)| frame_head(head).is_some()).take(1).next() {
            return Ok(Some(at + place as u64));
        }
        at += (wanted - (FRAME_HEAD - 1)).max(1) as u64;
    }
    Ok(None)
}

/// A sketch's buckets as bytes: how many, then for each how far it is from the one before, and its count.
pub fn pack(buckets: impl Iterator<Item = (u16, u64)>) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0);
    for (bucket, count) in buckets {
        put(&mut bytes, u64::from(bucket.wrapping_sub(last)));
        put(&mut bytes, count);
        last = bucket;
    }
    bytes
}

/// The buckets that [`pack`] wrote; `None` if these are none.
pub fn unpack(mut bytes: &[u8]) -> Option<Vec<(u16, u64)>> {
    let (mut buckets, mut last) = (Vec::new(), 0u16);
    while !bytes.is_empty() {
        last = last.checked_add(u16::try_from(take(&mut bytes)?).ok()?)?;
        buckets.push((last, take(&mut bytes)?));
    }
    Some(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Samples = Vec<(u32, Micros, u64)>;

    fn file(frames: &[Samples]) -> (tempfile::NamedTempFile, Vec<usize>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = head(20_000).to_vec();
        let mut ends = vec![bytes.len()];
        for (n, samples) in frames.iter().enumerate() {
            let mut frame = Encoder::new(n as u32);
            frame.name(&format!("s{n}{{}}"));
            samples.iter().for_each(|(id, at, value)| frame.sample(*id, *at, *value as f64));
            bytes.extend(frame.finish());
            ends.push(bytes.len());
        }
        std::fs::write(file.path(), &bytes).unwrap();
        (file, ends)
    }

    fn read(path: &Path) -> (Vec<(String, Samples)>, Scanned) {
        let mut frames = Vec::new();
        let scanned = scan(path, u64::MAX, |frame| {
            let mut samples = Vec::new();
            assert!(frame.each(|id, at, value| samples.push((id, at, value as u64))));
            frames.push((format!("{}{}", frame.first_id, frame.keys.concat()), samples));
        });
        (frames, scanned.unwrap())
    }

    fn samples() -> impl Strategy<Value = Vec<Samples>> {
        proptest::collection::vec(proptest::collection::vec((0u32..9, any::<i64>(), 0u64..1 << 50), 0..20), 1..6)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in samples()) {
            let (file, ends) = file(&frames);
            let (read, scanned) = read(file.path());
            prop_assert_eq!(scanned, Scanned { end: ends[frames.len()] as u64, ..Scanned::default() });
            let expected: Vec<_> = frames.into_iter().enumerate().map(|(n, samples)| (format!("{n}s{n}{{}}"),
                samples)).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn cut_anywhere_all_whole_frames_are_read(frames in samples(), cut in 0.0..1.0) {
            let (file, ends) = file(&frames);
            let size = (cut * (*ends.last().unwrap() as f64)) as usize;
            file.as_file().set_len(size as u64).unwrap();
            let (read, scanned) = read(file.path());
            let whole = ends.iter().filter(|end| **end <= size).count();
            prop_assert_eq!(read.len(), whole.saturating_sub(1));
            prop_assert!(scanned.damaged.is_empty());
            prop_assert_eq!(scanned.is_torn, size > 0 && !ends.contains(&size));
        }

        #[test]
        fn a_flipped_byte_costs_one_frame_and_is_seen(frames in samples(), place in 0.0..1.0, flip in 1u8..) {
            let (file, ends) = file(&frames);
            let mut bytes = std::fs::read(file.path()).unwrap();
            let at = (place * bytes.len() as f64) as usize;
            bytes[at] ^= flip;
            std::fs::write(file.path(), &bytes).unwrap();
            let (read, scanned) = read(file.path());
            let hit = ends.iter().filter(|end| **end <= at).count();
            let kept = frames.len() - usize::from(hit > 0);
            prop_assert_eq!(read.len(), kept, "byte {} of {:?}", at, ends);
            prop_assert_eq!(scanned.damaged.len(), 1);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300),
            frames in samples()) {
            let (file, _) = file(&frames);
            let whole = std::fs::read(file.path()).unwrap();
            std::fs::write(file.path(), [&whole[..], &bytes, &whole[HEAD as usize..]].concat()).unwrap();
            let (read, scanned) = read(file.path());
            prop_assert!(read.len() >= frames.len());
            prop_assert!(bytes.is_empty() || !scanned.damaged.is_empty());
        }

        #[test]
        fn sketches_survive(buckets in proptest::collection::btree_map(any::<u16>(), any::<u64>(), 0..50)) {
            let packed = pack(buckets.iter().map(|(bucket, count)| (*bucket, *count)));
            prop_assert_eq!(unpack(&packed), Some(buckets.into_iter().collect::<Vec<_>>()));
        }
    }

    #[test]
    fn zeros_behind_the_last_frame_are_no_damage() {
        let (file, ends) = file(&[vec![(0, 1, 2)], vec![(0, 2, 3)]]);
        let mut bytes = std::fs::read(file.path()).unwrap();
        bytes.extend([0; 1000]);
        std::fs::write(file.path(), &bytes).unwrap();
        let (read, scanned) = read(file.path());
        assert_eq!((read.len(), scanned.is_torn, scanned.damaged.len()), (2, true, 0));
        assert_eq!(scanned.end, ends[2] as u64);
    }
}
