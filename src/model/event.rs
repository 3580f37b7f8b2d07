//! One audit event: the fields the roll-up and the breakdown need, as found in a line.

use crate::model::json::{JsonStr, text_of};
use crate::model::time::{Micros, SECOND};
use crate::model::walk::member;
use std::borrow::Cow;

/// How much of a request the audit policy lets the log hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Not said, or not one of the known ones.
    #[default]
    Unknown,
    /// Who, what, when; no bodies.
    Metadata,
    /// The request's body too.
    Request,
    /// The response's body too.
    RequestResponse,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The level named `text`.
    #[inline]
    pub fn parse(text: &[u8]) -> Self {
        match text {
            b"Metadata" => Self::Metadata,
            b"Request" => Self::Request,
            b"RequestResponse" => Self::RequestResponse,
            _ => Self::Unknown,
        }
    }

    /// Its name in the log; empty where unknown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The moment of a request's life that an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Handed to the audit handler, nothing done yet.
    RequestReceived,
    /// Headers sent, body not: of long-running requests, and of 401 and malformed `timeout=`.
    ResponseStarted,
    /// The whole response is sent.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

impl Stage {
    /// All stages, in the order of a request's life.
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The stage named `text`.
    #[inline]
    pub fn parse(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"ResponseComplete" => Self::ResponseComplete,
            b"ResponseStarted" => Self::ResponseStarted,
            b"RequestReceived" => Self::RequestReceived,
            b"Panic" => Self::Panic,
            _ => return None,
        })
    }

    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// Whether nothing follows it.
    #[inline]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::ResponseComplete | Self::Panic)
    }
}

/// A caller in the memory of the thread that reads: valid while `generation` stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Goes up when all callers are forgotten.
    pub generation: u32,
    /// Its number within the generation, from 0.
    pub index: u32,
}

/// Verb and kind of object in the memory of the thread that reads: valid while `generation` stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Goes up when all targets are forgotten.
    pub generation: u32,
    /// Its number within the generation, from 0.
    pub index: u32,
}

/// One audit event, borrowed from the line it stands in.
///
/// Strings are kept as they stand in the line; objects that are rarely needed are kept as raw JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event<'a> {
    /// Cluster, where the wrapper around the event names one.
    pub cluster: Option<Cow<'a, str>>,
    /// Apiserver, where the wrapper or a prefix of the line names one.
    pub instance: Option<Cow<'a, str>>,
    /// Audit level.
    pub level: Level,
    /// Stage; an event without a known one is not an event.
    pub stage: Option<Stage>,
    /// `auditID`; may be chosen by the client.
    pub audit_id: JsonStr<'a>,
    /// `requestURI` with the raw query.
    pub uri: JsonStr<'a>,
    pub verb: JsonStr<'a>,
    /// Which caller of this thread's memory it is, where the reader knows: equal means that user, groups,
    /// extra, impersonated user, source and agent are equal.
    pub caller: Option<Caller>,
    /// Which target of this thread's memory it has, where the reader knows: equal means that verb, resource,
    /// group and subresource are equal.
    pub target: Option<Target>,
    /// `user.username`.
    pub user: JsonStr<'a>,
    /// `user.groups`, the JSON array.
    pub groups: &'a [u8],
    /// `user.extra`, the JSON object.
    pub extra: &'a [u8],
    /// `impersonatedUser`, the JSON object.
    pub impersonated: &'a [u8],
    /// The last element of `sourceIPs`: the socket's peer.
    pub source: JsonStr<'a>,
    /// `userAgent`.
    pub agent: JsonStr<'a>,
    /// `objectRef.resource`.
    pub resource: JsonStr<'a>,
    /// `objectRef.namespace`.
    pub namespace: JsonStr<'a>,
    /// `objectRef.name`.
    pub name: JsonStr<'a>,
    /// `objectRef.apiGroup`.
    pub group: JsonStr<'a>,
    /// `objectRef.subresource`.
    pub subresource: JsonStr<'a>,
    /// `responseStatus.code`.
    pub code: Option<u16>,
    /// `responseStatus.message`: what went wrong, in words.
    pub message: JsonStr<'a>,
    /// `requestObject`, raw JSON; empty where absent.
    pub request_body: &'a [u8],
    /// `responseObject`, raw JSON; empty where absent.
    pub response_body: &'a [u8],
    /// `requestReceivedTimestamp`, as written.
    pub received: JsonStr<'a>,
    /// `stageTimestamp`, as written.
    pub at: JsonStr<'a>,
    /// `annotations`, the JSON object.
    pub annotations: &'a [u8],
    /// Whether the reader knows that `annotations` say only why the request was let in (`authorization.k8s.io/…`), as
    /// most do.
    pub only_reason: bool,
}

/// An event with its times read, and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Timed<'e, 'a> {
    pub event: &'e Event<'a>,
    pub stage: Stage,
    /// `stageTimestamp`.
    pub at: Micros,
    /// `requestReceivedTimestamp`, where it has one.
    pub received: Option<Micros>,
    /// The stream that it was read from: one apiserver's log with its rotated predecessors.
    pub stream: &'e Stream,
}

impl Timed<'_, '_> {
    /// When the request was received; the event's own time where the log does not say.
    #[inline]
    pub fn received_or_at(&self) -> Micros {
        self.received.unwrap_or(self.at)
    }

    /// From the request's arrival to this event, in microseconds; `None` where the log does not say.
    #[inline]
    pub fn elapsed(&self) -> Option<u64> {
        Some((self.at - self.received?).max(0) as u64)
    }

    /// The cluster: as the wrapper around the event says, else the stream's.
    pub fn cluster(&self) -> &str {
        self.event.cluster.as_deref().unwrap_or(&self.stream.cluster)
    }

    /// The apiserver, likewise.
    pub fn instance(&self) -> &str {
        self.event.instance.as_deref().unwrap_or(&self.stream.instance)
    }

    /// Which request this event belongs to: a hash of cluster, instance, audit id, URI and time of
    /// arrival, which all stages of one request share (docs/rollup.md, "request identity").
    /// `scratch` is room to put them together.
    #[inline]
    pub fn identity(&self, scratch: &mut Vec<u8>) -> u128 {
        scratch.clear();
        for part in
            [self.cluster().as_bytes(), self.instance().as_bytes(), self.event.audit_id.raw(), self.event.uri.raw()]
        {
            scratch.extend_from_slice(part);
            scratch.push(0xff);
        }
        scratch.extend_from_slice(&self.received.unwrap_or(0).to_le_bytes());
        xxhash_rust::xxh3::xxh3_128(scratch)
    }
}

/// One apiserver's log: a file with its rotated predecessors, or a pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// Its number, from 0.
    pub id: u32,
    /// Cluster, where a bundle names it; else empty.
    pub cluster: String,
    /// Apiserver, where the folder shows; else empty.
    pub instance: String,
}

/// Annotations in which an apiserver notes how long a slow request spent in etcd, in mutating and in validating
/// webhooks, in the queue of priority and fairness.
pub const SPENT: [&str; 4] = [
    "apiserver.latency.k8s.io/etcd",
    "apiserver.latency.k8s.io/mutating-webhook",
    "apiserver.latency.k8s.io/validating-webhook",
    "apiserver.latency.k8s.io/apf-queue-wait",
];

/// Annotations that hold the bytes of a body which `collect` took out: of the request, of the response, and how many
/// items it had.
pub const BODY_SIZES: [&str; 3] =
    ["plimsoll.io/request-bytes", "plimsoll.io/response-bytes", "plimsoll.io/response-items"];

/// An apiserver in a sentence, where its log or page has a name of its own or none.
pub fn called(instance: &str) -> &str {
    if instance.is_empty() { "an apiserver without a name" } else { instance }
}

/// An event further behind the newest of its log is late.
pub const LATE_BY: Micros = 5 * SECOND;

/// Whether requests for a subresource last as long as their client likes, whatever the verb.
#[inline]
pub fn is_lasting(subresource: &[u8]) -> bool {
    matches!(subresource, b"attach" | b"exec" | b"log" | b"portforward" | b"proxy")
}

impl<'a> Event<'a> {
    /// What the authorizer decided, `allow` or `forbid`, where the log says so: a 403 after `allow` comes from
    /// admission.
    pub fn decision(&self) -> Option<JsonStr<'a>> {
        member(self.annotations, "authorization.k8s.io/decision").and_then(text_of)
    }

    /// The agent's product: up to the first `/` or blank.
    #[inline]
    pub fn agent_product(&self) -> Cow<'a, str> {
        if !self.agent.is_escaped() {
            let raw = self.agent.raw();
            let end = raw.iter().position(|&b| b == b'/' || b == b' ').unwrap_or(raw.len());
            return JsonStr::new(&raw[..end], false).decode();
        }
        self.part_of_agent(|agent| agent.split(['/', ' ']).next().unwrap_or_default())
    }

    /// The agent's version: after the product and its `/`, up to a blank.
    pub fn agent_version(&self) -> Cow<'a, str> {
        self.part_of_agent(|agent| match agent.split_once(['/', ' ']) {
            Some((product, rest)) if agent.as_bytes().get(product.len()) == Some(&b'/') => {
                rest.split(' ').next().unwrap_or_default()
            }
            _ => "",
        })
    }

    fn part_of_agent(&self, part: impl for<'t> Fn(&'t str) -> &'t str) -> Cow<'a, str> {
        match self.agent.decode() {
            Cow::Borrowed(agent) => Cow::Borrowed(part(agent)),
            Cow::Owned(agent) => Cow::Owned(part(&agent).to_owned()),
        }
    }

    /// Whether the request lasts as long as its client likes: watch, exec, attach, log, port-forward,
    /// proxy, profiles. Their duration is a lifetime, not a latency.
    #[inline]
    pub fn is_long_running(&self) -> bool {
        let sub = self.subresource.raw();
        matches!(self.verb.bytes().as_ref(), b"watch" | b"proxy")
            || (!sub.is_empty() && is_lasting(sub))
            || self.uri.raw().starts_with(b"/debug/pprof/")
    }
}
