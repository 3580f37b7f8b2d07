//! Sources turn bytes into raw records and know nothing of what they mean.

pub mod audit;
#[cfg(feature = "live")]
pub mod live;
pub mod open;
mod split;

pub use open::SourceError;
