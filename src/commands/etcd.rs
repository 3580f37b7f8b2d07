//! `plimsoll etcd`: what fills the key space, and how etcd does.

use super::pages;
use crate::analysis::metrics::{etcd, report};
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::sources::find::{self, Wanted};
use crate::views::text::plain;

/// Arguments of `plimsoll etcd`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// What fills the key space: keys, revisions and bytes by resource and namespace.
    Usage(super::etcd_usage::Args),
    /// Objects of a snapshot as YAML that can be applied: those that are gone since, or those that are named.
    Extract(Box<super::etcd_extract::Args>),
    /// A snapshot of a member that runs, checked.
    #[cfg(feature = "live")]
    Pull(Box<super::etcd_pull::Args>),
    /// How etcd does by its metrics: disk and commit latency, leader, proposals, watchers, size against quota.
    Health(HealthArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  curl -s --cacert ca.crt --cert etcd.crt --key etcd.key https://10.0.0.11:2379/metrics | plimsoll etcd health -
  plimsoll etcd health bundle/ --fail-on warning")]
struct HealthArgs {
    /// Metrics pages of etcd members, and of apiservers: files, folders, globs, bundles, URLs, - for stdin.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        Command::Usage(args) => super::etcd_usage::run(args, context),
        Command::Extract(args) => super::etcd_extract::run(args, context),
        #[cfg(feature = "live")]
        Command::Pull(args) => super::etcd_pull::run(args, context),
        Command::Health(args) => health(args, context),
    }
}

fn health(args: &HealthArgs, context: &mut Context<'_>) -> Result<(), Error> {
    let (since, until) = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let mut found = find::find(&args.sources, Wanted::Pages, context.io.now);
    if found.pages.is_empty() {
        let errors: Vec<String> = found.errors.iter().map(|error| plain(&error.to_string()).into_owned()).collect();
        return Err(Error::Input(errors.join("\nplimsoll: ")));
    }
    for error in &found.errors {
        context.lost(error)?;
    }
    pages::keep(&mut found.pages, since, until);
    let (facts, read) = pages::facts(found.pages, false, context)?;
    if !facts.has_store() {
        let first = read.inputs.first().map_or("", |input| input.path.as_str());
        return Err(Error::Input(format!("{first}: neither a page of etcd nor of an apiserver; take one from :2379/metrics of a member")));
    }
    let coverage = report::coverage(&facts, &read.losses);
    context.print(&etcd::report(&facts, read.inputs, coverage), FailOn::Never)
}
