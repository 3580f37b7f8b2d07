//! `plimsoll completions` and `plimsoll man`.

use crate::cli::{Context, Error};
use clap::Args;
use clap_complete::Shell;
use std::io::Write as _;
use std::path::PathBuf;

/// Which shell.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell to print a script for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints a completion script.
pub fn completions(args: &CompletionArgs, mut parser: clap::Command, context: &mut Context<'_>) -> Result<(), Error> {
    // It panics where a writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut parser, "plimsoll", &mut script);
    Ok(context.io.out.write_all(&script)?)
}

/// Where the manual goes.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command and subcommand to this folder (plimsoll-guard-events.1), in place of one page to
    /// standard output.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Prints the manual page (the program's, then each subcommand's), or writes one page for each into a folder.
pub fn man(args: &ManArgs, mut parser: clap::Command, context: &mut Context<'_>) -> Result<(), Error> {
    if let Some(folder) = &args.to {
        let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(parser, folder));
        return written
            .map_err(|error| Error::Input(format!("{}: {error}; choose a writable folder", folder.display())));
    }
    parser.build();
    clap_mangen::Man::new(parser.clone()).render(&mut context.io.out)?;
    for command in parser.get_subcommands() {
        let name: &'static str = Box::leak(format!("plimsoll-{}", command.get_name()).into_boxed_str());
        clap_mangen::Man::new(command.clone().name(name)).render(&mut context.io.out)?;
    }
    Ok(())
}
