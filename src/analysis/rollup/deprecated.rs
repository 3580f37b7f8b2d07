//! Requests to APIs that the apiserver calls deprecated: by client, API version and resource.

use super::keys::Keys;
use crate::model::time::{Micros, together};
use std::collections::BTreeMap;

/// Rows kept: those that come first by their texts.
const MAX_ROWS: usize = 10_000;

/// Cluster, user, agent, group and version, resource, subresource, release that has it no more.
pub type DeprecatedKey = [String; 7];

/// What a client sent to a deprecated API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    pub requests: u64,
    /// First and last `at`.
    pub span: Option<(Micros, Micros)>,
}

/// All rows. Few APIs are deprecated at a time, so texts are kept as they are.
#[derive(Debug, Default)]
pub struct Deprecated(BTreeMap<DeprecatedKey, Calls>);

impl Deprecated {
    /// Counts a request; `key` is its traffic key among `keys`.
    pub fn count(&mut self, at: Micros, key: u32, keys: &Keys, (version, removed): (String, String)) {
        let traffic = keys.traffic.get(key);
        let [cluster, user, agent, _, resource] = keys.subject_text(traffic.subject);
        let [cluster, user, agent, resource, subresource] =
            [cluster, user, agent, resource, keys.symbols.get(traffic.subresource)].map(str::to_owned);
        let calls = Calls { requests: 1, span: Some((at, at)) };
        self.add([cluster, user, agent, version, resource, subresource, removed], &calls);
    }

    /// A row that is among the first in the end was so all the time: its counts are exact.
    pub fn add(&mut self, key: DeprecatedKey, calls: &Calls) {
        let row = self.0.entry(key).or_default();
        row.requests += calls.requests;
        row.span = together(row.span, calls.span);
        if self.0.len() > MAX_ROWS {
            self.0.pop_last();
        }
    }

    /// All rows, by their texts.
    pub fn into_rows(self) -> Vec<(DeprecatedKey, Calls)> {
        self.0.into_iter().collect()
    }
}
