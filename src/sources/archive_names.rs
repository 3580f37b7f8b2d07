//! What files of unpacked archives are called in messages: by the archive, not by where they lie.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where archives lie now, and what they are called.
static NAMES: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// An archive was unpacked into a folder.
pub(super) fn add(folder: PathBuf, name: String) {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).push((folder, name));
}

/// Nothing is unpacked any more.
pub(super) fn clear() {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// A file as it is called in messages: in an archive by the archive's name.
pub fn shown(path: &Path) -> String {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.iter().find_map(|(root, name)| Some(Path::new(name).join(path.strip_prefix(root).ok()?)));
    known.as_deref().unwrap_or(path).display().to_string()
}

/// Whether a file lies there only while the program runs, unpacked from an archive.
pub fn is_unpacked(path: &Path) -> bool {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().any(|(root, _)| path.starts_with(root))
}
