//! What files of unpacked archives, and roll-ups of an engine, are called in messages: by the archive or the URI, not
//! by where they lie.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where archives lie now, and what they are called.
static NAMES: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// What is called so lies in a folder.
pub fn add(folder: PathBuf, name: String) {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).push((folder, name));
}

/// Nothing is unpacked any more.
pub(super) fn clear() {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// A file as it is called in messages: in an archive by the archive's name.
pub fn shown(path: &Path) -> String {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.iter().find_map(|(root, name)| {
        let below = path.strip_prefix(root).ok()?;
        Some(if below == Path::new("") { PathBuf::from(name) } else { Path::new(name).join(below) })
    });
    known.as_deref().unwrap_or(path).display().to_string()
}

/// The folder that stands for a URI which an engine has read.
pub fn folder_of(uri: &str) -> Option<PathBuf> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().find(|(_, name)| uri.contains(":/") && name == uri).map(|(folder, _)| folder.clone())
}

/// Whether a file lies there only while the program runs, unpacked from an archive.
pub fn is_unpacked(path: &Path) -> bool {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.iter().any(|(root, _)| path.starts_with(root))
}
