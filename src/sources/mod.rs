//! Sources turn bytes into raw records and attach no meaning to them.
//!
//! ```
//! use plimsoll::sources::find::audit_logs;
//!
//! let found = audit_logs(&["samples/list-storm".to_owned()]);
//! // The logs of two apiservers.
//! assert_eq!(found.streams.len(), 2);
//! ```

pub mod alerts;
pub mod apf;
pub mod archive;
pub mod archive_names;
pub mod arguments;
pub mod audit;
mod belonging;
pub mod budget;
#[cfg(feature = "history")]
pub mod cache;
pub mod cgroup;
pub mod clock;
pub mod clusters;
pub mod content;
pub mod dataset;
mod datasets;
#[cfg(feature = "engine")]
pub mod engine;
pub mod etcd;
pub mod exposition;
pub mod find;
pub mod found;
mod joined;
pub mod limits;
#[cfg(feature = "live")]
pub mod live;
pub mod objects;
pub mod open;
pub mod packing;
pub mod pages;
#[cfg(feature = "history")]
pub mod piece;
pub mod pprof;
#[cfg(feature = "live")]
pub mod prometheus;
pub mod retry;
#[cfg(feature = "history")]
pub mod rolled;
#[cfg(not(feature = "history"))]
#[path = "unrolled.rs"]
mod rolled;
mod split;
#[cfg(feature = "dataset")]
pub mod sql;
#[cfg(feature = "history")]
pub mod store;
pub mod wanted;
pub mod watcher;

pub use open::SourceError;
