//! The forms in which a line may carry audit events: bare, behind a prefix, in an `EventList`, in
//! the wrappers of log services. Whatever it is, out come events.

use super::general::{self, Members, elements, string_of};
use super::scan::{Memory, scan};
use super::{gke, twice};
use crate::model::event::Event;
use crate::model::input::LossKind;
use crate::model::time::{Micros, TimeParser};
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// How many wrappers may stand around one another.
const MAX_DEPTH: u8 = 4;

/// A prefix before the event is at most this long: a time, a host, a syslog or container-runtime header.
const MAX_PREFIX: usize = 512;

/// Names that a wrapper gives to where an event comes from.
#[derive(Debug, Clone, Default)]
struct Origin {
    cluster: Option<String>,
    instance: Option<String>,
}

/// Hands every event in `line` to `each`; says what was lost, if anything was.
pub fn read_line(line: &[u8], each: &mut impl FnMut(&Event<'_>)) -> Option<LossKind> {
    read_counting(line, each, &mut 0)
}

/// The same; entries of other services and logs are counted.
pub(super) fn read_counting(line: &[u8], each: &mut impl FnMut(&Event<'_>), others: &mut u64) -> Option<LossKind> {
    let line = line.trim_ascii();
    if line.is_empty() { None } else { slow_line(line, each, others) }
}

/// Reads what the fast scanner left.
#[cold]
pub(super) fn slow_line(line: &[u8], each: &mut impl FnMut(&Event<'_>), others: &mut u64) -> Option<LossKind> {
    let mut lost = None;
    let mut part = Cow::Borrowed(line);
    if memchr::memchr(0, &part).is_some() {
        lost = Some(LossKind::Nul);
        let kept: Vec<u8> = line.iter().copied().filter(|&b| b != 0).collect();
        part = Cow::Owned(kept.trim_ascii().to_vec());
        if part.is_empty() {
            return lost;
        }
    }
    if let Err(_not_utf8) = std::str::from_utf8(&part) {
        lost = lost.or(Some(LossKind::NotUtf8));
        part = Cow::Owned(String::from_utf8_lossy(&part).into_owned().into_bytes());
    }
    let mut reader = Reader { each, memory: Memory::default(), others };
    match reader.text(&part, &Origin::default(), 0) {
        Ok(()) => lost,
        Err(kind) => {
            // Two lines run into one: keep the second.
            if let Some(at) = memchr::memmem::rfind(&part[1..], br#"{"kind":"Event","apiVersion":"audit"#)
                && part[at + 1..].ends_with(b"}")
            {
                let _ = reader.text(&part[at + 1..], &Origin::default(), 0);
            }
            Some(kind)
        }
    }
}

/// The fields of an event that are called a time, for a message: their names and what they hold.
pub(super) fn times_named(line: &[u8]) -> String {
    static FIELD: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"\\*"([A-Za-z@_]*[Tt]ime[A-Za-z_]*)\\*"\s*:\s*\\*"?([^"\\,}]{0,40})"#).ok());
    let text = String::from_utf8_lossy(&line[..line.len().min(64 << 10)]);
    let mut named: Vec<String> = Vec::new();
    for found in FIELD.iter().flat_map(|field| field.captures_iter(&text)) {
        let (name, value) = (&found[1], &found[2]);
        let what = format!("{name} \"{}\"", value.escape_debug());
        if name != "creationTimestamp" && named.len() < 4 && !named.contains(&what) {
            named.push(what);
        }
    }
    if named.is_empty() { "it has no time field".to_owned() } else { format!("it has {}", named.join(", ")) }
}

/// Lines at the start of a file whose events are looked at.
const LOOKED_AT: usize = 8;

/// Which events a log begins with, and whether the first stands in a wrapper.
pub fn begin(head: &[u8]) -> (Vec<u64>, bool) {
    let mut times = TimeParser::default();
    let mut ids = Vec::new();
    let mut is_wrapped = None;
    for line in head.split(|&byte| byte == b'\n').take(LOOKED_AT) {
        let mut is_event = false;
        read_line(line, &mut |event| {
            is_event = true;
            let known = times.parse_json(event.at).zip(event.stage);
            ids.extend(known.and_then(|(at, stage)| twice::identity(event, stage, at)));
        });
        if is_event && is_wrapped.is_none() {
            is_wrapped = Some(wraps(line));
        }
    }
    ids.dedup();
    (ids, is_wrapped.unwrap_or(false))
}

/// Whether a line with an event is not the event itself. A host before it wraps nothing; a time alone is what a log
/// service puts there.
fn wraps(line: &[u8]) -> bool {
    let start = memchr::memchr(b'{', line).unwrap_or(0);
    let is_time =
        |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.trim().parse::<jiff::Timestamp>().is_ok());
    is_time(&line[..start]) || Members::parse(&line[start..]).is_ok_and(|members| members.get("stage").is_none())
}

struct Reader<'f, F> {
    each: &'f mut F,
    memory: Memory,
    /// Entries that are no events of an apiserver's.
    others: &'f mut u64,
}

impl<F: FnMut(&Event<'_>)> Reader<'_, F> {
    fn give<'a>(&mut self, mut event: Event<'a>, origin: &'a Origin) {
        event.cluster = origin.cluster.as_deref().map(Cow::Borrowed);
        event.instance = origin.instance.as_deref().map(Cow::Borrowed);
        (self.each)(&event);
    }

    /// A line, or the text inside a wrapper.
    fn text(&mut self, text: &[u8], origin: &Origin, depth: u8) -> Result<(), LossKind> {
        let text = text.trim_ascii();
        if text.starts_with(b"{") {
            return self.object(text, origin, depth);
        }
        if text.starts_with(b"[") && text.ends_with(b"]") {
            let text = std::str::from_utf8(text).map_err(|_| LossKind::NotJson)?;
            return self.each_of(&elements(text).ok_or(LossKind::NotJson)?, origin, depth);
        }
        let brace = memchr::memchr(b'{', &text[..text.len().min(MAX_PREFIX)]).ok_or(LossKind::NotJson)?;
        let mut origin = origin.clone();
        if let Some(host) = host_of(&text[..brace]) {
            origin.instance = Some(host);
        }
        self.object(&text[brace..], &origin, depth)
    }

    fn object(&mut self, text: &[u8], origin: &Origin, depth: u8) -> Result<(), LossKind> {
        let mut event = Event::default();
        if scan(text, 0, &mut self.memory, &mut event) == Some(text.len()) {
            // Known to this reader only.
            (event.caller, event.target) = (None, None);
            self.give(event, origin);
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(LossKind::NotAnEvent);
        }
        let members = Members::parse(text).map_err(|_| LossKind::NotJson)?;
        if members.get("stage").is_some() && (members.get("auditID").is_some() || members.get("requestURI").is_some()) {
            let event = general::event(&members).ok_or(LossKind::NotAnEvent)?;
            self.give(event, origin);
            return Ok(());
        }
        if members.get("protoPayload").is_some() {
            return match gke::entry(&members, |event| (self.each)(event)) {
                Some(gke::Entry::Event) => Ok(()),
                Some(gke::Entry::OfOthers) => {
                    *self.others += 1;
                    Ok(())
                }
                None => Err(LossKind::NotAnEvent),
            };
        }
        self.wrapper(&members, origin, depth)
    }

    /// A JSON object that is not an event: look for events in the places where log services put them.
    fn wrapper(&mut self, members: &Members<'_>, origin: &Origin, depth: u8) -> Result<(), LossKind> {
        let origin = &origin_of(members, origin);
        // Lists: the webhook backend's EventList, a CloudWatch subscription, `aws logs filter-log-events`, an Event Hub
        // batch.
        for list in ["items", "logEvents", "events", "records"] {
            if let Some(items) = members.array(list) {
                return self.each_of(&items, origin, depth);
            }
        }
        // Envelopes with the event as a string: CloudWatch, Azure diagnostics (two table forms), container runtimes,
        // journald, Cloud Logging.
        for text in ["message", "@message", "log", "log_s", "textPayload", "MESSAGE", "msg"] {
            if let Some(inner) = members.text(text) {
                if !mentions_audit(&inner) {
                    // Another log of the same service.
                    *self.others += 1;
                    return Ok(());
                }
                return self.text(inner.as_bytes(), origin, depth + 1).map_err(|_| LossKind::BrokenInside);
            }
        }
        // Envelopes with the event as an object.
        for object in ["properties", "jsonPayload", "message", "log", "event"] {
            if let Some(inner) = members.get(object).filter(|v| v.starts_with('{')) {
                return self.object(inner.as_bytes(), origin, depth + 1);
            }
        }
        Err(LossKind::NotAnEvent)
    }

    fn each_of(&mut self, items: &[&str], origin: &Origin, depth: u8) -> Result<(), LossKind> {
        let mut result = Ok(());
        for item in items {
            // An element may itself be a string that holds an event.
            let read = match string_of(item) {
                Some(inner) => self.text(inner.decode().as_bytes(), origin, depth + 1),
                None => self.object(item.as_bytes(), origin, depth + 1),
            };
            result = result.and(read);
        }
        result
    }
}

/// Whether the text inside a wrapper holds an audit event, or what is left of one.
fn mentions_audit(text: &str) -> bool {
    text.contains("audit.k8s.io/") || text.contains("auditID")
}

/// What a wrapper says of cluster and apiserver.
fn origin_of(members: &Members<'_>, outer: &Origin) -> Origin {
    let mut origin = outer.clone();
    // EKS: log group /aws/eks/CLUSTER/cluster, stream kube-apiserver-audit-ID.
    if let Some(group) =
        members.text("logGroup").or_else(|| members.text("logGroupName")).or_else(|| members.text("log_group"))
        && let Some(cluster) = group.strip_prefix("/aws/eks/").and_then(|rest| rest.split('/').next())
    {
        origin.cluster = Some(cluster.to_owned());
    }
    for stream in ["logStream", "logStreamName", "@logStream"] {
        if let Some(name) = members.text(stream) {
            origin.instance = Some(name.into_owned());
        }
    }
    // AKS: resource id …/MANAGEDCLUSTERS/NAME, pod kube-apiserver-ID.
    for id in ["resourceId", "ResourceId", "_ResourceId"] {
        if let Some(id) = members.text(id) {
            let lower = id.to_ascii_lowercase();
            if let Some(at) = lower.find("/managedclusters/") {
                let rest = &lower[at + "/managedclusters/".len()..];
                origin.cluster = rest.split('/').next().map(str::to_owned);
            }
        }
    }
    for pod in ["pod", "pod_s", "PodName"] {
        if let Some(pod) = members.text(pod) {
            origin.instance = Some(pod.into_owned());
        }
    }
    origin
}

/// The host that a line's prefix names: a single word that is not a time (`oc adm node-logs`, ssh loops).
fn host_of(prefix: &[u8]) -> Option<String> {
    let prefix = std::str::from_utf8(prefix).ok()?.trim();
    let word = prefix.strip_suffix(':').unwrap_or(prefix);
    let is_host = !word.is_empty()
        && !word.contains(char::is_whitespace)
        && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/'))
        && TimeParser::default().parse(word.as_bytes()).is_none();
    is_host.then(|| word.to_owned())
}

/// Times of the events in some lines.
pub fn times_in<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Vec<Micros> {
    let mut times = Vec::new();
    let mut parser = TimeParser::default();
    for line in lines {
        read_line(line, &mut |event| times.extend(parser.parse_json(event.at)));
    }
    times
}
