//! `plimsoll`: the capacity of Kubernetes control planes. Who causes the load, what it costs, how much headroom is
//! left, and when a limit is reached.
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
//! [`sources`] find, recognise and read inputs without interpreting them. [`model`] has the
//! types that all layers share. [`analysis`] is pure functions from model to model. [`views`] write
//! reports. [`inputs`] finds, opens and reads sources once for all questions; [`jobs`] are what several commands do
//! beside answering; [`actions`] change something outside: stores, messages, caches; [`commands`] is a file or a folder
//! per subcommand, [`cli`] what they all work with, [`app`] the parser and the exit codes. Which layer may import which
//! is tested (`tests/it/architecture.rs`).

pub mod actions;
pub mod analysis;
pub mod app;
pub mod cli;
pub mod commands;
pub mod inputs;
pub mod jobs;
pub mod model;
pub mod sources;
pub mod views;

pub use app::run;
pub use cli::Io;

/// Runs the program for the process that it is in.
pub fn program() -> std::process::ExitCode {
    cli::keep_little();
    let code = run(std::env::args_os(), &mut Io::process());
    sources::archive::clear();
    code
}
