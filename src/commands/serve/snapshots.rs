//! Snapshots of etcd at intervals, only where asked for: pulled and counted beside the readings. A snapshot holds all
//! Secrets: it is its owner's alone while it is read, and removed then.

use super::beside::Beside;
use crate::actions::fresh::Fresh;
use crate::analysis::exporter::StoredSpace;
use crate::analysis::keyspace::{By, Mode, by};
use crate::cli::{Context, Error, Settings, parse_every, silent};
use crate::inputs::etcd::open::open_for;
use crate::inputs::etcd::opened::{Ask, Looks};
use crate::jobs::etcd_pull::{AccessFlags, pull};
use crate::sources::clock::now;
use crate::sources::etcd::pull::{Access, Endpoint, PullError};
use crate::sources::store::Store;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a snapshot would be called in the store's folder. It never gets this name: it is read while it is temporary.
const NAME: &str = "etcd-snapshot.db";

/// Whether snapshots of etcd are taken, and how often.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "etcd")]
pub(super) struct SnapshotFlags {
    /// Take snapshots of etcd from these members, the first that answers, to count what it stores by resource. A member
    /// reads its whole database for one.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = Endpoint::parse)]
    etcd_endpoints: Vec<Endpoint>,
    /// Time between snapshots of etcd.
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = parse_every, requires = "etcd_endpoints")]
    etcd_every: Duration,
    #[command(flatten)]
    access: AccessFlags,
}

/// After one that failed the next is tried this soon at the latest.
const AGAIN: Duration = Duration::from_secs(300);

type Counted = Result<StoredSpace, String>;

/// Takes them.
pub(super) struct Snapshots {
    endpoints: Vec<Endpoint>,
    access: Access,
    every: Duration,
    target: PathBuf,
    settings: Settings,
    has_failed: bool,
    beside: Beside<Counted>,
}

impl Snapshots {
    /// None where nobody asked for them.
    pub(super) fn new(
        flags: &SnapshotFlags,
        store: &Store,
        stop: &Arc<AtomicBool>,
        settings: &Settings,
    ) -> Result<Option<Self>, Error> {
        if flags.etcd_endpoints.is_empty() {
            return Ok(None);
        }
        remove_left(&store.folder);
        // One thread, since readings go on meanwhile.
        let mut settings = settings.clone();
        settings.threads = 1;
        Ok(Some(Self {
            endpoints: flags.etcd_endpoints.clone(),
            access: flags.access.access(stop)?,
            every: flags.etcd_every,
            target: store.folder.join(NAME),
            settings,
            has_failed: false,
            beside: Beside::default(),
        }))
    }

    /// Begins one where it is time; gives what the last one came to once it is done.
    pub(super) fn round(&mut self) -> Option<Counted> {
        let every = if self.has_failed { self.every.min(AGAIN) } else { self.every };
        let (endpoints, access, target, settings) = (&self.endpoints, &self.access, &self.target, &self.settings);
        let done = self.beside.round(every, || {
            let (endpoints, access) = (endpoints.clone(), access.clone());
            let (target, settings) = (target.clone(), settings.clone());
            move || silent(&settings, now(), |context| counted(&endpoints, &access, &target, context)).0
        })?;
        let counted = done.unwrap_or_else(|_| Err("counting a snapshot of etcd panicked".to_owned()));
        self.has_failed = counted.is_err();
        Some(counted)
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        // It ends soon after the signal to stop, and removes what has come until then.
        self.beside.wait();
    }
}

/// Removes snapshots that were under way when a process was killed.
fn remove_left(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_left =
        |name: &str| name.strip_prefix('.').is_some_and(|rest| rest.starts_with(NAME)) && name.ends_with(".tmp");
    for entry in entries.filter(|entry| is_left(&entry.file_name().to_string_lossy())) {
        let _ = fs::remove_file(entry.path());
    }
}

fn counted(endpoints: &[Endpoint], access: &Access, target: &Path, context: &mut Context<'_>) -> Counted {
    let unwritten = |error: std::io::Error| format!("{}: {error}", target.display());
    let mut file = Fresh::create(target).map_err(unwritten)?;
    let mut last = String::new();
    for endpoint in endpoints {
        let at = now();
        match pull(endpoint, access, &mut file, context) {
            Ok(_) => {
                let path = file.path().display().to_string();
                let opened = open_for(&path, None, context)
                    .map_err(|error| format!("{}: {}", endpoint.name, error.message().unwrap_or_default()))?;
                let ask = Ask { mode: Mode::By(By::Resource), looks: Looks::Keys, hashes: false };
                let walked = opened.walked(None, &ask, context);
                return Ok(StoredSpace { at, rows: by::rows(&walked.space, &By::Resource, 1).0 });
            }
            Err(error @ (PullError::Write(_) | PullError::Credentials(_))) => return Err(error.to_string()),
            Err(PullError::Stopped) => return Err("stopped".to_owned()),
            Err(PullError::Member(why)) => {
                last = why;
                file.restart().map_err(unwritten)?;
            }
        }
    }
    Err(last)
}
