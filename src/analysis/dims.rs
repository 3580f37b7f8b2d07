//! The dimensions by which the requests of an audit log can be broken down.

use super::flow::Flow;
use super::list_route::{Minor, list_kind};
use crate::model::event::{Event, Timed};
use crate::model::json::{JsonStr, MAX_TEXT, cut};
use crate::model::problem::Problem;
use crate::model::time::{self, MINUTE};
use crate::model::uri::{ReadShape, Scope, path_scope};
use crate::model::walk::{member, strings};
use std::borrow::Cow;
use std::str::FromStr;

/// One dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    Verb,
    Resource,
    Group,
    Subresource,
    Namespace,
    Name,
    User,
    ServiceAccount,
    Agent,
    AgentVersion,
    SourceIp,
    Node,
    Code,
    CodeClass,
    Instance,
    Cluster,
    Scope,
    ListKind,
    Stage,
    Minute,
    FlowSchema,
    PriorityLevel,
    /// The user, all kubelets being one: not by name on the command line, where `user` shows each.
    Client,
}

/// What is known of an event that does not stand in it.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventContext<'k> {
    /// The apiservers' version: it decides who answers a LIST.
    pub server: Option<Minor>,
    /// The FlowSchema that the request matches.
    pub flow: Flow<'k>,
}

impl Dim {
    /// All dimensions that an audit log has, in the order of the documentation.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::Verb, "verb"),
        (Self::Resource, "resource"),
        (Self::Group, "group"),
        (Self::Subresource, "subresource"),
        (Self::Namespace, "namespace"),
        (Self::Name, "name"),
        (Self::User, "user"),
        (Self::ServiceAccount, "serviceaccount"),
        (Self::Agent, "agent"),
        (Self::AgentVersion, "agent-version"),
        (Self::SourceIp, "source-ip"),
        (Self::Node, "node"),
        (Self::Code, "code"),
        (Self::CodeClass, "code-class"),
        (Self::Instance, "instance"),
        (Self::Cluster, "cluster"),
        (Self::Scope, "scope"),
        (Self::ListKind, "list-kind"),
        (Self::Stage, "stage"),
        (Self::Minute, "minute"),
        (Self::FlowSchema, "flow_schema"),
        (Self::PriorityLevel, "priority_level"),
    ];

    /// Dimensions that only `/metrics` have.
    pub const METRICS_ONLY: [&'static str; 2] = ["version", "component"];

    /// Whether it follows from FlowSchemas.
    pub fn is_flow(self) -> bool {
        matches!(self, Self::FlowSchema | Self::PriorityLevel)
    }

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(dim, _)| *dim == self).map_or("", |(_, name)| name)
    }

    /// Appends its value for an event to `out`: the bytes as they stand in the log, where they are its text.
    #[inline]
    pub fn write(self, event: &Timed<'_, '_>, known: EventContext<'_>, out: &mut Vec<u8>) {
        let e = event.event;
        let text = match self {
            Self::Verb => e.verb,
            Self::Resource => e.resource,
            Self::Group => e.group,
            Self::Subresource => e.subresource,
            Self::Namespace => e.namespace,
            Self::Name => e.name,
            Self::User => e.user,
            Self::SourceIp => e.source,
            Self::FlowSchema => return out.extend_from_slice(known.flow.schema.as_bytes()),
            Self::PriorityLevel => return out.extend_from_slice(known.flow.level.as_bytes()),
            Self::Agent if !e.agent.is_escaped() && e.agent.raw().len() <= MAX_TEXT => {
                return out.extend_from_slice(e.agent_product().as_bytes());
            }
            _ => return out.extend_from_slice(self.of(event, known).as_bytes()),
        };
        if text.is_escaped() || text.raw().len() > MAX_TEXT {
            out.extend_from_slice(self.of(event, known).as_bytes());
        } else {
            out.extend_from_slice(text.raw());
        }
    }

    /// Its value for an event; empty where the event has none.
    pub fn of<'a>(self, event: &Timed<'_, 'a>, known: EventContext<'_>) -> Cow<'a, str> {
        let e = event.event;
        let text = match self {
            Self::Verb => e.verb.decode(),
            Self::Resource => e.resource.decode(),
            Self::Group => e.group.decode(),
            Self::Subresource => e.subresource.decode(),
            Self::Namespace => e.namespace.decode(),
            Self::Name => e.name.decode(),
            Self::User => e.user.decode(),
            Self::Client => match e.user.decode() {
                Cow::Borrowed(user) => Cow::Borrowed(folded(user)),
                Cow::Owned(user) => Cow::Owned(folded(&user).to_owned()),
            },
            Self::ServiceAccount => service_account(e.user).unwrap_or_default(),
            Self::Agent => e.agent_product(),
            Self::AgentVersion => e.agent_version(),
            Self::SourceIp => e.source.decode(),
            Self::Node => node(e),
            Self::Code => e.code.map_or(Cow::Borrowed(""), |code| Cow::Owned(code.to_string())),
            Self::CodeClass => Cow::Borrowed(code_class(e.code)),
            Self::Instance => Cow::Owned(event.instance().to_owned()),
            Self::Cluster => Cow::Owned(event.cluster().to_owned()),
            Self::Scope => Cow::Borrowed(scope(e).name()),
            Self::ListKind if e.verb.is("list") && !e.resource.is_empty() => {
                let shape = ReadShape::of(&e.uri.decode(), false);
                Cow::Borrowed(list_kind(&shape, &e.group.decode(), &e.resource.decode(), known.server))
            }
            Self::ListKind => Cow::Borrowed(""),
            Self::Stage => Cow::Borrowed(event.stage.name()),
            Self::Minute => Cow::Owned(time::format(event.at - event.at.rem_euclid(MINUTE))),
            Self::FlowSchema => Cow::Owned(known.flow.schema.to_owned()),
            Self::PriorityLevel => Cow::Owned(known.flow.level.to_owned()),
        };
        match text {
            Cow::Borrowed(text) => cut(text),
            Cow::Owned(text) => Cow::Owned(cut(&text).into_owned()),
        }
    }
}

impl FromStr for Dim {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if let Some((dim, _)) = Self::ALL.iter().find(|(_, name)| *name == text) {
            return Ok(*dim);
        }
        if Self::METRICS_ONLY.contains(&text) {
            return Err(Problem::setting(format!("audit logs have no dimension '{text}'"))
                .hint("it is one of metrics (--from metrics)"));
        }
        let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
        Err(Problem::setting(format!("unknown dimension '{text}'")).hint(format!("use one of: {}", names.join(" "))))
    }
}

/// `NS:NAME` of `system:serviceaccount:NS:NAME`.
pub fn service_account(user: JsonStr<'_>) -> Option<Cow<'_, str>> {
    match user.decode() {
        Cow::Borrowed(user) => service_account_of(user).map(Cow::Borrowed),
        Cow::Owned(user) => service_account_of(&user).map(|rest| Cow::Owned(rest.to_owned())),
    }
}

/// The same of a user's name.
pub fn service_account_of(user: &str) -> Option<&str> {
    let rest = user.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = rest.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(rest)
}

/// A user as people know it: a service account without what all begin with.
pub fn short_user(user: &str) -> &str {
    user.strip_prefix("system:serviceaccount:").unwrap_or(user)
}

/// A user for people: apiservers do not know that of what they answer with 401.
pub fn shown_user(user: &str) -> &str {
    if user.is_empty() { "not authenticated" } else { user }
}

/// Namespace and name of a service account.
pub fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
}

/// The user under whose name a client is kept: all kubelets are one.
pub fn folded(user: &str) -> &str {
    if user.starts_with("system:node:") { "system:node:*" } else { user }
}

/// The node that a request came from: the kubelet's own, else the one that the token says its pod runs on.
pub fn node<'a>(event: &Event<'a>) -> Cow<'a, str> {
    let user = event.user.decode();
    if let Some(node) = user.strip_prefix("system:node:") {
        return Cow::Owned(node.to_owned());
    }
    extra(event, "authentication.kubernetes.io/node-name")
}

/// The first value of a key of `user.extra`.
pub fn extra<'a>(event: &Event<'a>, key: &str) -> Cow<'a, str> {
    if event.extra.is_empty() {
        return Cow::Borrowed("");
    }
    member(event.extra, key).and_then(|values| strings(values).next()).map(|value| value.decode()).unwrap_or_default()
}

/// `2xx` and so on; empty where there is no code.
pub fn code_class(code: Option<u16>) -> &'static str {
    match code {
        None => "",
        Some(code) => match code / 100 {
            0 => "0xx",
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "other",
        },
    }
}

/// How wide the request reaches.
pub fn scope(event: &Event<'_>) -> Scope {
    // The encoder escapes `&` only, which stands in the query: the path can be read as it is.
    scope_of(event, if event.resource.is_empty() { None } else { path_scope(event.uri.raw()) })
}

/// The same where it is known what the path shows.
#[inline]
pub fn scope_of(event: &Event<'_>, path: Option<Scope>) -> Scope {
    if event.resource.is_empty() {
        return Scope::NonResource;
    }
    path.unwrap_or_else(|| {
        let collective = ["create", "list", "watch", "deletecollection"].iter().any(|verb| event.verb.is(verb));
        match (event.name.is_empty() || collective, event.namespace.is_empty()) {
            (false, _) => Scope::Object,
            (true, false) => Scope::Namespace,
            (true, true) => Scope::Cluster,
        }
    })
}
