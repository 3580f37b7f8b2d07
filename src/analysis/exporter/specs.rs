//! Names, meanings and labels of what is exported of audit logs.

use crate::model::exposed::{FamilyKind, Spec};
use serde::{Deserialize, Serialize};

/// A metric that counts what audit logs show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Requests by client, verb, resource and code.
    Requests,
    /// Their durations by client and class of verb.
    Durations,
    /// LISTs by who answers them.
    Lists,
    /// Bytes that LISTs returned, by estimate.
    ListBytes,
    /// LISTs of which nothing shows how much they returned.
    ListsNotEstimated,
    /// LISTs that followed the end of a watch.
    Relists,
    /// Calls of API versions that a release removes.
    Deprecated,
    /// Dangerous operations.
    Operations,
    /// What counted for others for want of room.
    Folded,
}

/// All of them, in the order in which they are exported.
pub const COUNTERS: [Counter; 9] = [
    Counter::Requests,
    Counter::Durations,
    Counter::Lists,
    Counter::ListBytes,
    Counter::ListsNotEstimated,
    Counter::Relists,
    Counter::Deprecated,
    Counter::Operations,
    Counter::Folded,
];

/// How far behind an apiserver's log is.
pub(super) const LAG: Spec = Spec::gauge(
    "plimsoll_input_lag_seconds",
    "Time since the last audit event that was counted, by apiserver.",
    &["source"],
);

impl Counter {
    /// Its name, meaning and labels.
    pub fn spec(self) -> Spec {
        let (name, help, labels): (_, _, &'static [&'static str]) = match self {
            Self::Requests => (
                "plimsoll_client_requests",
                "Requests that ended, by client, verb, resource and response code; watches count when they end.",
                &["user", "agent", "verb", "group", "resource", "code"],
            ),
            Self::Durations => (
                "plimsoll_client_request_duration_seconds",
                "Time to answer reads of one object (read), LISTs (list) and writes (write), by client.",
                &["user", "agent", "op"],
            ),
            Self::Lists => (
                "plimsoll_client_lists",
                "LISTs by client, resource, and who answers them: the watch cache, etcd, or unsure.",
                &["user", "agent", "group", "resource", "list_kind"],
            ),
            Self::ListBytes => (
                "plimsoll_client_list_bytes_estimated",
                "Bytes of JSON that answered LISTs returned: of bodies in the log, else of the objects in etcd.",
                &["user", "agent", "group", "resource"],
            ),
            Self::ListsNotEstimated => (
                "plimsoll_client_lists_not_estimated",
                "Answered LISTs whose size nothing shows: with selectors, in pages, of one namespace, of others.",
                &["user", "agent", "group", "resource"],
            ),
            Self::Relists => (
                "plimsoll_client_relists",
                "LISTs within two minutes of the end of the same client's watch.",
                &["user", "agent", "group", "resource"],
            ),
            Self::Deprecated => (
                "plimsoll_client_deprecated_requests",
                "Requests for API versions that are deprecated, with the release that removes them.",
                &["user", "agent", "group", "version", "resource", "removed_release"],
            ),
            Self::Operations => (
                "plimsoll_guard_operations",
                "Dangerous operations, by kind and by the severity of one alone.",
                &["kind", "severity"],
            ),
            Self::Folded => (
                "plimsoll_series_folded",
                "Increments that counted for the client \"other\" for want of series, by metric.",
                &["metric"],
            ),
        };
        let kind = if self.is_duration() { FamilyKind::Histogram } else { FamilyKind::Counter };
        Spec { name, help, kind, labels }
    }

    /// Whether it is a histogram of durations.
    pub fn is_duration(self) -> bool {
        self == Self::Durations
    }

    /// Whether its first two labels are a client.
    pub fn is_of_clients(self) -> bool {
        !matches!(self, Self::Operations | Self::Folded)
    }
}
