//! How a file is packed, and the beginning of what it holds.

use super::content::{Content, look};
use crate::model::time::Micros;
use std::io::{self, BufReader, Cursor, Read};

/// How much of what a file holds is looked at to determine what it is.
pub const HEAD: usize = 64 << 10;

/// As much as Zstandard may need to give anything: the header of a frame (18 bytes at most), that of a block (3), and
/// the block, which is given whole or not at all (RFC 8878, sections 3.1.1.1 and 3.1.1.2).
const ZSTD_HEAD: usize = 18 + 3 + (128 << 10);

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all: it can be read at any place.
    None,
    /// gzip, possibly several members.
    Gzip,
    /// Zstandard, possibly several frames.
    Zstd,
    /// As columns of a dataset (docs/dataset.md), to be read in order.
    Dataset,
}

impl Packing {
    /// Of a file that begins so.
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// How much of the file must be there to show what it holds.
    pub fn head(self) -> usize {
        if self == Self::Zstd { ZSTD_HEAD } else { HEAD }
    }
}

/// The beginning of a file, as much as shows what it holds.
pub fn read_head(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let more = Packing::of(&head).head() - HEAD;
    if head.len() == HEAD && more > 0 {
        reader.take(more as u64).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// How a file that begins so is packed, and the beginning of what it holds.
#[derive(Debug)]
pub struct Begin {
    pub packing: Packing,
    /// At most [`HEAD`] bytes.
    pub plain: Vec<u8>,
    /// Whether it is packed, and so cut off or damaged that nothing of it can be unpacked.
    pub is_lost: bool,
}

impl Begin {
    /// Of a file that begins so.
    pub fn of(head: &[u8]) -> Self {
        let packing = Packing::of(head);
        if packing == Packing::None {
            return Self { packing, plain: head[..head.len().min(HEAD)].to_vec(), is_lost: false };
        }
        let mut plain = Vec::new();
        // A damaged stream shows what it can: whoever reads it meets the damage again and reports it.
        let read = unpack(packing, Cursor::new(head)).and_then(|r| r.take(HEAD as u64).read_to_end(&mut plain));
        Self { packing, is_lost: read.is_err() && plain.is_empty(), plain }
    }

    /// What it is, and the first event's time if it is a log that shows one.
    pub fn look(&self) -> (Content, Option<Micros>) {
        if self.is_lost { (Content::CUT, None) } else { look(&self.plain) }
    }
}

/// Unpacks `reader`.
pub fn unpack<'r>(packing: Packing, reader: impl Read + Send + 'r) -> io::Result<Box<dyn Read + Send + 'r>> {
    Ok(match packing {
        Packing::None => Box::new(reader),
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(BufReader::with_capacity(128 << 10, reader))),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(reader)?),
        Packing::Dataset => return Err(io::Error::other("a dataset holds no lines to go on from; give the logs")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that nothing packs, as what is encrypted: they fill a block of Zstandard, which is twice as long as what
    /// shows other files.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Less than seven bits a byte, so that the block is packed and not stored.
            (state >> 56) as u8 % 96
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn what_hardly_packs_shows_its_begin() {
        let bytes = noise(1 << 20);
        let packed = zstd::encode_all(bytes.as_slice(), 3).unwrap();
        assert!(Begin::of(&packed[..HEAD]).is_lost, "no block is in so little of it");
        let head = read_head(packed.as_slice()).unwrap();
        let begin = Begin::of(&head);
        assert_eq!((begin.packing, begin.is_lost, begin.plain.as_slice()), (Packing::Zstd, false, &bytes[..HEAD]));
    }

    #[test]
    fn nothing_packed_is_empty_and_what_is_cut_is_not() {
        for (packing, level) in [(Packing::Zstd, 3), (Packing::Zstd, 1)] {
            let empty = zstd::encode_all(&[][..], level).unwrap();
            assert!(!Begin::of(&empty).is_lost);
            let packed = zstd::encode_all(noise(1 << 18).as_slice(), level).unwrap();
            let begin = Begin::of(&packed[..100]);
            assert_eq!((begin.packing, begin.is_lost, begin.look().0), (packing, true, Content::CUT));
        }
        let plain = noise(2 * HEAD);
        assert_eq!(Begin::of(&plain).plain.len(), HEAD);
        assert_eq!(read_head(plain.as_slice()).unwrap().len(), HEAD);
    }
}
