//! What commands do beside answering questions, each for several of them: record samples into a store, take captures,
//! pull snapshots of etcd, deliver messages.

#[cfg(feature = "live")]
pub mod captures;
#[cfg(feature = "live")]
pub mod etcd_pull;
pub mod messages;
#[cfg(feature = "history")]
pub mod recorder;
#[cfg(feature = "history")]
pub mod samples;
