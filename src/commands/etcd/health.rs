//! `plimsoll etcd health`: how etcd does by its metrics.

use crate::analysis::metrics::Kept;
use crate::analysis::metrics::{etcd, report};
use crate::cli::{Context, Error, FailOn, TimeFlags};
use crate::commands::pages;
use crate::sources::find::{self, Wanted};
use crate::views::text::plain;

/// Arguments of `plimsoll etcd health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  curl -s --cacert ca.crt --cert etcd.crt --key etcd.key https://10.0.0.11:2379/metrics | plimsoll etcd health -
  plimsoll etcd health bundle/ --fail-on warning")]
pub(super) struct Args {
    /// Metrics pages of etcd members, and of apiservers: files, folders, globs, bundles, URLs, - for stdin.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
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
    let (facts, read) = pages::facts(found.pages, Kept::Requests, context)?;
    if !facts.has_store() {
        let first = read.inputs.first().map_or("", |input| input.path.as_str());
        return Err(Error::Input(format!(
            "{first}: neither a page of etcd nor of an apiserver; take one from :2379/metrics of a member"
        )));
    }
    let coverage = report::coverage(&facts, &read.losses);
    context.print(&etcd::report(&facts, read.inputs, coverage), FailOn::Never)
}
