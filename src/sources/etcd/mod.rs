//! etcd's database: a snapshot, or a copy of `member/snap/db`, read in parallel and never trusted.

pub mod bolt;
pub mod cbor;
mod cbor_json;
mod database;
pub mod decode;
pub mod map;
pub mod mvcc;
pub mod object;
#[cfg(feature = "live")]
pub mod pull;
pub mod schema;
mod special;
mod store;
mod taken;
mod written;

pub use database::{Database, KeyWorker, Walk};
pub use store::{Member, Store};
pub use taken::taken;
