//! Whether a LIST is answered by the apiserver's watch cache or by etcd.
//!
//! The log does not say; the server's version and the request's parameters decide
//! (apiserver `storage/cacher/delegator`). Where they do not suffice, the answer is `unsure`.

use crate::model::uri::{Match, ReadShape, Version};

/// A Kubernetes minor version, e.g. 36 of v1.36.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor(pub u32);

impl Minor {
    /// Reads `v1.36.0`, `1.36`, `v1.31.2-gke.100`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().trim_start_matches('v').strip_prefix("1.")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(Self(digits.parse().ok()?))
    }

    /// The version after it.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Who answers a LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The watch cache.
    Cache,
    Etcd,
    /// The log does not show.
    Unsure,
}

/// Who answers a LIST of `resource` with `shape` on an apiserver of this version.
pub fn route(shape: &ReadShape, group: &str, resource: &str, server: Option<Minor>) -> Route {
    if resource == "events" && matches!(group, "" | "events.k8s.io") {
        return Route::Etcd; // events have no watch cache
    }
    let older_than = |minor| server.is_some_and(|s| s < Minor(minor));
    let since = |minor| server.is_some_and(|s| s >= Minor(minor));
    // From 1.34 on (ListFromCacheSnapshot) exact reads and further pages come from the cache if it still holds a
    // snapshot.
    let exact = if older_than(34) { Route::Etcd } else { Route::Unsure };
    if shape.continued || shape.version_match == Match::Exact {
        return exact;
    }
    match shape.version {
        Version::Zero => Route::Cache,
        // ConsistentListFromCache: on from 1.31 where etcd can report progress (3.4.31, 3.5.13), which 1.34's etcd
        // always can.
        Version::Unset if older_than(31) => Route::Etcd,
        Version::Unset if since(34) => Route::Cache,
        Version::Unset => Route::Unsure,
        Version::At if !shape.limit => Route::Cache,
        // From 1.31 on only a limit without resourceVersionMatch is an exact read.
        Version::At if shape.version_match == Match::NotOlder && since(31) => Route::Cache,
        Version::At if shape.version_match == Match::NotOlder && !older_than(31) => Route::Unsure,
        Version::At => exact,
    }
}

/// The `list-kind` of a LIST: `paged` or `full`, joined to who answers it.
pub fn list_kind(shape: &ReadShape, group: &str, resource: &str, server: Option<Minor>) -> &'static str {
    match (shape.limit || shape.continued, route(shape, group, resource, server)) {
        (true, Route::Cache) => "paged-cache",
        (true, Route::Etcd) => "paged-etcd",
        (true, Route::Unsure) => "paged-unsure",
        (false, Route::Cache) => "full-cache",
        (false, Route::Etcd) => "full-etcd",
        (false, Route::Unsure) => "full-unsure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(query: &str, version: &str) -> &'static str {
        list_kind(&ReadShape::of(&format!("/api/v1/pods?{query}"), false), "", "pods", Minor::parse(version))
    }

    #[test]
    fn the_version_decides() {
        for (query, version, expected) in [
            ("resourceVersion=0", "v1.20.1", "full-cache"),
            // With resourceVersion=0 the cache answers whole, but the client did ask for a page.
            ("resourceVersion=0&limit=500", "1.36", "paged-cache"),
            ("", "v1.30.9", "full-etcd"),
            ("", "v1.31.0", "full-unsure"),
            ("", "v1.34.0", "full-cache"),
            ("", "", "full-unsure"),
            ("limit=500", "v1.28.0", "paged-etcd"),
            ("limit=500", "v1.36.0", "paged-cache"),
            ("limit=500&continue=x", "v1.33.0", "paged-etcd"),
            ("limit=500&continue=x", "v1.36.0", "paged-unsure"),
            ("resourceVersion=7", "v1.20.0", "full-cache"),
            ("resourceVersion=7&limit=5", "v1.20.0", "paged-etcd"),
            ("resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan", "v1.30.9", "paged-etcd"),
            ("resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan", "v1.31.0", "paged-cache"),
            ("resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan", "", "paged-unsure"),
            ("resourceVersion=7&resourceVersionMatch=Exact", "v1.30.0", "full-etcd"),
        ] {
            assert_eq!(kind(query, version), expected, "{query} on {version}");
        }
        let events = ReadShape::of("/api/v1/events?resourceVersion=0", false);
        assert_eq!(list_kind(&events, "", "events", Minor::parse("v1.36.0")), "full-etcd");
    }
}
