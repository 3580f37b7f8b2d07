//! `plimsoll`: who loads a Kubernetes control plane, with what, how full it is, and when it will be
//! too full.
//!
//! Data flows one way:
//!
//! ```text
//! sources ──► model ──► analysis ──► views
//!    bytes to    typed     pure         a report
//!    records     tables    functions    to a writer
//!        └── inputs ─┴── commands ───┘       (connect them, nothing more)
//! ```
//!
//! [`sources`] find, recognise and read inputs and know nothing of what they mean. [`model`] is the
//! types that everything shares. [`analysis`] is pure functions from model to model. [`views`] write
//! reports. [`inputs`] finds, opens and reads sources once for all questions; [`commands`] is one file per
//! subcommand, [`cli`] what they all work with, [`app`] the parser and the exit codes. Which layer may import which is
//! tested (`tests/it/architecture.rs`).

pub mod actions;
pub mod analysis;
pub mod app;
pub mod cli;
pub mod commands;
pub mod inputs;
pub mod model;
pub mod sources;
pub mod views;

pub use app::run;
pub use cli::Io;

/// Runs the program for the process that it is in.
pub fn program() -> std::process::ExitCode {
    let code = run(std::env::args_os(), &mut Io::process());
    sources::archive::clear();
    code
}
