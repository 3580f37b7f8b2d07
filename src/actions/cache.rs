//! Writing to the user's cache of roll-ups, and removing from it.
//!
//! An entry is written into a folder `making-…`, whose lock its writer holds, and gets its own name when it is whole:
//! a writer that is killed leaves nothing that counts, and two of them write two entries. What is removed gets such a
//! name first. Of all other files in the folder none is touched.

use super::fresh::{Fresh, folder as private_folder};
use super::rollup::{self, Give};
use crate::model::cached::{ENTRY, Entry};
use crate::model::rollup::{MANIFEST, Manifest, SEAMS, TABLES};
use crate::sources::cache::{self, NAME};
use crate::sources::rolled::checksum;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What folders are called that are being written, or removed.
const MAKING: &str = "making-";

/// Held while one is written.
const LOCK: &str = ".lock";

/// A folder that nobody holds the lock of and that is older was left by a writer that was killed.
const LEFT: Duration = Duration::from_secs(10);

/// Writes an entry into a cache, unless it alone is larger than the cache may be. Gives its folder.
pub fn keep(
    cache: &Path,
    entry: Entry,
    manifest: &Manifest,
    give: &Give<'_>,
    limit: u64,
) -> io::Result<Option<PathBuf>> {
    private_folder(cache)?;
    clean(cache, LEFT);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let own = format!("{since:x}-{}", std::process::id());
    let making = cache.join(format!("{MAKING}{own}"));
    // The folder itself must be new, whoever made the one around it.
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&making)?;
    let lock = private_file(&making.join(LOCK))?;
    lock.try_lock()?;
    let written = write(&making, entry, manifest, give).and_then(|()| {
        if cache::bytes(&making) > limit {
            return Ok(None);
        }
        let folder = cache.join(format!("{NAME}{own}"));
        fs::rename(&making, &folder)?;
        let _ = File::open(cache).and_then(|cache| cache.sync_all());
        Ok(Some(folder))
    });
    if !matches!(written, Ok(Some(_))) {
        delete(&making);
    }
    written
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create_new(true).open(path)
}

fn write(making: &Path, entry: Entry, manifest: &Manifest, give: &Give<'_>) -> io::Result<()> {
    let tables = making.join(cache::TABLES);
    rollup::write(&tables, manifest, give, &[])?;
    let (_, sum) = checksum(File::open(tables.join(MANIFEST))?)?;
    let entry = Entry { manifest: format!("{sum:08x}"), ..entry }.sealed();
    let mut file = Fresh::create(&making.join(ENTRY))?;
    writeln!(file, "{}", serde_json::to_string_pretty(&entry)?)?;
    file.finish()
}

/// Remembers that an entry was used just now.
pub fn use_now(folder: &Path) {
    // Where the cache can't be written to, nothing is removed from it either.
    let _ = File::options().append(true).open(folder.join(ENTRY)).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes an entry; whoever reads it meanwhile meets an error and reads the log.
pub fn remove(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = name.strip_prefix(NAME).unwrap_or(&name);
    let leaving = folder.with_file_name(format!("{MAKING}{own}"));
    match fs::rename(folder, &leaving) {
        Ok(()) => delete(&leaving),
        // Somebody else has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Removes what writers that were killed have left, if it is older than `age`.
pub fn clean(cache: &Path, age: Duration) {
    let folders = fs::read_dir(cache).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_making = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MAKING));
    for folder in folders.filter(is_making).filter(|folder| folder.is_dir() && !folder.is_symlink()) {
        let changed = fs::metadata(&folder).and_then(|meta| meta.modified());
        let is_old = changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|is| is >= age));
        let is_held =
            File::open(folder.join(LOCK)).is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        if is_old && !is_held {
            delete(&folder);
        }
    }
}

/// Deletes the files that an entry has, and its folder if nothing else is in it.
fn delete(folder: &Path) {
    let is_own = |name: &str| {
        let is_table = TABLES.iter().chain([&SEAMS]).any(|spec| name.strip_suffix(".parquet") == Some(spec.name));
        let is_fresh = name.starts_with('.') && name.ends_with(".tmp");
        is_table || is_fresh || [ENTRY, MANIFEST, LOCK].contains(&name)
    };
    for place in [folder.join(cache::TABLES), folder.to_owned()] {
        for file in fs::read_dir(&place).into_iter().flatten().filter_map(Result::ok) {
            if is_own(&file.file_name().to_string_lossy()) {
                let _ = fs::remove_file(file.path());
            }
        }
        // Where something else lies in it, it stays.
        let _ = fs::remove_dir(&place);
    }
}

/// Removes the entries whose last use is longest ago until all have no more than so many bytes.
pub fn bound(cache: &Path, limit: u64) -> io::Result<()> {
    let contents = cache::contents(cache);
    let kept = contents.kept.into_iter().map(|kept| kept.folder);
    let mut all: Vec<(SystemTime, u64, PathBuf)> = kept
        .chain(contents.others)
        .chain(contents.damaged)
        .map(|folder| (cache::used(&folder), cache::bytes(&folder), folder))
        .collect();
    all.sort();
    let mut bytes: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, own, folder) in all {
        if bytes <= limit {
            break;
        }
        remove(&folder)?;
        bytes -= own;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cache: &Path, bytes: usize) -> PathBuf {
        let give = |_: &crate::model::rollup::TableSpec, _: &mut dyn FnMut(Vec<crate::model::rollup::Field<'_>>)| {};
        let manifest = Manifest { lost: Vec::new(), plimsoll: "x".repeat(bytes), ..Manifest::default() };
        keep(cache, Entry::default(), &manifest, &give, u64::MAX).unwrap().unwrap()
    }

    #[test]
    fn only_entries_are_removed_and_the_oldest_use_first() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("cache");
        let [first, second, third] = [0; 3].map(|_| entry(&cache, 1 << 20));
        for foreign in ["rollup-notes", "making-plans", "other"] {
            fs::create_dir(cache.join(foreign)).unwrap();
            fs::write(cache.join(foreign).join("mine.txt"), "mine").unwrap();
        }
        fs::write(second.join("mine.txt"), "mine").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for folder in [&first, &second, &third] {
            File::options().append(true).open(folder.join(ENTRY)).unwrap().set_modified(hour_ago).unwrap();
        }
        use_now(&first);
        bound(&cache, 3 << 20).unwrap();
        let there = |folder: &Path| folder.join(ENTRY).is_file();
        assert_eq!([&first, &second, &third].map(|folder| there(folder)).iter().filter(|is| **is).count(), 2);
        assert!(there(&first));
        bound(&cache, 0).unwrap();
        clean(&cache, Duration::ZERO);
        let mut left: Vec<String> = Vec::new();
        let mut folders = vec![cache.clone()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() { folders.push(path) } else { left.push(path.display().to_string()) }
            }
        }
        assert!(left.len() == 4 && left.iter().all(|path| path.ends_with("mine.txt")), "{left:?}");
    }

    #[test]
    fn what_is_being_written_stays_and_what_a_killed_writer_left_goes() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("making-1");
        fs::create_dir(&folder).unwrap();
        let lock = private_file(&folder.join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        fs::write(folder.join(ENTRY), "{").unwrap();
        clean(home.path(), Duration::ZERO);
        assert!(folder.join(ENTRY).exists());
        drop(lock);
        clean(home.path(), Duration::from_secs(600));
        assert!(folder.exists(), "it may have been begun just now");
        clean(home.path(), Duration::ZERO);
        assert!(!folder.exists());
    }

    #[test]
    #[cfg(unix)]
    fn nobody_else_may_look_into_it() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("cache");
        let made = entry(&cache, 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&cache), mode(&made), mode(&made.join("rollup"))], [0o700; 3]);
        for folder in [made.clone(), made.join("rollup")] {
            for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                assert_eq!(mode(&file), 0o600, "{}", file.display());
            }
        }
    }
}
