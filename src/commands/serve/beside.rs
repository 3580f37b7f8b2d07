//! Work that is done now and then beside the readings, on a thread of its own, one at a time.

use std::thread::{JoinHandle, Result};
use std::time::{Duration, Instant};

/// Work whose result is a `T`.
pub(super) struct Beside<T> {
    began: Option<Instant>,
    running: Option<JoinHandle<T>>,
}

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self { began: None, running: None }
    }
}

impl<T: Send + 'static> Beside<T> {
    /// Begins it where that is `every` ago; gives what the last one came to, once, when it is done: an error if it
    /// panicked.
    pub(super) fn round<W: FnOnce() -> T + Send + 'static>(
        &mut self,
        every: Duration,
        work: impl FnOnce() -> W,
    ) -> Option<Result<T>> {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            return Some(running.join());
        }
        let is_due = self.began.is_none_or(|began| began.elapsed() >= every);
        if is_due && self.running.is_none() {
            self.began = Some(Instant::now());
            self.running = Some(std::thread::spawn(work()));
        }
        None
    }

    /// Waits for what runs.
    pub(super) fn wait(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.join();
        }
    }
}
