//! The end-to-end tests: one binary, because each further one links the crate again.
//!
//! They run the built program and compare what it prints with independent counts (`tests/oracle`, numpy, jq).
//! `.ci/setup` installs what they need; nothing is skipped where something is missing.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can not go on has failed; clippy.toml allows it in the tests, not in what they share"
)]

mod architecture;
mod changing;
mod damage;
mod exactness;
mod follow;
mod forms;
#[cfg(feature = "live")]
mod live;
mod memory_captured;
mod memory_live;
mod memory_machine;
mod memory_v2;
mod rollup;
mod support;
mod traffic_counts;
mod views;
