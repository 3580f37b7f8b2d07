//! Metrics pages to numbers: increases, rates and quantiles across restarts and load balancers; traffic, and health of
//! the control plane. (Rules: docs/metrics.md.)

pub mod capacity;
pub(super) mod catalogue;
pub mod etcd;
pub mod facts;
mod fold;
pub mod glance;
mod names;
pub mod objectives;
pub mod quantile;
pub mod report;
pub mod scrape;
mod series;
pub mod tables;
pub mod traffic;

pub use fold::Fold;
pub use series::{PageValues, Retention, SeriesTable};
