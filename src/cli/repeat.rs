//! Commands that go on until they are stopped: signals, pauses, and reports in place of the ones before.

use super::{Context, Error, FailOn};
use crate::model::report::Report;
use crate::views::Format;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Clears a terminal and what it has scrolled away.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J\x1b[3J";

/// A flag that is set is noticed within this time.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Prints a report that takes the place of `printed` others.
pub(crate) fn print_again(report: &Report, printed: u64, context: &mut Context<'_>) -> Result<(), Error> {
    context.settings.style.compact = true;
    match context.settings.format {
        Format::Table | Format::Wide if context.io.out_is_terminal => context.io.out.write_all(CLEAR)?,
        Format::Table | Format::Wide | Format::Markdown if printed > 0 => writeln!(context.io.out)?,
        Format::Yaml if printed > 0 => writeln!(context.io.out, "---")?,
        Format::Csv if printed > 0 => context.settings.style.headers = false,
        _ => {}
    }
    context.print(report, FailOn::Never)
}

/// Set by SIGINT and SIGTERM; a second one ends the program at once.
pub(crate) fn stop_signal() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        registered.map_err(|error| Error::Input(format!("can't watch for signals: {error}")))?;
    }
    Ok(stop)
}

/// Sleeps until `end`, or until asked to stop.
pub(crate) fn sleep_until(end: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(POLL_INTERVAL)),
            _ => break,
        }
    }
}
