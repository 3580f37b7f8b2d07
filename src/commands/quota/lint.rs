//! `plimsoll quota lint`.

use super::inputs::{self, SourceFlags};
use crate::analysis::quota::lint::{self, Rules};
use crate::analysis::quota::report;
use crate::cli::{Context, Error, FailOn};
use crate::model::units::counted;

/// What is wrong with quotas, requests and limits as they stand.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A label or annotation that names a namespace's owner (repeatable; default: owner, team, with any domain before
    /// them).
    #[arg(long = "owner-key", value_name = "KEY")]
    owner_keys: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let inputs = inputs::read(&args.source, false, context)?;
    let mut rules = Rules { namespaces: args.source.namespaces.clone(), ..Rules::default() };
    if !args.owner_keys.is_empty() {
        rules.owner_keys.clone_from(&args.owner_keys);
    }
    if inputs.objects.kinds.is_empty() {
        let note = "only series were read: pods, workloads and namespaces are not known, and only quotas that are never reached can be found";
        context.say(note)?;
    } else if !inputs.objects.has("Pod") {
        context.say("no pods were read: what they lack can't be told")?;
    }
    let findings = lint::lint(&inputs.objects, &inputs.quotas, &rules);
    if context.settings.verbose {
        context.say(format!("looked at {}", counted(inputs.objects.namespaces.len() as u64, "namespace")))?;
    }
    context.print(&report::linted(findings, inputs.quotas.at, inputs.inputs, context.settings.top), FailOn::Never)
}
