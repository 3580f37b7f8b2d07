//! Names of series. Those that `plimsoll record` writes are a contract: stores hold them for years. (Units:
//! docs/history.md.)
//!
//! Those that objects come to are in `analysis::quota::collect`.

/// What the pods of a namespace use by metrics.k8s.io: `namespace`, `resource` (`cpu` in cores, `memory` in bytes).
pub const NAMESPACE_USAGE: &str = "namespace_usage";
/// Objects in etcd as apiservers count them, the largest count of any instance: `group`, `resource`.
pub const APISERVER_OBJECTS: &str = "apiserver_objects";
/// Bytes that all objects of a resource take in etcd, as apiservers estimate it, the largest estimate of any instance:
/// `group`, `resource`. A LIST of all of them reads as much.
pub const APISERVER_OBJECT_BYTES: &str = "apiserver_object_bytes";
/// Requests a second, of all instances together: by `verb`, `group`, `resource`, `subresource`; or by `flow_schema`,
/// `priority_level`.
pub const APISERVER_RPS: &str = "apiserver_rps";
/// Seats of a priority level, of all instances together: `priority_level`, `kind` (`executing`, `limit`).
pub const APISERVER_SEATS: &str = "apiserver_seats";
/// Size of etcd's database in bytes: `instance`; without it as the apiservers show it.
pub const ETCD_DB: &str = "etcd_db_bytes";
/// What of it is in use: `instance`.
pub const ETCD_IN_USE: &str = "etcd_db_in_use_bytes";
/// How large it may become: `instance`.
pub const ETCD_QUOTA: &str = "etcd_quota_bytes";
/// What a metric of etcd or of an apiserver is called here: answers of a Prometheus have its own name.
pub fn of_metric(name: &str) -> &str {
    match name {
        "etcd_mvcc_db_total_size_in_bytes" | "apiserver_storage_size_bytes" => ETCD_DB,
        "etcd_mvcc_db_total_size_in_use_in_bytes" => ETCD_IN_USE,
        "etcd_server_quota_backend_bytes" => ETCD_QUOTA,
        other => other,
    }
}

/// Memory of a cgroup in bytes: `path`, `kind` (`usage`, `working_set`, `anon`, `file`, `limit`).
pub const CGROUP_MEMORY: &str = "cgroup_memory_bytes";
/// What all pods of the cluster request, against what its nodes can hold: `resource` (`cpu`, `memory`, `pods`). It is
/// not recorded: forecasts sum it.
pub const CLUSTER_REQUESTS: &str = "cluster_requests";
