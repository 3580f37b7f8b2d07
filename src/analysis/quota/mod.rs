//! Quotas: what is used of them, where that is going, what they should be, what is wrong with them, and who is
//! notified.

pub mod api;
pub mod calendar;
pub mod check;
pub mod collect;
pub mod digest;
pub mod lint;
pub mod manifests;
pub mod owners;
pub mod propose;
pub mod refused;
pub mod report;
pub mod trend;
pub mod usage;
