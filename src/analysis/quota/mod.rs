//! Quotas: usage, trend, proposals, lint, and alerts to owners.

pub mod admitted;
pub mod api;
pub mod calendar;
pub mod check;
pub mod collect;
pub mod defaults;
pub mod digest;
pub mod lint;
pub mod manifests;
pub mod owners;
pub mod propose;
pub mod refused;
pub mod report;
pub mod trend;
pub mod usage;
