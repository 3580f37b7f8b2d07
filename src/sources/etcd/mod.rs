//! etcd's database: a snapshot, or a copy of `member/snap/db`, read in parallel and never trusted.

pub mod bolt;
mod cbor;
pub mod decode;
pub mod mvcc;
pub mod object;
#[cfg(feature = "live")]
pub mod pull;
pub mod schema;
mod special;
mod walk;

pub use walk::{KeyWorker, Walk, walk};
