//! The metrics that plimsoll knows: what each means, under all the names it had, and which labels are kept.
//! (Source of names and labels: Kubernetes 1.16 to 1.36 and etcd 3.4 to 3.6; docs/metrics.md, section 7.)

use hashbrown::HashMap;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    Requests,
    Duration,
    SliDuration,
    LongRunning,
    ResponseSizes,
    Inflight,
    WatchEvents,
    WatchEventSizes,
    TerminatedWatchers,
    CacheInitializations,
    CacheEvents,
    CacheCapacity,
    CacheLists,
    CacheFetched,
    ConsistentReads,
    StorageLists,
    StorageFetched,
    StorageObjects,
    StorageObjectBytes,
    StorageSize,
    DeprecatedApis,
    Terminations,
    AuthenticationAttempts,
    UnavailableApis,
    FlowDispatched,
    FlowRejected,
    FlowExecuting,
    FlowQueued,
    FlowSeats,
    FlowWait,
    FlowExecution,
    LevelNominal,
    LevelLimit,
    WebhookDuration,
    WebhookRejections,
    WebhookFailOpen,
    ProcessStart,
    ProcessCpu,
    Mallocs,
    AllocatedBytes,
    NetworkReceived,
    BuildInfo,
    EtcdHasLeader,
    EtcdIsLeader,
    EtcdLeaderChanges,
    EtcdPending,
    EtcdProposalsFailed,
    EtcdWalFsync,
    EtcdCommit,
    EtcdDbSize,
    EtcdDbInUse,
    EtcdQuota,
    EtcdSlowWatchers,
    EtcdCompacted,
    EtcdDefragmentation,
    EtcdPendingEvents,
    EtcdSlowApply,
    EtcdSlowReads,
    EtcdHeartbeatFailures,
    EtcdPeerRoundTrip,
    EtcdVersion,
    EtcdServerId,
    EtcdEvents,
    EtcdRequests,
    GoHeapInUse,
    GoHeapIdle,
    GoHeapReleased,
    GoHeapObjects,
    GoHeapUnused,
    GoHeapFree,
    GoStacks,
    GoTotal,
    GoNextGc,
    ProcessResident,
    QueueDepth,
    QueueAdds,
    QueueRetries,
    QueueWait,
    QueueWork,
    QueueUnfinished,
    QueueLongest,
    LeaderStatus,
    ManagedControllers,
    ClientRequests,
    ClientDuration,
    ClientLimiter,
    PendingPods,
    ScheduleAttempts,
    ScheduleAttempt,
    ScheduleAlgorithm,
    ScheduleSli,
    ScheduleStage,
    ScheduleIncoming,
    SchedulePreemptions,
    ScheduleVictims,
    ScheduleRefusals,
    ScheduleBatches,
}

impl Metric {
    /// Whether it is of controllers and schedulers, or of what they ask: the last of the list.
    pub fn is_of_controllers(self) -> bool {
        self >= Self::QueueDepth
    }
}

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Rises, and falls only when its process starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counters by upper bound, with their sum and count.
    Histogram,
}

/// A metric under one of its names.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name, of a histogram without `_bucket`.
    pub name: &'static str,
    /// What it measures.
    pub metric: Metric,
    /// How it behaves.
    pub shape: Shape,
    /// 0 for the newest name; where a page has several, the lowest counts.
    pub age: u8,
    /// What its values (of a histogram: bounds and sum) are multiplied with.
    pub scale: f64,
    /// Labels that are kept, in this order.
    pub labels: &'static [&'static str],
}

/// Of a histogram, which part a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Not of a histogram.
    Whole,
    Bucket,
    Sum,
    Count,
}

const REQUEST: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope", "component"];
const REQUEST_CODE: &[&str] = &["verb", "group", "version", "resource", "subresource", "scope", "component", "code"];
/// The same, and which part of the control plane asks (from 1.36 on).
const REQUEST_CODE_CLIENT: &[&str] =
    &["verb", "group", "version", "resource", "subresource", "scope", "component", "code", "system_client"];
const KIND: &[&str] = &["request_kind"];
const RESOURCE: &[&str] = &["group", "resource"];
const FLOW: &[&str] = &["priority_level", "flow_schema"];
const LEVEL: &[&str] = &["priority_level"];
const NAME: &[&str] = &["name"];
const ATTEMPT: &[&str] = &["result", "profile"];
const NONE: &[&str] = &[];

const fn entry(name: &'static str, metric: Metric, shape: Shape, labels: &'static [&'static str]) -> Entry {
    Entry { name, metric, shape, age: 0, scale: 1.0, labels }
}

const fn counter(name: &'static str, metric: Metric, labels: &'static [&'static str]) -> Entry {
    entry(name, metric, Shape::Counter, labels)
}

const fn gauge(name: &'static str, metric: Metric, labels: &'static [&'static str]) -> Entry {
    entry(name, metric, Shape::Gauge, labels)
}

const fn histogram(name: &'static str, metric: Metric, labels: &'static [&'static str]) -> Entry {
    entry(name, metric, Shape::Histogram, labels)
}

impl Entry {
    const fn older(self, age: u8) -> Self {
        Self { age, ..self }
    }

    const fn scaled(self, scale: f64) -> Self {
        Self { scale, ..self }
    }
}

use Metric as M;

/// All names.
pub const ENTRIES: &[Entry] = &[
    counter("apiserver_request_total", M::Requests, REQUEST_CODE_CLIENT),
    counter("apiserver_request_count", M::Requests, REQUEST_CODE).older(1),
    histogram("apiserver_request_duration_seconds", M::Duration, REQUEST),
    histogram("apiserver_request_latencies", M::Duration, REQUEST).older(1).scaled(1e-6),
    histogram("apiserver_request_sli_duration_seconds", M::SliDuration, REQUEST),
    histogram("apiserver_request_slo_duration_seconds", M::SliDuration, REQUEST).older(1),
    gauge("apiserver_longrunning_requests", M::LongRunning, REQUEST),
    gauge("apiserver_longrunning_gauge", M::LongRunning, REQUEST).older(1),
    histogram("apiserver_response_sizes", M::ResponseSizes, REQUEST),
    gauge("apiserver_current_inflight_requests", M::Inflight, KIND),
    counter("apiserver_watch_events_total", M::WatchEvents, RESOURCE),
    histogram("apiserver_watch_events_sizes", M::WatchEventSizes, RESOURCE),
    counter("apiserver_terminated_watchers_total", M::TerminatedWatchers, RESOURCE),
    counter("apiserver_watch_cache_initializations_total", M::CacheInitializations, RESOURCE),
    counter("apiserver_watch_cache_watch_cache_initializations_total", M::CacheInitializations, RESOURCE).older(1),
    counter("apiserver_watch_cache_events_received_total", M::CacheEvents, RESOURCE),
    gauge("watch_cache_capacity", M::CacheCapacity, RESOURCE),
    counter("apiserver_cache_list_total", M::CacheLists, RESOURCE),
    counter("apiserver_cache_list_fetched_objects_total", M::CacheFetched, RESOURCE),
    counter("apiserver_watch_cache_consistent_read_total", M::ConsistentReads, &["fallback", "success"]),
    counter("apiserver_storage_list_total", M::StorageLists, RESOURCE),
    counter("apiserver_storage_list_fetched_objects_total", M::StorageFetched, RESOURCE),
    gauge("apiserver_resource_objects", M::StorageObjects, RESOURCE),
    gauge("apiserver_storage_objects", M::StorageObjects, RESOURCE).older(1),
    gauge("etcd_object_counts", M::StorageObjects, RESOURCE).older(2),
    gauge("apiserver_resource_size_estimate_bytes", M::StorageObjectBytes, RESOURCE),
    gauge("apiserver_storage_size_bytes", M::StorageSize, NONE),
    gauge("apiserver_storage_db_total_size_in_bytes", M::StorageSize, NONE).older(1),
    gauge("etcd_db_total_size_in_bytes", M::StorageSize, NONE).older(2),
    gauge(
        "apiserver_requested_deprecated_apis",
        M::DeprecatedApis,
        &["group", "version", "resource", "subresource", "removed_release"],
    ),
    counter("apiserver_request_terminations_total", M::Terminations, REQUEST_CODE),
    counter("authentication_attempts", M::AuthenticationAttempts, &["result"]),
    gauge("aggregator_unavailable_apiservice", M::UnavailableApis, NAME),
    counter("apiserver_flowcontrol_dispatched_requests_total", M::FlowDispatched, FLOW),
    counter("apiserver_flowcontrol_rejected_requests_total", M::FlowRejected, FLOW),
    gauge("apiserver_flowcontrol_current_executing_requests", M::FlowExecuting, FLOW),
    gauge("apiserver_flowcontrol_current_inqueue_requests", M::FlowQueued, FLOW),
    gauge("apiserver_flowcontrol_current_executing_seats", M::FlowSeats, FLOW),
    gauge("apiserver_flowcontrol_request_concurrency_in_use", M::FlowSeats, FLOW).older(1),
    histogram(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        M::FlowWait,
        &["priority_level", "flow_schema", "execute"],
    ),
    histogram(
        "apiserver_flowcontrol_request_execution_seconds",
        M::FlowExecution,
        &["priority_level", "flow_schema", "type"],
    ),
    gauge("apiserver_flowcontrol_nominal_limit_seats", M::LevelNominal, LEVEL),
    gauge("apiserver_flowcontrol_request_concurrency_limit", M::LevelNominal, LEVEL).older(1),
    gauge("apiserver_flowcontrol_current_limit_seats", M::LevelLimit, LEVEL),
    histogram(
        "apiserver_admission_webhook_admission_duration_seconds",
        M::WebhookDuration,
        &["name", "type", "operation"],
    ),
    counter(
        "apiserver_admission_webhook_rejection_count",
        M::WebhookRejections,
        &["name", "type", "operation", "error_type"],
    ),
    counter("apiserver_admission_webhook_fail_open_count", M::WebhookFailOpen, &["name", "type"]),
    gauge("process_start_time_seconds", M::ProcessStart, NONE),
    counter("process_cpu_seconds_total", M::ProcessCpu, NONE),
    counter("go_memstats_mallocs_total", M::Mallocs, NONE),
    counter("go_memstats_alloc_bytes_total", M::AllocatedBytes, NONE),
    counter("process_network_receive_bytes_total", M::NetworkReceived, NONE),
    gauge("kubernetes_build_info", M::BuildInfo, &["git_version"]),
    gauge("etcd_server_has_leader", M::EtcdHasLeader, NONE),
    gauge("etcd_server_is_leader", M::EtcdIsLeader, NONE),
    counter("etcd_server_leader_changes_seen_total", M::EtcdLeaderChanges, NONE),
    gauge("etcd_server_proposals_pending", M::EtcdPending, NONE),
    counter("etcd_server_proposals_failed_total", M::EtcdProposalsFailed, NONE),
    histogram("etcd_disk_wal_fsync_duration_seconds", M::EtcdWalFsync, NONE),
    histogram("etcd_disk_backend_commit_duration_seconds", M::EtcdCommit, NONE),
    gauge("etcd_mvcc_db_total_size_in_bytes", M::EtcdDbSize, NONE),
    gauge("etcd_debugging_mvcc_db_total_size_in_bytes", M::EtcdDbSize, NONE).older(1),
    gauge("etcd_mvcc_db_total_size_in_use_in_bytes", M::EtcdDbInUse, NONE),
    gauge("etcd_server_quota_backend_bytes", M::EtcdQuota, NONE),
    gauge("etcd_debugging_mvcc_db_compaction_last", M::EtcdCompacted, NONE),
    histogram("etcd_disk_backend_defrag_duration_seconds", M::EtcdDefragmentation, NONE),
    gauge("etcd_debugging_mvcc_slow_watcher_total", M::EtcdSlowWatchers, NONE),
    gauge("etcd_debugging_mvcc_pending_events_total", M::EtcdPendingEvents, NONE),
    counter("etcd_server_slow_apply_total", M::EtcdSlowApply, NONE),
    counter("etcd_server_slow_read_indexes_total", M::EtcdSlowReads, NONE),
    counter("etcd_server_heartbeat_send_failures_total", M::EtcdHeartbeatFailures, NONE),
    histogram("etcd_network_peer_round_trip_time_seconds", M::EtcdPeerRoundTrip, &["To"]),
    counter("etcd_debugging_mvcc_events_total", M::EtcdEvents, NONE),
    histogram("etcd_request_duration_seconds", M::EtcdRequests, &["operation"]),
    gauge("etcd_server_version", M::EtcdVersion, &["server_version"]),
    gauge("etcd_server_id", M::EtcdServerId, &["server_id"]),
    gauge("go_memstats_heap_inuse_bytes", M::GoHeapInUse, NONE),
    gauge("go_memstats_heap_idle_bytes", M::GoHeapIdle, NONE),
    gauge("go_memstats_heap_released_bytes", M::GoHeapReleased, NONE),
    gauge("go_memory_classes_heap_released_bytes", M::GoHeapReleased, NONE).older(1),
    gauge("go_memory_classes_heap_objects_bytes", M::GoHeapObjects, NONE),
    gauge("go_memory_classes_heap_unused_bytes", M::GoHeapUnused, NONE),
    gauge("go_memory_classes_heap_free_bytes", M::GoHeapFree, NONE),
    gauge("go_memstats_stack_inuse_bytes", M::GoStacks, NONE),
    gauge("go_memory_classes_heap_stacks_bytes", M::GoStacks, NONE).older(1),
    gauge("go_memstats_sys_bytes", M::GoTotal, NONE),
    gauge("go_memory_classes_total_bytes", M::GoTotal, NONE).older(1),
    gauge("go_memstats_next_gc_bytes", M::GoNextGc, NONE),
    gauge("process_resident_memory_bytes", M::ProcessResident, NONE),
    gauge("workqueue_depth", M::QueueDepth, NAME),
    counter("workqueue_adds_total", M::QueueAdds, NAME),
    counter("workqueue_retries_total", M::QueueRetries, NAME),
    histogram("workqueue_queue_duration_seconds", M::QueueWait, NAME),
    histogram("workqueue_work_duration_seconds", M::QueueWork, NAME),
    gauge("workqueue_unfinished_work_seconds", M::QueueUnfinished, NAME),
    gauge("workqueue_longest_running_processor_seconds", M::QueueLongest, NAME),
    gauge("leader_election_master_status", M::LeaderStatus, NAME),
    gauge("running_managed_controllers", M::ManagedControllers, &["name", "manager"]),
    counter("rest_client_requests_total", M::ClientRequests, &["code", "method"]),
    histogram("rest_client_request_duration_seconds", M::ClientDuration, &["verb"]),
    histogram("rest_client_request_latency_seconds", M::ClientDuration, &["verb"]).older(1),
    histogram("rest_client_rate_limiter_duration_seconds", M::ClientLimiter, &["verb"]),
    gauge("scheduler_pending_pods", M::PendingPods, &["queue"]),
    counter("scheduler_schedule_attempts_total", M::ScheduleAttempts, ATTEMPT),
    histogram("scheduler_scheduling_attempt_duration_seconds", M::ScheduleAttempt, ATTEMPT),
    histogram("scheduler_e2e_scheduling_duration_seconds", M::ScheduleAttempt, ATTEMPT).older(1),
    histogram("scheduler_scheduling_algorithm_duration_seconds", M::ScheduleAlgorithm, NONE),
    histogram("scheduler_pod_scheduling_sli_duration_seconds", M::ScheduleSli, &["attempts"]),
    histogram("scheduler_pod_scheduling_duration_seconds", M::ScheduleSli, &["attempts"]).older(1),
    histogram("scheduler_framework_extension_point_duration_seconds", M::ScheduleStage, &["extension_point"]),
    counter("scheduler_queue_incoming_pods_total", M::ScheduleIncoming, &["queue", "event"]),
    counter("scheduler_preemption_attempts_total", M::SchedulePreemptions, NONE),
    counter("scheduler_total_preemption_attempts", M::SchedulePreemptions, NONE).older(1),
    histogram("scheduler_preemption_victims", M::ScheduleVictims, NONE),
    gauge("scheduler_unschedulable_pods", M::ScheduleRefusals, &["plugin"]),
    counter("scheduler_batch_attempts_total", M::ScheduleBatches, &["result"]),
];

/// What a label was called before, or is called elsewhere.
const LABEL_NAMES: &[(&str, &str)] = &[
    ("request_kind", "requestKind"),
    ("priority_level", "priorityLevel"),
    ("flow_schema", "flowSchema"),
    ("git_version", "gitVersion"),
    ("resource", "kind"),
    ("resource", "resource_prefix"),
    ("resource", "type"),
];

/// Finds entries by the full names of samples.
#[derive(Debug)]
pub struct Catalogue {
    by_name: HashMap<String, (&'static Entry, Part)>,
}

impl Default for Catalogue {
    fn default() -> Self {
        let mut by_name = HashMap::new();
        for entry in ENTRIES {
            match entry.shape {
                Shape::Histogram => {
                    for (suffix, part) in [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count)] {
                        by_name.insert(format!("{}{suffix}", entry.name), (entry, part));
                    }
                }
                _ => drop(by_name.insert(entry.name.to_owned(), (entry, Part::Whole))),
            }
        }
        Self { by_name }
    }
}

impl Catalogue {
    /// The entry of a sample's name, and which part of it the sample is.
    pub fn find(&self, name: &str) -> Option<(&'static Entry, Part)> {
        let found = self.by_name.get(name).copied();
        // In OpenMetrics every counter ends in `_total`.
        found.or_else(|| {
            self.by_name.get(name.strip_suffix("_total")?).copied().filter(|(entry, _)| entry.shape == Shape::Counter)
        })
    }
}

/// Names under which a label may be found, the newest first.
pub fn label_names(label: &str) -> impl Iterator<Item = &str> {
    std::iter::once(label).chain(LABEL_NAMES.iter().filter(move |(name, _)| *name == label).map(|(_, older)| *older))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_entries_share_a_name_or_an_age() {
        let catalogue = Catalogue::default();
        let parts = ENTRIES.iter().map(|e| if e.shape == Shape::Histogram { 3 } else { 1 }).sum::<usize>();
        assert_eq!(catalogue.by_name.len(), parts);
        for (at, a) in ENTRIES.iter().enumerate() {
            assert!(ENTRIES[..at].iter().all(|b| (a.metric, a.age) != (b.metric, b.age)), "{}", a.name);
        }
    }
}
