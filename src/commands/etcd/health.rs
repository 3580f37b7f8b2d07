//! `plimsoll etcd health`: how etcd does by its metrics.

use crate::analysis::metrics::{Retention, etcd, report};
use crate::cli::{Context, Error, TimeFlags};
use crate::inputs::pages;
use crate::model::question;
use crate::model::report::Report;
use crate::model::time::Micros;
use crate::sources::find;
use crate::sources::wanted::Wanted;

/// Arguments of `plimsoll etcd health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  curl -s --cacert ca.crt --cert etcd.crt --key etcd.key \\
    https://10.0.0.11:2379/metrics | plimsoll etcd health -
  plimsoll etcd health bundle/ --fail-on warning")]
pub(super) struct Args {
    /// Metrics pages of etcd members, and of apiservers: files, folders, globs, bundles, URLs, - for stdin.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdHealth, Error> {
        let bounds = self.time.resolve(now).map_err(Error::Usage)?;
        Ok(question::EtcdHealth { sources: self.sources.clone(), bounds })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdHealth, context: &mut Context<'_>) -> Result<Report, Error> {
    let (since, until) = question.bounds;
    let mut found = find::find(&question.sources, Wanted::Pages, context.io.now);
    if found.pages.is_empty() {
        return Err(Error::inputs(&found.errors));
    }
    for error in &found.errors {
        context.lost(error)?;
    }
    pages::keep(&mut found.pages, since, until);
    if found.pages.is_empty() {
        let sources = question.sources.join(", ");
        return Err(Error::Usage(format!("--since, --until: no metrics page of this time in {sources}")));
    }
    let (facts, read) = pages::facts(found.pages, Retention::Requests, context)?;
    if !facts.has_store() {
        let first = read.inputs.first().map_or("", |input| input.path.as_str());
        return Err(Error::Input(format!(
            "{first}: neither a metrics page of etcd nor of an apiserver; take one from :2379/metrics of a member"
        )));
    }
    let coverage = report::coverage(&facts, &read.losses);
    Ok(etcd::report(&facts, read.inputs, coverage))
}
