//! The program: parses the command line, runs the command, and returns its exit code.

mod help;
#[cfg(test)]
#[cfg(all(feature = "live", feature = "history"))]
mod questions;

use crate::cli::{Context, Error, Io, Settings, ViewFlags};
use crate::commands::{Command, engine};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Observe and plan the capacity of Kubernetes control planes.
///
/// Exit codes: 0 ok, 1 findings at or above --fail-on, 2 usage, 3 an input could not be read or part of it was lost
/// (the result is still printed).
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, propagate_version = true, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    view: ViewFlags,
    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// The parser, with its help arranged.
    pub fn parser() -> clap::Command {
        help::arranged(Self::command())
    }
}

/// Runs the program.
pub fn run(args: impl IntoIterator<Item = OsString>, io: &mut Io) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let as_plugin = args.first().is_some_and(|program| {
        std::path::Path::new(program).file_stem().is_some_and(|name| name == "kubectl-plimsoll")
    });
    let named = |parser: clap::Command| if as_plugin { parser.bin_name("kubectl plimsoll") } else { parser };
    if as_plugin && let Some(program) = args.first_mut() {
        *program = OsString::from("kubectl plimsoll");
    }
    // `help COMMAND` is `COMMAND --help`.
    if args.get(1).is_some_and(|word| word == "help") {
        if args.len() == 3 && args[2] == "options" {
            return asked(help::options(Cli::command()), io);
        }
        args.remove(1);
        args.push(OsString::from("--help"));
    }
    let words = args;
    let parse = |parser: &mut clap::Command| {
        let matches = parser.try_get_matches_from_mut(&words)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    };
    let mut parser = named(Cli::command());
    let parsed = match parse(&mut parser) {
        // Help is arranged only where it is shown.
        Err(error) if help::is_shown(&error) => parse(&mut named(Cli::parser())),
        parsed => parsed,
    };
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => return asked(error.render(), io),
        Err(error) => {
            let out = &mut io.err;
            // Nothing can be done about a closed terminal.
            let _ = write!(out, "{}", error.render());
            let hint = subcommand_hint(&parser, &words, &error)
                .or_else(|| variable_hint(&parser, &words, &error))
                .or_else(|| form_hint(&parser, &error));
            if let Some(hint) = hint {
                let _ = writeln!(out, "\n{hint}");
            }
            let _ = out.flush();
            return ExitCode::from(error.exit_code().clamp(0, 255) as u8);
        }
    };
    let settings = match Settings::resolve(&cli.view, io) {
        Ok(settings) => settings,
        Err(error) => return finish(Err(error), io),
    };
    let warning = settings.warning.clone();
    let mut context = Context::new(settings, io);
    if let Some(warning) = warning {
        let _ = context.warn(warning);
    }
    let result = engine::through(&matches, &parser, &mut context)
        .and_then(|_replaced| cli.command.run(Cli::parser, &mut context));
    let result = result.and_then(|()| Ok(context.io.out.flush()?));
    let result = unless_left(result).and_then(|()| context.verdict());
    finish(result, io)
}

/// Writes what was asked for in place of work: help, or the version.
fn asked(text: impl std::fmt::Display, io: &mut Io) -> ExitCode {
    let written = write!(io.out, "{text}").and_then(|()| io.out.flush()).map_err(Error::from);
    finish(unless_left(written), io)
}

/// Who reads no further still learns by the exit code what it came to.
fn unless_left(result: Result<(), Error>) -> Result<(), Error> {
    result.or_else(|error| if error.is_of_a_reader_who_left() { Ok(()) } else { Err(error) })
}

/// Which variable a flag's value is of, where that can't be read and the flag was not given.
fn variable_hint(parser: &clap::Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    fn variable(command: &clap::Command, flag: &str) -> Option<String> {
        let own = command.get_arguments().find(|arg| arg.get_long() == Some(flag)).and_then(clap::Arg::get_env);
        let below = || command.get_subcommands().find_map(|command| variable(command, flag));
        own.map(|name| name.to_string_lossy().into_owned()).or_else(below)
    }
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = arg.strip_prefix("--")?.split([' ', '=']).next()?;
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    if words.iter().any(|word| word.to_string_lossy().ends_with(value.as_str())) {
        return None;
    }
    let name = variable(parser, flag)?;
    let is_its = std::env::var_os(&name).is_some_and(|own| own.to_string_lossy() == value.as_str());
    is_its.then(|| format!("The value is that of the environment variable {name}."))
}

/// How a form of output is asked for, where its name stands as a flag.
fn form_hint(parser: &clap::Command, error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let output = parser.get_arguments().find(|arg| arg.get_long() == Some("output"))?;
    let forms = output.get_possible_values();
    let form = forms.iter().find(|form| flag.strip_prefix("--").is_some_and(|name| form.matches(name, true)))?;
    Some(format!("The form of the output is given by -o: -o {}", form.get_name()))
}

/// What to do where a path stands in place of a subcommand.
fn subcommand_hint(parser: &clap::Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(path)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    if path != "-" && !path.contains(['/', '.']) && !std::path::Path::new(path).exists() {
        return None;
    }
    let program = parser.get_bin_name().unwrap_or("plimsoll");
    let with_subcommands = |word: &OsString| parser.find_subcommand(word).filter(|command| command.has_subcommands());
    let Some(command) = words.iter().skip(1).find_map(with_subcommands) else {
        return Some(format!(
            "{path} is a source; choose a command for it: {program} report {path}, {program} traffic {path} --by verb"
        ));
    };
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    // Of several the one that answers most questions.
    let first =
        names.iter().find(|name| ["usage", "events", "check", "top", "show"].contains(name)).or(names.first())?;
    let others: Vec<&str> = names.iter().filter(|name| *name != first).copied().collect();
    let name = command.get_name();
    Some(format!(
        "{path} is a source; choose a command for it: {program} {name} {first} {path} (or {})",
        others.join(", ")
    ))
}

fn finish(result: Result<(), Error>, io: &mut Io) -> ExitCode {
    let _ = io.out.flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(text) = error.message() {
                let _ = writeln!(io.err, "plimsoll: {text}");
            }
            ExitCode::from(error.code())
        }
    }
}

#[cfg(all(test, feature = "live", feature = "tui", feature = "history"))]
mod tests {
    use super::*;
    use crate::model::incident::COMMANDS;
    use std::collections::{BTreeMap, BTreeSet};

    /// What the terminal UI takes for a command of plimsoll is one, and all of them are.
    #[test]
    fn sentences_name_the_commands_that_there_are() {
        let names = |command: &clap::Command| {
            command.get_subcommands().map(|one| one.get_name().to_owned()).collect::<BTreeSet<_>>()
        };
        let parser = Cli::command();
        let shell = ["help", "completions", "man", "cache"];
        let all = parser.get_subcommands().filter(|one| !shell.contains(&one.get_name()) && !one.is_hide_set());
        let all: BTreeMap<String, BTreeSet<String>> = all.map(|one| (one.get_name().to_owned(), names(one))).collect();
        let known =
            COMMANDS.map(|(name, parts)| (name.to_owned(), parts.iter().map(|part| (*part).to_owned()).collect()));
        assert_eq!(BTreeMap::from(known), all);
    }
}
