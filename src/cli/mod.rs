//! What every command works with: settings, settled once (flags, then `PLIMSOLL_*`, then the config file, then
//! defaults), writers, the clock, flags that commands share, errors and their exit codes.

mod context;
mod error;
mod flags;
mod memory;
mod progress;
pub mod repeat;
mod settings;
mod shared;

pub use context::{Context, Io};
pub use error::Error;
pub use flags::{
    KubeFlags, MomentFlags, PrometheusFlags, StepFlags, TimeFlags, ViewFlags, duration_parser, length_parser,
    parse_every, parse_length, parse_time,
};
pub use memory::{give_back, keep_little};
pub use progress::Progress;
pub use settings::{Cache, FailOn, Settings, Shown};
pub use shared::Shared;
