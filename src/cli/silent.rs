//! Questions that nobody watches: of a request over HTTP, or of one of many clusters.

use super::context::Context;
use super::io::Io;
use super::settings::Settings;
use crate::model::time::Micros;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What a command would have written.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is asked without a terminal at a time: the answer, and what was written.
pub fn silent<T>(settings: &Settings, now: Micros, ask: impl FnOnce(&mut Context<'_>) -> T) -> (T, Vec<u8>) {
    let kept = Buffer::default();
    let mut io = Io {
        out: Box::new(kept.clone()),
        err: Box::new(io::sink()),
        out_is_terminal: false,
        err_is_terminal: false,
        width: None,
        no_color: true,
        cores: settings.threads,
        config_file: None,
        cache_folder: None,
        now,
    };
    let mut settings = settings.clone();
    (settings.progress, settings.quiet) = (false, true);
    let mut context = Context::new(settings, &mut io);
    let answer = ask(&mut context);
    drop(context);
    let written = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
    (answer, written)
}
