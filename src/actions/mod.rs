//! The few things that change something outside of plimsoll: replaced files, limits of cgroups, sent messages.
//!
//! ```
//! let folder = tempfile::tempdir().unwrap();
//! let target = folder.path().join("state.json");
//! // As a whole, or not at all.
//! plimsoll::actions::fresh::replace(&target, b"{}").unwrap();
//! assert_eq!(std::fs::read(&target).unwrap(), b"{}");
//! ```

#[cfg(feature = "live")]
pub mod bundle;
#[cfg(feature = "history")]
pub mod cache;
#[cfg(feature = "history")]
pub mod dataset;
pub mod fresh;
#[cfg(feature = "serve")]
pub mod hand_over;
#[cfg(feature = "history")]
mod noted;
pub mod notify;
pub mod reclaim;
#[cfg(feature = "history")]
pub mod rollup;
#[cfg(feature = "history")]
pub mod store;
#[cfg(feature = "serve")]
pub mod web;
