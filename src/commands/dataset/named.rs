//! Queries that have a name, for questions that many ask.

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedQuery {
    pub name: &'static str,
    /// What it answers, without a full stop.
    pub about: &'static str,
    pub sql: &'static str,
}

/// All of them. They run in DuckDB as they do here.
pub const QUERIES: [NamedQuery; 9] = [
    NamedQuery {
        name: "top-clients",
        about: "clients by the time that the apiservers worked for them",
        sql: "select client_user, client_agent, count(*) as requests, sum(latency_us) / 1000000.0 as seconds \
from audit where terminal group by client_user, client_agent order by seconds desc nulls last, client_user, \
client_agent limit 20",
    },
    NamedQuery {
        name: "slowest",
        about: "the slowest requests, and where their time went",
        sql: "select event_time, client_agent, verb, uri, code, latency_us / 1000.0 as ms, etcd_us / 1000.0 as \
etcd_ms, \
webhook_us / 1000.0 as webhook_ms, queue_us / 1000.0 as queue_ms \
from audit where latency_us is not null order by latency_us desc, event_time, audit_id limit 20",
    },
    NamedQuery {
        name: "lists",
        about: "LISTs by client, resource, and how they ask to be served",
        sql: "select client_user, client_agent, resource, shape, count(*) as lists, \
max(latency_us) / 1000.0 as longest_ms from audit where terminal and op = 'list' \
group by client_user, client_agent, resource, shape order by lists desc, client_user, resource, shape limit 30",
    },
    NamedQuery {
        name: "errors",
        about: "refused and failed requests by client, resource and code",
        sql: "select code, client_user, client_agent, verb, resource, count(*) as requests, max(message) as message \
from audit where terminal and code >= 400 group by code, client_user, client_agent, verb, resource \
order by requests desc, client_user, verb, resource, code limit 30",
    },
    NamedQuery {
        name: "hot-objects",
        about: "objects that are written most often, and by how many clients",
        sql: "select cluster, api_group, resource, namespace, name, count(*) as writes, \
count(distinct client_user) as users from audit where terminal and op = 'write' and name is not null \
group by cluster, api_group, resource, namespace, name \
order by writes desc, cluster, namespace, resource, name limit 30",
    },
    NamedQuery {
        name: "hours",
        about: "requests, errors and time by cluster and hour",
        sql: "select cluster, date, hour, count(*) as requests, \
sum(case when code >= 500 then 1 else 0 end) as server_errors, \
sum(case when code = 429 then 1 else 0 end) as throttled, sum(latency_us) / 1000000.0 as seconds \
from audit where terminal group by cluster, date, hour order by cluster, date, hour",
    },
    NamedQuery {
        name: "deprecated",
        about: "who calls deprecated APIs, and which release removes them",
        sql: "select removed_release, api_version, resource, client_user, client_agent, count(*) as requests, \
max(event_time) as last_seen from audit where terminal and deprecated \
group by removed_release, api_version, resource, client_user, client_agent order by requests desc, client_user, \
resource limit 50",
    },
    NamedQuery {
        name: "largest-resources",
        about: "what etcd holds by resource, in the newest database of each cluster",
        sql: "with named as (select *, coalesce(cluster, '') as owner, coalesce(database, '') as file from keyspace), \
newest as (select owner, max(taken_at) as newest from named group by owner), \
one as (select k.owner as owner, k.taken_at as newest, min(k.file) as file \
from named k join newest n on k.owner = n.owner and k.taken_at = n.newest group by k.owner, k.taken_at) \
select k.cluster as cluster, k.api_group as api_group, k.resource as resource, sum(k.keys) as keys, \
sum(k.live_bytes) as live_bytes, sum(k.history_bytes) as history_bytes \
from named k join one o on k.owner = o.owner and k.taken_at = o.newest and k.file = o.file \
group by k.cluster, k.api_group, k.resource order by live_bytes desc, resource, api_group, cluster limit 30",
    },
    NamedQuery {
        name: "full-quotas",
        about: "quotas that are used to 80 % or more, in the newest capture of each cluster",
        sql: "with named as (select *, coalesce(cluster, '') as owner from quotas), \
newest as (select owner, max(taken_at) as newest from named group by owner) \
select q.cluster as cluster, q.namespace as namespace, q.quota as quota, q.resource as resource, q.used as used, \
q.hard as hard, q.used / q.hard as ratio from named q join newest n on q.owner = n.owner and q.taken_at = n.newest \
where q.hard > 0 and q.used / q.hard >= 0.8 order by ratio desc, namespace, quota, resource, cluster limit 50",
    },
];

/// The query of a name.
pub fn query(name: &str) -> Option<&'static NamedQuery> {
    QUERIES.iter().find(|query| query.name == name)
}
