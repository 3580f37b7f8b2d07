//! Which FlowSchema a request matches, as kube-apiserver decides it: the schemas in the order of their precedence, then
//! of their names; the first that matches counts.

use crate::model::event::Event;
use crate::model::flowcontrol::{FlowConfig, FlowSchema, Limit, PathRule, PriorityLevel, ResourceRule, Rule, Subject};
use crate::model::json::{JsonStr, text_of};
use crate::model::walk::{member, strings};
use std::borrow::Cow;

/// The schema and level that every apiserver has, whether the objects are there or not.
const EXEMPT: &str = "exempt";
/// The same for what matches nothing else.
const CATCH_ALL: &str = "catch-all";

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller<'a> {
    /// User name.
    pub user: Cow<'a, str>,
    pub groups: Vec<Cow<'a, str>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget<'q> {
    Resource {
        verb: &'q str,
        /// API group.
        group: &'q str,
        resource: &'q str,
        /// Subresource, or empty.
        subresource: &'q str,
        /// Namespace, or empty.
        namespace: &'q str,
    },
    /// A path that is not a resource.
    Path {
        verb: &'q str,
        /// The path, unescaped, without query.
        path: &'q str,
    },
}

/// FlowSchemas in the order in which they are asked, and their levels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub schemas: Vec<FlowSchema>,
    pub levels: Vec<PriorityLevel>,
    /// Names of schemas that are left out because their level does not exist.
    pub dangling: Vec<String>,
    /// What matches nothing falls to this one.
    catch_all: usize,
    /// Namespaces that some rule names.
    named: Vec<String>,
}

impl Set {
    /// The set that an apiserver makes of `config`: schemas without their level are not used; the schemas and levels
    /// `exempt` and `catch-all` are there even if their objects are not (`built_in` has them).
    pub fn new(config: FlowConfig, built_in: &FlowConfig) -> Self {
        let FlowConfig { mut schemas, mut levels } = config;
        let mandatory = [EXEMPT, CATCH_ALL];
        for name in mandatory {
            if !levels.iter().any(|level| level.name == name) {
                levels.extend(built_in.levels.iter().find(|level| level.name == name).cloned());
            }
            if !schemas.iter().any(|schema| schema.name == name) {
                schemas.extend(built_in.schemas.iter().find(|schema| schema.name == name).cloned());
            }
        }
        let (mut schemas, dangling): (Vec<_>, Vec<_>) =
            schemas.drain(..).partition(|schema| levels.iter().any(|level| level.name == schema.level));
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        levels.sort_by(|a, b| a.name.cmp(&b.name));
        let catch_all =
            schemas.iter().position(|schema| schema.name == CATCH_ALL).unwrap_or(schemas.len().saturating_sub(1));
        let rules = || schemas.iter().flat_map(|schema| &schema.rules).flat_map(|rule| &rule.resources);
        let mut named: Vec<String> =
            rules().filter(|rule| !is_all(&rule.namespaces)).flat_map(|rule| rule.namespaces.iter().cloned()).collect();
        named.sort_unstable();
        named.dedup();
        let dangling = dangling.into_iter().map(|schema| schema.name).collect();
        Self { schemas, levels, dangling, catch_all, named }
    }

    /// The level of a name.
    pub fn level(&self, name: &str) -> Option<&PriorityLevel> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// Whether a schema's requests are never limited.
    pub fn is_exempt(&self, schema: &FlowSchema) -> bool {
        self.level(&schema.level).is_some_and(|level| level.limit == Limit::Exempt)
    }

    /// The rules that are about a caller, in the order in which they are asked: (schema, rule).
    pub fn rules_for(&self, caller: &Caller<'_>) -> Vec<(u16, u16)> {
        let all = self
            .schemas
            .iter()
            .enumerate()
            .flat_map(|(at, schema)| schema.rules.iter().enumerate().map(move |(n, rule)| (at, n, rule)));
        all.filter(|(.., rule)| rule.subjects.iter().any(|subject| is_subject(subject, caller)))
            .map(|(at, n, _)| (at as u16, n as u16))
            .collect()
    }

    /// The schema that a request matches, given the rules about its caller.
    pub fn matching(&self, rules: &[(u16, u16)], asked: RequestTarget<'_>) -> usize {
        let matches = |&&(schema, rule): &&(u16, u16)| {
            let found = self.schemas.get(schema as usize).and_then(|schema| schema.rules.get(rule as usize));
            found.is_some_and(|rule| asks(rule, asked))
        };
        rules.iter().find(matches).map_or(self.catch_all, |(schema, _)| *schema as usize)
    }

    /// A number that is the same for namespaces that no rule distinguishes.
    pub fn namespace_class(&self, namespace: &str) -> u32 {
        match self.named.binary_search_by(|name| name.as_str().cmp(namespace)) {
            _ if namespace.is_empty() => 0,
            Ok(at) => at as u32 + 2,
            Err(_) => 1,
        }
    }
}

/// Whether a list stands for everything.
fn is_all(list: &[String]) -> bool {
    matches!(list, [all] if all == "*")
}

fn holds(list: &[String], value: &str) -> bool {
    is_all(list) || list.iter().any(|item| item == value)
}

fn is_subject(subject: &Subject, caller: &Caller<'_>) -> bool {
    match subject {
        Subject::User(name) => name == "*" || *name == caller.user,
        Subject::Group(name) => name == "*" || caller.groups.iter().any(|group| group == name),
        Subject::ServiceAccount { namespace, name } => {
            let own = caller
                .user
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.strip_prefix(namespace.as_str()));
            let own = own.and_then(|rest| rest.strip_prefix(':'));
            own.is_some_and(|own| name == "*" || name == own)
        }
    }
}

fn asks(rule: &Rule, asked: RequestTarget<'_>) -> bool {
    match asked {
        RequestTarget::Resource { verb, group, resource, subresource, namespace } => {
            rule.resources.iter().any(|rule| asks_for_resource(rule, verb, group, resource, subresource, namespace))
        }
        RequestTarget::Path { verb, path } => rule.paths.iter().any(|rule| asks_for_path(rule, verb, path)),
    }
}

fn asks_for_resource(
    rule: &ResourceRule,
    verb: &str,
    group: &str,
    resource: &str,
    subresource: &str,
    namespace: &str,
) -> bool {
    let is_resource = |item: &String| match subresource {
        "" => item == resource,
        _ => item.split_once('/') == Some((resource, subresource)),
    };
    holds(&rule.verbs, verb)
        && (is_all(&rule.resources) || rule.resources.iter().any(is_resource))
        && holds(&rule.groups, group)
        && (if namespace.is_empty() { rule.cluster_scope } else { holds(&rule.namespaces, namespace) })
}

/// A path matches by itself, and everything below it does, with `*` at its end or without: `/healthz` is
/// `/healthz/etcd` too, and `/healthz*` is nothing but `/healthz/…`. The API's words promise less; this is what the
/// apiserver does.
fn asks_for_path(rule: &PathRule, verb: &str, path: &str) -> bool {
    let is_path = |item: &String| {
        let stem = item.strip_suffix('*').unwrap_or(item);
        let below = path.strip_prefix(stem.strip_suffix('/').unwrap_or(stem));
        item == "*" || item == path || below.is_some_and(|rest| rest.starts_with('/'))
    };
    holds(&rule.verbs, verb) && rule.paths.iter().any(is_path)
}

/// Whether API Priority and Fairness takes the request: not one that was not authenticated, or whose `timeout` made no
/// sense (neither has a user), and of long-running ones only watches.
pub fn is_classified(event: &Event<'_>) -> bool {
    !event.user.is_empty() && (event.verb.is("watch") || !event.is_long_running())
}

/// Who the request counts for: the impersonated user, where there is one.
pub fn caller<'a>(event: &Event<'a>) -> Caller<'a> {
    let decoded = |list: &'a [u8]| strings(list).map(|text: JsonStr<'a>| text.decode()).collect();
    if event.impersonated.is_empty() {
        return Caller { user: event.user.decode(), groups: decoded(event.groups) };
    }
    let user = member(event.impersonated, "username").and_then(text_of);
    let groups = member(event.impersonated, "groups").unwrap_or_default();
    Caller { user: user.unwrap_or_default().decode(), groups: decoded(groups) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller_of(user: &'static str, groups: &[&'static str]) -> Caller<'static> {
        Caller { user: user.into(), groups: groups.iter().map(|group| (*group).into()).collect() }
    }

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn subjects() {
        let account =
            |namespace: &str, name: &str| Subject::ServiceAccount { namespace: namespace.into(), name: name.into() };
        let me = caller_of("system:serviceaccount:web:app", &["g"]);
        for (subject, expected) in [
            (Subject::User("*".into()), true),
            (Subject::User("system:serviceaccount:web:app".into()), true),
            (Subject::User("app".into()), false),
            (Subject::Group("g".into()), true),
            (Subject::Group("*".into()), true),
            (Subject::Group("h".into()), false),
            (account("web", "app"), true),
            (account("web", "*"), true),
            (account("we", "*"), false),
            (account("web", "ap"), false),
            (account("*", "app"), false),
        ] {
            assert_eq!(is_subject(&subject, &me), expected, "{subject:?}");
        }
        let other = caller_of("system:serviceaccount:webs:app", &[]);
        assert!(!is_subject(&account("web", "*"), &other));
    }

    #[test]
    fn resources() {
        let rule = ResourceRule {
            verbs: list(&["get", "list"]),
            groups: list(&["", "apps"]),
            resources: list(&["pods", "pods/status", "*/scale"]),
            cluster_scope: false,
            namespaces: list(&["web"]),
        };
        for (verb, group, resource, subresource, namespace, expected) in [
            ("get", "", "pods", "", "web", true),
            ("get", "", "pods", "status", "web", true),
            ("get", "", "pods", "log", "web", false),
            ("get", "apps", "deployments", "scale", "web", false), // no pattern
            ("watch", "", "pods", "", "web", false),
            ("get", "batch", "pods", "", "web", false),
            ("get", "", "pods", "", "db", false),
            ("get", "", "pods", "", "", false),
        ] {
            assert_eq!(
                asks_for_resource(&rule, verb, group, resource, subresource, namespace),
                expected,
                "{verb} {resource}/{subresource}"
            );
        }
        // `*` counts only where it is all of the list.
        let rule = ResourceRule { verbs: list(&["*", "get"]), ..rule };
        assert!(!asks_for_resource(&rule, "watch", "", "pods", "", "web"));
        let all = ResourceRule { namespaces: list(&["*"]), cluster_scope: false, ..rule };
        assert!(
            asks_for_resource(&all, "get", "", "pods", "", "any")
                && !asks_for_resource(&all, "get", "", "pods", "", "")
        );
    }

    #[test]
    fn paths() {
        for (item, path, expected) in [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", true),
            ("/healthz", "/healthzz", false),
            ("/healthz*", "/healthz", false),
            ("/healthz*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz/etcd", true),
            ("/healthz/*", "/healthz", false),
            ("/healthz/", "/healthz", false),
        ] {
            let rule = PathRule { verbs: list(&["get"]), paths: list(&[item]) };
            assert_eq!(asks_for_path(&rule, "get", path), expected, "{item} {path}");
            assert!(!asks_for_path(&rule, "post", path));
        }
    }

    #[test]
    fn the_first_schema_counts_and_one_without_its_level_is_none() {
        let schema = |name: &str, precedence, level: &str| FlowSchema {
            name: name.into(),
            precedence,
            level: level.into(),
            distinguisher: None,
            rules: vec![Rule {
                subjects: vec![Subject::User("*".into())],
                resources: Vec::new(),
                paths: vec![PathRule { verbs: list(&["*"]), paths: list(&["*"]) }],
            }],
        };
        let level = |name: &str, limit| PriorityLevel {
            name: name.into(),
            shares: 1,
            lendable_percent: 0,
            borrowing_limit_percent: None,
            limit,
        };
        let built_in = FlowConfig {
            schemas: vec![schema(CATCH_ALL, 10_000, CATCH_ALL)],
            levels: vec![level(CATCH_ALL, Limit::Reject), level(EXEMPT, Limit::Exempt)],
        };
        let schemas = vec![schema("b", 5, "l"), schema("a", 5, "l"), schema("first", 1, "gone")];
        let set = Set::new(FlowConfig { schemas, levels: vec![level("l", Limit::Reject)] }, &built_in);
        let names: Vec<_> = set.schemas.iter().map(|schema| schema.name.as_str()).collect();
        assert_eq!(names, ["a", "b", CATCH_ALL]);
        assert_eq!(set.dangling, ["first"]);
        let rules = set.rules_for(&caller_of("x", &[]));
        assert_eq!(set.matching(&rules, RequestTarget::Path { verb: "get", path: "/x" }), 0);
        // Nothing matches: what is left is the catch-all.
        let pods = RequestTarget::Resource { verb: "get", group: "", resource: "pods", subresource: "", namespace: "" };
        assert_eq!(set.matching(&rules, pods), 2);
    }
}
