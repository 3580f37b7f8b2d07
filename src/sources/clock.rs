//! The clock: an input like any other. `analysis` gets the time as an argument.

use crate::model::time::Micros;

/// The time of this machine.
pub fn now() -> Micros {
    jiff::Timestamp::now().as_microsecond()
}
