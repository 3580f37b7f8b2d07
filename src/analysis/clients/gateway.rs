//! Limits for gateways before the apiservers: KubeGateway, which distinguishs users, and Envoy, which shows agents
//! apart.
//!
//! A limit is what the client needs when it is well: its median minute, and a fifth on top. Of those that share the
//! user or agent and do nothing wrong, it is their busiest ten seconds, so that they are not slowed down with it.

use super::detect::ClientFinding;
use super::{Clients, Profile};
use crate::analysis::clients::minutes::Minutes;
use crate::analysis::dims::{account, short_user};
use crate::model::input::InputReport;
use crate::model::report::{Report, Severity, Table, Value, Window};
use crate::model::units::{counted, percent, significant};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// On top of what is needed.
const HEADROOM: f64 = 1.2;

/// The smallest limit, in requests per second: gateways count in whole ones.
const MIN_RPS: f64 = 1.0;

/// How many seconds' worth a client may send at once: client-go's own limit allows twice its rate (5 and 10).
const BURST: u64 = 2;

/// A gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gateway {
    /// KubeGateway: matches users, groups and service accounts.
    KubeGateway,
    /// Envoy: matches the header `user-agent`.
    Envoy,
}

/// A limit.
#[derive(Debug, Clone)]
pub struct Limit<'r> {
    pub gateway: Gateway,
    pub cluster: &'r str,
    /// The user or the agent.
    pub whom: &'r str,
    /// Requests per second.
    pub qps: u64,
    /// Requests at once.
    pub burst: u64,
    /// The median minute of the clients that are limited, and their busiest ten seconds, per second.
    pub rps: [f64; 2],
    /// Requests in the log, of all that match.
    pub requests: u64,
    /// Of those, how many would have been over the limit; `None` where the log is too long to distinguish seconds.
    pub over: Option<u64>,
    /// What was found about them.
    pub findings: BTreeSet<&'r str>,
    /// Agents or users behind it: of those that are limited, and of others who share the limit.
    pub behind: [Vec<&'r str>; 2],
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct GatewayOptions<'a> {
    /// Users to limit, whether something was found or not; without any, those with findings of warning or worse.
    pub users: &'a [String],
}

/// All limits; and whom no limit can be given, with the reason.
pub fn limits<'r>(
    clients: &Clients<'r>,
    found: &'r [ClientFinding<'r>],
    asked: GatewayOptions<'_>,
) -> (Vec<Limit<'r>>, Vec<(&'r str, &'static str)>) {
    let findings = |profile: &Profile<'r>| -> BTreeSet<&'r str> {
        let mine =
            found.iter().filter(|(who, finding)| *who == Some(profile.who) && finding.severity >= Severity::Warning);
        mine.map(|(_, finding)| finding.id.as_str()).collect()
    };
    let chosen = |profile: &Profile<'r>| match asked.users {
        [] => !findings(profile).is_empty(),
        users => users.iter().any(|user| user == profile.who.user),
    };
    let (mut limits, mut refused) = (Vec::new(), Vec::new());
    for gateway in [Gateway::KubeGateway, Gateway::Envoy] {
        let key = |profile: &Profile<'r>| match gateway {
            Gateway::KubeGateway => (profile.who.cluster, profile.who.user),
            Gateway::Envoy => (profile.who.cluster, profile.who.agent),
        };
        let mut by_key: BTreeMap<(&'r str, &'r str), Vec<&Profile<'r>>> = BTreeMap::new();
        for profile in &clients.list {
            by_key.entry(key(profile)).or_default().push(profile);
        }
        for ((cluster, whom), profiles) in by_key {
            let (culprits, others): (Vec<&Profile<'r>>, Vec<&Profile<'r>>) =
                profiles.iter().partition(|profile| chosen(profile));
            if culprits.is_empty() {
                continue;
            }
            let needed_by_all = asked
                .users
                .is_empty()
                .then(|| culprits.iter().find_map(|profile| protected(profile.who.user)))
                .flatten();
            if let Some(why) = unmatched(gateway, whom).or(needed_by_all) {
                refused.push((whom, why));
                continue;
            }
            let median: f64 = culprits.iter().map(|profile| profile.median_rps(clients)).sum();
            let peaks: f64 = others.iter().map(|profile| profile.peak_rps(clients)).sum();
            let qps = ((median + peaks) * HEADROOM).max(MIN_RPS).ceil() as u64;
            let behind = [&culprits, &others].map(|profiles| {
                let other = profiles.iter().map(|profile| match gateway {
                    Gateway::KubeGateway => profile.who.agent,
                    Gateway::Envoy => profile.who.user,
                });
                other.collect()
            });
            limits.push(Limit {
                gateway,
                cluster,
                whom,
                qps,
                burst: qps * BURST,
                rps: [median, culprits.iter().map(|profile| profile.peak_rps(clients)).sum()],
                requests: profiles.iter().map(|profile| profile.requests).sum(),
                over: (clients.pulse() == 1).then(|| over(&profiles, qps, qps * BURST)),
                findings: culprits.iter().flat_map(|profile| findings(profile)).collect(),
                behind,
            });
        }
    }
    limits.sort_by_key(|limit| (limit.cluster, limit.gateway, std::cmp::Reverse(limit.requests)));
    refused.sort_unstable();
    refused.dedup();
    (limits, refused)
}

/// Why a user is not limited unless it is named.
pub fn protected(user: &str) -> Option<&'static str> {
    let of_system =
        user.starts_with("system:") && !user.starts_with("system:serviceaccount:") && user != "system:anonymous";
    match of_system || user.starts_with("system:serviceaccount:kube-system:") {
        true => Some("it is part of the control plane or runs on every node"),
        false => None,
    }
}

/// Why a gateway can't match it.
fn unmatched(gateway: Gateway, whom: &str) -> Option<&'static str> {
    match gateway {
        _ if whom.is_empty() => Some("it has no name that a gateway can match"),
        _ if whom.ends_with('…') => Some("its name is too long to be matched"),
        // A minus in front means all others there, and an asterisk all that begin so.
        Gateway::KubeGateway if whom.starts_with('-') || whom.ends_with('*') && whom != "system:node:*" => {
            Some("KubeGateway would treat its name as a pattern")
        }
        _ => None,
    }
}

/// Requests that find a bucket of `burst` empty, into which `qps` tokens fall each second; all of a second come at
/// once.
fn over(profiles: &[&Profile<'_>], qps: u64, burst: u64) -> u64 {
    let mut arrivals: BTreeMap<i64, u64> = BTreeMap::new();
    for (second, count) in profiles.iter().flat_map(|profile| &profile.arrivals) {
        *arrivals.entry(*second).or_default() += count;
    }
    let (mut tokens, mut last, mut over) = (burst, i64::MIN, 0);
    for (second, count) in arrivals {
        let since = second.saturating_sub(last).unsigned_abs();
        tokens = tokens.saturating_add(since.saturating_mul(qps)).min(burst);
        over += count.saturating_sub(tokens);
        tokens = tokens.saturating_sub(count);
        last = second;
    }
    over
}

impl<'r> Profile<'r> {
    /// The median of the minutes in which it asked for something, per second.
    fn median_rps(&self, clients: &Clients<'_>) -> f64 {
        Minutes::of(clients.tile, self.rows().map(|row| (row.tile, row.requests))).median(0) / 60.0
    }
}

impl Limit<'_> {
    /// What the number comes from.
    fn reason(&self) -> String {
        let over = match self.over {
            Some(over) => format!(
                "; {} of {} in the log exceed it",
                percent(over as f64 / self.requests.max(1) as f64),
                counted(self.requests, "request")
            ),
            None => String::new(),
        };
        let others = match self.behind[1].len() {
            0 => String::new(),
            others => format!(", {} more sharing it at their peak", counted(others as u64, "client")),
        };
        format!(
            "{}: limit = its median minute, {}/s{others}, plus 20 %, at least 1/s; its peak was {}/s{over}. Finding: \
             {}",
            self.whom,
            significant(self.rps[0]),
            significant(self.rps[1]),
            if self.findings.is_empty() {
                "nothing".to_owned()
            } else {
                self.findings.iter().copied().collect::<Vec<_>>().join(" ")
            },
        )
    }
}

/// A name that begins with a letter and holds only small letters, digits and `-`.
fn slug(whom: &str, number: usize) -> String {
    let plain: String = short_user(whom)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(40)
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    format!("plimsoll-{number}-{}", parts.join("-")).trim_end_matches('-').to_owned()
}

/// Documents with comments: for each cluster one for KubeGateway, one for Envoy.
pub fn documents(limits: &[Limit<'_>], only: Option<Gateway>) -> Vec<(Vec<String>, Map<String, Json>)> {
    let mut groups: BTreeMap<(&str, Gateway), Vec<&Limit<'_>>> = BTreeMap::new();
    for limit in limits.iter().filter(|limit| only.is_none_or(|only| only == limit.gateway)) {
        groups.entry((limit.cluster, limit.gateway)).or_default().push(limit);
    }
    let document = |((cluster, gateway), limits): ((&str, Gateway), Vec<&Limit<'_>>)| match gateway {
        Gateway::KubeGateway => kubegateway(cluster, &limits),
        Gateway::Envoy => envoy(cluster, &limits),
    };
    groups.into_iter().map(document).collect()
}

fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

fn kubegateway(cluster: &str, limits: &[&Limit<'_>]) -> (Vec<String>, Map<String, Json>) {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = !cluster.is_empty()
        && cluster.len() <= 253
        && cluster.chars().all(is_name)
        && !cluster.starts_with(['-', '.'])
        && !cluster.ends_with(['-', '.']);
    let name = if fits { cluster } else { "cluster" };
    let mut comments = vec![
        format!(
            "KubeGateway limits for users of cluster {cluster}. It does not match user agents: all agents of a user \
             share one bucket."
        ),
        "Add these schemas and policies to the cluster's UpstreamCluster, before its own policies: the first match \
         applies. Keep its servers and clientConfig; this file is not a complete UpstreamCluster."
            .to_owned(),
        "Each gateway has its own bucket: with several gateways, divide the limits by their number. Above the limit, \
         clients get 429."
            .to_owned(),
    ];
    comments.extend(limits.iter().map(|limit| limit.reason()));
    let schemas: Vec<Json> = limits
        .iter()
        .enumerate()
        .map(|(number, limit)| {
            json!({"name": slug(limit.whom, number),
            "tokenBucket": {"qps": limit.qps, "burst": limit.burst}})
        })
        .collect();
    let policies = limits.iter().enumerate().map(|(number, limit)| {
        let (field, subject) = match account(limit.whom) {
            Some((namespace, name)) => ("serviceAccounts", json!([{"namespace": namespace, "name": name}])),
            None => ("users", json!([limit.whom])),
        };
        let rules = [
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ]
        .map(|mut rule| {
            rule[field] = subject.clone();
            rule
        });
        json!({"strategy": "RoundRobin", "rules": rules, "flowControlSchemaName": slug(limit.whom, number)})
    });
    let policies: Vec<Json> = policies.collect();
    let document = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1",
        "kind": "UpstreamCluster",
        "metadata": {"name": name},
        "spec": {"flowControl": {"flowControlSchemas": schemas}, "dispatchPolicies": policies},
    });
    (comments, object(document))
}

fn envoy(cluster: &str, limits: &[&Limit<'_>]) -> (Vec<String>, Map<String, Json>) {
    let mut comments = vec![
        format!(
            "Envoy limits for agents of cluster {cluster}, by the user-agent header up to the first / or space. \
             Clients set that header themselves; Envoy does not see the user."
        ),
        "Add the filter to the HttpConnectionManager, before envoy.filters.http.router. If your Envoy does not \
         support rate_limits there, set them in the virtual host of the apiservers. Each Envoy has its own buckets: \
         with several, divide the limits by their number."
            .to_owned(),
        "Above the limit, clients get 429 with Retry-After, as from an apiserver.".to_owned(),
    ];
    comments.extend(limits.iter().map(|limit| limit.reason()));
    let bucket = |most: u64, each: u64| json!({"max_tokens": most, "tokens_per_fill": each, "fill_interval": "1s"});
    let key = "plimsoll_agent";
    let descriptors: Vec<Json> = limits
        .iter()
        .map(|limit| {
            json!({"entries": [{"key": key, "value": limit.whom}],
            "token_bucket": bucket(limit.burst, limit.qps)})
        })
        .collect();
    let actions = limits.iter().map(|limit| {
        let agent = format!("{}([/ ].*)?", regex::escape(limit.whom));
        let matcher = json!({"name": "user-agent", "string_match": {"safe_regex": {"regex": agent}}});
        json!({"actions": [{"header_value_match": {"descriptor_key": key, "descriptor_value": limit.whom,
            "headers": [matcher]}}]})
    });
    let actions: Vec<Json> = actions.collect();
    let always = json!({"default_value": {"numerator": 100, "denominator": "HUNDRED"}});
    // The default bucket is for requests that no descriptor is about; the filter asks for one, and it is never empty.
    let filter = json!({
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "plimsoll",
            "token_bucket": bucket(1_000_000_000, 1_000_000_000),
            "filter_enabled": always,
            "filter_enforced": always,
            "response_headers_to_add": [{"header": {"key": "retry-after", "value": "1"}}],
            "rate_limits": actions,
            "descriptors": descriptors,
        },
    });
    (comments, object(json!({"http_filters": [filter]})))
}

/// The limits as a report.
pub fn report(clients: &Clients<'_>, limits: &[Limit<'_>], inputs: Vec<InputReport>) -> Report {
    const FIELDS: [&str; 12] = [
        "gateway",
        "cluster",
        "match",
        "qps",
        "burst",
        "median_rps",
        "peak_rps",
        "requests",
        "over_limit",
        "findings",
        "limited",
        "sharing",
    ];
    let rows = limits.iter().map(|limit| {
        let gateway = if limit.gateway == Gateway::Envoy { "envoy" } else { "kubegateway" };
        vec![
            gateway.into(),
            limit.cluster.into(),
            limit.whom.into(),
            limit.qps.into(),
            limit.burst.into(),
            limit.rps[0].into(),
            limit.rps[1].into(),
            limit.requests.into(),
            limit.over.into(),
            Value::Json(json!(limit.findings)),
            Value::Json(json!(limit.behind[0])),
            Value::Json(json!(limit.behind[1])),
        ]
    });
    Report {
        schema: "plimsoll.clients.gateway/v1".to_owned(),
        inputs,
        window: Window { seconds: clients.seconds(), ..Window::of(Some(clients.span)) },
        table: Table {
            name: "limits".to_owned(),
            columns: FIELDS.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            ..Table::default()
        },
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemas_are_plain() {
        assert_eq!(slug("system:serviceaccount:ci:Bot_1", 3), "plimsoll-3-ci-bot-1");
        assert_eq!(slug("日本", 0), "plimsoll-0");
    }

    #[test]
    fn what_would_be_taken_for_a_pattern_is_refused() {
        for (whom, matches) in
            [("jane", true), ("-jane", false), ("team-*", false), ("*", false), ("", false), ("system:node:*", true)]
        {
            assert_eq!(unmatched(Gateway::KubeGateway, whom).is_none(), matches, "{whom}");
        }
        assert!(unmatched(Gateway::Envoy, "-x*").is_none() && unmatched(Gateway::Envoy, "").is_some());
    }
}
