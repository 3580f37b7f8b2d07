//! What makes a folder a store, and which version of plimsoll can read it.

use std::path::Path;

/// The file that makes a folder a store.
pub const MARKER: &str = "plimsoll-store.json";
/// What stands in it.
pub const VERSION: &str = "{\"plimsoll_store\":1}\n";

/// What the marker of a folder says, where it is that of a store which another version of plimsoll made.
pub fn other_version(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(MARKER)).ok()?;
    (text.trim() != VERSION.trim()).then(|| text.trim().chars().take(80).collect())
}
