//! Writes that the cluster's rules refuse (admission policies, webhooks that deny, roles, quotas), and requests that
//! are refused for want of valid credentials.

use super::requests::{Kind, Row};
use std::collections::BTreeMap;

/// Where one client alone is refused, it is its own fault, or its quota's: no more than this part is any one's.
const ONE_CLIENT: f64 = 0.5;
/// And so many clients are.
const MIN_CLIENTS: usize = 3;

/// Stands for all callers of the control plane.
const CONTROL_PLANE: u32 = u32::MAX;

/// What was refused in an interval, of the writes or of all requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refusals {
    /// All that might have been.
    all: f64,
    /// By number of the caller, how many were refused; the control plane's controllers are one, since they are refused
    /// together wherever a namespace is being deleted.
    by_caller: BTreeMap<u32, f64>,
}

/// Whether rules are about writes of a kind: heartbeats and events, of which there are most, are hardly ever checked.
pub(super) fn are_about([_, _, resource, _]: &Kind) -> bool {
    !matches!(resource.as_str(), "leases" | "events")
}

/// Whether a code says that a rule refuses a request: 403 by roles, quotas and most of admission, 400 and 422 by others
/// of it.
pub(super) fn is_refusal(code: Option<u16>) -> bool {
    matches!(code, Some(400 | 403 | 422))
}

impl Refusals {
    /// Adds requests, of which so many were refused; `is_own` are the control plane's.
    pub(super) fn add(&mut self, row: &Row<'_>, refused: f64, is_own: bool) {
        self.all += row.requests;
        if refused > 0.0 {
            let caller = if is_own { CONTROL_PLANE } else { row.caller as u32 };
            *self.by_caller.entry(caller).or_default() += refused;
        }
    }

    /// How many were refused, of how many.
    pub(super) fn counts(&self) -> (f64, f64) {
        (self.by_caller.values().sum(), self.all)
    }
}

/// Whether many clients are refused in some intervals, and not one alone. Pages do not say who. So many of them were
/// denied by webhooks and policies: where most were, the control plane's controllers are refused for all whose objects
/// they make, and may be more than half.
pub(super) fn are_many<'r>(all: impl Iterator<Item = &'r Refusals>, denied: f64) -> bool {
    let mut by_caller: BTreeMap<u32, f64> = BTreeMap::new();
    for (caller, count) in all.flat_map(|own| &own.by_caller) {
        *by_caller.entry(*caller).or_default() += count;
    }
    let sum = by_caller.values().sum::<f64>();
    let for_others = |caller: u32| caller == CONTROL_PLANE && denied >= 0.5 * sum;
    let alone = by_caller.iter().filter(|(caller, _)| !for_others(**caller));
    let most = alone.fold(0.0, |most: f64, own| most.max(*own.1));
    by_caller.len() >= MIN_CLIENTS && most <= ONE_CLIENT * sum
}
