//! etcd's database: a snapshot, or a copy of `member/snap/db`, read in parallel and never trusted.

pub mod bolt;
pub mod cbor;
mod database;
pub mod map;
pub mod mvcc;
pub mod object;
mod store;

pub use database::{BucketPages, Database, KeyWorker, Walk};
pub use store::{Member, Store};
