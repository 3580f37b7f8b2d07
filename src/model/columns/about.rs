//! Columns of `explain`, `collect` and `dataset`.

use super::{Column, Kind, column, wide};

pub(super) const ABOUT: [Column; 21] = [
    column("topic", "WHAT", Kind::Text, "what can be explained: a finding, a metric or a term"),
    column("topic_kind", "KIND", Kind::Text, "finding, metric or term"),
    column("meaning", "MEANING", Kind::Text, "the first sentence of what it means"),
    wide("text", "TEXT", Kind::Text, "all of what it means"),
    wide("page", "PAGE", Kind::Text, "the page of the documents that it stands on"),
    column("taken", "WHAT", Kind::Text, "what was taken: a list, a page, a file"),
    column("taken_from", "FROM", Kind::Text, "where it was taken from: an apiserver, a path, a URL"),
    column("outcome", "OUTCOME", Kind::Text, "whether it was taken, or why not"),
    column("files", "FILES", Kind::Count, "files that were written for it"),
    column("log_path", "LOG", Kind::Text, "the file that was read"),
    column(
        "dataset_events",
        "EVENTS",
        Kind::Count,
        "events that were read, those of stage RequestReceived and copies included",
    ),
    column("read_bytes", "READ", Kind::Bytes, "bytes that were read, unpacked"),
    column("skipped_lines", "SKIPPED", Kind::Count, "lines that could not be used"),
    column("dataset_table", "TABLE", Kind::Text, "a table of datasets or roll-ups"),
    column("captures", "CAPTURES", Kind::Count, "pages, databases, lists of objects that were added"),
    column("captured_rows", "ROWS", Kind::Count, "rows that they came to"),
    column("known_captures", "ALREADY", Kind::Count, "captures that the dataset held already"),
    column("dataset_column", "COLUMN", Kind::Text, "a column of it"),
    column("column_type", "TYPE", Kind::Text, "its type in Parquet"),
    column("query", "QUERY", Kind::Text, "a query that has a name"),
    column("reason", "REASON", Kind::Text, "the reason"),
];
