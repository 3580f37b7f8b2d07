//! The names and columns of the roll-up's tables (docs/rollup.md): what a stored roll-up looks like.

/// A table's name and columns, the first of which are its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [&'static str],
    /// How many of them are the key.
    pub key: usize,
}

/// All tables.
pub const TABLES: [TableSpec; 8] = [
    TableSpec {
        name: "traffic",
        key: 13,
        columns: &[
            "tile",
            "cluster",
            "instance",
            "user",
            "agent",
            "verb",
            "group",
            "resource",
            "subresource",
            "scope",
            "namespace",
            "code",
            "shape",
            "requests",
            "open",
            "latency",
            "latency_sum",
            "latency_max",
            "lifetime",
            "lifetime_sum",
            "lifetime_max",
            "bodies",
            "body_bytes",
            "body_items",
            "etcd_us",
            "webhook_us",
            "queue_us",
            "timeout_client",
            "timeout_deadline",
            "timeout_cache",
        ],
    },
    TableSpec {
        name: "pulse",
        key: 8,
        columns: &["second", "cluster", "instance", "user", "agent", "group", "resource", "op", "starts", "ends", "errors", "throttled"],
    },
    TableSpec { name: "sequences", key: 7, columns: &["tile", "cluster", "user", "agent", "group", "resource", "fact", "count", "gaps"] },
    TableSpec {
        name: "sources",
        key: 6,
        columns: &["tile", "cluster", "user", "agent", "group", "resource", "requests", "exact", "addresses", "sketch", "heaviest"],
    },
    TableSpec {
        name: "objects",
        key: 7,
        columns: &["cluster", "group", "resource", "namespace", "name", "user", "agent", "reads", "writes", "conflicts", "first", "last"],
    },
    TableSpec {
        name: "notable",
        key: 19,
        columns: &[
            "at",
            "cluster",
            "instance",
            "kind",
            "user",
            "agent",
            "impersonated",
            "source",
            "verb",
            "group",
            "resource",
            "subresource",
            "namespace",
            "name",
            "code",
            "uri",
            "audit_id",
            "level",
            "detail",
        ],
    },
    TableSpec {
        name: "clients",
        key: 3,
        columns: &[
            "cluster",
            "user",
            "agent",
            "requests",
            "first",
            "last",
            "service_account",
            "versions",
            "groups",
            "nodes",
            "pods",
            "instances",
            "fleet",
            "heaviest",
        ],
    },
    TableSpec {
        name: "deprecated",
        key: 7,
        columns: &["cluster", "user", "agent", "version", "resource", "subresource", "removed", "requests", "first", "last"],
    },
];
