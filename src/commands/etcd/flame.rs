//! `plimsoll etcd flame`: the key space as a flame graph.

use super::open::{self, Opened, Pass, SourceArgs};
use crate::analysis::keyspace::flame::{self, Weight};
use crate::analysis::keyspace::{By, Keyspace, Mode, Row, by};
use crate::cli::{Context, Error};
use crate::views::Format;
use crate::views::flame as draw;

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
    weight: What,
    /// Colour by the change against this database.
    #[arg(long, value_name = "OLD")]
    diff: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Bytes of the values that live.
    #[default]
    Live,
    /// Bytes that compaction would free.
    History,
    /// Both.
    All,
    /// Keys that live.
    Keys,
    /// Revisions.
    Revisions,
}

impl What {
    fn weight(self) -> Weight {
        match self {
            Self::Live => Weight::Live,
            Self::History => Weight::History,
            Self::All => Weight::All,
            Self::Keys => Weight::Keys,
            Self::Revisions => Weight::Revisions,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let form = match context.settings.format {
        Format::Table | Format::Wide | Format::Svg => Format::Svg,
        Format::Folded => Format::Folded,
        _ => {
            let message = "a flame graph is -o svg or -o folded; for numbers there is plimsoll etcd usage --by name-prefix -o json";
            return Err(Error::Usage(message.to_owned()));
        }
    };
    let old = args.diff.as_ref().map(|old| open::open(old, context)).transpose()?;
    let before = old.as_ref().map_or(Ok(Vec::new()), |old| rows(old, args, context))?;
    let opened = open::open(&args.source.source, context)?;
    let now = rows(&opened, args, context)?;
    let mut tree = flame::tree([&before, &now], args.weight.weight());
    tree.compares = old.is_some();
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    tree.subtitle = name(&opened.path);
    if let Some(old) = &old {
        tree.subtitle += &format!(", compared with {}", name(&old.path));
    }
    if tree.total()[1] == 0 && form == Format::Svg {
        return Err(Error::Usage(format!("{}: there is nothing to draw by this --weight", opened.path)));
    }
    match form {
        Format::Folded => draw::folded(&tree, &mut context.io.out)?,
        _ => draw::svg(&tree, &mut context.io.out)?,
    }
    Ok(())
}

fn rows(opened: &Opened, args: &Args, context: &mut Context<'_>) -> Result<Vec<Row>, Error> {
    let mode = Mode::By(By::NamePrefix);
    let space = Keyspace::new(args.source.prefix.as_deref(), mode, opened.database.store.compacted());
    opened.fold(&space, Pass { decode: false, hashes: false }, context)?;
    Ok(by::rows(&space, &By::NamePrefix).0)
}
