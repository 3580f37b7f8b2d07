//! What commands read, whichever asks: sources found, opened and read once for all questions that need them
//! (`together`), from logs, stored roll-ups, pages, databases, profiles, cgroups and objects.

pub mod breakdown;
#[cfg(feature = "history")]
mod cached;
#[cfg(not(feature = "history"))]
#[path = "uncached.rs"]
mod cached;
pub mod captures;
#[cfg(feature = "engine")]
pub mod engine;
pub mod episodes;
pub mod etcd;
pub mod flow;
pub mod found;
pub mod groups;
pub mod held;
mod kept_pages;
#[cfg(feature = "live")]
pub mod live;
pub mod load;
pub mod log_question;
pub mod logs;
#[cfg(feature = "history")]
pub mod manifest;
pub mod moment;
pub mod pages;
pub mod profiles;
#[cfg(feature = "live")]
pub mod prometheus;
pub mod pulse;
pub mod quotas;
#[cfg(feature = "history")]
pub mod recording;
#[cfg(feature = "history")]
pub mod rolled;
pub mod rollup;
pub mod selection;
pub mod together;
