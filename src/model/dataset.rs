//! Datasets: audit events as typed columns in Parquet, partitioned by cluster, date and hour (docs/dataset.md).

use super::bundle::Bundle;
use super::time::{DAY, HOUR, Micros, Span, format, parse_any};
use super::uri::percent_encode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

/// The schema of events, in the metadata of each file and in the dataset's own description.
pub const SCHEMA: &str = "plimsoll.dataset/v1";

/// Under which name each file has it.
pub const SCHEMA_KEY: &str = "plimsoll.schema";

/// The folder of what is no data; its name begins so that engines pass over it.
pub const ABOUT: &str = "_plimsoll";

/// The file in it that says which lines of which logs the dataset holds.
pub const DESCRIPTION: &str = "dataset.json";

/// The folder of audit events.
pub const AUDIT: &str = "audit";

/// What stands in place of an empty name of a partition, as Hive writes it.
pub const NO_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Microseconds since 1970, UTC, written as a `TIMESTAMP` without a zone.
    Time,
    /// A whole number.
    Number,
    Truth,
    Text,
    /// A list of texts.
    Texts,
    /// A number with a fraction.
    Real,
}

impl Kind {
    /// Its name in Parquet, as docs/dataset.md gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "timestamp",
            Self::Number => "int64",
            Self::Truth => "boolean",
            Self::Text => "string",
            Self::Texts => "list of strings",
            Self::Real => "double",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableColumn {
    pub name: &'static str,
    pub kind: Kind,
    /// What it holds, without a full stop.
    pub meaning: &'static str,
}

const fn column(name: &'static str, kind: Kind, meaning: &'static str) -> TableColumn {
    TableColumn { name, kind, meaning }
}

/// The columns of audit events, in the order of [`EventRows`](super::event_rows::EventRows); what is absent is null.
pub const EVENTS: [TableColumn; 48] = [
    column("event_time", Kind::Time, "`stageTimestamp`; files are sorted by it"),
    column("received", Kind::Time, "`requestReceivedTimestamp`"),
    column("latency_us", Kind::Number, "from arrival to answer, of terminal events that are not long-running; µs"),
    column("lifetime_us", Kind::Number, "the same of long-running requests (watch, exec, log, proxy)"),
    column("code", Kind::Number, "`responseStatus.code`"),
    column("request_bytes", Kind::Number, "length of the `requestObject`'s JSON"),
    column("response_bytes", Kind::Number, "length of the `responseObject`'s JSON"),
    column("response_items", Kind::Number, "elements of its `items`"),
    column("etcd_us", Kind::Number, "time in etcd that the apiserver notes of slow requests; µs"),
    column("webhook_us", Kind::Number, "the same in mutating and validating webhooks"),
    column("queue_us", Kind::Number, "the same in the queue of priority and fairness"),
    column("seq", Kind::Number, "place among the events of its log, from 0"),
    column("terminal", Kind::Truth, "whether nothing follows: `ResponseComplete` or `Panic`"),
    column("long_running", Kind::Truth, "whether the request lasts as long as its client likes"),
    column("late", Kind::Truth, "whether the log held an event more than 5 s later before it"),
    column("deprecated", Kind::Truth, "whether the apiserver calls the API deprecated"),
    column("audit_id", Kind::Text, "`auditID`; a client may choose it"),
    column("log", Kind::Text, "which log: a hash of its first line"),
    column("instance", Kind::Text, "apiserver"),
    column("stage", Kind::Text, "`stage`"),
    column("level", Kind::Text, "`level`"),
    column("verb", Kind::Text, "`verb`"),
    column("op", Kind::Text, "get, list, watch, write, delete or other"),
    column("uri", Kind::Text, "`requestURI`"),
    column("api_group", Kind::Text, "`objectRef.apiGroup`"),
    column("api_version", Kind::Text, "group and version of the path"),
    column("resource", Kind::Text, "`objectRef.resource`"),
    column("subresource", Kind::Text, "`objectRef.subresource`"),
    column("namespace", Kind::Text, "`objectRef.namespace`"),
    column("name", Kind::Text, "`objectRef.name`"),
    column("scope", Kind::Text, "nonresource, object, namespace or cluster"),
    column("shape", Kind::Text, "how a read asks to be served (docs/rollup.md, section 2)"),
    column("username", Kind::Text, "`user.username`"),
    column("client_user", Kind::Text, "the same, all kubelets as `system:node:*`"),
    column("client_agent", Kind::Text, "product of the user agent; with `client_user` it is the client"),
    column("agent_version", Kind::Text, "version of the user agent"),
    column("agent", Kind::Text, "`userAgent`"),
    column("service_account", Kind::Text, "`NAMESPACE:NAME` of a service account"),
    column("impersonated", Kind::Text, "`impersonatedUser.username`"),
    column("source_ip", Kind::Text, "last of `sourceIPs`: the peer of the connection"),
    column("node", Kind::Text, "node of the kubelet, or of the pod that the token is bound to"),
    column("pod", Kind::Text, "that pod"),
    column("decision", Kind::Text, "annotation `authorization.k8s.io/decision`"),
    column("removed_release", Kind::Text, "the release that no longer serves a deprecated API"),
    column("message", Kind::Text, "`responseStatus.message`"),
    column("request_object", Kind::Text, "what `collect` keeps of the `requestObject`: what kind of change it was"),
    column("response_object", Kind::Text, "what it keeps of the `responseObject`"),
    column("groups", Kind::Texts, "`user.groups`"),
];

/// How many columns there are of each kind: times, numbers, truths, texts.
pub const COUNTS: [usize; 4] = [2, 10, 4, 31];

/// A table of captures: rows of what was taken at one moment, in partitions by cluster and date.
#[derive(Debug, PartialEq, Eq)]
pub struct CapturedTable {
    /// Its folder.
    pub name: &'static str,
    /// What a row is, without a full stop.
    pub meaning: &'static str,
    pub columns: &'static [TableColumn],
}

/// Samples of metrics pages.
pub static METRICS: CapturedTable = CapturedTable {
    name: "metrics",
    meaning: "a sample of a metrics page",
    columns: &[
        column("taken_at", Kind::Time, "when the page was taken"),
        column("instance", Kind::Text, "which process, as its folder or host is called"),
        column("name", Kind::Text, "the metric's name, with `_total`, `_bucket` and the like"),
        column("labels", Kind::Text, "all labels in the order of their names: `code=\"200\",verb=\"LIST\"`"),
        column("value", Kind::Real, "the value; may be NaN or infinite"),
        column("verb", Kind::Text, "the label `verb`"),
        column("api_group", Kind::Text, "the label `group`"),
        column("resource", Kind::Text, "the label `resource`"),
        column("subresource", Kind::Text, "the label `subresource`"),
        column("scope", Kind::Text, "the label `scope`"),
        column("code", Kind::Text, "the label `code`"),
        column("component", Kind::Text, "the label `component`"),
        column("le", Kind::Text, "the label `le`: the upper bound of a bucket"),
        column("priority_level", Kind::Text, "the label `priority_level`"),
        column("flow_schema", Kind::Text, "the label `flow_schema`"),
    ],
};

/// What etcd's databases hold, by resource and namespace.
pub static KEYSPACE: CapturedTable = CapturedTable {
    name: "keyspace",
    meaning: "what an etcd database holds of a resource in a namespace",
    columns: &[
        column("taken_at", Kind::Time, "when the database was taken"),
        column("database", Kind::Text, "its file's name"),
        column("prefix", Kind::Text, "the beginning of its keys"),
        column("api_group", Kind::Text, "group of the resource"),
        column("resource", Kind::Text, "the resource"),
        column("namespace", Kind::Text, "the namespace; null outside of any"),
        column("keys", Kind::Number, "keys that live"),
        column("live_bytes", Kind::Number, "bytes of their values"),
        column("key_bytes", Kind::Number, "bytes of these keys"),
        column("max_object_bytes", Kind::Number, "the largest of the values"),
        column("managed_fields_bytes", Kind::Number, "bytes of `managedFields` in them"),
        column("annotation_bytes", Kind::Number, "bytes of annotations in them"),
        column("last_applied_bytes", Kind::Number, "bytes of the annotation of `kubectl apply` in them"),
        column("revisions", Kind::Number, "revisions of all keys, tombstones included"),
        column("tombstones", Kind::Number, "revisions that delete a key"),
        column("history_bytes", Kind::Number, "bytes of superseded and deleted revisions, and of tombstones"),
    ],
};

/// What ResourceQuotas grant, and what is used.
pub static QUOTAS: CapturedTable = CapturedTable {
    name: "quotas",
    meaning: "what a ResourceQuota grants of a resource",
    columns: &[
        column("taken_at", Kind::Time, "when the objects were taken"),
        column("namespace", Kind::Text, "the namespace"),
        column("quota", Kind::Text, "the ResourceQuota's name"),
        column("resource", Kind::Text, "the resource as quotas name it: `requests.cpu`, `pods`, `count/jobs.batch`"),
        column("hard", Kind::Real, "what is granted: cores, bytes, a count"),
        column("used", Kind::Real, "what is used of it"),
    ],
};

/// The tables of captures.
pub static CAPTURED: [&CapturedTable; 3] = [&METRICS, &KEYSPACE, &QUOTAS];

/// The names of a dataset's tables, which are those of their folders.
pub fn table_names() -> impl Iterator<Item = &'static str> {
    [AUDIT].into_iter().chain(CAPTURED.map(|table| table.name))
}

/// A value of a captured row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'c> {
    Null,
    Time(Micros),
    Number(u64),
    Real(f64),
    Text(&'c str),
}

impl<'c> Cell<'c> {
    /// A text; null where it is empty.
    pub fn text(text: &'c str) -> Self {
        if text.is_empty() { Self::Null } else { Self::Text(text) }
    }
}

/// Which lines of which logs a dataset holds, and who wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// [`SCHEMA`].
    pub schema: String,
    /// The plimsoll that wrote it last.
    pub plimsoll: String,
    /// Logs, by the hash of their first line.
    pub logs: BTreeMap<String, DatasetLog>,
    /// By table of captures and name of a file's capture: the captures that the file holds.
    pub captures: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// What bundles said of the clusters that they were of, but for the times that they were about.
    pub clusters: BTreeMap<String, Bundle>,
}

/// What a dataset holds of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetLog {
    /// Where it lay when it was read last.
    pub path: String,
    pub cluster: String,
    pub instance: String,
    /// The byte, unpacked, behind the last line that was read.
    pub to: u64,
    /// Of a packed file: its bytes on disk when it was read to its end.
    pub packed: Option<u64>,
    /// Events that were read.
    pub events: u64,
    /// Lines and events that could not be used.
    pub skipped: u64,
    /// The latest `at` so far, in µs since 1970.
    pub latest: Micros,
}

/// What a file of events or samples shows of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// When the first event or page was, and the last.
    pub first: Micros,
    pub last: Micros,
    /// The process: of samples that of all of them, of events that of the first.
    pub instance: String,
    /// Of samples, the pages that they were.
    pub pages: Vec<PageRows>,
}

/// Rows of a file that were one metrics page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRows {
    /// When it was taken.
    pub at: Micros,
    /// The first row.
    pub from: usize,
    /// How many.
    pub rows: usize,
}

/// What a file is called by: its log or first capture, and the byte from which on it holds the log's lines; `None`
/// where it is called otherwise.
pub fn log_and_byte(name: &str) -> Option<(&str, u64)> {
    let (of, from) = name.strip_prefix("part-")?.strip_suffix(".parquet")?.rsplit_once('-')?;
    Some((of, from.parse().ok()?))
}

/// An hour of a cluster: one folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Empty where nothing names it.
    pub cluster: String,
    /// Hours since 1970.
    pub hour: i64,
}

impl Partition {
    /// Its folder below that of the table: `cluster=C/date=2026-11-20/hour=09`. What a folder can't be called is
    /// written as in URLs.
    pub fn folder(&self) -> String {
        let time = format(self.hour * HOUR);
        let (date, hour) = (&time[..10], &time[11..13]);
        format!("cluster={}/date={date}/hour={hour}", escaped(&self.cluster))
    }
}

/// The hour whose partition a file lies in.
pub fn hour_of(file: &Path) -> Option<Span> {
    let mut folders = file.ancestors().skip(1).map(|folder| folder.file_name().and_then(OsStr::to_str).unwrap_or(""));
    let (hour, date) = (folders.next()?.strip_prefix("hour=")?, folders.next()?.strip_prefix("date=")?);
    let from = parse_any(&format!("{date}T{hour}:00:00Z"))?;
    Some((from, from + HOUR))
}

/// The folder of a cluster's captures of a day, by days since 1970.
pub fn day_folder(cluster: &str, day: i64) -> String {
    format!("cluster={}/date={}", escaped(cluster), &format(day * DAY)[..10])
}

fn escaped(name: &str) -> String {
    let text = percent_encode(name);
    match text.strip_prefix('.') {
        _ if text.is_empty() => NO_NAME.to_owned(),
        // Not at the front: `..` and hidden folders.
        Some(rest) => format!("%2E{rest}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_folders_that_engines_read() {
        let folder = |cluster: &str, hour| Partition { cluster: cluster.to_owned(), hour }.folder();
        assert_eq!(folder("prod-eu.1", 494_421), "cluster=prod-eu.1/date=2026-05-27/hour=21");
        assert_eq!(folder("", 0), "cluster=__HIVE_DEFAULT_PARTITION__/date=1970-01-01/hour=00");
        assert_eq!(folder("../a b=ü", 1), "cluster=%2E.%2Fa%20b%3D%C3%BC/date=1970-01-01/hour=01");
    }

    #[test]
    fn the_hour_of_a_file_is_that_of_its_folder() {
        let own = Partition { cluster: "a".to_owned(), hour: 494_421 };
        let file = Path::new("ds/audit").join(own.folder()).join("part-ab-0.parquet");
        assert_eq!(hour_of(&file), Some((494_421 * HOUR, 494_422 * HOUR)));
        for other in ["part-ab-0.parquet", "ds/hour=09/part-ab-0.parquet", "date=2026-11-20/hour=x/part-ab-0.parquet"] {
            assert_eq!(hour_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn columns_are_in_the_order_of_their_kinds() {
        let kinds = [Kind::Time, Kind::Number, Kind::Truth, Kind::Text];
        let expected = kinds.iter().zip(COUNTS).flat_map(|(kind, count)| std::iter::repeat_n(*kind, count));
        let expected: Vec<Kind> = expected.chain([Kind::Texts]).collect();
        assert_eq!(EVENTS.map(|column| column.kind).to_vec(), expected);
    }
}
