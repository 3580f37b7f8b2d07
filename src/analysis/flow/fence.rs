//! A fence: a priority level of its own, and FlowSchemas that send some users' requests there.

use super::matching::Set;
use crate::analysis::clients::Clients;
use crate::analysis::clients::detect::ClientFinding;
use crate::analysis::dims::{account, short_user};
use crate::analysis::quota::owners::matches as matches_pattern;
use crate::model::flowcontrol::{
    Distinguisher, FlowConfig, FlowSchema, Limit, PathRule, PriorityLevel, ResourceRule, Rule, Subject,
};
use crate::model::report::Severity;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// What names of all fences begin with.
const NAME: &str = "plimsoll-fence";

/// The label by which all that a fence is made of can be deleted.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "plimsoll");

/// Schemas that no fence may come before: what they are for must work when all else is overloaded.
const PROTECTED: [&str; 6] =
    ["exempt", "probes", "system-leader-election", "system-node-high", "system-nodes", "kube-system-service-accounts"];

/// A user that is to be fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// User name.
    pub user: String,
    /// Findings of severity warning or critical, each once.
    pub findings: Vec<String>,
    pub requests: u64,
    /// Its agents, their requests, and whether something was found about them; the busiest first.
    pub agents: Vec<(String, u64, bool)>,
    /// FlowSchemas that it matches now, with requests; the busiest first.
    pub matches: Vec<(String, u64)>,
}

/// Why a user must not be fenced; `None` if it may.
pub fn refusal(user: &str) -> Option<&'static str> {
    match user {
        "" => Some("requests without valid credentials are answered before priority and fairness sees them"),
        "system:anonymous" => None,
        _ if user.starts_with("system:node:") => Some("nodes report their heartbeats through it"),
        _ if user.starts_with("system:serviceaccount:kube-system:") => {
            Some("it is part of the control plane or of the cluster's network")
        }
        _ if user.starts_with("system:serviceaccount:") => None,
        _ if user.starts_with("system:") => Some("it is part of the control plane"),
        _ => None,
    }
}

/// Parts of a cluster that run as ordinary service accounts: what they are, and what their namespaces are called.
const SYSTEM_NAMESPACES: [(&str, &[&str]); 6] = [
    (
        "part of the cluster's network",
        &["calico-*", "tigera-*", "cilium*", "kube-flannel", "ovn-kubernetes", "antrea-*", "istio-system"],
    ),
    ("part of OpenShift", &["openshift", "openshift-*"]),
    ("part of the cloud provider's integration", &["gke-*", "gmp-*", "amazon-*", "aws-*", "azure-*", "aks-*"]),
    ("an autoscaler", &["karpenter", "keda", "cluster-autoscaler"]),
    ("part of admission", &["cert-manager", "gatekeeper-system", "kyverno"]),
    ("a storage driver", &["rook-ceph", "longhorn-system", "csi-*"]),
];

/// The same by words in the names of users and agents; words of more than one part stand beside one another.
const SYSTEM_WORDS: [(&str, &[&str]); 6] = [
    (
        "part of the cluster's network",
        &[
            "calico",
            "cilium",
            "flannel",
            "antrea",
            "canal",
            "multus",
            "ovn",
            "ovnkube",
            "kube router",
            "aws node",
            "azure cni",
            "kube proxy",
            "weave",
        ],
    ),
    ("a storage driver", &["csi"]),
    ("a webhook", &["webhook", "admission", "gatekeeper", "kyverno"]),
    ("an autoscaler", &["autoscaler", "karpenter"]),
    ("a node manager", &["node manager", "node problem detector", "machine config", "cloud controller manager"]),
    ("the cluster's DNS", &["coredns", "kube dns"]),
];

/// Prefixes of users that providers make.
const PROVIDERS: [&str; 6] = ["eks:", "aks", "gke-", "acs:", "container-engine-robot", "masterclient"];

/// What a user looks like that nodes and pods of the cluster depend on; `None` where it looks like an ordinary client.
pub fn risk(user: &str, agents: &[(String, u64, bool)]) -> Option<&'static str> {
    if PROVIDERS.iter().any(|prefix| user.starts_with(prefix)) {
        return Some("an identity of the cloud provider");
    }
    if let Some((namespace, _)) = account(user) {
        let is = |pattern: &&str| matches_pattern(pattern, namespace);
        if let Some((what, _)) = SYSTEM_NAMESPACES.iter().find(|(_, patterns)| patterns.iter().any(is)) {
            return Some(what);
        }
    }
    let names = std::iter::once(user).chain(agents.iter().map(|(agent, ..)| agent.as_str()));
    names.filter_map(by_words).next()
}

fn by_words(name: &str) -> Option<&'static str> {
    let words: Vec<String> = name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect();
    let has = |wanted: &&str| {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        words.windows(wanted.len()).any(|part| part.iter().zip(&wanted).all(|(a, b)| a == b))
    };
    SYSTEM_WORDS.iter().find(|(_, all)| all.iter().any(has)).map(|(what, _)| *what)
}

/// The users of `cluster` with findings of severity warning or critical: those with critical ones first, then those
/// with most requests.
pub fn culprits(clients: &Clients<'_>, found: &[ClientFinding<'_>], cluster: &str) -> Vec<String> {
    let mut users: BTreeMap<&str, (Severity, u64)> = BTreeMap::new();
    for (who, finding) in found.iter().filter(|(_, finding)| finding.severity >= Severity::Warning) {
        if let Some(who) = who.filter(|who| who.cluster == cluster) {
            let worst = users.entry(who.user).or_insert((finding.severity, 0));
            worst.0 = worst.0.max(finding.severity);
        }
    }
    for profile in clients.list.iter().filter(|profile| profile.who.cluster == cluster) {
        if let Some((_, requests)) = users.get_mut(profile.who.user) {
            *requests += profile.requests;
        }
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by_key(|(user, worst)| (std::cmp::Reverse(*worst), *user));
    users.into_iter().map(|(user, _)| user.to_owned()).collect()
}

/// What the profiles report a user.
pub fn client(clients: &Clients<'_>, found: &[ClientFinding<'_>], cluster: &str, user: &str) -> Client {
    let mine = |who: &crate::analysis::rollup::read::Who<'_>| who.cluster == cluster && who.user == user;
    let is_found =
        |(who, finding): &&ClientFinding<'_>| finding.severity >= Severity::Warning && who.as_ref().is_some_and(mine);
    let mut findings: Vec<String> = found.iter().filter(is_found).map(|(_, finding)| finding.id.clone()).collect();
    findings.sort_unstable();
    findings.dedup();
    let culprit = |agent: &str| found.iter().filter(is_found).any(|(who, _)| who.is_some_and(|who| who.agent == agent));
    let profiles = clients.list.iter().filter(|profile| mine(&profile.who));
    let agents: Vec<_> =
        profiles.map(|profile| (profile.who.agent.to_owned(), profile.requests, culprit(profile.who.agent))).collect();
    let requests = agents.iter().map(|(_, requests, _)| requests).sum();
    Client { user: user.to_owned(), findings, requests, agents, matches: Vec::new() }
}

/// How the fence limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strength {
    /// `nominalConcurrencyShares` of its level.
    pub shares: u32,
    /// Whether what finds no seat waits in a queue, or is refused at once.
    pub queues: bool,
}

/// The objects of a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub level: PriorityLevel,
    /// One for each client, in their order.
    pub schemas: Vec<FlowSchema>,
}

/// What can't be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// All that the user sends is exempt.
    #[error(
        "{0} can't be throttled: its requests are exempt from all limits, like those of system:masters; revoke its \
         credentials instead"
    )]
    Exempt(String),
    /// There is no room before the schema that it matches.
    #[error(
        "{0} can't be throttled: no matchingPrecedence is free before {1}, which it matches now; raise that \
         FlowSchema's matchingPrecedence first"
    )]
    NoRoom(String, String),
}

/// The fence around `clients`. One client is fenced by a level of its own name, so that several emergency fences can
/// stand side by side.
pub fn fence(set: &Set, clients: &[Client], strength: Strength) -> Result<Fence, Impossible> {
    let limit = match strength.queues {
        // One flow waits in 4 of 32 queues of 12: some tens of requests, whatever it sends; that two of a few fenced
        // flows share all four is very unlikely.
        true => Limit::Queue { queues: 32, hand_size: 4, queue_length_limit: 12 },
        false => Limit::Reject,
    };
    let name = match clients {
        [only] if !strength.queues => named(&only.user),
        _ => NAME.to_owned(),
    };
    let level =
        PriorityLevel { name, shares: strength.shares, lendable_percent: 0, borrowing_limit_percent: Some(0), limit };
    let mut schemas: Vec<FlowSchema> = Vec::new();
    for client in clients {
        let matched =
            client.matches.iter().filter_map(|(name, _)| set.schemas.iter().find(|schema| schema.name == *name));
        let ordinary = matched.filter(|schema| !set.is_exempt(schema) && !PROTECTED.contains(&schema.name.as_str()));
        let before =
            ordinary.min_by_key(|schema| schema.precedence).ok_or_else(|| Impossible::Exempt(client.user.clone()))?;
        let own = named(&client.user);
        let taken =
            |precedence: i32| set.schemas.iter().any(|schema| schema.precedence == precedence && schema.name != own);
        // Behind what every cluster exempts, and behind what exempts some of this user's own requests.
        let exempts = |schema: &&FlowSchema| {
            matches!(schema.name.as_str(), "exempt" | "probes")
                || set.is_exempt(schema) && client.matches.iter().any(|(name, _)| *name == schema.name)
        };
        let last = set.schemas.iter().filter(exempts).map(|schema| schema.precedence);
        let first = 1 + last.filter(|precedence| *precedence < before.precedence).max().unwrap_or(0);
        let precedence = (first..before.precedence).rev().find(|precedence| !taken(*precedence));
        let precedence = precedence.ok_or_else(|| Impossible::NoRoom(client.user.clone(), before.name.clone()))?;
        schemas.push(schema(own, &level.name, precedence, &client.user));
    }
    Ok(Fence { level, schemas })
}

/// A FlowSchema for all requests of a user.
fn schema(name: String, level: &str, precedence: i32, user: &str) -> FlowSchema {
    let all = || vec!["*".to_owned()];
    let subject = match account(user) {
        Some((namespace, name)) => Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() },
        None => Subject::User(user.to_owned()),
    };
    let resources =
        ResourceRule { verbs: all(), groups: all(), resources: all(), cluster_scope: true, namespaces: all() };
    let rule = Rule {
        subjects: vec![subject],
        resources: vec![resources],
        paths: vec![PathRule { verbs: all(), paths: all() }],
    };
    FlowSchema {
        name,
        precedence,
        level: level.to_owned(),
        distinguisher: Some(Distinguisher::User),
        rules: vec![rule],
    }
}

/// A name for a user's objects: what a name of Kubernetes may hold, distinguished from others that look alike by a
/// hash.
fn named(user: &str) -> String {
    let short = short_user(user).to_lowercase();
    let mut slug: String = short.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(38).collect();
    slug = slug.trim_matches('-').to_owned();
    let plain = user
        .strip_prefix("system:serviceaccount:")
        .is_some_and(|rest| rest.replace(':', "-") == slug && !rest.contains('-'));
    if !plain {
        let hash = xxhash_rust::xxh3::xxh3_64(user.as_bytes()) as u32;
        slug = format!("{slug}-{hash:08x}").trim_start_matches('-').to_owned();
    }
    format!("{NAME}-{slug}")
}

/// The set with the fence in it; objects of its names that are there already are replaced.
pub fn with(set: &Set, fence: &Fence, built_in: &FlowConfig) -> Set {
    let mut config = FlowConfig { schemas: set.schemas.clone(), levels: set.levels.clone() };
    config.levels.retain(|level| level.name != fence.level.name);
    config.levels.push(fence.level.clone());
    config.schemas.retain(|schema| !fence.schemas.iter().any(|own| own.name == schema.name));
    config.schemas.extend(fence.schemas.iter().cloned());
    Set::new(config, built_in)
}

fn object(kind: &str, name: &str, spec: Json) -> Map<String, Json> {
    let metadata = json!({"name": name, "labels": {LABEL.0: LABEL.1}});
    let object =
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
    if let Json::Object(object) = object { object } else { Map::new() }
}

/// The level as an object of the API.
pub fn level_object(level: &PriorityLevel) -> Map<String, Json> {
    let response = match level.limit {
        Limit::Queue { queues, hand_size, queue_length_limit } => {
            json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand_size,
                "queueLengthLimit": queue_length_limit}})
        }
        Limit::Reject | Limit::Exempt => json!({"type": "Reject"}),
    };
    let mut limited = json!({"nominalConcurrencyShares": level.shares, "lendablePercent": level.lendable_percent});
    if let Some(limit) = level.borrowing_limit_percent {
        limited["borrowingLimitPercent"] = json!(limit);
    }
    limited["limitResponse"] = response;
    object("PriorityLevelConfiguration", &level.name, json!({"type": "Limited", "limited": limited}))
}

/// A schema as an object of the API.
pub fn schema_object(schema: &FlowSchema) -> Map<String, Json> {
    let subject = |subject: &Subject| match subject {
        Subject::User(name) => json!({"kind": "User", "user": {"name": name}}),
        Subject::Group(name) => json!({"kind": "Group", "group": {"name": name}}),
        Subject::ServiceAccount { namespace, name } => {
            json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}})
        }
    };
    let resources = |rule: &ResourceRule| {
        json!({"verbs": rule.verbs, "apiGroups": rule.groups,
        "resources": rule.resources, "clusterScope": rule.cluster_scope, "namespaces": rule.namespaces})
    };
    let paths = |rule: &PathRule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths});
    let rules = schema.rules.iter().map(|rule| {
        json!({
            "subjects": rule.subjects.iter().map(subject).collect::<Vec<_>>(),
            "resourceRules": rule.resources.iter().map(resources).collect::<Vec<_>>(),
            "nonResourceRules": rule.paths.iter().map(paths).collect::<Vec<_>>(),
        })
    });
    let mut spec =
        json!({"priorityLevelConfiguration": {"name": schema.level}, "matchingPrecedence": schema.precedence});
    match schema.distinguisher {
        Some(Distinguisher::User) => spec["distinguisherMethod"] = json!({"type": "ByUser"}),
        Some(Distinguisher::Namespace) => spec["distinguisherMethod"] = json!({"type": "ByNamespace"}),
        None => {}
    }
    spec["rules"] = rules.collect();
    object("FlowSchema", &schema.name, spec)
}

/// FlowSchemas that each of `users` matches, with requests, from a breakdown by user and flow schema.
pub fn matches(rows: impl Iterator<Item = (String, String, u64)>) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut all: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for (user, schema, requests) in rows.filter(|(_, schema, _)| !schema.is_empty()) {
        all.entry(user).or_default().push((schema, requests));
    }
    all.values_mut().for_each(|list| list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_kubernetes_and_tell_users_apart() {
        let users = [
            "system:serviceaccount:web:app",
            "jane@example.com",
            "Jane@example.com",
            "system:serviceaccount:a-b:c",
            "system:serviceaccount:a:b-c",
            "",
            "é漢\u{1b}[31m",
            &"x".repeat(5000),
        ];
        let mut names: Vec<String> = users.iter().map(|user| named(user)).collect();
        for name in &names {
            let ok = name.len() < 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(ok && !name.ends_with('-'), "{name}");
        }
        assert_eq!(names[0], "plimsoll-fence-web-app");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), users.len());
    }

    #[test]
    fn the_control_plane_is_not_fenced() {
        for user in [
            "system:kube-scheduler",
            "system:node:a",
            "system:node:*",
            "system:apiserver",
            "system:serviceaccount:kube-system:x",
            "system:admin",
            "",
        ] {
            assert!(refusal(user).is_some(), "{user}");
        }
        for user in ["jane", "system:serviceaccount:web:app", "system:anonymous"] {
            assert!(refusal(user).is_none(), "{user}");
        }
    }

    #[test]
    fn a_fence_comes_before_what_is_matched_and_behind_what_is_protected() {
        let level = |name: &str, limit| PriorityLevel {
            name: name.into(),
            shares: 1,
            lendable_percent: 0,
            borrowing_limit_percent: None,
            limit,
        };
        let with = |name: &str, precedence, level: &str| FlowSchema {
            name: name.into(),
            precedence,
            level: level.into(),
            distinguisher: None,
            rules: Vec::new(),
        };
        let config = FlowConfig {
            schemas: vec![
                with("exempt", 1, "exempt"),
                with("low", 5, "l"),
                with("next", 6, "l"),
                with("catch-all", 10_000, "l"),
            ],
            levels: vec![level("exempt", Limit::Exempt), level("l", Limit::Reject), level("catch-all", Limit::Reject)],
        };
        let set = Set::new(config, &FlowConfig::default());
        let client = |matches: &[&str]| {
            let matches = matches.iter().map(|name| ((*name).to_owned(), 1)).collect();
            [Client { user: "jane".into(), matches, ..Client::default() }]
        };
        let strength = Strength { shares: 5, queues: true };
        let precedence =
            |matches: &[&str]| fence(&set, &client(matches), strength).map(|fence| fence.schemas[0].precedence);
        assert_eq!(precedence(&["catch-all"]), Ok(9999));
        // 5 is taken.
        assert_eq!(precedence(&["next", "catch-all"]), Ok(4));
        assert_eq!(precedence(&["low"]), Ok(4));
        assert!(matches!(precedence(&["exempt"]), Err(Impossible::Exempt(_))));
        let narrow = Set::new(
            FlowConfig { schemas: vec![with("exempt", 1, "exempt"), with("low", 2, "l")], levels: set.levels.clone() },
            &FlowConfig::default(),
        );
        assert!(matches!(fence(&narrow, &client(&["low"]), strength), Err(Impossible::NoRoom(..))));
    }
}
