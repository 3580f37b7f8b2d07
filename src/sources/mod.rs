//! Sources turn bytes into raw records and know nothing of what they mean.

pub mod audit;
pub mod exposition;
pub mod open;
mod split;

pub use open::SourceError;
