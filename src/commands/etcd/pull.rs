//! `plimsoll etcd pull`: a snapshot of a member that runs.

use crate::actions::fresh::Fresh;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, FailOn};
use crate::jobs::etcd_pull::{AccessFlags, Pulled, pull};
use crate::model::report::{Report, Value};
use crate::model::units::{bytes, grouped};
use crate::sources::etcd::pull::{Endpoint, PullError};
use crate::views::text::plain;
use std::path::PathBuf;

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

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let access = args.access.access(&stop_signal()?)?;
    let target = plain(&args.output_file.display().to_string()).into_owned();
    let unwritten = |error: std::io::Error| Error::Input(format!("{target}: can't write it: {error}"));
    let mut file = Fresh::create(&args.output_file).map_err(unwritten)?;
    context.notice("a snapshot contains all of etcd, including Secrets; anyone who can read the file can read them")?;
    let mut failures = Vec::new();
    for (at, endpoint) in args.endpoints.iter().enumerate() {
        match pull(endpoint, &access, &mut file, context) {
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

fn report(pulled: &Pulled, target: &str) -> Report {
    let lead = format!(
        "{} from {} in {:.1} s: revision {}, hash {:x}, SHA-256 verified. Written to {target}.",
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
