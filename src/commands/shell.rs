//! `plimsoll completions` and `plimsoll man`.

use crate::cli::{Context, Error};
use clap::Args;
use clap_complete::Shell;
use std::io::Write as _;

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

/// Prints the manual page: the program's, then each subcommand's.
pub fn man(mut parser: clap::Command, context: &mut Context<'_>) -> Result<(), Error> {
    parser.build();
    clap_mangen::Man::new(parser.clone()).render(&mut context.io.out)?;
    for command in parser.get_subcommands() {
        let name: &'static str = Box::leak(format!("plimsoll-{}", command.get_name()).into_boxed_str());
        clap_mangen::Man::new(command.clone().name(name)).render(&mut context.io.out)?;
    }
    Ok(())
}
