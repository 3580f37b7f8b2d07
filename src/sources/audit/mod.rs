//! Audit logs: from lines to events, from files to blocks of lines, from blocks to whatever a
//! worker makes of their events.

mod blocks;
mod callers;
pub mod follow;
mod forms;
mod general;
mod gke;
pub mod pass;
mod scan;
pub mod settle;
pub mod strip;
mod targets;
pub mod twice;

pub use forms::{begin, read_line, times_in};

#[cfg(test)]
mod tests;
