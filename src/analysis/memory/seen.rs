//! One group as it was seen: a sample and what follows from it.

use super::account::Account;
use super::rates::Rates;
use super::verdict::{Judged, judge};
use crate::model::memory::Sample;

/// One group: a sample and what follows from it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub sample: Sample,
    /// Its bytes.
    pub account: Account,
    /// What happened before it.
    pub rates: Option<Rates>,
    /// How it is.
    pub judged: Judged,
    /// How deep below the group that was asked for.
    pub depth: u64,
}

impl Seen {
    /// Looks at a sample, and at one before it.
    pub fn new(sample: Sample, before: Option<&Sample>, host: Option<u64>) -> Self {
        let account = Account::of(&sample, host);
        let rates = before.and_then(|before| Rates::between(before, &sample, host));
        let judged = judge(&sample, &account, rates.as_ref());
        Self { sample, account, rates, judged, depth: 0 }
    }
}
