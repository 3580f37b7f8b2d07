//! What passes between plimsoll and its own kind on an engine's workers (docs/engine.md).

use crate::model::uri::decoded_path;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// Bytes of a file in one row, at most: rows of engines travel in messages of a few MiB.
pub const CHUNK_BYTES: u64 = 512 << 10;

/// What a row is called that is about lines without a time.
pub const UNPLACED: &str = "unplaced";

/// The folder that files of an engine are mirrored in.
pub const MIRROR: &str = "from";

/// Lines of a file in which no time was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaced {
    pub file: String,
    /// Lines that are not blank.
    pub lines: u64,
    pub bytes: u64,
}

/// Folders above a source that say whose its logs are.
const ABOVE: usize = 3;

/// Where a file of an engine lies below `home`, so that it is named as where it was: with the last folders of the
/// source (of `roots`) that it belongs to.
pub fn mirrored(home: &Path, roots: &[String], file: &str) -> PathBuf {
    let of = |root: &&String| {
        let root = root.trim_end_matches('/');
        file == root || file.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
    };
    let (number, root) = roots
        .iter()
        .enumerate()
        .filter(|(_, root)| of(root))
        .max_by_key(|(_, root)| root.len())
        .map_or((roots.len(), String::new()), |(number, root)| (number, root.trim_end_matches('/').to_owned()));
    // Neither scheme nor host are folders.
    let path = root.split_once("://").map_or(&*root, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let above: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let above = &above[above.len().saturating_sub(ABOVE)..];
    let below = file.get(root.len()..).unwrap_or_default().split('/').filter(|name| !name.is_empty());
    let mut path = home.join(MIRROR).join(number.to_string());
    for name in above.iter().copied().chain(below) {
        let name = decoded_path(name);
        let is_plain = Path::new(&*name).components().all(|part| matches!(part, Component::Normal(_)));
        path.push(if is_plain && !name.is_empty() { &*name } else { "_" });
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_folders_that_name_them() {
        let roots = ["s3a://bucket/prod/audit".to_owned(), "file:///var/log/audit.log".to_owned()];
        let at = |file: &str| mirrored(Path::new("/h"), &roots, file).display().to_string();
        assert_eq!(at("s3a://bucket/prod/audit/a%20b/audit.log"), "/h/from/0/prod/audit/a b/audit.log");
        assert_eq!(at("s3a://bucket/prod/audit"), "/h/from/0/prod/audit");
        assert_eq!(at("file:///var/log/audit.log"), "/h/from/1/var/log/audit.log");
        assert_eq!(at("s3a://bucket/prod/audit-2/x.log"), "/h/from/2/s3a:/bucket/prod/audit-2/x.log");
        // A name never leads elsewhere.
        assert_eq!(at("s3a://bucket/prod/audit/..%2F..%2Fetc/%2e%2e/x"), "/h/from/0/prod/audit/_/_/x");
    }
}
