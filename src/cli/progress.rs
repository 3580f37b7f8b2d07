//! Progress on stderr, for what takes longer than a second.

use crate::sources::watcher::Watcher;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A bar that shows itself only once a second has passed.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    read: AtomicU64,
    wanted: bool,
}

impl Progress {
    /// Progress over `total` bytes, 0 where that is not known; silent unless `wanted`.
    pub fn bytes(total: u64, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), ProgressDrawTarget::hidden());
        let template = if total > 0 {
            "{bar:30} {bytes} of {total_bytes} {binary_bytes_per_sec}, {eta} left"
        } else {
            "{spinner} {bytes} {binary_bytes_per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now(), read: AtomicU64::new(0), wanted }
    }

    /// Progress over `total` of something: `{what}` is its name in the plural.
    pub fn count(total: u64, what: &str, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{bar:30}} {{human_pos}} of {{human_len}} {what}, {{eta}} left"))
        {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now(), read: AtomicU64::new(0), wanted }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Progress {
    fn read(&self, bytes: u64) {
        if !self.wanted {
            return;
        }
        let read = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.started.elapsed() > Duration::from_secs(1) {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            }
            self.bar.set_position(read);
        }
    }
}
