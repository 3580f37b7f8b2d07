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
mod targets;

pub use forms::read_line;

#[cfg(test)]
mod tests;
