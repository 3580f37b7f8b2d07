//! The metrics that boards and rules use: who exports each, and since when.

/// Who exports a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// kube-apiserver.
    Apiserver,
    Etcd,
    /// kube-controller-manager and kube-scheduler, and other programs with client-go.
    Controllers,
    /// kube-scheduler.
    Scheduler,
    /// Any Go program with the Prometheus client.
    Process,
    /// The kubelet's certificates.
    Kubelet,
    /// cAdvisor in the kubelet: `/metrics/cadvisor`.
    Cadvisor,
    /// kube-state-metrics.
    KubeState,
    /// `plimsoll memory watch --textfile`, by node_exporter.
    Textfile,
    /// `plimsoll serve`.
    Serve,
    /// Prometheus itself.
    Prometheus,
}

impl Source {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::Apiserver,
        Self::Etcd,
        Self::Controllers,
        Self::Scheduler,
        Self::Process,
        Self::Kubelet,
        Self::Cadvisor,
        Self::KubeState,
        Self::Textfile,
        Self::Serve,
        Self::Prometheus,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::Controllers => "client-go programs (kube-controller-manager, kube-scheduler, kubelet, operators)",
            Self::Scheduler => "kube-scheduler",
            Self::Process => "any Go program (client_golang)",
            Self::Kubelet => "kubelet",
            Self::Cadvisor => "cAdvisor (kubelet, `/metrics/cadvisor`)",
            Self::KubeState => "kube-state-metrics",
            Self::Textfile => "`plimsoll memory watch --textfile` and node_exporter",
            Self::Serve => "`plimsoll serve`",
            Self::Prometheus => "Prometheus",
        }
    }
}

/// Kubernetes versions that a metric is in, where those are not 1.28 to 1.36.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    All,
    From(&'static str),
    /// Up to this one.
    To(&'static str),
}
use Versions::{All, From, To};

/// A metric; of a histogram the name without `_bucket`, `_sum` and `_count`.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    /// Who exports it.
    pub source: Source,
    /// In which versions of Kubernetes.
    pub versions: Versions,
    /// Labels or names that differ between versions, and how expressions cope.
    pub note: &'static str,
}

const fn metric(source: Source, name: &'static str) -> Metric {
    Metric { name, source, versions: All, note: "" }
}

const fn noted(source: Source, name: &'static str, versions: Versions, note: &'static str) -> Metric {
    Metric { name, source, versions, note }
}

use Source::{
    Apiserver, Cadvisor, Controllers, Etcd, KubeState, Kubelet, Process, Prometheus, Scheduler, Serve, Textfile,
};

const PREFIX: &str =
    "label `resource_prefix` up to 1.33, `group` and `resource` from 1.34: expressions group by all of them";
const KIND: &str = "label `kind` up to 1.33, `resource` from 1.34: expressions group by both";
const TYPE: &str = "label `type` up to 1.33, `group` and `resource` from 1.34: expressions group by all of them";

/// All of them.
pub const METRICS: &[Metric] = &[
    metric(Apiserver, "apiserver_admission_controller_admission_duration_seconds"),
    metric(Apiserver, "apiserver_admission_step_admission_duration_seconds"),
    metric(Apiserver, "apiserver_admission_webhook_admission_duration_seconds"),
    metric(Apiserver, "apiserver_admission_webhook_fail_open_count"),
    metric(Apiserver, "apiserver_admission_webhook_rejection_count"),
    noted(Apiserver, "apiserver_cache_list_fetched_objects_total", All, PREFIX),
    noted(Apiserver, "apiserver_cache_list_returned_objects_total", All, PREFIX),
    noted(Apiserver, "apiserver_cache_list_total", All, PREFIX),
    metric(Apiserver, "apiserver_cel_evaluation_duration_seconds"),
    metric(Apiserver, "apiserver_client_certificate_expiration_seconds"),
    metric(Apiserver, "apiserver_crd_conversion_webhook_duration_seconds"),
    metric(Apiserver, "apiserver_current_inflight_requests"),
    metric(Apiserver, "apiserver_flowcontrol_current_executing_seats"),
    metric(Apiserver, "apiserver_flowcontrol_current_inqueue_requests"),
    metric(Apiserver, "apiserver_flowcontrol_current_limit_seats"),
    metric(Apiserver, "apiserver_flowcontrol_demand_seats_high_watermark"),
    metric(Apiserver, "apiserver_flowcontrol_dispatched_requests_total"),
    metric(Apiserver, "apiserver_flowcontrol_lower_limit_seats"),
    metric(Apiserver, "apiserver_flowcontrol_nominal_limit_seats"),
    metric(Apiserver, "apiserver_flowcontrol_rejected_requests_total"),
    metric(Apiserver, "apiserver_flowcontrol_request_execution_seconds"),
    metric(Apiserver, "apiserver_flowcontrol_request_wait_duration_seconds"),
    metric(Apiserver, "apiserver_flowcontrol_upper_limit_seats"),
    metric(Apiserver, "apiserver_flowcontrol_work_estimated_seats"),
    metric(Apiserver, "apiserver_init_events_total"),
    metric(Apiserver, "apiserver_longrunning_requests"),
    metric(Apiserver, "apiserver_request_duration_seconds"),
    metric(Apiserver, "apiserver_request_sli_duration_seconds"),
    metric(Apiserver, "apiserver_request_terminations_total"),
    metric(Apiserver, "apiserver_request_total"),
    metric(Apiserver, "apiserver_requested_deprecated_apis"),
    noted(
        Apiserver,
        "apiserver_resource_objects",
        From("1.34"),
        "before: `apiserver_storage_objects`; expressions use whichever an instance has",
    ),
    noted(Apiserver, "apiserver_resource_size_estimate_bytes", From("1.34"), "no equivalent before"),
    metric(Apiserver, "apiserver_response_sizes"),
    noted(Apiserver, "apiserver_storage_list_fetched_objects_total", All, "label `group` from 1.34"),
    noted(Apiserver, "apiserver_storage_list_returned_objects_total", All, "label `group` from 1.34"),
    noted(
        Apiserver,
        "apiserver_storage_objects",
        To("1.36"),
        "deprecated in 1.34; label `resource` is `RESOURCE.GROUP`",
    ),
    metric(Apiserver, "apiserver_storage_size_bytes"),
    metric(Apiserver, "apiserver_terminated_watchers_total"),
    metric(Apiserver, "apiserver_tls_handshake_errors_total"),
    metric(Apiserver, "apiserver_validating_admission_policy_check_total"),
    noted(Apiserver, "apiserver_watch_cache_consistent_read_total", From("1.31"), "where it is missing, panels show 0"),
    metric(Apiserver, "apiserver_watch_cache_events_received_total"),
    metric(Apiserver, "apiserver_watch_cache_initializations_total"),
    noted(Apiserver, "apiserver_watch_cache_read_wait_seconds", From("1.30"), ""),
    noted(Apiserver, "apiserver_watch_events_sizes", All, KIND),
    noted(Apiserver, "apiserver_watch_events_total", All, KIND),
    metric(Apiserver, "apiserver_watch_list_duration_seconds"),
    metric(Apiserver, "authentication_attempts"),
    metric(Apiserver, "authentication_duration_seconds"),
    noted(Apiserver, "etcd_request_duration_seconds", All, TYPE),
    noted(Apiserver, "etcd_request_errors_total", All, TYPE),
    noted(Apiserver, "etcd_requests_total", All, TYPE),
    metric(Apiserver, "kube_apiserver_clusterip_allocator_available_ips"),
    metric(Etcd, "etcd_debugging_mvcc_compact_revision"),
    metric(Etcd, "etcd_debugging_mvcc_current_revision"),
    metric(Etcd, "etcd_debugging_mvcc_pending_events_total"),
    metric(Etcd, "etcd_debugging_mvcc_slow_watcher_total"),
    metric(Etcd, "etcd_disk_backend_commit_duration_seconds"),
    metric(Etcd, "etcd_disk_wal_fsync_duration_seconds"),
    metric(Etcd, "etcd_mvcc_db_total_size_in_bytes"),
    metric(Etcd, "etcd_mvcc_db_total_size_in_use_in_bytes"),
    metric(Etcd, "etcd_mvcc_delete_total"),
    metric(Etcd, "etcd_mvcc_put_total"),
    metric(Etcd, "etcd_mvcc_range_total"),
    metric(Etcd, "etcd_mvcc_txn_total"),
    metric(Etcd, "etcd_network_peer_round_trip_time_seconds"),
    metric(Etcd, "etcd_server_has_leader"),
    metric(Etcd, "etcd_server_heartbeat_send_failures_total"),
    metric(Etcd, "etcd_server_is_leader"),
    metric(Etcd, "etcd_server_leader_changes_seen_total"),
    metric(Etcd, "etcd_server_proposals_failed_total"),
    metric(Etcd, "etcd_server_proposals_pending"),
    metric(Etcd, "etcd_server_quota_backend_bytes"),
    metric(Etcd, "etcd_server_slow_apply_total"),
    metric(Etcd, "etcd_server_slow_read_indexes_total"),
    metric(Etcd, "grpc_server_handled_total"),
    metric(Controllers, "leader_election_master_status"),
    metric(Controllers, "rest_client_rate_limiter_duration_seconds"),
    metric(Controllers, "rest_client_request_duration_seconds"),
    metric(Controllers, "rest_client_request_retries_total"),
    metric(Controllers, "rest_client_requests_total"),
    metric(Controllers, "workqueue_adds_total"),
    metric(Controllers, "workqueue_depth"),
    metric(Controllers, "workqueue_longest_running_processor_seconds"),
    metric(Controllers, "workqueue_queue_duration_seconds"),
    metric(Controllers, "workqueue_retries_total"),
    metric(Controllers, "workqueue_unfinished_work_seconds"),
    metric(Controllers, "workqueue_work_duration_seconds"),
    metric(Scheduler, "scheduler_cache_size"),
    metric(Scheduler, "scheduler_framework_extension_point_duration_seconds"),
    metric(Scheduler, "scheduler_pending_pods"),
    metric(Scheduler, "scheduler_pod_scheduling_sli_duration_seconds"),
    metric(Scheduler, "scheduler_preemption_attempts_total"),
    metric(Scheduler, "scheduler_schedule_attempts_total"),
    metric(Scheduler, "scheduler_scheduling_attempt_duration_seconds"),
    metric(Scheduler, "scheduler_unschedulable_pods"),
    metric(Process, "go_gc_duration_seconds"),
    metric(Process, "go_goroutines"),
    metric(Process, "go_memstats_alloc_bytes_total"),
    metric(Process, "go_memstats_heap_idle_bytes"),
    metric(Process, "go_memstats_heap_inuse_bytes"),
    metric(Process, "go_memstats_heap_released_bytes"),
    metric(Process, "go_memstats_next_gc_bytes"),
    metric(Process, "process_cpu_seconds_total"),
    metric(Process, "process_max_fds"),
    metric(Process, "process_open_fds"),
    metric(Process, "process_resident_memory_bytes"),
    metric(Process, "process_start_time_seconds"),
    metric(Kubelet, "kubelet_certificate_manager_client_ttl_seconds"),
    metric(Kubelet, "kubelet_certificate_manager_server_ttl_seconds"),
    metric(Cadvisor, "container_memory_cache"),
    metric(Cadvisor, "container_memory_failcnt"),
    metric(Cadvisor, "container_memory_failures_total"),
    metric(Cadvisor, "container_memory_rss"),
    noted(Cadvisor, "container_memory_total_active_file_bytes", From("1.32"), "with cAdvisor 0.51"),
    noted(Cadvisor, "container_memory_total_inactive_file_bytes", From("1.32"), "with cAdvisor 0.51"),
    metric(Cadvisor, "container_memory_usage_bytes"),
    metric(Cadvisor, "container_memory_working_set_bytes"),
    metric(Cadvisor, "container_oom_events_total"),
    noted(
        Cadvisor,
        "container_pressure_memory_waiting_seconds_total",
        From("1.34"),
        "feature gate KubeletPSI, cgroup v2",
    ),
    metric(Cadvisor, "container_spec_memory_limit_bytes"),
    noted(
        KubeState,
        "kube_namespace_labels",
        All,
        "`--metric-labels-allowlist=namespaces=[team]`; without it quota alerts have no label `team`",
    ),
    metric(KubeState, "kube_resourcequota"),
    metric(Textfile, "plimsoll_memory_headroom_with_cache_bytes"),
    metric(Textfile, "plimsoll_memory_reclaimable_bytes"),
    metric(Textfile, "plimsoll_memory_refaults_per_second"),
    metric(Textfile, "plimsoll_memory_usage_bytes"),
    metric(Textfile, "plimsoll_memory_verdict"),
    metric(Serve, "plimsoll_client_deprecated_requests_total"),
    metric(Serve, "plimsoll_client_info"),
    metric(Serve, "plimsoll_client_list_bytes_estimated_total"),
    metric(Serve, "plimsoll_client_lists_total"),
    metric(Serve, "plimsoll_client_relists_total"),
    metric(Serve, "plimsoll_client_request_duration_seconds"),
    metric(Serve, "plimsoll_client_requests_total"),
    metric(Serve, "plimsoll_client_seats"),
    metric(Serve, "plimsoll_episode_active"),
    metric(Serve, "plimsoll_etcd_history_bytes"),
    metric(Serve, "plimsoll_etcd_live_bytes"),
    metric(Serve, "plimsoll_finding_active"),
    metric(Serve, "plimsoll_guard_operations_total"),
    metric(Serve, "plimsoll_input_lag_seconds"),
    metric(Serve, "plimsoll_limit_reached_timestamp_seconds"),
    metric(Serve, "plimsoll_quota_ratio"),
    metric(Serve, "plimsoll_storage_bytes"),
    metric(Serve, "plimsoll_storage_keys"),
    metric(Prometheus, "up"),
];

/// Endings of the series of a histogram or a summary.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The metric that a series belongs to.
pub fn find(series: &str) -> Option<&'static Metric> {
    let named = |name: &str| METRICS.iter().find(|metric| metric.name == name);
    named(series).or_else(|| ENDINGS.iter().find_map(|ending| named(series.strip_suffix(ending)?)))
}

/// Names of series in an expression: words that are followed by `{` or `[`, that have a colon, or that the table has.
pub fn series(expr: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = expr;
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$');
    while let Some(start) = rest.find(is_word) {
        // Matchers and label values are no expressions.
        let quoted = rest[..start].find('{').and_then(|open| closing(&rest[open..]).map(|close| open + close));
        if let Some(end) = quoted {
            rest = &rest[end..];
            continue;
        }
        let word = &rest[start..];
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let follows = &word[end..];
        // Recording rules have colons in their names; so have the steps of subqueries.
        let is_recorded = word[..end].contains(':') && word.starts_with(|c: char| c.is_ascii_alphabetic());
        if follows.starts_with(['{', '[']) || is_recorded || find(&word[..end]).is_some() {
            found.push(&word[..end]);
        }
        rest = follows;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Where the braces that `text` begins with end.
fn closing(text: &str) -> Option<usize> {
    let mut in_quotes = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => in_quotes = !in_quotes,
            '}' if !in_quotes => return Some(at + 1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    None
}
