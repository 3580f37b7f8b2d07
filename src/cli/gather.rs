//! Running a command for what it would print: a report is made of what other commands say, and says the same as they
//! do.

use super::context::Context;
use super::error::Error;
use super::flags::OUTPUT;
use super::settings::Settings;
use super::{Cli, Gathered};
use clap::FromArgMatches;
use clap::builder::Resettable;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// A writer whose bytes are looked at later.
#[derive(Debug, Clone, Default)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the command of these words (without the program's name) and gives what it would have printed. What was lost is
/// told once, however many commands meet it.
pub fn gather(words: &[String], context: &mut Context<'_>) -> Result<Gathered, Error> {
    let all = std::iter::once("plimsoll").chain(words.iter().map(String::as_str));
    // What the environment says of output is meant for whoever asks.
    let parser = Cli::parser().mut_args(|arg| match arg.get_help_heading() {
        Some(OUTPUT) => arg.env(Resettable::Reset),
        _ => arg,
    });
    let parsed = parser.try_get_matches_from(all).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| Error::Usage(error.to_string()))?;
    let settings = Settings::of_asked(&cli.view, &context.settings, context.io)?;
    let own = std::mem::replace(&mut context.settings, settings);
    let kept = Kept::default();
    let out = std::mem::replace(&mut context.io.out, Box::new(kept.clone()));
    let before = context.begin_gathering();
    let result = cli.command.run(context);
    let mut gathered = context.end_gathering(before);
    (context.settings, context.io.out) = (own, out);
    give_back();
    gathered.text = String::from_utf8_lossy(&kept.0.borrow()).into_owned();
    match result {
        // A verdict on what was printed is the report's own matter.
        Ok(()) | Err(Error::Findings | Error::Partial) => Ok(gathered),
        Err(other) => Err(other),
    }
}

/// Gives freed memory back to the system. glibc keeps it, in pieces that the next command, which asks for others, can't
/// use: of a large log the peak would be near to the sum of all commands.
pub fn give_back() {
    malloc::trim();
}

/// From here on what is large is given back when it is freed. (As large pieces are freed, glibc keeps larger and larger
/// ones for itself.)
pub fn keep_little() {
    malloc::keep_below(1 << 20);
}

/// glibc's own knobs: they change how memory is kept, not what it holds.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "functions of the C library")]
mod malloc {
    use std::ffi::c_int;

    /// `M_MMAP_THRESHOLD` of mallopt(3).
    const MMAP_THRESHOLD: c_int = -3;

    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> c_int;
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    pub(super) fn trim() {
        // SAFETY: malloc_trim(3) may be called at any time, from any thread.
        unsafe { malloc_trim(0) };
    }

    pub(super) fn keep_below(bytes: c_int) {
        // SAFETY: mallopt(3) may be called at any time; what it refuses stays as it was.
        unsafe { mallopt(MMAP_THRESHOLD, bytes) };
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod malloc {
    pub(super) fn trim() {}
    pub(super) fn keep_below(_: i32) {}
}
