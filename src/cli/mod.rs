//! What every command works with: settings, settled once (flags, then `PLIMSOLL_*`, then the config file, then
//! defaults), writers, the clock, flags that commands share, errors and their exit codes.

mod context;
mod error;
mod flags;
mod io;
mod memory;
mod progress;
pub mod repeat;
mod settings;
mod shared;
mod side_by_side;
mod silent;

pub use context::Context;
pub use error::Error;
pub use flags::{
    FailOn, KubeFlags, MomentFlags, PrometheusFlags, StepFlags, TimeFlags, ViewFlags, duration_parser, length_parser,
    parse_every, parse_folder, parse_length, parse_tenfold_share, parse_time,
};
pub use io::Io;
pub use memory::{give_back, keep_little};
pub use progress::Progress;
pub use settings::{Cache, EngineChoice, Settings, Shown};
pub use shared::Shared;
pub use side_by_side::side_by_side;
pub use silent::silent;
