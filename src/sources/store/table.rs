//! A Parquet file of the store, read a row group at a time. Before anything is decoded its bytes are checked by the
//! sums in the index that lies beside the file, so that damage costs a row group and is reported, and never reaches a
//! decoder.

use crate::model::problem::{Problem, ProblemKind, guarded};
use crate::model::series::Selector;
use polars::io::SerReader;
use polars::prelude::{DataFrame, FileMetadata, ParallelStrategy, ParquetReader};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that have a checksum together.
pub const BLOCK: usize = 64 << 10;

/// A row group, as the index has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub rows: u64,
    /// The text of its first series.
    pub first: String,
    /// The text of its last series.
    pub last: String,
}

/// What lies beside a Parquet file: its size, checksums, row groups, and its footer once more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Bytes of the file.
    pub bytes: u64,
    /// CRC32C of each [`BLOCK`] of it.
    pub sums: Vec<u32>,
    /// Its row groups.
    pub groups: Vec<Group>,
    /// Its end, with the footer, in hexadecimal.
    pub footer: String,
}

impl Index {
    /// As it is written: its checksum, and JSON.
    pub fn to_text(&self) -> Option<String> {
        let json = serde_json::to_string(self).ok()?;
        Some(format!("{:08x}\n{json}\n", crc32c::crc32c(json.as_bytes())))
    }

    /// What was written; `None` if it is damaged.
    pub fn read(text: &str) -> Option<Self> {
        let (sum, json) = text.split_once('\n')?;
        let json = json.trim_end();
        (u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(json.as_bytes())).then_some(())?;
        serde_json::from_str(json).ok()
    }

    fn footer(&self) -> Option<Vec<u8>> {
        let pair = |at: usize| u8::from_str_radix(self.footer.get(at..at + 2)?, 16).ok();
        (0..self.footer.len()).step_by(2).map(pair).collect()
    }
}

/// Where the index of a Parquet file lies.
pub fn index_path(path: &Path) -> PathBuf {
    path.with_extension("index")
}

/// A Parquet file.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    file: File,
    bytes: u64,
    index: Option<Index>,
    meta: Arc<FileMetadata>,
    /// What is wrong with the file as a whole.
    pub(super) complaint: Option<String>,
}

impl Table {
    /// Opens a file; says why it can't be read at all.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let index = std::fs::read_to_string(index_path(path)).ok().and_then(|text| Index::read(&text));
        let mut complaint =
            index.is_none().then(|| "its index is missing or damaged: read without checksums".to_owned());
        if index.as_ref().is_some_and(|index| index.bytes != bytes) {
            complaint = Some("its size has changed since it was written".to_owned());
        }
        let wanted = index.as_ref().map_or(bytes, |index| index.bytes);
        let footer = match index.as_ref().and_then(Index::footer) {
            Some(footer) => footer,
            None => tail(&file, bytes)?,
        };
        let room = usize::try_from(wanted).map_err(too_large)?;
        let meta = guarded(|| {
            let mut image = vec![0; room];
            let at = room.checked_sub(footer.len()).ok_or_else(|| Problem::malformed("it is too short"))?;
            image[at..].copy_from_slice(&footer);
            let mut reader = ParquetReader::new(Cursor::new(image));
            reader.get_metadata().cloned().map_err(Problem::from)
        })?;
        Ok(Self { path: path.to_owned(), file, bytes: wanted, index, meta, complaint })
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The names of its columns.
    pub(super) fn columns(&self) -> Vec<String> {
        self.meta
            .schema_descr
            .columns()
            .iter()
            .filter_map(|column| Some(column.path_in_schema.first()?.to_string()))
            .collect()
    }

    /// How many row groups there are.
    pub(super) fn groups(&self) -> usize {
        self.meta.row_groups.len()
    }

    /// Whether a row group may hold a series that is meant.
    pub(super) fn may_hold(&self, group: usize, selector: &Selector) -> bool {
        let Some(known) = self.index.as_ref().and_then(|index| index.groups.get(group)) else { return true };
        if selector.name.is_empty() {
            return true;
        }
        let (begin, end) = (format!("{}{{", selector.name), format!("{}|", selector.name));
        // Behind a name stands `{`, and `|` comes behind that.
        known.last.as_str() >= begin.as_str() && known.first.as_str() < end.as_str()
    }

    /// Rows and series of a row group, for messages.
    pub(super) fn describe(&self, group: usize) -> String {
        let rows = |group: usize| self.meta.row_groups.get(group).map_or(0, |group| group.num_rows());
        let before: usize = (0..group).map(rows).sum();
        let names = self.index.as_ref().and_then(|index| index.groups.get(group));
        let names = names.map_or(String::new(), |group| format!(", from {} to {}", group.first, group.last));
        format!("rows {} to {}{names}", before + 1, before + rows(group))
    }

    /// The columns of a row group.
    pub(super) fn read(&mut self, group: usize, columns: &[&str]) -> Result<DataFrame, Problem> {
        let meta = Arc::clone(&self.meta);
        let chosen = meta.row_groups.get(group).ok_or_else(|| Problem::malformed("no such row group"))?;
        // As large as the file, but what is not written to takes no memory.
        let mut image = vec![0; usize::try_from(self.bytes).map_err(too_large)?];
        let mut have: Vec<Range<usize>> = Vec::new();
        for column in columns {
            let found = chosen
                .columns_under_root_iter(column)
                .ok_or_else(|| Problem::malformed(format!("it has no column {column}")))?;
            for chunk in found {
                let range = chunk.byte_range();
                let first = range.start as usize / BLOCK * BLOCK;
                let end = (range.end as usize).div_ceil(BLOCK).saturating_mul(BLOCK).min(image.len());
                if first >= end || range.end > self.bytes {
                    return Err(Problem::malformed("its footer points beyond its end"));
                }
                have.push(first..end);
            }
        }
        have.sort_by_key(|range| range.start);
        let mut done = 0;
        for range in have {
            let range = range.start.max(done)..range.end;
            if range.start < range.end {
                self.fill(&mut image, range.clone())?;
            }
            done = done.max(range.end);
        }
        let mut one = FileMetadata::clone(&meta);
        one.num_rows = chosen.num_rows();
        one.row_groups = vec![chosen.clone()];
        let names: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        guarded(move || {
            let mut reader = ParquetReader::new(Cursor::new(image))
                .with_columns(Some(names))
                .read_parallel(ParallelStrategy::Columns);
            reader.set_metadata(Arc::new(one));
            let mut frame = reader.finish()?;
            frame.rechunk_mut_par();
            Ok(frame)
        })
    }

    /// Reads blocks, and compares them with their sums.
    fn fill(&mut self, image: &mut [u8], range: Range<usize>) -> Result<(), Problem> {
        let place = range.start;
        let bytes = &mut image[range];
        self.file.seek(SeekFrom::Start(place as u64))?;
        self.file.read_exact(bytes)?;
        let Some(index) = &self.index else { return Ok(()) };
        for (n, block) in bytes.chunks(BLOCK).enumerate() {
            if index.sums.get(place / BLOCK + n) != Some(&crc32c::crc32c(block)) {
                let (from, to) = (place + n * BLOCK, place + n * BLOCK + block.len());
                let what = format!("bytes {from} to {to} have changed since they were written");
                return Err(Problem::damaged(what));
            }
        }
        Ok(())
    }
}

fn too_large(error: std::num::TryFromIntError) -> Problem {
    Problem::new(ProblemKind::TooLarge, error.to_string())
}

/// The footer of a file that has no index.
fn tail(mut file: &File, bytes: u64) -> Result<Vec<u8>, Problem> {
    let mut read = |back: u64| -> Result<Vec<u8>, Problem> {
        let at = bytes.checked_sub(back).ok_or_else(|| Problem::malformed("it is too short for Parquet"))?;
        file.seek(SeekFrom::Start(at))?;
        let mut end = Vec::new();
        file.take(back).read_to_end(&mut end)?;
        Ok(end)
    };
    let end = read(8)?;
    let length = end.first_chunk::<4>().map(|length| u32::from_le_bytes(*length)).filter(|_| end.ends_with(b"PAR1"));
    read(u64::from(length.ok_or_else(|| Problem::malformed("not Parquet, or its end is missing"))?) + 8)
}
