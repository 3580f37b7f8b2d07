//! History from Prometheus, or from what speaks its HTTP API (Thanos, Mimir, VictoriaMetrics): expressions over a
//! stretch of time, in chunks that keep a limit on the samples that one query loads.
//!
//! [`Queries`] are the expressions with the names of kube-state-metrics, cAdvisor and kube-apiserver (`queries.rs`).
//! [`Prometheus::range`] measures how heavy one is and cuts it by time, and where a single instant is too heavy by
//! label (`range.rs`); each chunk is asked for with patience (`client.rs`) and read as a stream into points
//! (`answer.rs`). A chunk is handed on only when all of it is there: what breaks off is asked for again, what has come
//! is not.

mod answer;
mod client;
mod error;
mod queries;
mod range;

pub use client::{Auth, Endpoint};
pub use error::PromError;
pub use queries::{Queries, Query};
pub use range::{Prometheus, RangeStats, Window};
