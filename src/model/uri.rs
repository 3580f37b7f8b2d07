//! What a request URI shows: how wide the request reaches and how a read asks to be served.

use std::borrow::Cow;

/// How wide a request reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Not about an API object: `/healthz`, `/metrics`, discovery.
    #[default]
    NonResource,
    /// All objects of a resource, in all namespaces or not namespaced.
    Cluster,
    /// All objects of a resource in one namespace.
    Namespace,
    Object,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NonResource, Self::Cluster, Self::Namespace, Self::Object];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::NonResource => "nonresource",
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Object => "object",
        }
    }
}

/// The scope of the path of `uri`, as kube-apiserver's request-info reads it; `None` where it is not
/// the path of an API resource.
#[inline]
pub fn path_scope(uri: &[u8]) -> Option<Scope> {
    let path = &uri[..uri.iter().position(|&b| b == b'?').unwrap_or(uri.len())];
    // Slashes around a path mean nothing, those within it part it, even where nothing stands between.
    let start = path.iter().position(|&b| b != b'/')?;
    let end = path.iter().rposition(|&b| b != b'/')? + 1;
    let mut segments = path[start..end].split(|&b| b == b'/');
    match segments.next()? {
        b"api" => segments.next()?,
        b"apis" => {
            segments.next()?;
            segments.next()?
        }
        _ => return None,
    };
    let mut first = segments.next()?;
    if matches!(first, b"watch" | b"proxy") {
        first = segments.next()?;
    }
    let names = |segment: Option<&[u8]>| segment.is_some_and(|name| !name.is_empty());
    if first == b"namespaces" {
        let Some(namespace) = segments.next() else { return Some(Scope::Cluster) };
        return Some(match segments.next() {
            None | Some(b"status" | b"finalize") if namespace.is_empty() => Scope::Cluster,
            None | Some(b"status" | b"finalize") => Scope::Object,
            Some(_) if names(segments.next()) => Scope::Object,
            Some(_) => Scope::Namespace,
        });
    }
    Some(if names(segments.next()) { Scope::Object } else { Scope::Cluster })
}

/// What `resourceVersion` asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Absent or empty: the most recent data.
    #[default]
    Unset,
    /// `0`: anything the cache has.
    Zero,
    /// A number: not older than, or exactly that.
    At,
}

/// What `resourceVersionMatch` asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Absent.
    #[default]
    Unset,
    Exact,
    /// `NotOlderThan`.
    NotOlder,
    /// Anything else.
    Other,
}

/// What selects among the objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Nothing.
    #[default]
    None,
    /// `fieldSelector=metadata.name=…`: one object.
    Name,
    /// `fieldSelector=spec.nodeName=…`: the pods of one node.
    Node,
    /// Another field selector.
    Field,
    /// A label selector.
    Label,
}

/// How long a watch asks to live (`timeoutSeconds`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchTimeout {
    /// Not said: 30 to 60 minutes, by the server's choice.
    #[default]
    Default,
    /// Less than a minute.
    Short,
    /// 1 to 10 minutes, as client-go's informers ask.
    Informer,
    /// More than ten minutes.
    Long,
}

/// What the path of a request for no resource is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    /// `/api`, `/apis` and what is below: which groups, versions and resources there are.
    Discovery,
    /// `/openapi` and what is below, `/swagger.json`: the schemas.
    OpenApi,
    /// `/healthz`, `/livez`, `/readyz` and what is below.
    Health,
    /// `/metrics` and what is below.
    Metrics,
    Version,
    /// Anything else.
    Other,
}

impl PathClass {
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Discovery, Self::OpenApi, Self::Health, Self::Metrics, Self::Version, Self::Other];

    /// The class of `uri`'s path.
    pub fn of(uri: &[u8]) -> Self {
        let path = &uri[..uri.iter().position(|&b| b == b'?').unwrap_or(uri.len())];
        let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
        match path[start..].split(|&b| b == b'/').next().unwrap_or_default() {
            b"api" | b"apis" => Self::Discovery,
            b"openapi" | b"swagger.json" => Self::OpenApi,
            b"healthz" | b"livez" | b"readyz" => Self::Health,
            b"metrics" => Self::Metrics,
            b"version" => Self::Version,
            _ => Self::Other,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::OpenApi => "openapi",
            Self::Health => "health",
            Self::Metrics => "metrics",
            Self::Version => "version",
            Self::Other => "other",
        }
    }
}

/// How a read asks to be served: the parameters that decide whether the watch cache or etcd answers,
/// and how much comes back. Of a request for no resource, what its path is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadShape {
    /// `resourceVersion`.
    pub version: Version,
    /// `resourceVersionMatch`.
    pub version_match: Match,
    /// `limit` above 0.
    pub limit: bool,
    /// `continue` given: a further page.
    pub continued: bool,
    /// Field or label selector.
    pub selector: Selector,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`: a streaming LIST.
    pub initial_events: bool,
    /// For watches: `timeoutSeconds`.
    pub timeout: Option<WatchTimeout>,
    /// Of a request for no resource: what its path is about. Nothing else is then set.
    pub path: Option<PathClass>,
}

impl ReadShape {
    /// Of a request for no resource.
    pub fn of_path(uri: &[u8]) -> Self {
        Self { path: Some(PathClass::of(uri)), ..Self::default() }
    }

    /// Reads the query of `uri`; `watch` says whether the request is a watch.
    pub fn of(uri: &str, watch: bool) -> Self {
        let mut shape = Self { timeout: watch.then_some(WatchTimeout::Default), ..Self::default() };
        let Some((_, query)) = uri.split_once('?') else { return shape };
        let mut seen = 0u16;
        let (mut field, mut label) = (Cow::Borrowed(""), false);
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bit = match percent_decode(key).as_ref() {
                "resourceVersion" => 1,
                "resourceVersionMatch" => 2,
                "limit" => 4,
                "continue" => 8,
                "fieldSelector" => 16,
                "labelSelector" => 32,
                "allowWatchBookmarks" => 64,
                "sendInitialEvents" => 128,
                "timeoutSeconds" => 256,
                _ => continue,
            };
            if seen & bit != 0 {
                continue; // Go's url.Values.Get: the first of a name counts.
            }
            seen |= bit;
            let value = percent_decode(value);
            match bit {
                1 => {
                    shape.version = match value.as_ref() {
                        "" => Version::Unset,
                        "0" => Version::Zero,
                        _ => Version::At,
                    }
                }
                2 => {
                    shape.version_match = match value.as_ref() {
                        "" => Match::Unset,
                        "Exact" => Match::Exact,
                        "NotOlderThan" => Match::NotOlder,
                        _ => Match::Other,
                    }
                }
                4 => shape.limit = value.parse::<i64>().is_ok_and(|n| n > 0),
                8 => shape.continued = !value.is_empty(),
                16 => field = value,
                32 => label = !value.is_empty(),
                64 => shape.bookmarks = is_true(&value),
                128 => shape.initial_events = is_true(&value),
                _ if watch => {
                    shape.timeout = Some(match value.parse::<i64>() {
                        Err(_) => WatchTimeout::Default,
                        Ok(..60) => WatchTimeout::Short,
                        Ok(60..=600) => WatchTimeout::Informer,
                        Ok(_) => WatchTimeout::Long,
                    });
                }
                _ => {}
            }
        }
        shape.selector = if field.contains("metadata.name=") {
            Selector::Name
        } else if field.contains("spec.nodeName=") {
            Selector::Node
        } else if !field.is_empty() {
            Selector::Field
        } else if label {
            Selector::Label
        } else {
            Selector::None
        };
        shape
    }

    /// The shape as a number: the same for the same shape.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.version as u32
            | (self.version_match as u32) << 2
            | u32::from(self.limit) << 4
            | u32::from(self.continued) << 5
            | (self.selector as u32) << 6
            | u32::from(self.bookmarks) << 9
            | u32::from(self.initial_events) << 10
            | self.timeout.map_or(7, |timeout| timeout as u32) << 11
            | self.path.map_or(7, |path| path as u32) << 14
    }

    /// The shape as the roll-up's tables write it, e.g. `rv=0,sel=label`.
    pub fn encode(&self) -> String {
        if let Some(path) = self.path {
            return format!("path={}", path.name());
        }
        let mut out = String::from(match self.version {
            Version::Unset => "rv=unset",
            Version::Zero => "rv=0",
            Version::At => "rv=N",
        });
        out.push_str(match self.version_match {
            Match::Unset => "",
            Match::Exact => ",match=exact",
            Match::NotOlder => ",match=notolder",
            Match::Other => ",match=other",
        });
        for (given, text) in [(self.limit, ",limit"), (self.continued, ",continue")] {
            if given {
                out.push_str(text);
            }
        }
        out.push_str(match self.selector {
            Selector::None => "",
            Selector::Name => ",sel=name",
            Selector::Node => ",sel=node",
            Selector::Field => ",sel=field",
            Selector::Label => ",sel=label",
        });
        for (given, text) in [(self.bookmarks, ",bookmarks"), (self.initial_events, ",initial")] {
            if given {
                out.push_str(text);
            }
        }
        out.push_str(match self.timeout {
            None => "",
            Some(WatchTimeout::Default) => ",t=default",
            Some(WatchTimeout::Short) => ",t=short",
            Some(WatchTimeout::Informer) => ",t=informer",
            Some(WatchTimeout::Long) => ",t=long",
        });
        out
    }

    /// The shape that was written so; `None` if it is none.
    pub fn decode(text: &str) -> Option<Self> {
        let mut shape = Self::default();
        for part in text.split(',') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("path", name) => shape.path = Some(PathClass::ALL.into_iter().find(|class| class.name() == name)?),
                ("rv", "unset") => shape.version = Version::Unset,
                ("rv", "0") => shape.version = Version::Zero,
                ("rv", "N") => shape.version = Version::At,
                ("match", "exact") => shape.version_match = Match::Exact,
                ("match", "notolder") => shape.version_match = Match::NotOlder,
                ("match", "other") => shape.version_match = Match::Other,
                ("limit", "") => shape.limit = true,
                ("continue", "") => shape.continued = true,
                ("sel", "name") => shape.selector = Selector::Name,
                ("sel", "node") => shape.selector = Selector::Node,
                ("sel", "field") => shape.selector = Selector::Field,
                ("sel", "label") => shape.selector = Selector::Label,
                ("bookmarks", "") => shape.bookmarks = true,
                ("initial", "") => shape.initial_events = true,
                ("t", "default") => shape.timeout = Some(WatchTimeout::Default),
                ("t", "short") => shape.timeout = Some(WatchTimeout::Short),
                ("t", "informer") => shape.timeout = Some(WatchTimeout::Informer),
                ("t", "long") => shape.timeout = Some(WatchTimeout::Long),
                _ => return None,
            }
        }
        Some(shape)
    }
}

/// The group and version of an API path: `v1` of `/api/v1/…`, `apps/v1` of `/apis/apps/v1/…`; empty for other paths.
pub fn api_version(uri: &str) -> &str {
    let path = uri.split('?').next().unwrap_or_default().trim_matches('/');
    let (rest, parts) = match path.split_once('/') {
        Some(("api", rest)) => (rest, 1),
        Some(("apis", rest)) => (rest, 2),
        _ => return "",
    };
    let end = rest.match_indices('/').nth(parts - 1).map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

/// The value of a parameter of `uri`: the first of that name, percent-decoded; empty where there is none.
pub fn parameter<'u>(uri: &'u str, name: &str) -> Cow<'u, str> {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .into_iter()
        .find(|(key, _)| percent_decode(key) == name)
        .map_or(Cow::Borrowed(""), |(_, value)| percent_decode(value))
}

/// Kubernetes' reading of a boolean parameter that is present.
fn is_true(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// The path of a request URI, unescaped.
pub fn decoded_path(uri: &str) -> Cow<'_, str> {
    let path = &uri[..uri.find('?').unwrap_or(uri.len())];
    // In a path, unlike in a query, a plus is a plus.
    if path.contains('+') {
        Cow::Owned(percent_decode(&path.replace('+', "%2B")).into_owned())
    } else {
        percent_decode(path)
    }
}

/// The parameters of a query, decoded, in their order.
pub fn parameters(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (percent_decode(name).into_owned(), percent_decode(value).into_owned())
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

/// A text as it stands in a URL: all but letters, digits and `-_.~` as `%XX`.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Resolves `%XX` and `+`; what is malformed stays as it is.
fn percent_decode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|b| b == b'%' || b == b'+') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |i: usize| bytes.get(i).and_then(|&b| (b as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (b'+', ..) => {
                out.push(b' ');
                at += 1;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_follow_the_apiservers_request_info() {
        for (uri, scope) in [
            ("/api/v1/pods", Some(Scope::Cluster)),
            ("/api/v1/pods?limit=5", Some(Scope::Cluster)),
            ("/api/v1/namespaces", Some(Scope::Cluster)),
            ("/api/v1/namespaces/web", Some(Scope::Object)),
            ("/api/v1/namespaces/web/status", Some(Scope::Object)),
            ("/api/v1/namespaces/web/finalize", Some(Scope::Object)),
            ("/api/v1/namespaces/web/pods", Some(Scope::Namespace)),
            ("/api/v1/namespaces/web/pods/a", Some(Scope::Object)),
            ("/api/v1/namespaces/web/pods/a/log", Some(Scope::Object)),
            ("/api/v1/nodes/n1/proxy/stats", Some(Scope::Object)),
            ("/api/v1/watch/namespaces/web/pods", Some(Scope::Namespace)),
            ("/apis/apps/v1/deployments", Some(Scope::Cluster)),
            ("/apis/apps/v1/namespaces/web/deployments/a/scale", Some(Scope::Object)),
            ("/api/v1/namespaces/web/pods/", Some(Scope::Namespace)),
            ("//api/v1/pods", Some(Scope::Cluster)),
            ("/api//pods", Some(Scope::Cluster)),
            ("/apis/g/v/namespaces//pods", Some(Scope::Namespace)),
            ("/apis", None),
            ("/apis/apps/v1", None),
            ("/healthz", None),
            ("", None),
        ] {
            assert_eq!(path_scope(uri.as_bytes()), scope, "{uri}");
        }
    }

    #[test]
    fn paths_have_classes() {
        for (uri, class) in [
            ("/api", "discovery"),
            ("/apis/", "discovery"),
            ("//apis/apps/v1?timeout=32s", "discovery"),
            ("/apisx", "other"),
            ("/openapi/v3/api/v1?hash=1", "openapi"),
            ("/swagger.json", "openapi"),
            ("/readyz/etcd", "health"),
            ("/metrics/cadvisor", "metrics"),
            ("/version?x", "version"),
            ("/", "other"),
            ("", "other"),
        ] {
            let shape = ReadShape::of_path(uri.as_bytes());
            assert_eq!(shape.encode(), format!("path={class}"), "{uri}");
            assert_eq!(ReadShape::decode(&shape.encode()), Some(shape));
        }
    }

    #[test]
    fn versions_and_parameters_of_a_uri() {
        for (uri, version) in [
            ("/api/v1/pods?watch=1", "v1"),
            ("/apis/policy/v1beta1/namespaces/a/x", "policy/v1beta1"),
            ("/apis/apps/v1", "apps/v1"),
            ("/apis/apps", "apps"),
            ("/api", ""),
            ("/healthz", ""),
        ] {
            assert_eq!(api_version(uri), version, "{uri}");
        }
        assert_eq!(parameter("/a?x=1&dry%52un=All&dryRun=", "dryRun"), "All");
        assert_eq!(parameter("/a?x=1", "dryRun"), "");
    }

    #[test]
    fn shapes_name_what_decides_the_cost() {
        for (uri, watch, shape) in [
            ("/api/v1/pods", false, "rv=unset"),
            ("/api/v1/pods?resourceVersion=0&limit=500", false, "rv=0,limit"),
            ("/api/v1/pods?limit=0&continue=abc", false, "rv=unset,continue"),
            ("/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan", false, "rv=N,match=notolder"),
            ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=a", false, "rv=unset,sel=node"),
            ("/api/v1/pods?fieldSelector=metadata.name=x", false, "rv=unset,sel=name"),
            ("/api/v1/pods?labelSelector=app%3Dx", false, "rv=unset,sel=label"),
            ("/api/v1/pods?watch=true", true, "rv=unset,t=default"),
            ("/api/v1/pods?watch=1&timeoutSeconds=3", true, "rv=unset,t=short"),
            (
                "/api/v1/pods?allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=387",
                true,
                "rv=unset,bookmarks,initial,t=informer",
            ),
            ("/api/v1/pods?allowWatchBookmarks=False&timeoutSeconds=3600", true, "rv=unset,t=long"),
            ("/api/v1/pods?resourceVersion=0&resourceVersion=5", false, "rv=0"),
        ] {
            assert_eq!(ReadShape::of(uri, watch).encode(), shape, "{uri}");
            assert_eq!(ReadShape::decode(shape), Some(ReadShape::of(uri, watch)), "{shape}");
        }
    }
}
