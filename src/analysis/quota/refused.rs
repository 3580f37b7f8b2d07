//! Creations that a quota refused, as audit logs report them: how much more was wanted than there was.

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
    pub rows: BTreeMap<(String, String, String), Refusals>,
}

impl Refused {
    /// Takes an event; most are none of its concern.
    #[inline]
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        if let Some(refusal) = Refusal::of(event) {
            let namespace = event.event.namespace.decode();
            for (resource, needed) in refusal.needed {
                let one = Refusals { count: 1, span: Some((event.at, event.at)), needed };
                self.add((namespace.clone().into_owned(), refusal.quota.clone(), resource), &one);
            }
        }
    }

    /// Adds refusals of a resource of a quota.
    pub fn add(&mut self, key: (String, String, String), refusals: &Refusals) {
        self.rows.entry(key).or_default().merge(refusals);
    }

    /// Takes in those of another part of the input.
    pub fn merge(&mut self, other: Self) {
        for (key, theirs) in other.rows {
            self.add(key, &theirs);
        }
    }
}

impl Refusals {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.span = together(self.span, other.span);
        self.needed = self.needed.max(other.needed);
    }
}

/// A request that a quota refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub quota: String,
    /// By resource what would have been used.
    pub needed: Vec<(String, Quantity)>,
}

impl Refusal {
    /// What an event says of it; most say nothing.
    #[inline]
    pub fn of(event: &Timed<'_, '_>) -> Option<Self> {
        if event.event.code != Some(403) || event.stage != Stage::ResponseComplete {
            return None;
        }
        // Whoever may not write is refused by the authorizer, in words that repeat the name that was asked for.
        if event.event.decision().is_some_and(|decision| decision.is("forbid")) {
            return None;
        }
        let message = event.event.message.decode();
        Self::parse(message.rsplit_once(" is forbidden: exceeded quota: ")?.1)
    }

    /// `compute, requested: pods=1,requests.cpu=250m, used: …, limited: …`, as the quota's admission writes it.
    fn parse(text: &str) -> Option<Self> {
        let (quota, rest) = text.split_once(", requested: ")?;
        let (requested, rest) = rest.split_once(", used: ")?;
        let (used, _) = rest.split_once(", limited: ")?;
        let amounts = |text: &str| -> BTreeMap<String, Quantity> {
            text.split(',')
                .filter_map(|part| part.split_once('='))
                .filter_map(|(name, amount)| Some((name.to_owned(), amount.parse().ok()?)))
                .collect()
        };
        let used = amounts(used);
        let needed = amounts(requested).into_iter().map(|(resource, requested)| {
            let needed = used.get(&resource).copied().unwrap_or_default().plus(requested);
            (resource, needed)
        });
        Some(Self { quota: quota.to_owned(), needed: needed.collect() })
    }
}
