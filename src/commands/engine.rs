//! Sources that an engine reads: they are rolled up before the command runs, which then reads the roll-up.

use crate::cli::{Context, Error};
#[cfg(feature = "engine")]
use crate::inputs::engine::roll_up as rolled;
use clap::ArgMatches;
use clap::parser::ValueSource;

/// How sources begin that plimsoll can't read itself.
const STORES: [&str; 11] =
    ["s3://", "s3a://", "s3n://", "gs://", "abfs://", "abfss://", "wasbs://", "hdfs://", "oss://", "dbfs:/", "file://"];

/// What stands in place of such sources; as long as it lives, they are there.
#[cfg(feature = "engine")]
pub type Replaced = crate::inputs::engine::EngineRollup;
#[cfg(not(feature = "engine"))]
pub type Replaced = ();

/// Has the sources that an engine reads rolled up; what it gives back must live while they are read.
pub fn through(
    matches: &ArgMatches,
    parser: &clap::Command,
    context: &mut Context<'_>,
) -> Result<Vec<Replaced>, Error> {
    let groups = sources(matches, parser);
    let Some(first) = groups.iter().flatten().next() else {
        // Who has it in the environment does not mean each command.
        let is_meant = matches.value_source("engine") == Some(ValueSource::CommandLine);
        let none = "--engine: no source for it; it reads URIs like s3a://bucket/audit/ or file:///var/log/audit/ \
             (docs/engine.md)";
        return if is_meant { Err(Error::Usage(none.to_owned())) } else { Ok(Vec::new()) };
    };
    let Some(choice) = context.settings.engine.clone() else {
        return Err(Error::Usage(format!(
            "{first}: an engine reads this: name one (--engine sc://HOST:15002, docs/engine.md), or copy the files"
        )));
    };
    rolled(&choice, &groups, context)
}

/// The sources of the command that an engine reads: those of each argument together, each once.
fn sources(matches: &ArgMatches, parser: &clap::Command) -> Vec<Vec<String>> {
    let (mut matches, mut parser) = (matches, parser);
    while let Some((name, below)) = matches.subcommand() {
        let Some(own) = parser.find_subcommand(name) else { break };
        (matches, parser) = (below, own);
    }
    let mut all: Vec<String> = Vec::new();
    let mut of = |arg: &clap::Arg| {
        let raw = matches.try_get_raw(arg.get_id().as_str()).ok().flatten().into_iter().flatten();
        let mut own: Vec<String> = Vec::new();
        for word in raw.filter_map(|word| word.to_str()) {
            if STORES.iter().any(|store| word.starts_with(store)) && !all.iter().any(|other| other == word) {
                all.push(word.to_owned());
                own.push(word.to_owned());
            }
        }
        own
    };
    parser.get_positionals().map(&mut of).filter(|group| !group.is_empty()).collect()
}

#[cfg(not(feature = "engine"))]
fn rolled(_: &crate::cli::EngineChoice, _: &[Vec<String>], _: &mut Context<'_>) -> Result<Vec<Replaced>, Error> {
    Err(Error::Usage(
        "--engine: this plimsoll was built without the 'engine' feature; build it with --features engine \
         (docs/engine.md)"
            .to_owned(),
    ))
}
