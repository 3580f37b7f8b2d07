//! `plimsoll quota check`: how full quotas are.

use crate::analysis::answer::Answer;
use crate::analysis::quota::check::{self, Checked, FIELDS, Proposed};
use crate::analysis::quota::propose::Unstated;
use crate::analysis::quota::{admitted, owners, propose};
use crate::cli::{Context, Error, FailOn};
use crate::commands::show;
use crate::inputs::quotas::{self, Inputs, NEEDED, QuotaOptions, SourceFlags};
use crate::model::alert::{Config, Key};
use crate::model::question::{self, QuotaSources};
use crate::model::quota::Standing;
use crate::model::time::Micros;
use crate::model::units::parse_share;
use crate::sources::alerts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From where on usage is worth a word, and whose it is.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Thresholds and owners")]
pub(super) struct Flags {
    /// Warn when a quota is at least this full (default 80%).
    #[arg(long, value_name = "SHARE", value_parser = share)]
    warn: Option<f64>,
    /// Critical when a quota is at least this full (default 95%).
    #[arg(long, value_name = "SHARE", value_parser = share)]
    critical: Option<f64>,
    /// Also critical if the trend reaches the limit within this many days.
    #[arg(long, value_name = "DAYS")]
    days: Option<f64>,
    /// A label or annotation that names a namespace's owner (repeatable; default: plimsoll.io/owner, owner, team).
    #[arg(long = "owner-key", value_name = "KEY")]
    owner_keys: Vec<String>,
    /// The configuration of alerts: owners, thresholds, channels (docs/alerts.md).
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_ALERTS")]
    pub(super) alerts: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    parse_share(text).ok_or_else(|| "write a share: 80% or 0.8".to_owned())
}

impl Flags {
    /// What they ask, of these sources.
    pub(super) fn question(&self, source: QuotaSources) -> question::QuotaCheck {
        question::QuotaCheck {
            source,
            warn: self.warn,
            critical: self.critical,
            days: self.days,
            owner_keys: self.owner_keys.clone(),
            alerts: self.alerts.as_ref().map(|path| path.display().to_string()),
        }
    }
}

/// The configuration, with what the question says instead.
pub(super) fn config(question: &question::QuotaCheck) -> Result<Config, Error> {
    let mut config = alerts::given(question.alerts.as_deref().map(Path::new)).map_err(Error::usage)?;
    let set = config.thresholds;
    let (warn, critical) = (question.warn.unwrap_or(set.warn), question.critical.unwrap_or(set.critical));
    config.thresholds = alerts::thresholds(warn, critical, question.days.or(set.days))
        .map_err(|error| Error::Usage(format!("--{error}")))?;
    if !question.owner_keys.is_empty() {
        config.owner_keys.clone_from(&question.owner_keys);
    }
    Ok(config)
}

/// How full quotas are, how fast they fill, and when they will be full.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # the live cluster; exit code 1 if a quota is critical
  plimsoll quota check
  # critical as well if full within two weeks at its trend
  plimsoll quota check captures/ --days 14
  plimsoll quota check --warn 70% --fail-on warning

A trend needs 7 full days of history: several captures, a store that record keeps, or Prometheus.")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    flags: Flags,
}

impl Args {
    /// What the flags ask of files.
    pub(super) fn question(&self, now: Micros) -> Result<question::QuotaCheck, Error> {
        Ok(self.flags.question(self.source.question(now)?))
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let answer = answer(&args.question(context.io.now)?, Some(&args.source), context)?;
    show(answer, FailOn::Critical, context)
}

/// Answers the question.
pub(super) fn answer(
    question: &question::QuotaCheck,
    access: Option<&SourceFlags>,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    let sort_by = context.sort_by(&FIELDS)?;
    let config = config(question)?;
    let asked = QuotaOptions { sources: &question.source, access };
    let mut inputs = quotas::read_kinds(asked, &|kind| NEEDED.contains(&kind), context)?;
    let checked = look(&mut inputs, &question.source.namespaces, &config);
    if inputs.quotas.standings.is_empty() {
        context.notice(
            "no quotas in these sources: give objects with ResourceQuotas, a store, or a cluster that has some",
        )?;
    }
    tell_unknown(&inputs.quotas.standings, context)?;
    let Inputs { quotas, inputs, .. } = inputs;
    let (sort_by, top) = (sort_by.as_deref(), context.settings.top);
    Ok(Answer::of(check::report(&quotas, &checked, &config.thresholds, inputs, sort_by, top)))
}

/// Says of how many quotas nobody knows what is used; whether there are any.
pub(super) fn tell_unknown(standings: &[Standing], context: &mut Context<'_>) -> Result<bool, Error> {
    let mut unknown = standings.iter().filter(|standing| standing.used.is_none());
    let Some(Standing { namespace, quota, resource, .. }) = unknown.next() else { return Ok(false) };
    let more = match unknown.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    context.notice(format!(
        "not checked: {resource} of quota {namespace}/{quota}{more}: the cluster reports no usage (does \
         kube-controller-manager run?), and these objects do not show it"
    ))?;
    Ok(true)
}

/// Looks at the quotas of the namespaces that are asked for.
pub(super) fn look(inputs: &mut Inputs, namespaces: &[String], config: &Config) -> Vec<Checked> {
    let is_meant = |namespace: &String| namespaces.is_empty() || namespaces.contains(namespace);
    inputs.quotas.standings.retain(|standing| is_meant(&standing.namespace));
    let quotas = &inputs.quotas;
    let rules = propose::Rules { days: inputs.days, namespaces: namespaces.to_vec(), ..propose::Rules::default() };
    let unstated = Unstated { silent: admitted::silence(&inputs.objects, &BTreeMap::new()), ..Unstated::default() };
    let rows = propose::propose(quotas, &inputs.refused, &unstated, &rules).rows;
    let proposed: Proposed = rows
        .into_iter()
        .map(|row| (Key { namespace: row.namespace, quota: row.quota, resource: row.resource }, row.proposed))
        .collect();
    check::check(quotas, &config.thresholds, &proposed, |namespace| owners::of(config, &quotas.namespaces, namespace))
}
