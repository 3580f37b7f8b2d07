//! What a file holds, recognised by how it begins.

use crate::model::time::{self, Micros, TimeParser};
use crate::sources::exposition::{Dialect, Item, Reader};
use crate::sources::pprof::recognise;
use crate::sources::{apf, audit};

/// What a file holds, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Audit events, one line or one wrapper at a time.
    AuditLines,
    /// A JSON document over several lines, or several on one line.
    AuditDocument,
    /// A metrics page.
    Metrics,
    /// etcd's database.
    Database,
    /// A Go profile, as protobuf or as text.
    Profile,
    /// A page of what API Priority and Fairness holds.
    Dump,
    /// The manifest of a stored roll-up.
    Rollup,
    /// Nothing at all.
    Empty,
    /// Blanks or NULs: a log that a crash left so, or that will be written.
    Blank,
    /// Files packed into one, in words.
    Archive(&'static str),
    /// Something else, in words.
    Other(&'static str),
}

impl Content {
    /// Nothing that is known, and no text.
    pub const BINARY: Self = Self::Other("it is binary data");

    /// Packed, and nothing of it can be unpacked.
    pub const CUT: Self = Self::Other("it is packed, and cut off or damaged in its first block");

    /// Files and folders in one file.
    pub const TAR: Self = Self::Archive("it is an archive; give it as a source of its own to read its contents");

    /// Whether it is an audit log.
    pub fn is_log(self) -> bool {
        matches!(self, Self::AuditLines | Self::AuditDocument | Self::Blank)
    }

    /// Whether nothing of what it holds can be seen: there is nothing, or it is cut off before.
    pub fn is_nothing(self) -> bool {
        matches!(self, Self::Empty | Self::CUT)
    }

    /// What it looks like, for messages.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::AuditLines | Self::AuditDocument => "it is an audit log",
            Self::Metrics => "it looks like Prometheus metrics",
            Self::Database => "it looks like an etcd snapshot",
            Self::Profile => "it is a Go profile",
            Self::Rollup => "it is a stored roll-up",
            Self::Dump => "it is a dump page of API Priority and Fairness",
            Self::Empty => "it is empty",
            Self::Blank => "it has only spaces or NULs",
            Self::Archive(looks) | Self::Other(looks) => looks,
        }
    }
}

/// What `head` is the start of, and the time of the first event in it.
pub fn look(head: &[u8]) -> (Content, Option<Micros>) {
    if head.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
        return (if head.is_empty() { Content::Empty } else { Content::Blank }, None);
    }
    // An archive holds what its files hold, so it is reported before them.
    if let Some(archive) = archive(head) {
        return (archive, None);
    }
    if recognise::begins_like_one(head) {
        return (Content::Profile, None);
    }
    let text = head.trim_ascii_start();
    let line_end = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let mut first = None;
    let mut events = 0;
    // The first whole line may be damaged: look at a few.
    for line in text.split(|&b| b == b'\n').take(8) {
        audit::read_line(line, &mut |event| {
            events += 1;
            first = first.or_else(|| TimeParser::default().parse_json(event.at));
        });
    }
    let mentions = |what: &[u8]| memchr::memmem::find(text, what).is_some();
    let is_json = text.starts_with(b"{") || text.starts_with(b"[");
    let is_audit = events > 0 || is_json && mentions_audit(&mentions);
    if is_audit {
        // One JSON value to a line, unless the first line plainly is not one.
        let lines = events > 0 && !text.starts_with(b"[") && !runs_together(&text[..line_end]);
        let starts_value = text.starts_with(b"{") || text.starts_with(b"[");
        let first_line = text[..line_end].trim_ascii_end();
        let open_ended = matches!(first_line.last(), Some(b'{' | b'[' | b','));
        let document = starts_value
            && (!lines || runs_together(first_line))
            && (open_ended || text.starts_with(b"[") || line_end == text.len() || runs_together(first_line));
        return (if document { Content::AuditDocument } else { Content::AuditLines }, first);
    }
    if is_json && mentions(b"\"plimsoll.rollup/") && mentions(b"\"schema\"") {
        return (Content::Rollup, None);
    }
    if apf::begins_like_one(text) {
        return (Content::Dump, None);
    }
    let has_line = |word: &[u8]| text.starts_with(word) || mentions(&[b"\n", word].concat());
    if has_line(b"inactive_anon ") && has_line(b"pgfault ") {
        return (Content::Other("it looks like a cgroup's memory.stat"), None);
    }
    let magic = Some(&[0xed, 0xda, 0x0c, 0xed][..]);
    // The second meta page may be the only one that is whole.
    if head.get(16..20) == magic || (10..16).any(|bits| head.get((1 << bits) + 16..(1 << bits) + 20) == magic) {
        return (Content::Database, None);
    }
    if let Some(first) = metrics(head) {
        return (Content::Metrics, first);
    }
    let looks = if text.starts_with(b"{") || text.starts_with(b"[") {
        if mentions(b"\"kind\"") && mentions(b"\"Status\"") {
            "it is an error response of the apiserver"
        } else {
            "it is JSON without audit events"
        }
    } else if recognise::is_other_text(text) {
        "it is a Go profile as text, but not of the heap"
    } else if is_html(text) {
        "it is an HTML page, as from a proxy or a login"
    } else if std::str::from_utf8(&head[..head.len().min(512)]).is_ok_and(|t| !t.contains('\0')) {
        "it is text without audit events"
    } else {
        return (Content::BINARY, None);
    };
    (Content::Other(looks), None)
}

/// What kind of archive it is, if it is one.
fn archive(head: &[u8]) -> Option<Content> {
    // POSIX.1 pax and GNU write this behind the first file's header.
    if head.get(257..262) == Some(b"ustar") {
        return Some(Content::TAR);
    }
    let looks = match head {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
            "it is a zip archive; unpack it with unzip, and give the folder"
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "it is packed with xz; unpack it with xz -d",
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => "it is packed with bzip2; unpack it with bunzip2",
        _ => return None,
    };
    Some(Content::Archive(looks))
}

/// Whether it begins like a metrics page, of Prometheus' form or of OpenMetrics; and the latest timestamp among its
/// samples.
fn metrics(head: &[u8]) -> Option<Option<Micros>> {
    let (first, second) = match Dialect::of(head) {
        Dialect::OpenMetrics => (Dialect::OpenMetrics, Dialect::Text),
        Dialect::Text => (Dialect::Text, Dialect::OpenMetrics),
    };
    metrics_in(head, first).or_else(|| metrics_in(head, second))
}

/// Times before 2000 are none of a page's: they are seconds, which OpenMetrics writes, taken for milliseconds.
const FIRST_TIME: Micros = 946_684_800_000_000;

/// The same in one of both forms: with a description, or mostly with samples.
fn metrics_in(head: &[u8], dialect: Dialect) -> Option<Option<Micros>> {
    let mut reader = Reader::new(head, dialect);
    let (mut described, mut samples, mut bad, mut at) = (false, 0, 0, None);
    for _ in 0..64 {
        match reader.next() {
            Some(Item::About(..)) => described = true,
            Some(Item::Sample(sample)) => {
                samples += 1;
                at = at.max(sample.timestamp.map(time::of_stamp));
            }
            Some(Item::Bad(_)) => bad += 1,
            Some(Item::Eof) | None => break,
            Some(_) => {}
        }
    }
    let at =
        at.map(|at: Micros| if dialect == Dialect::Text && (1..FIRST_TIME).contains(&at) { at * 1000 } else { at });
    // Without a description, anything that pairs words with numbers looks like samples.
    (described && samples >= bad || samples > 0 && bad == 0 || samples + bad == 0 && head.starts_with(b"# EOF"))
        .then_some(at)
}

/// Whether it begins like an HTML page.
pub fn is_html(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let start = text[..text.len().min(64)].to_ascii_lowercase();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html") || start.starts_with(b"<head")
}

/// Whether JSON text names what only audit events, or wrappers of them, hold.
fn mentions_audit(mentions: &impl Fn(&[u8]) -> bool) -> bool {
    // As the whole value or the begin of one: objects may have it in their text.
    mentions(b"\"audit.k8s.io/")
        || mentions(b"\"auditID\"")
        || mentions(br#"\"auditID\""#)
        || mentions(b"google.cloud.audit.AuditLog")
}

/// Whether JSON objects follow one another without a newline.
fn runs_together(line: &[u8]) -> bool {
    line.starts_with(b"{")
        && crate::model::walk::skip_value(line, 0)
            .is_some_and(|(end, _)| line[end..].trim_ascii_start().starts_with(b"{"))
}
