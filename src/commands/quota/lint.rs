//! `plimsoll quota lint`.

use crate::analysis::answer::Answer;
use crate::analysis::quota::lint::{self, Rules};
use crate::analysis::quota::report;
use crate::cli::{Context, Error, FailOn};
use crate::commands::show;
use crate::inputs::quotas::{self, QuotaOptions, SourceFlags};
use crate::model::question;
use crate::model::time::Micros;
use crate::model::units::counted;

/// What is wrong with quotas, requests and limits as they stand.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll quota lint                     # the kubeconfig's cluster
  plimsoll quota lint incident/ -n web    # one namespace of a bundle
  plimsoll quota lint --fail-on critical  # for CI: exit code 1")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A label or annotation that names a namespace's owner (repeatable; default: plimsoll.io/owner, owner, team).
    #[arg(long = "owner-key", value_name = "KEY")]
    owner_keys: Vec<String>,
}

impl Args {
    /// What the flags ask of files.
    pub(super) fn question(&self, now: Micros) -> Result<question::QuotaLint, Error> {
        Ok(question::QuotaLint { source: self.source.question(now)?, owner_keys: self.owner_keys.clone() })
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let answer = answer(&args.question(context.io.now)?, Some(&args.source), context)?;
    show(answer, FailOn::Never, context)
}

/// Answers the question.
pub(super) fn answer(
    question: &question::QuotaLint,
    access: Option<&SourceFlags>,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    let inputs = quotas::read(QuotaOptions { sources: &question.source, access }, false, context)?;
    let mut rules = Rules { namespaces: question.source.namespaces.clone(), ..Rules::default() };
    if !question.owner_keys.is_empty() {
        rules.owner_keys.clone_from(&question.owner_keys);
    }
    if inputs.objects.kinds.is_empty() {
        let note = "only series were read: without pods, workloads and namespaces only oversized quotas can be found";
        context.notice(note)?;
    } else if !inputs.objects.has("Pod") {
        context.notice("no pods were read: missing requests are found of workloads alone")?;
    }
    let findings = lint::lint(&inputs.objects, &inputs.quotas, &rules);
    if context.settings.verbose {
        context.notice(format!("looked at {}", counted(inputs.objects.namespaces.len() as u64, "namespace")))?;
    }
    Ok(Answer::of(report::linted(findings, inputs.quotas.at, inputs.inputs, context.settings.top)))
}
