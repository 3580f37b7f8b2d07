//! `plimsoll etcd flame`: the key space as a flame graph.

use super::open::{self, Opened, Pass, SourceArgs};
use crate::analysis::keyspace::flame::{self, Weight};
use crate::analysis::keyspace::{By, Keyspace, Mode, Row, by};
use crate::cli::{Context, Error};
use crate::views::Format;

/// Arguments of `plimsoll etcd flame`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES
  plimsoll etcd flame snapshot.db > keys.svg
  plimsoll etcd flame snapshot.db --weight history > history.svg
  plimsoll etcd flame now.db --diff before.db > change.svg
  plimsoll etcd flame snapshot.db -o folded | sort -t ' ' -k2 -nr | head

FORMS
  -o svg      (default) frames are resource, namespace, and what names have in common; with --diff red has grown and blue has shrunk
  -o folded   a line for each of these: resource;namespace;name weight; with --diff both weights")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// What widths are.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    weight: Weight,
    /// Colour by the change against this database.
    #[arg(long, value_name = "OLD")]
    diff: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let Some(form) = context.settings.format.of_flame() else {
        let message =
            "a flame graph is -o svg or -o folded; for numbers there is plimsoll etcd usage --by name-prefix -o json";
        return Err(Error::Usage(message.to_owned()));
    };
    let old = args.diff.as_ref().map(|old| open::open(old, context)).transpose()?;
    let before = old.as_ref().map_or(Ok(Vec::new()), |old| rows(old, args, context))?;
    let opened = args.source.open(context)?;
    let now = rows(&opened, args, context)?;
    let mut tree = flame::tree([&before, &now], args.weight);
    tree.compares = old.is_some();
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    tree.subtitle = name(&opened.path);
    if let Some(old) = &old {
        tree.subtitle += &format!(", compared with {}", name(&old.path));
    }
    if tree.total()[1] == 0 && form == Format::Svg {
        return Err(Error::Usage(format!("{}: there is nothing to draw by this --weight", opened.path)));
    }
    context.draw(tree, form)
}

fn rows(opened: &Opened, args: &Args, context: &mut Context<'_>) -> Result<Vec<Row>, Error> {
    let mode = Mode::By(By::NamePrefix);
    let space = Keyspace::new(args.source.prefix.as_deref(), mode, opened.database.store.compacted());
    opened.fold(&space, Pass { decode: false, hashes: false }, context)?;
    Ok(by::rows(&space, &By::NamePrefix, context.settings.threads).0)
}
