//! When a database was taken. etcd keeps no times: the file's name has it, or what was written last, or the file.

use super::Database;
use super::object;
use crate::model::keyspace::Want;
use crate::model::time::{Micros, SECOND};
use crate::sources::pages::{modified, time_in};
use std::path::Path;

/// Leaf pages at the end of the keys whose values are looked at: the last writes of some minutes.
const LEAVES: usize = 256;

/// Clients choose some of the times in values. Of the last writes those count that are not further than this (seconds)
/// behind the one in the middle.
const SLACK_SECS: i64 = 900;

/// When a database was taken: by the name of its file or of the folder around it, else by the times in the values that
/// were written last, else by when the file was written.
pub fn taken(path: Option<&Path>, database: &Database) -> Option<Micros> {
    let names = [path, path.and_then(|path| path.parent())];
    let named = |name: &std::ffi::OsStr| time_in(&stem(&name.to_string_lossy()));
    let by_name = names.into_iter().flatten().filter_map(|path| path.file_name()).find_map(named);
    by_name.or_else(|| last_write(database)).or_else(|| path.and_then(modified))
}

/// A name without the endings of snapshots, which may stand before those of packing.
fn stem(name: &str) -> String {
    let ends = [".zst", ".gz", ".snapshot", ".snap", ".db"];
    let mut stem = name;
    while let Some(shorter) = ends.iter().find_map(|end| stem.strip_suffix(end)) {
        stem = shorter;
    }
    stem.to_owned()
}

/// The latest time in the values that were written last: leases are renewed every few seconds.
fn last_write(database: &Database) -> Option<Micros> {
    let want = Want { time: true, ..Want::default() };
    let mut times = Vec::new();
    database.last_values(LEAVES, |value| times.extend(object::look(value, &want).written));
    times.sort_unstable();
    let middle = *times.get(times.len() / 2)?;
    let last = times.into_iter().rev().find(|time| *time <= middle.saturating_add(SLACK_SECS))?;
    last.checked_mul(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_tell_when_they_were_taken() {
        for name in ["1795166396.db", "snapshot-1795166396.db.zst", "etcd-2026-11-20T09-19-56Z.snapshot", "1795166396"]
        {
            assert_eq!(time_in(&stem(name)), Some(1_795_166_396 * SECOND), "{name}");
        }
        for name in ["after.db.zst", "db", "snap", "0000000000000002-00000000000f4241.snap"] {
            assert_eq!(time_in(&stem(name)), None, "{name}");
        }
    }
}
