//! What is remembered between runs: what owners were notified of, and what has still to be sent. Safe against two runs
//! at once, and against being killed at any point.

use crate::actions::fresh::Fresh;
use crate::model::alert::{OutboxEntry, Watch};
use crate::model::time::Micros;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The version of the file; one of another is not read.
const VERSION: u32 = 1;

/// What a run leaves for the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    version: u32,
    /// When the last run decided.
    pub at: Micros,
    /// The cluster that it was about.
    pub cluster: String,
    /// What owners were notified of, by name.
    pub watches: BTreeMap<String, Watch>,
    /// What has still to be sent, the oldest first.
    pub outbox: Vec<OutboxEntry>,
    /// Dangerous operations and episodes that were reported, by ids of rows and operations, and when.
    #[serde(default, rename = "told", skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, Micros>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: VERSION,
            at: 0,
            cluster: String::new(),
            watches: BTreeMap::new(),
            outbox: Vec::new(),
            reported: BTreeMap::new(),
        }
    }
}

/// The folder of the state, locked until dropped: the lock ends with the process, however that ends.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    log: Mutex<File>,
    _lock: File,
}

/// Where the state is if no folder is named: `name` in the user's folder for such, as the XDG Base Directory
/// Specification has it.
pub fn default_folder(name: &str) -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    folder
        .map(|folder| folder.join("plimsoll").join(name))
        .ok_or_else(|| "no home folder is set; use --state DIR".to_owned())
}

fn fail(path: &Path) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{}: {error}; choose another folder with --state", path.display())
}

/// A line of the record of what was sent.
fn line(id: &str, channel: &str) -> String {
    let text = format!("{id} {channel}");
    format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes()))
}

/// The lines that are whole, and how many bytes they are: a line that was being written when the machine stopped is the
/// last.
fn recorded(log: &str) -> (BTreeSet<(String, String)>, usize) {
    let mut whole = 0;
    let mut sent = BTreeSet::new();
    for text in log.split_inclusive('\n') {
        let mut words = text.trim_end_matches('\n').splitn(3, ' ');
        let (Some(_), Some(id), Some(channel)) = (words.next(), words.next(), words.next()) else { break };
        if line(id, channel) != text {
            break;
        }
        whole += text.len();
        sent.insert((id.to_owned(), channel.to_owned()));
    }
    (sent, whole)
}

/// Reads the state without a lock: what a run would find.
pub fn peek(folder: &Path) -> Result<State, String> {
    let path = folder.join("state.json");
    let mut state = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| {
            format!(
                "{}: not a state file of plimsoll quota alert: {error}; move it away to start over; open alerts are \
                 then sent again",
                path.display()
            )
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
        Err(error) => return Err(fail(&path)(error)),
    };
    if state.version != VERSION {
        return Err(format!(
            "{}: written by version {}, but this plimsoll reads {VERSION}; use a newer plimsoll",
            path.display(),
            state.version
        ));
    }
    let path = folder.join("sent.log");
    let log = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(fail(&path)(error)),
    };
    let (sent, _) = recorded(&log);
    for parcel in &mut state.outbox {
        let id = parcel.message.id.clone();
        parcel.channels.retain(|channel| !sent.contains(&(id.clone(), channel.clone())));
    }
    state.outbox.retain(|parcel| !parcel.channels.is_empty());
    Ok(state)
}

impl Store {
    /// Locks the folder, which is made if need be, and reads the state. Waits up to `patience` for another run.
    pub fn open(folder: &Path, patience: Duration) -> Result<(Self, State), String> {
        fs::create_dir_all(folder).map_err(fail(folder))?;
        let path = folder.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail(&path))?;
        let end = Instant::now() + patience;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                Err(TryLockError::WouldBlock) => {
                    let shown = folder.display();
                    return Err(format!(
                        "{shown}: locked by another plimsoll for {} s; nothing was done",
                        patience.as_secs()
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(fail(&path)(error)),
            }
        }
        let state = peek(folder)?;
        sweep(folder);
        let path = folder.join("sent.log");
        let log =
            File::options().create(true).truncate(false).read(true).append(true).open(&path).map_err(fail(&path))?;
        // What follows a broken line would not be read.
        let text = String::from_utf8_lossy(&fs::read(&path).map_err(fail(&path))?).into_owned();
        let (_, whole) = recorded(&text);
        if whole < text.len() {
            log.set_len(whole as u64).map_err(fail(&path))?;
        }
        sync(folder).map_err(fail(folder))?;
        Ok((Self { folder: folder.to_owned(), log: Mutex::new(log), _lock: lock }, state))
    }

    /// Puts the state on the disk, as a whole or not at all, and forgets the record of what was sent: `state` must be
    /// without it.
    pub fn save(&self, state: &State) -> Result<(), String> {
        let path = self.folder.join("state.json");
        let mut file = Fresh::create(&path).map_err(fail(&path))?;
        let text = serde_json::to_vec(state).map_err(|error| fail(&path)(io::Error::other(error)))?;
        file.write_all(&text).and_then(|()| file.finish()).map_err(fail(&path))?;
        // Ids in the record that no parcel has any more are harmless, so a crash between the two is as well.
        let log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.set_len(0).and_then(|()| log.sync_all()).map_err(fail(&path))
    }

    /// Records that a channel has taken a parcel, on the disk when this returns.
    pub fn sent(&self, id: &str, channel: &str) -> io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.write_all(line(id, channel).as_bytes())?;
        log.sync_data()
    }
}

/// Removes what runs that were killed had begun to write. Nobody else writes here: we hold the lock.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".state.json.") && name.ends_with(".tmp") {
            // What can't be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    // Not every file system can.
    let _ = File::open(folder)?.sync_all();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alert::{Message, Reason};

    fn parcel(id: &str, channels: &[&str]) -> OutboxEntry {
        let (cluster, owner) = ("c".to_owned(), "o".to_owned());
        let message = Message {
            id: id.into(),
            cluster,
            owner,
            at: 0,
            reason: Reason::News,
            level: None,
            alerts: vec![],
            over: vec![],
            deeds: vec![],
            episodes: vec![],
        };
        let channels = channels.iter().map(|channel| (*channel).to_owned()).collect();
        OutboxEntry {
            message,
            to: BTreeMap::new(),
            subject: String::new(),
            text: String::new(),
            slack: String::new(),
            channels,
        }
    }

    fn left(state: &State) -> Vec<String> {
        state.outbox.iter().map(|parcel| format!("{} {}", parcel.message.id, parcel.channels.join(","))).collect()
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn what_was_sent_is_not_sent_again_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let (store, mut state) = Store::open(folder.path(), NOW).unwrap();
        assert_eq!(state, State::default());
        state.outbox = vec![parcel("a", &["mail", "chat"]), parcel("b", &["mail"])];
        store.save(&state).unwrap();
        store.sent("a", "mail").unwrap();
        store.sent("b", "mail").unwrap();
        // As a kill would: no second save.
        drop(store);
        let (store, state) = Store::open(folder.path(), NOW).unwrap();
        assert_eq!(left(&state), ["a chat"]);
        store.sent("a", "chat").unwrap();
        drop(store);
        let (store, state) = Store::open(folder.path(), NOW).unwrap();
        assert!(left(&state).is_empty());
        store.save(&state).unwrap();
        assert_eq!(fs::read(folder.path().join("sent.log")).unwrap(), b"");
    }

    #[test]
    fn a_line_that_was_being_written_counts_as_not_sent() {
        let whole = line("a", "mail") + &line("b", "mail");
        for cut in 0..=whole.len() {
            let folder = tempfile::tempdir().unwrap();
            let (store, mut state) = Store::open(folder.path(), NOW).unwrap();
            state.outbox = vec![parcel("a", &["mail"]), parcel("b", &["mail"])];
            store.save(&state).unwrap();
            drop(store);
            fs::write(folder.path().join("sent.log"), &whole[..cut]).unwrap();
            let (store, state) = Store::open(folder.path(), NOW).unwrap();
            let expected = 2 - usize::from(cut >= line("a", "mail").len()) - usize::from(cut == whole.len());
            assert_eq!(state.outbox.len(), expected, "{cut}");
            store.sent("b", "mail").unwrap();
            drop(store);
            let state = peek(folder.path()).unwrap();
            assert_eq!(state.outbox.len(), usize::from(cut < line("a", "mail").len()), "{cut}");
        }
    }

    #[test]
    fn what_a_kill_left_half_written_is_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".state.json.4711.tmp"), "{").unwrap();
        let (_store, state) = Store::open(folder.path(), NOW).unwrap();
        assert_eq!(state, State::default());
        assert!(!folder.path().join(".state.json.4711.tmp").exists());
    }

    #[test]
    fn two_at_once_can_not_be() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path(), NOW).unwrap();
        let error = Store::open(folder.path(), Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("locked by another plimsoll for"), "{error}");
        drop(store);
        Store::open(folder.path(), NOW).unwrap();
    }

    #[test]
    fn a_state_that_can_not_be_read_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        for bad in ["", "{", "{\"version\":2,\"at\":0,\"cluster\":\"\",\"watches\":{},\"outbox\":[]}", "[]"] {
            fs::write(folder.path().join("state.json"), bad).unwrap();
            let error = Store::open(folder.path(), NOW).unwrap_err();
            assert!(
                error.contains("state.json") && (error.contains("move it away") || error.contains("newer")),
                "{error}"
            );
        }
    }
}
