//! `plimsoll dataset`: audit events as Parquet that any engine reads.

mod build;

use crate::cli::{Context, Error};
use clap::Subcommand;

/// Arguments of `plimsoll dataset`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: DatasetCommand,
}

/// What is done with a dataset.
#[derive(Debug, Subcommand)]
enum DatasetCommand {
    /// Write audit events as Parquet by cluster and hour.
    Build(build::Args),
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.what {
        DatasetCommand::Build(args) => build::run(args, context),
    }
}
