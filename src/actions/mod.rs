//! The few things that change something outside of plimsoll: files that are replaced, limits of cgroups.

pub mod fresh;
pub mod reclaim;
#[cfg(feature = "history")]
pub mod store;
