//! A limit that is low for a moment. Whatever happens, it comes back: at the end of the step, when the value is
//! dropped, and, if the program is killed, from the note by the next run.

use super::note::{Lock, Note};
use super::{Method, error_text, limit, write};
use crate::model::memory::Amount;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tries to restore before it is given up.
const TRIES: u32 = 20;

/// A limit that may be low.
#[derive(Debug)]
pub struct Lowered<'l> {
    folder: PathBuf,
    method: Method,
    was: Amount,
    lock: &'l Lock,
    is_low: bool,
}

/// Writes the limit as it is: who can't do that can't restore it either.
pub(super) fn try_restoring(folder: &Path, method: Method) -> Result<(), String> {
    let file = folder.join(method.file());
    let was = limit(&file)?;
    put_back(folder, method, was).map_err(|error| {
        format!(
            "not changed: the limit could not be restored afterwards: \
         {error}"
        )
    })
}

/// Writes a limit and reads it again.
pub(super) fn put_back(folder: &Path, method: Method, was: Amount) -> Result<(), String> {
    let file = folder.join(method.file());
    set(folder, method, was).map_err(|error| error_text(&file, &error))?;
    let is = limit(&file)?;
    if is == was { Ok(()) } else { Err(format!("{}: wrote {was:?}, but the kernel reports {is:?}", file.display())) }
}

#[cfg(target_os = "linux")]
fn set(folder: &Path, method: Method, was: Amount) -> io::Result<()> {
    use cgroups_rs::MaxValue;
    use cgroups_rs::memory::{MemController, SetMemory};
    let number = was.number().and_then(|number| i64::try_from(number).ok());
    let controller = MemController::new(folder.to_owned(), method == Method::High);
    let done = match method {
        Method::High => controller
            .set_mem(SetMemory { high: Some(number.map_or(MaxValue::Max, MaxValue::Value)), ..SetMemory::default() }),
        _ => controller.set_limit(number.unwrap_or(-1)),
    };
    done.map_err(|error| {
        io::Error::other(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
    })
}

#[cfg(not(target_os = "linux"))]
fn set(_: &Path, _: Method, _: Amount) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl<'l> Lowered<'l> {
    /// The limit as it is now; nothing is changed yet.
    pub fn new(folder: &Path, method: Method, lock: &'l Lock) -> Result<Self, String> {
        let was = limit(&folder.join(method.file()))?;
        Ok(Self { folder: folder.to_owned(), method, was, lock, is_low: false })
    }

    /// Notes the limit, then lowers it; the kernel reclaims before this returns.
    pub fn lower(&mut self, target: u64) -> io::Result<()> {
        let note = Note {
            folder: self.folder.clone(),
            file: self.method.file().to_owned(),
            was: self.was.number(),
            set: target,
        };
        self.lock.note(&note)?;
        self.is_low = true;
        write(&self.folder.join(self.method.file()), &target.to_string())
    }

    /// Restores the limit, then removes the note.
    pub fn restore(&mut self) -> Result<(), String> {
        if !self.is_low {
            return Ok(());
        }
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = put_back(&self.folder, self.method, self.was);
            if result.is_ok() || !self.folder.is_dir() {
                self.is_low = false;
                // A note without need is removed by the next run.
                let _ = self.lock.forget();
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let file = self.folder.join(self.method.file());
        let was = self.was.number().map_or("-1 (v2: max)".to_owned(), |was| was.to_string());
        result.map_err(|error| {
            format!(
                "COULD NOT RESTORE a limit: {error}; write {was} into {} yourself, or run plimsoll memory reclaim \
                 again",
                file.display()
            )
        })
    }
}

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        // Reached with the limit low only when something panicked; the note is for the next run if this fails too.
        let _ = self.restore();
    }
}
