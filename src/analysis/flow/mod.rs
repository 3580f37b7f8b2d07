//! API Priority and Fairness on audit logs: which FlowSchema a request matches, throttles for clients, and a replay of
//! the logged requests with them. (Rules and their sources: docs/flowcontrol.md.)

mod classify;
pub mod fence;
mod matching;
mod queues;
pub mod replay;
pub mod report;
pub mod seats;

pub use classify::{Classifier, Flow, Sets};
pub use matching::{Caller, RequestTarget, Set, caller, is_classified};
