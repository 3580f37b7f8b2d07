//! Events of a dataset as the lines of an audit log that they were: whoever reads logs reads datasets. A row group has
//! what stood one behind the other in its log, sorted by time; lines come in the log's order.

use super::parquet::{Parquet, Rows, numbers, texts, truths};
use crate::model::dataset::EVENTS;
use crate::model::event::{BODY_SIZES, SPENT};
use crate::model::problem::{Problem, guarded};
use crate::model::time::{Micros, SECOND, format};
use polars::prelude::{BooleanChunked, ChunkExplode, DataFrame, Int64Chunked, StringChunked};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::thread;

/// Rows of which one thread makes lines at a time: 1 or 2 MB, about.
const ROWS_AT_ONCE: usize = 2 << 10;
/// Threads that make lines of one file.
const MAKERS: usize = 2;

/// Columns that follow from others: lines do not hold them.
const DERIVED: [&str; 14] = [
    "latency_us",
    "lifetime_us",
    "terminal",
    "long_running",
    "late",
    "log",
    "op",
    "api_version",
    "scope",
    "shape",
    "client_user",
    "client_agent",
    "agent_version",
    "service_account",
];

/// The lines of a file; those of another apiserver than `instance` name theirs.
pub(in crate::sources) fn lines(path: &Path, instance: &str) -> io::Result<Box<dyn Read + Send>> {
    let none = || Problem::damaged("holds no events of a dataset any more");
    let parquet = guarded(|| Parquet::open(path)?.ok_or_else(none)).map_err(io::Error::other)?;
    let groups = parquet.groups().collect();
    let columns = EVENTS.iter().map(|column| column.name).filter(|name| !DERIVED.contains(name)).collect();
    let instance = instance.to_owned();
    Ok(Box::new(Lines {
        parquet,
        columns,
        groups,
        instance,
        group: None,
        order: VecDeque::new(),
        made: VecDeque::new(),
        at: 0,
    }))
}

/// Gives the lines of a file.
struct Lines {
    parquet: Parquet,
    columns: Vec<&'static str>,
    /// Row groups that are left.
    groups: VecDeque<Rows>,
    instance: String,
    group: Option<Group>,
    /// Its rows that are left, in the order of the log.
    order: VecDeque<usize>,
    /// Blocks of lines; of the first one the bytes before `at` were given.
    made: VecDeque<Vec<u8>>,
    at: usize,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(block) = self.made.front() {
                let count = into.len().min(block.len() - self.at);
                into[..count].copy_from_slice(&block[self.at..self.at + count]);
                self.at += count;
                if count > 0 || into.is_empty() {
                    return Ok(count);
                }
                self.made.pop_front();
                self.at = 0;
                continue;
            }
            match &self.group {
                Some(group) if !self.order.is_empty() => {
                    let rows: Vec<usize> = self.order.drain(..self.order.len().min(MAKERS * ROWS_AT_ONCE)).collect();
                    self.made = group.lines(&rows, &self.instance)?;
                }
                _ => {
                    let Some(rows) = self.groups.pop_front() else { return Ok(0) };
                    let (parquet, columns) = (&self.parquet, &self.columns);
                    let group = guarded(|| Group::of(&parquet.read(columns, rows)?));
                    let group = group.map_err(io::Error::other)?;
                    self.order = group.order();
                    self.group = Some(group);
                }
            }
        }
    }
}

/// The columns of a row group.
struct Group {
    event_time: Int64Chunked,
    received: Int64Chunked,
    code: Int64Chunked,
    /// Bytes of the request, bytes and items of the response, as [`BODY_SIZES`] has them.
    sizes: [Int64Chunked; 3],
    /// Time spent in etcd, in webhooks, in the queue, in µs.
    spent: [Int64Chunked; 3],
    seq: Int64Chunked,
    deprecated: BooleanChunked,
    audit_id: StringChunked,
    instance: StringChunked,
    stage: StringChunked,
    level: StringChunked,
    verb: StringChunked,
    uri: StringChunked,
    api_group: StringChunked,
    resource: StringChunked,
    subresource: StringChunked,
    namespace: StringChunked,
    name: StringChunked,
    username: StringChunked,
    agent: StringChunked,
    impersonated: StringChunked,
    source_ip: StringChunked,
    node: StringChunked,
    pod: StringChunked,
    decision: StringChunked,
    removed_release: StringChunked,
    message: StringChunked,
    /// What is kept of the bodies of request and response.
    bodies: [StringChunked; 2],
    /// All groups of all events, and where those of each begin.
    groups: (StringChunked, Vec<i64>),
}

impl Group {
    fn of(frame: &DataFrame) -> Result<Self, Problem> {
        let number = |name| numbers(frame, name);
        let text = |name| texts(frame, name);
        Ok(Self {
            event_time: number("event_time")?,
            received: number("received")?,
            code: number("code")?,
            sizes: [number("request_bytes")?, number("response_bytes")?, number("response_items")?],
            spent: [number("etcd_us")?, number("webhook_us")?, number("queue_us")?],
            seq: number("seq")?,
            deprecated: truths(frame, "deprecated")?,
            audit_id: text("audit_id")?,
            instance: text("instance")?,
            stage: text("stage")?,
            level: text("level")?,
            verb: text("verb")?,
            uri: text("uri")?,
            api_group: text("api_group")?,
            resource: text("resource")?,
            subresource: text("subresource")?,
            namespace: text("namespace")?,
            name: text("name")?,
            username: text("username")?,
            agent: text("agent")?,
            impersonated: text("impersonated")?,
            source_ip: text("source_ip")?,
            node: text("node")?,
            pod: text("pod")?,
            decision: text("decision")?,
            removed_release: text("removed_release")?,
            message: text("message")?,
            bodies: [text("request_object")?, text("response_object")?],
            groups: groups(frame)?,
        })
    }

    /// Its rows in the order of the log.
    fn order(&self) -> VecDeque<usize> {
        let mut order: Vec<usize> = (0..self.seq.len()).collect();
        order.sort_by_cached_key(|row| self.seq.get(*row));
        order.into()
    }

    /// Writes rows as the lines that they were, in blocks that threads make side by side.
    fn lines(&self, rows: &[usize], instance: &str) -> io::Result<VecDeque<Vec<u8>>> {
        let of = |rows: &[usize]| {
            let (mut clock, mut out) = (Clock::default(), Vec::with_capacity(rows.len() << 9));
            rows.iter().for_each(|row| self.line(*row, instance, &mut clock, &mut out));
            out
        };
        thread::scope(|scope| {
            let makers: Vec<_> = rows.chunks(ROWS_AT_ONCE).map(|rows| scope.spawn(move || of(rows))).collect();
            let made = makers
                .into_iter()
                .map(|maker| maker.join().map_err(|_| io::Error::other("a thread that made lines panicked")));
            made.collect()
        })
    }

    /// Writes a row as the line that it was.
    fn line(&self, row: usize, instance: &str, clock: &mut Clock, out: &mut Vec<u8>) {
        let own = self.instance.get(row).unwrap_or_default();
        let is_named = own != instance;
        if is_named {
            out.extend_from_slice(b"{\"logStream\":");
            json(out, own);
            out.extend_from_slice(b",\"message\":");
        }
        out.extend_from_slice(b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",");
        member(out, "level", self.level.get(row));
        member(out, "auditID", self.audit_id.get(row));
        member(out, "stage", self.stage.get(row));
        member(out, "requestURI", self.uri.get(row));
        member(out, "verb", self.verb.get(row));
        self.caller(row, out);
        member(out, "userAgent", self.agent.get(row));
        self.object(row, out);
        self.status(row, out);
        for (name, at) in [("requestObject", 0), ("responseObject", 1)] {
            if self.sizes[at].get(row).is_some() {
                begin_member(out, name);
                out.extend_from_slice(self.bodies[at].get(row).unwrap_or("{}").as_bytes());
                out.push(b',');
            }
        }
        for (name, at) in [("requestReceivedTimestamp", &self.received), ("stageTimestamp", &self.event_time)] {
            if let Some(at) = at.get(row) {
                begin_member(out, name);
                clock.write(at, out);
                out.push(b',');
            }
        }
        self.annotations(row, out);
        end(out);
        if is_named {
            out.push(b'}');
        }
        out.push(b'\n');
    }

    fn caller(&self, row: usize, out: &mut Vec<u8>) {
        let username = self.username.get(row);
        begin_object(out, "user");
        member(out, "username", username);
        let (all, starts) = &self.groups;
        let own = starts.get(row).zip(starts.get(row + 1)).map_or(0..0, |(from, to)| *from as usize..*to as usize);
        list(out, "groups", own.filter_map(|at| all.get(at)));
        let is_node = username.is_some_and(|name| name.starts_with("system:node:"));
        let (node, pod) = (self.node.get(row).filter(|_| !is_node), self.pod.get(row));
        if node.is_some() || pod.is_some() {
            begin_object(out, "extra");
            list(out, "authentication.kubernetes.io/node-name", node.into_iter());
            list(out, "authentication.kubernetes.io/pod-name", pod.into_iter());
            end_object(out);
        }
        end_object(out);
        if let Some(name) = self.impersonated.get(row) {
            begin_object(out, "impersonatedUser");
            member(out, "username", Some(name));
            end_object(out);
        }
        list(out, "sourceIPs", self.source_ip.get(row).into_iter());
    }

    fn object(&self, row: usize, out: &mut Vec<u8>) {
        let members = [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("apiGroup", &self.api_group),
            ("subresource", &self.subresource),
        ];
        if members.iter().any(|(_, column)| column.get(row).is_some()) {
            begin_object(out, "objectRef");
            members.into_iter().for_each(|(name, column)| member(out, name, column.get(row)));
            end_object(out);
        }
    }

    fn status(&self, row: usize, out: &mut Vec<u8>) {
        let (code, message) = (self.code.get(row), self.message.get(row));
        if code.is_some() || message.is_some() {
            out.extend_from_slice(b"\"responseStatus\":{\"metadata\":{},");
            member(out, "message", message);
            if let Some(code) = code {
                begin_member(out, "code");
                out.extend_from_slice(code.to_string().as_bytes());
                out.push(b',');
            }
            end_object(out);
        }
    }

    fn annotations(&self, row: usize, out: &mut Vec<u8>) {
        let start = out.len();
        begin_object(out, "annotations");
        let empty = out.len();
        let [etcd, webhook, _, queue] = SPENT;
        for (name, column) in [etcd, webhook, queue].iter().zip(&self.spent) {
            if let Some(micros) = column.get(row) {
                member(out, name, Some(&format!("{micros}µs")));
            }
        }
        if let Some(decision) = self.decision.get(row) {
            member(out, "authorization.k8s.io/decision", Some(decision));
            member(out, "authorization.k8s.io/reason", Some(""));
        }
        if self.deprecated.get(row) == Some(true) {
            member(out, "k8s.io/deprecated", Some("true"));
            member(out, "k8s.io/removed-release", self.removed_release.get(row));
        }
        for (name, column) in BODY_SIZES.iter().zip(&self.sizes) {
            if let Some(size) = column.get(row) {
                member(out, name, Some(&size.to_string()));
            }
        }
        if out.len() == empty {
            out.truncate(start);
        } else {
            end_object(out);
        }
    }
}

fn json(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    // Nearly all are; without a branch for each byte they are looked at many at a time.
    if text.as_bytes().iter().fold(true, |all, byte| all & is_plain(byte)) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Memory takes all that is written.
        drop(serde_json::to_writer(out, text));
    }
}

/// Writes `"name":`.
fn begin_member(out: &mut Vec<u8>, name: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn member(out: &mut Vec<u8>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        begin_member(out, name);
        json(out, text);
        out.push(b',');
    }
}

/// A list of texts; none where it is empty.
fn list<'t>(out: &mut Vec<u8>, name: &str, texts: impl Iterator<Item = &'t str>) {
    let mut texts = texts.peekable();
    if texts.peek().is_some() {
        begin_member(out, name);
        out.push(b'[');
        for text in texts {
            json(out, text);
            out.push(b',');
        }
        out.pop();
        out.extend_from_slice(b"],");
    }
}

fn begin_object(out: &mut Vec<u8>, name: &str) {
    begin_member(out, name);
    out.push(b'{');
}

/// Ends an object that others follow.
fn end_object(out: &mut Vec<u8>) {
    end(out);
    out.push(b',');
}

/// Ends an object.
fn end(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
}

/// Writes times; remembers the second that it was in.
#[derive(Default)]
struct Clock {
    second: Option<Micros>,
    text: String,
}

impl Clock {
    fn write(&mut self, at: Micros, out: &mut Vec<u8>) {
        let (second, fraction) = (at.div_euclid(SECOND), at.rem_euclid(SECOND));
        if self.second != Some(second) {
            self.second = Some(second);
            self.text = format(second * SECOND);
        }
        out.push(b'"');
        out.extend_from_slice(self.text.trim_end_matches('Z').as_bytes());
        out.extend_from_slice(format!(".{fraction:06}Z\"").as_bytes());
    }
}

/// All groups of all events, and where those of each begin.
fn groups(frame: &DataFrame) -> Result<(StringChunked, Vec<i64>), Problem> {
    let column = frame.column("groups")?.rechunk();
    let lists = column.list()?;
    let starts = lists.offsets()?.as_slice().to_vec();
    Ok((lists.get_inner().str()?.clone(), starts))
}
