//! Creations that a quota refused, as audit logs tell of them: how much more was wanted than there was.

use crate::model::event::{Stage, Timed};
use crate::model::quantity::Quantity;
use crate::model::time::{Micros, together};
use std::collections::BTreeMap;

/// What was refused of one resource of one quota.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refusals {
    /// Requests that were refused.
    pub count: u64,
    /// The first and the last.
    pub span: Option<(Micros, Micros)>,
    /// The most that would have been used had the request been let through.
    pub needed: Quantity,
}

/// Refusals by namespace, quota and resource. Merging is exact, in whatever order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refused {
    /// The refusals.
    pub rows: BTreeMap<(String, String, String), Refusals>,
}

impl Refused {
    /// Takes an event; most are none of its concern.
    #[inline]
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        if event.event.code == Some(403) && event.stage == Stage::ResponseComplete {
            let message = event.event.message.decode();
            if let Some((_, behind)) = message.split_once("exceeded quota: ") {
                let namespace = event.event.namespace.decode();
                self.take(&namespace, behind, event.at);
            }
        }
    }

    /// `compute, requested: pods=1,requests.cpu=250m, used: …, limited: …`, as the quota's admission writes it.
    fn take(&mut self, namespace: &str, text: &str, at: Micros) {
        let Some((quota, rest)) = text.split_once(", requested: ") else { return };
        let Some((requested, rest)) = rest.split_once(", used: ") else { return };
        let Some((used, _)) = rest.split_once(", limited: ") else { return };
        let amounts = |text: &str| -> BTreeMap<String, Quantity> {
            text.split(',')
                .filter_map(|part| part.split_once('='))
                .filter_map(|(name, amount)| Some((name.to_owned(), amount.parse().ok()?)))
                .collect()
        };
        let used = amounts(used);
        for (resource, requested) in amounts(requested) {
            let needed = used.get(&resource).copied().unwrap_or_default().plus(requested);
            let row = self.rows.entry((namespace.to_owned(), quota.to_owned(), resource)).or_default();
            row.count += 1;
            row.span = together(row.span, Some((at, at)));
            row.needed = row.needed.max(needed);
        }
    }

    /// Takes in those of another part of the input.
    pub fn merge(&mut self, other: Self) {
        for (key, theirs) in other.rows {
            let row = self.rows.entry(key).or_default();
            row.count += theirs.count;
            row.span = together(row.span, theirs.span);
            row.needed = row.needed.max(theirs.needed);
        }
    }
}
