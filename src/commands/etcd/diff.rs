//! `plimsoll etcd diff`: what changed between two databases.

use crate::analysis::keyspace::Mode;
use crate::analysis::keyspace::diff::{self, Shape};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::Ask;
use crate::model::question;
use crate::model::report::Report;

/// Arguments of `plimsoll etcd diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd diff yesterday.db today.db
  # its first and its last database
  plimsoll etcd diff bundle/
  plimsoll etcd diff yesterday.db today.db --objects -o csv > objects.csv
  # a namespace or a CRD was deleted
  plimsoll etcd diff yesterday.db today.db --fail-on critical")]
pub(super) struct Args {
    /// The older database, as for usage; or a bundle with several.
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The newer database [default: compare a bundle's first with its last].
    #[arg(value_name = "AFTER")]
    after: Option<String>,
    /// Key prefix of the apiserver's objects (default: /registry, /kubernetes.io and /openshift.io).
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Print a row for each object that was added, removed or changed.
    #[arg(long)]
    objects: bool,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self) -> question::EtcdDiff {
        question::EtcdDiff {
            before: self.before.clone(),
            after: self.after.clone(),
            prefix: self.prefix.clone(),
            objects: self.objects,
        }
    }
}

/// What it asks of each database.
pub(in crate::commands) fn asks() -> Ask {
    Ask::keys(Mode::Values)
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdDiff, context: &mut Context<'_>) -> Result<Report, Error> {
    let mut sides = Vec::new();
    let databases = match &question.after {
        Some(after) => [open::open(&question.before, context)?, open::open(after, context)?],
        None => {
            let named = std::slice::from_ref(&question.before);
            let ends = open::ends(named, context)?;
            let ends = ends.ok_or_else(|| {
                Error::Input(format!(
                    "{}: fewer than two etcd databases of one cluster to compare; give two",
                    question.before
                ))
            })?;
            context.notice(format!("comparing {} and {}", ends[0].path, ends[1].path))?;
            ends
        }
    };
    for opened in databases {
        let walked = opened.walked(question.prefix.as_deref(), &asks(), context);
        let file = opened.file(&walked, context)?;
        sides.push((opened, walked, file));
    }
    let [(before, old, file_before), (after, new, file_after)] =
        <[_; 2]>::try_from(sides).map_err(|_| Error::Usage("give two databases".to_owned()))?;
    let compared = diff::compare(&old.space, &new.space);
    let wanted = compared.wanted(question.objects);
    let mut names = before.names(&old.space, &wanted, context.settings.threads);
    let rest: Vec<u64> = wanted.into_iter().filter(|hash| !names.contains_key(hash)).collect();
    names.extend(after.names(&new.space, &rest, context.settings.threads));
    let shape =
        Shape { objects: question.objects, sort_by: context.settings.sort_by.as_deref(), top: context.settings.top };
    let report = compared.report(&names, &new.space, [file_before, file_after], &shape);
    Ok(report)
}
