//! The long end-to-end tests: what needs qemu, root or minutes. Each module belongs to the part of `.ci/full` that has
//! its name, and is run by it: `cargo test --release --test full -- kernels::`.
//!
//! `cargo test` leaves them out (`test = false` in Cargo.toml); `.ci/run` compiles and lints them. Nothing is skipped
//! where something is missing: `.ci/setup --full PART` installs it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can not go on has failed; clippy.toml allows it in the tests, not in what they share"
)]

#[cfg(not(all(feature = "live", feature = "history")))]
compile_error!("these tests are of the whole program: build them with the default features");

#[path = "../it"]
#[expect(dead_code, reason = "some of it only tests/it uses")]
mod shared {
    pub(crate) mod alert_lab;
    pub(crate) mod alert_model;
    pub(crate) mod archive_lab;
    pub(crate) mod compare_lab;
    pub(crate) mod forecast_grids;
    pub(crate) mod lab;
    pub(crate) mod screen;
    pub(crate) mod store_lab;
    pub(crate) mod support;
}
use shared::{alert_lab, alert_model, archive_lab, compare_lab, forecast_grids, lab, screen, store_lab, support};

#[cfg(feature = "engine")]
mod engine;
mod forecast;
mod kernels;
mod machine;
mod packages;
mod properties;
mod servers;
mod tui;
