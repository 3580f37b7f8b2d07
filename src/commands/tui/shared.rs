//! What the threads that read live sources share: the spool that they write into, and what there is.

use super::course::Growing;
use super::spool::Spool;
use crate::actions::bundle::ARCHIVE;
use crate::model::cause::Source;
use crate::model::report::Severity;
use crate::model::units::counted;
use crate::sources::clock::now;
use crate::views::tui::{Msg, SourceKinds};
use crossbeam_channel::Sender;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Updates within this time are sent as one.
const TOGETHER: Duration = Duration::from_millis(400);

/// What all threads write into.
pub(super) struct Shared {
    pub(super) spool: Mutex<Spool>,
    pub(super) messages: Sender<Msg>,
    pub(super) growing: Arc<Mutex<Growing>>,
    /// What there is, as far as it is known.
    pub(super) found: Mutex<SourceKinds>,
    /// Whether something has come that nobody was notified of.
    pub(super) has_more: AtomicBool,
    /// How often everything is asked for.
    pub(super) every: Duration,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Nothing has been read.
    pub(super) fn new(spool: Spool, growing: Arc<Mutex<Growing>>, messages: Sender<Msg>, every: Duration) -> Arc<Self> {
        let has_more = AtomicBool::new(false);
        let shared =
            Arc::new(Self { spool: Mutex::new(spool), messages, growing, found: Mutex::default(), has_more, every });
        let reported = Arc::clone(&shared);
        std::thread::spawn(move || {
            // What several apiservers give at about the same time is looked at once.
            loop {
                std::thread::sleep(TOGETHER);
                if reported.has_more.swap(false, Ordering::Relaxed) {
                    let found = locked(&reported.found).clone();
                    reported.send(Msg::SourceKinds(found));
                }
            }
        });
        shared
    }

    /// Writes what was read as a bundle that stays, on a thread of its own; says what came of it.
    pub(super) fn save(self: &Arc<Self>, path: String, with_bodies: bool) {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            if Path::new(&path).exists() {
                return shared.send(Msg::Done(format!("{path}: already exists; choose another")));
            }
            let written = locked(&shared.spool).save(Path::new(&path), with_bodies);
            let next = if path.ends_with(ARCHIVE) { "unpack it, and " } else { "" };
            shared.send(Msg::Done(match written {
                Ok((files, stripped)) => {
                    let left = match stripped.events {
                        0 => String::new(),
                        events => format!(", bodies of {} left out", counted(events, "audit event")),
                    };
                    format!(
                        "written: {path} ({}{left}); {next}plimsoll report and plimsoll tui read it",
                        counted(files, "file")
                    )
                }
                Err(error) => format!("{path}: can't write it: {error}"),
            }));
        });
    }

    /// Removes what was kept: the threads that still write are not waited for.
    pub(super) fn end(&self) {
        locked(&self.spool).remove();
    }

    /// Sends a message to the thread that draws.
    pub(super) fn send(&self, msg: Msg) {
        // Nobody listens any more: the program ends.
        let _ = self.messages.send(msg);
    }

    /// Something is to be remembered.
    pub(super) fn send_said(&self, severity: Severity, what: String) {
        self.send(Msg::Said(severity, what));
    }

    /// Something of these kinds has come.
    pub(super) fn arrived(&self, kinds: &[(Source, &str)], has_dumps: bool) {
        let spool = locked(&self.spool);
        let since = spool.since();
        let folder = spool.folder.display().to_string();
        drop(spool);
        let mut found = locked(&self.found);
        for (kind, below) in kinds {
            let holder = (*kind, if below.is_empty() { folder.clone() } else { format!("{folder}/{below}") });
            if !found.holders.contains(&holder) {
                found.holders.push(holder);
            }
        }
        if has_dumps && !found.dumps.contains(&folder) {
            found.dumps.push(folder);
        }
        found.lists_objects |= kinds.iter().any(|(kind, _)| *kind == Source::Objects);
        found.span = since.map(|since| (since, now()));
        self.has_more.store(true, Ordering::Relaxed);
    }

    pub(super) fn lost(&self, what: &str, error: &std::io::Error) {
        self.send(Msg::Said(Severity::Critical, format!("{what}: received data can't be stored: {error}")));
    }
}
