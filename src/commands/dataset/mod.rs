//! `plimsoll dataset`: audit events and captures as Parquet that any engine reads, and SQL over them.

mod build;
mod building;
mod captures;
#[cfg(feature = "dataset")]
mod named;
#[cfg(feature = "dataset")]
mod query;
mod sources;

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
    /// Write audit events and captures as Parquet.
    Build(build::Args),
    /// Answer SQL over datasets, roll-ups, logs and bundles.
    #[cfg(feature = "dataset")]
    Query(query::Args),
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.what {
        DatasetCommand::Build(args) => build::run(args, context),
        #[cfg(feature = "dataset")]
        DatasetCommand::Query(args) => query::run(args, context),
    }
}
