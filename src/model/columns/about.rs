//! Columns of `explain` and `collect`.

use super::{Column, Kind, column, wide};

pub(super) const ABOUT: [Column; 10] = [
    column("topic", "WHAT", Kind::Text, "what can be explained: a finding, a metric or a term"),
    column("topic_kind", "KIND", Kind::Text, "finding, metric or term"),
    column("meaning", "MEANING", Kind::Text, "the first sentence of what it means"),
    wide("text", "TEXT", Kind::Text, "all of what it means"),
    wide("page", "PAGE", Kind::Text, "the page of the documents that it stands on"),
    column("taken", "WHAT", Kind::Text, "what was taken: a list, a page, a file"),
    column("taken_from", "FROM", Kind::Text, "where it was taken from: an apiserver, a path, a URL"),
    column("outcome", "OUTCOME", Kind::Text, "whether it was taken, or why not"),
    column("files", "FILES", Kind::Count, "files that were written for it"),
    column("reason", "REASON", Kind::Text, "the reason"),
];
