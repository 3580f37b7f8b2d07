//! etcd's database: a snapshot, or a copy of `member/snap/db`, read in parallel and never trusted.

pub mod bolt;
pub mod mvcc;
pub mod object;
mod walk;

pub use walk::{KeyWorker, Walk, walk};
