//! `plimsoll etcd pull`: a snapshot of a member that runs.

use crate::actions::fresh::Fresh;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, FailOn, Progress};
use crate::model::report::{Report, Value};
use crate::model::units::{bytes, grouped};
use crate::sources::etcd::bolt::Bolt;
use crate::sources::etcd::map::Data;
use crate::sources::etcd::pull::{self, Access, Endpoint, Part, PullError};
use crate::sources::etcd::{Database, Walk};
use crate::sources::watcher::Watcher;
use crate::views::text::plain;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The variable that holds the password.
const PASSWORD: &str = "PLIMSOLL_ETCD_PASSWORD";

/// Arguments of `plimsoll etcd pull`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd pull --endpoints http://127.0.0.1:2379 -f snapshot.db
  plimsoll etcd pull --endpoints https://10.0.0.11:2379,https://10.0.0.12:2379 \\
    --cacert ca.crt --cert server.crt --key server.key -f /backup/etcd.db
  plimsoll etcd pull --endpoints https://etcd:2379 --cacert ca.crt \\
    --user root --password-file password -f snapshot.db

A member reads its whole database for this: take one that is not the leader. A snapshot holds all Secrets: \
the file is its owner's alone.")]
pub(super) struct Args {
    /// Members of etcd to try, separated by commas, until one has sent a whole snapshot.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true, value_parser = Endpoint::parse)]
    endpoints: Vec<Endpoint>,
    #[command(flatten)]
    access: AccessFlags,
    /// Write the snapshot here; an older file is replaced once the new one is complete and verified.
    #[arg(short = 'f', long, value_name = "FILE", required = true)]
    output_file: PathBuf,
}

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
pub(in crate::commands) struct Pulled {
    endpoint: String,
    bytes: u64,
    walk: Walk,
    seconds: f64,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let access = args.access.access(&stop_signal()?)?;
    let target = plain(&args.output_file.display().to_string()).into_owned();
    let unwritten = |error: std::io::Error| Error::Input(format!("{target}: can't write it: {error}"));
    let mut file = Fresh::create(&args.output_file).map_err(unwritten)?;
    context.notice("a snapshot contains all of etcd, including Secrets; anyone who can read the file can read them")?;
    let mut failures = Vec::new();
    for (at, endpoint) in args.endpoints.iter().enumerate() {
        match one(endpoint, &access, &mut file, context) {
            Ok(pulled) => {
                file.finish().map_err(unwritten)?;
                return context.print(&report(&pulled, &target), FailOn::Never);
            }
            Err(error @ PullError::Write(_)) => return Err(Error::Input(format!("{target}: {error}"))),
            Err(PullError::Stopped) => return Err(Error::Input(format!("stopped; {target} is unchanged"))),
            Err(error @ PullError::Credentials(_)) => return Err(Error::Input(plain(&error.to_string()).into_owned())),
            Err(PullError::Member(what)) => {
                let next = args.endpoints.get(at + 1);
                if let Some(next) = next {
                    context.notice(format!(
                        "{what}; the partial snapshot is deleted, because members' snapshots differ. Trying {}",
                        next.name
                    ))?;
                }
                failures.push(plain(&what).into_owned());
                file.restart().map_err(unwritten)?;
            }
        }
    }
    let last = failures.pop().unwrap_or_default();
    Err(Error::Input(format!("{last}; no endpoint is left, and {target} is unchanged")))
}

/// Pulls from one member, and reads what came.
pub(in crate::commands) fn one(
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
    let bytes = pull::snapshot(endpoint, access, &mut sink);
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

fn report(pulled: &Pulled, target: &str) -> Report {
    let lead = format!(
        "{} from {} in {:.1} s: revision {}, hash {:08x}, SHA-256 verified. Written to {target}.",
        bytes(pulled.bytes as f64),
        pulled.endpoint,
        pulled.seconds,
        grouped(pulled.walk.revision),
        pulled.walk.hash.unwrap_or_default(),
    );
    let totals: [(&str, Value); 6] = [
        ("file", target.into()),
        ("endpoint", pulled.endpoint.as_str().into()),
        ("bytes", pulled.bytes.into()),
        ("revision", pulled.walk.revision.into()),
        ("hash", pulled.walk.hash.map(u64::from).into()),
        ("seconds", pulled.seconds.into()),
    ];
    Report {
        schema: "plimsoll.etcd-pull/v1".to_owned(),
        totals: totals.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        lead: vec![lead],
        ..Report::default()
    }
}
