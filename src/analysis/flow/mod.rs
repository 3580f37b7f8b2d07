//! API Priority and Fairness on audit logs: which FlowSchema a request matches. (Rules and their sources: docs/flowcontrol.md.)

mod classify;
mod matching;

pub use classify::{Classifier, Flow, Sets};
pub use matching::{Asked, Caller, Set, caller, is_classified};
