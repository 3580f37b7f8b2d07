//! Quotas: what is used of them, what they should be, what is wrong with them.

pub mod collect;
pub mod lint;
pub mod manifests;
pub mod propose;
pub mod refused;
pub mod report;
pub mod usage;
