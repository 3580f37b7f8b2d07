//! Writing the history store: appending to its log, sealing days, putting months together, dropping what is old.
//! (Formats and guarantees: docs/history.md.)

mod append;
mod keep;
mod rollups;
mod seal;
mod table;
#[cfg(test)]
mod tests;

pub use append::{Appended, Sample, SeriesId, Writer};
pub use keep::{Dropped, Keep, drop_old, put_together};
pub use rollups::{Age, KeepRollups, Plan, RollupsWriter};
pub use seal::{GRACE, Sealed, seal};

use crate::sources::store::{LOCK, MARKER, ROLLUPS, Store, StoreError, VERSION};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Opens the store in a folder; makes one where the folder is empty or absent.
pub fn open_or_make(folder: &Path) -> Result<Store, StoreError> {
    match Store::open(folder) {
        Err(StoreError::NoStore(name)) => {
            fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
            // Another that makes it at the same time has made some of these.
            let ours = [MARKER, LOCK, "log", "points", "days", ROLLUPS];
            let entries = fs::read_dir(folder).map_err(StoreError::io(folder))?;
            let is_foreign = |name: &str| !ours.contains(&name) && !name.starts_with('.');
            if entries.filter_map(Result::ok).any(|entry| is_foreign(&entry.file_name().to_string_lossy())) {
                return Err(StoreError::Io {
                    path: name,
                    error: std::io::Error::other(
                        "the folder holds other files and is not a store; give a folder that is empty or absent",
                    ),
                });
            }
            for name in ["log", "points", "days"] {
                let inner = folder.join(name);
                fs::create_dir_all(&inner).map_err(StoreError::io(&inner))?;
            }
            let lock = folder.join(LOCK);
            OpenOptions::new().create(true).append(true).open(&lock).map_err(StoreError::io(&lock))?;
            let marker = folder.join(MARKER);
            super::fresh::replace(&marker, VERSION.as_bytes()).map_err(StoreError::io(&marker))?;
            sync(folder)?;
            if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let _ = File::open(parent).and_then(|parent| parent.sync_all());
            }
            Store::open(folder)
        }
        other => other,
    }
}

/// Flushes a folder, so that names of files in it outlive a crash.
fn sync(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::io(folder))
}

/// The right to move files of a store, as long as it lives; `None` while somebody reads or has it.
fn exclusive(store: &Store) -> Result<Option<File>, StoreError> {
    try_lock(&store.folder.join(LOCK))
}

/// A lock of one's own on a file, which is made if need be; `None` while somebody else has one.
fn try_lock(path: &Path) -> Result<Option<File>, StoreError> {
    super::fresh::try_lock(path).map_err(StoreError::io(path))
}

/// Writes a small file as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary).map_err(StoreError::io(&temporary))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        StoreError::io(path)(error)
    })
}
