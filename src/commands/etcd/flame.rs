//! `plimsoll etcd flame`: the key space as a flame graph.

use super::SourceArgs;
use crate::analysis::keyspace::flame::{self, Weight};
use crate::analysis::keyspace::{By, Mode, Row, by};
use crate::cli::{Context, Error};
use crate::inputs::etcd::open;
use crate::inputs::etcd::opened::Ask;
use crate::inputs::etcd::opened::Opened;
use crate::model::flame::Tree;
use crate::model::question;
use crate::model::time::Micros;
use crate::views::Format;

/// Arguments of `plimsoll etcd flame`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll etcd flame snapshot.db > keys.svg
  plimsoll etcd flame snapshot.db --weight history > history.svg
  plimsoll etcd flame now.db --diff before.db > change.svg
  plimsoll etcd flame snapshot.db -o folded | sort -t ' ' -k2 -nr | head

FORMS
  -o svg      (default) frames are resource, namespace, and what names have in common; with --diff red has \
grown and blue has shrunk
  -o folded   a line for each of these: resource;namespace;name weight; with --diff both weights")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Quantity that the widths of frames show.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    weight: Weight,
    /// Colour by the change against this database.
    #[arg(long, value_name = "OLD")]
    diff: Option<String>,
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::EtcdFlame, Error> {
        Ok(question::EtcdFlame {
            source: self.source.source.clone(),
            at: self.source.at(now)?,
            prefix: self.source.prefix.clone(),
            weight: self.weight,
            diff: self.diff.clone(),
        })
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::EtcdFlame, context: &mut Context<'_>) -> Result<Tree, Error> {
    let old = question.diff.as_ref().map(|old| open::open(old, context)).transpose()?;
    let before = old.as_ref().map_or(Ok(Vec::new()), |old| rows(old, question, context))?;
    let opened = open::open_for(&question.source, question.at, context)?;
    let now = rows(&opened, question, context)?;
    let mut tree = flame::tree([&before, &now], question.weight);
    tree.compares = old.is_some();
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    tree.subtitle = name(&opened.path);
    if let Some(old) = &old {
        tree.subtitle += &format!(", compared with {}", name(&old.path));
    }
    if tree.total()[1] == 0 && context.settings.format != Format::Folded {
        return Err(Error::Usage(format!("{}: nothing to draw by this --weight", opened.path)));
    }
    Ok(tree)
}

/// What it asks of each database.
pub(in crate::commands) fn asks() -> Ask {
    Ask::keys(Mode::By(By::NamePrefix))
}

fn rows(opened: &Opened, question: &question::EtcdFlame, context: &mut Context<'_>) -> Result<Vec<Row>, Error> {
    let walked = opened.walked(question.prefix.as_deref(), &asks(), context);
    opened.file(&walked, context)?;
    Ok(by::rows(&walked.space, &By::NamePrefix, context.settings.threads).0)
}
