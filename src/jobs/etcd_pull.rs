//! A snapshot of a member of etcd that runs, verified.

use crate::actions::fresh::Fresh;
use crate::cli::{Context, Error, Progress};
use crate::sources::etcd::bolt::Bolt;
use crate::sources::etcd::map::Data;
use crate::sources::etcd::pull::{Access, Endpoint, Part, PullError, snapshot};
use crate::sources::etcd::{Database, Walk};
use crate::sources::watcher::Watcher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The variable that holds the password.
const PASSWORD: &str = "PLIMSOLL_ETCD_PASSWORD";

/// How to reach members of etcd, and as whom.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd")]
pub struct AccessFlags {
    /// PEM with the authority that signed the members' certificates.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// PEM with the client's certificate.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM with its key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The user, where authentication is on; the password is in PLIMSOLL_ETCD_PASSWORD or --password-file.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A file that holds nothing but the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Give up on a member that sends nothing for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl AccessFlags {
    /// The same, with the password read. What comes is thrown away when someone wants to `stop`: it holds Secrets.
    pub fn access(&self, stop: &Arc<AtomicBool>) -> Result<Access, Error> {
        let password = match (&self.user, &self.password_file) {
            (None, _) => None,
            (Some(user), Some(path)) => {
                let read = std::fs::read_to_string(path)
                    .map_err(|error| Error::Input(format!("{}: {error}", path.display())))?;
                Some((user.clone(), read.trim_end_matches(['\r', '\n']).to_owned()))
            }
            (Some(user), None) => {
                let password = std::env::var(PASSWORD)
                    .map_err(|_| Error::Usage(format!("--user needs {PASSWORD} or --password-file FILE")))?;
                Some((user.clone(), password))
            }
        };
        Ok(Access {
            authorities: self.cacert.clone(),
            identity: self.cert.clone().zip(self.key.clone()),
            user: password,
            patience: Duration::from_secs(self.timeout),
            stop: Arc::clone(stop),
        })
    }
}

/// What was pulled.
pub(crate) struct Pulled {
    pub(crate) endpoint: String,
    pub(crate) bytes: u64,
    pub(crate) walk: Walk,
    pub(crate) seconds: f64,
}

/// Pulls from one member, and reads what came.
pub(crate) fn pull(
    endpoint: &Endpoint,
    access: &Access,
    file: &mut Fresh,
    context: &Context<'_>,
) -> Result<Pulled, PullError> {
    let started = Instant::now();
    let mut progress: Option<Progress> = None;
    let mut sink = |part: Part<'_>| {
        let length = part.bytes.len() as u64;
        progress
            .get_or_insert_with(|| Progress::bytes(length + part.remaining, context.settings.progress))
            .read(length);
        file.write_all(part.bytes)
    };
    let bytes = snapshot(endpoint, access, &mut sink);
    if let Some(progress) = &progress {
        progress.finish();
    }
    let bytes = bytes?;
    let walk = read(file.path(), context.settings.threads).map_err(|what| {
        PullError::Member(format!(
            "{} sent a damaged database: {what}; try another member, and check this one's disk",
            endpoint.name
        ))
    })?;
    Ok(Pulled { endpoint: endpoint.name.clone(), bytes, walk, seconds: started.elapsed().as_secs_f64() })
}

/// Reads all of what came: that the SHA-256 is right says only that it arrived as it was sent.
fn read(path: &Path, threads: usize) -> Result<Walk, String> {
    let data = Data::map(path).map_err(|error| error.to_string())?;
    let bolt = Bolt::open(data).map_err(|error| error.to_string())?;
    let (_, walk) = Database::read(bolt).map_err(|error| error.to_string())?.walk(threads, true, || ());
    match walk.damages.listed.first() {
        Some(damage) => Err(damage.to_string()),
        None => Ok(walk),
    }
}
