//! Takes page cache away from a cgroup, one bounded step at a time, and leaves its limits as they were.

mod lowered;
mod note;
mod repair;

pub use lowered::Lowered;
pub use note::Lock;
pub use repair::{Repaired, repair};

use crate::model::memory::Amount;
use crate::sources::cgroup::Group;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How memory is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// v2, from kernel 5.19: `memory.reclaim`.
    Reclaim,
    /// v2: `memory.high` lowered for a moment.
    High,
    /// v1: `memory.limit_in_bytes` lowered for a moment.
    Limit,
    /// v1: `memory.force_empty`, for a group without processes.
    ForceEmpty,
}

impl Method {
    /// The file that is written to.
    pub fn file(self) -> &'static str {
        match self {
            Self::Reclaim => "memory.reclaim",
            Self::High => "memory.high",
            Self::Limit => "memory.limit_in_bytes",
            Self::ForceEmpty => "memory.force_empty",
        }
    }

    /// Whether a limit is changed that has to be restored.
    pub fn restores(self) -> bool {
        matches!(self, Self::High | Self::Limit)
    }

    /// What the group allows.
    pub fn choose(group: &Group) -> Result<Self, String> {
        let has = |file: &str| group.folder.join(file).exists();
        if has("memory.reclaim") {
            return Ok(Self::Reclaim);
        }
        if has("memory.high") {
            return Ok(Self::High);
        }
        if has("memory.force_empty") && is_without_processes(group) {
            return Ok(Self::ForceEmpty);
        }
        if has("memory.limit_in_bytes") && group.path != "/" {
            return Ok(Self::Limit);
        }
        Err("the kernel can't reclaim from this cgroup: it is the root cgroup, or the kernel is too old".to_owned())
    }
}

/// Whether nothing runs in the group or below it.
fn is_without_processes(group: &Group) -> bool {
    group.tree().iter().all(|group| {
        std::fs::read_to_string(group.folder.join("cgroup.procs")).is_ok_and(|text| text.trim().is_empty())
    })
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    /// As asked.
    Whole,
    /// The kernel found less than it was asked for.
    Partly,
    /// A signal came.
    Interrupted,
}

/// A group that is being reclaimed from. Holds the group's lock, so that no two do it at once.
#[derive(Debug)]
pub struct Reclaimer {
    group: Group,
    method: Method,
    lock: Lock,
    /// Whether the kernel takes `swappiness=0`, which spares anonymous memory (6.11).
    takes_swappiness: bool,
}

impl Reclaimer {
    /// Makes ready; refuses where a limit could be lowered and not restored.
    pub fn new(group: &Group, method: Option<Method>, state: &Path) -> Result<Self, String> {
        let method = match method {
            Some(Method::ForceEmpty) if !is_without_processes(group) => {
                return Err("memory.force_empty requires a cgroup without processes, and this one has some".to_owned());
            }
            Some(method) if !group.folder.join(method.file()).exists() => {
                return Err(format!("this cgroup has no {}", method.file()));
            }
            Some(method) => method,
            None => Method::choose(group)?,
        };
        let lock = Lock::take(state, &group.folder)?;
        if method.restores() {
            lowered::try_restoring(&group.folder, method)?;
            lock.can_note()?;
        }
        Ok(Self { group: group.clone(), method, lock, takes_swappiness: true })
    }

    /// How memory is taken.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Takes up to `bytes` from a group that uses `usage`, of which `firm` can't be taken. A limit is never lowered
    /// below that.
    pub fn step(&mut self, bytes: u64, usage: u64, firm: u64) -> Result<Stepped, String> {
        let file = self.group.folder.join(self.method.file());
        match self.method {
            Method::Reclaim => self.ask(&file, bytes),
            Method::ForceEmpty => ended(write(&file, "0"), &file),
            Method::High | Method::Limit => {
                // Room for what the processes ask for in the moment in which the limit is low.
                let floor = firm + (firm / 10).max(ROOM);
                let target = usage.saturating_sub(bytes).max(floor);
                if target >= usage {
                    return Ok(Stepped::Partly);
                }
                let mut lowered = Lowered::new(&self.group.folder, self.method, &self.lock)?;
                let result = lowered.lower(target);
                lowered.restore()?;
                ended(result, &file)
            }
        }
    }

    /// `memory.reclaim`, with swap left alone where the kernel lets us ask for that.
    fn ask(&mut self, file: &Path, bytes: u64) -> Result<Stepped, String> {
        if self.takes_swappiness {
            match write(file, &format!("{bytes} swappiness=0")) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.takes_swappiness = false,
                result => return ended(result, file),
            }
        }
        ended(write(file, &bytes.to_string()), file)
    }
}

/// Left free above what can't be reclaimed while a limit is low.
const ROOM: u64 = 8 << 20;

/// One write, so that a signal ends it: `write_all` would go on.
fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write(text.as_bytes()).map(|_| ())
}

fn ended(result: io::Result<()>, file: &Path) -> Result<Stepped, String> {
    match result {
        Ok(()) => Ok(Stepped::Whole),
        // EAGAIN of memory.reclaim, EBUSY of a limit.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) => {
            Ok(Stepped::Partly)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Stepped::Interrupted),
        Err(error) => Err(error_text(file, &error)),
    }
}

fn error_text(file: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::ReadOnlyFilesystem => "; mount the cgroup hierarchy writable",
        _ => "",
    };
    format!("{}: {error}{advice}", file.display())
}

/// The limit in a file.
fn limit(file: &Path) -> Result<Amount, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error_text(file, &error))?;
    match text.trim() {
        "max" | "-1" => Ok(Amount::Max),
        number => number.parse().map(Amount::of).map_err(|_| format!("{}: '{number}' is not a limit", file.display())),
    }
}

/// Where notes of lowered limits are kept.
pub fn default_state() -> PathBuf {
    PathBuf::from("/run/plimsoll")
}
