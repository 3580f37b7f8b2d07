//! A file that is written under another name, and gets its own when it is whole.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Refuses a folder that is to be made, if it is there and not empty.
pub fn is_free(folder: &Path) -> io::Result<()> {
    match folder.is_file() || fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        true => Err(io::Error::new(io::ErrorKind::AlreadyExists, "it already exists and is not empty; choose another")),
        false => Ok(()),
    }
}

/// A folder that only the user may look into, if it is not there yet.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// A folder of this process's own among temporary files, which is removed with this. What a killed process left is
/// removed by the next one.
#[derive(Debug)]
pub struct Temporary {
    folder: PathBuf,
    /// Its own lock, held as long as it is needed.
    _lock: File,
}

impl Temporary {
    /// Makes one that is called after what it is for; nobody else may look into it.
    pub fn make(what: &str) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let home = std::env::temp_dir();
        let prefix = format!("plimsoll-{what}-");
        remove_left(&home, &prefix);
        let mut tries = 0;
        loop {
            let path = home.join(format!("{prefix}{}-{tries}", std::process::id()));
            match builder.create(&path) {
                Ok(()) => match lock_of(&path).filter(|_| path.is_dir()) {
                    Some(lock) => return Ok(Self { folder: path, _lock: lock }),
                    // Another process took it for one that is left.
                    None => tries += 1,
                },
                // Somebody else's, or of a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The lock on a folder; `None` while somebody has it.
fn lock_of(folder: &Path) -> Option<File> {
    File::open(folder).ok().filter(|folder| folder.try_lock().is_ok())
}

/// Removes temporary folders that nobody needs any more.
fn remove_left(home: &Path, prefix: &str) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let is_its = entry.file_name().to_string_lossy().starts_with(prefix);
        if is_its && entry.file_type().is_ok_and(|kind| kind.is_dir()) && lock_of(&entry.path()).is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A file to add to, made if need be; nobody else may read it.
pub fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create(true).append(true).open(path)
}

/// A lock of one's own on a file, which is made if need be, as long as it lives; `None` while somebody else has one.
pub fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether a file or folder was changed longer ago than this.
pub fn is_older(path: &Path, than: Duration) -> bool {
    let changed = fs::metadata(path).and_then(|meta| meta.modified());
    changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > than))
}

/// A file that is being written. Dropped before [`Self::finish`], it is removed.
#[derive(Debug)]
pub struct Fresh {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    is_done: bool,
}

impl Fresh {
    /// Begins a file that will be `target`, in its folder. Nobody else may read it: it may hold Secrets.
    pub fn create(target: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Self::open(target, &mut options)
    }

    /// Begins a file with these options.
    fn open(target: &Path, options: &mut OpenOptions) -> io::Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "is not a valid file name"))?;
        // Collectors of text files read `*.prom`: a temporary file must not end so.
        let temporary = target.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        // What a killed run of the same number left behind.
        let _ = fs::remove_file(&temporary);
        let file = options.read(true).write(true).create_new(true).open(&temporary)?;
        Ok(Self { file, temporary, target: target.to_owned(), is_done: false })
    }

    /// Throws away what was written.
    pub fn restart(&mut self) -> io::Result<()> {
        io::Seek::rewind(&mut self.file)?;
        self.file.set_len(0)
    }

    /// Where it is until it is whole.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// It is whole: flushed to the disk, and renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.is_done = true;
        // So that the new name outlives a crash as well; not every file system can.
        if let Some(folder) = self.target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

/// Replaces `target` by a file that everyone may read whom the umask lets.
pub fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Fresh::open(target, &mut OpenOptions::new())?;
    file.write_all(content)?;
    file.finish()
}

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_folders_that_are_left_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::create_dir(home.path().join(name)).unwrap();
        ["plimsoll-x-1-0", "plimsoll-x-2-0", "plimsoll-y-1-0"].into_iter().for_each(make);
        fs::write(home.path().join("plimsoll-x-1-0/part"), "rows").unwrap();
        let held = lock_of(&home.path().join("plimsoll-x-2-0")).unwrap();
        remove_left(home.path(), "plimsoll-x-");
        let is_there = |name: &str| home.path().join(name).is_dir();
        assert!(!is_there("plimsoll-x-1-0") && is_there("plimsoll-x-2-0") && is_there("plimsoll-y-1-0"));
        drop(held);
        remove_left(home.path(), "plimsoll-x-");
        assert!(!is_there("plimsoll-x-2-0"));
    }
}
