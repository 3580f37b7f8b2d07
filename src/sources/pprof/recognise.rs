//! Which files are Go profiles, by how they begin.

use super::{proto, text};

/// Whether a file that begins so is a profile that can be read.
pub(in crate::sources) fn begins_like_one(head: &[u8]) -> bool {
    head.starts_with(text::BEGINS) || proto::begins_like_one(head)
}

/// Whether it is the text form of another kind of profile.
pub(in crate::sources) fn is_other_text(head: &[u8]) -> bool {
    let line = &head[..memchr::memchr(b'\n', head).unwrap_or(head.len()).min(80)];
    line.starts_with(b"--- contention")
        || line.starts_with(b"--- mutex")
        || memchr::memmem::find(line, b" profile: total ").is_some()
}
