//! Dangerous operations: kinds, actors, severities and cascades. (Rules: docs/commands/guard.md.)

mod bodies;
pub(in crate::analysis) mod classify;
pub(in crate::analysis) mod consequences;
mod drains;
mod group;
mod groups;
pub mod policies;
pub mod report;
mod rules;
pub mod stored;
mod tripwire;
pub mod webhooks;
mod words;

pub use crate::analysis::rollup::notable::{Notable, once};
pub use classify::{Batch, Seen, Watch};
pub use consequences::{Deletions, Place, RemovedBetween};
pub use group::{Around, Group, Owners};
pub use groups::groups;
pub use rules::{RULES, Rule, is_of_kinds};
pub use tripwire::{Tripwire, message};
