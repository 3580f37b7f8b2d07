//! The few things that change something outside of plimsoll: files that are replaced, limits of cgroups, messages that are sent.

pub mod fresh;
pub mod notify;
pub mod reclaim;
#[cfg(feature = "history")]
pub mod store;
