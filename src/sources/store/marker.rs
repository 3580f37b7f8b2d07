//! What makes a folder a store, and which version of plimsoll can read it.

use std::io;
use std::path::Path;

/// The file that makes a folder a store.
pub const MARKER: &str = "plimsoll-store.json";
/// What stands in it.
pub const VERSION: &str = "{\"plimsoll_store\":1}\n";

/// What a store's marker says, where another version of plimsoll made it. An error of kind `NotFound` is no store.
pub fn other_version(folder: &Path) -> io::Result<Option<String>> {
    let text = std::fs::read_to_string(folder.join(MARKER))?;
    Ok((text.trim() != VERSION.trim()).then(|| text.trim().chars().take(80).collect()))
}
