//! Quotas: how full they are, where they are going, and who is told.

pub mod calendar;
pub mod check;
pub mod digest;
pub mod owners;
pub mod trend;
