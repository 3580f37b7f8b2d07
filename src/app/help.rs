//! How help is arranged: commands in groups, an example first, and with `-h` only the common flags.

use clap::error::ErrorKind;
use clap::{Arg, Command};
use std::fmt::Write as _;

/// Commands by what people come for; all of them are here, each once.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Investigate", &["report", "tui", "traffic", "clients", "compare", "balance", "controllers", "explain"]),
    ("Capacity", &["fleet", "quota", "budget", "upgrade", "forecast", "etcd", "memory", "heap"]),
    ("Watch and alert", &["guard", "serve", "dashboards"]),
    ("Collect and keep", &["collect", "record", "rollup", "dataset", "cache"]),
];

/// What is for shells.
const OTHERS: [&str; 2] = ["completions", "man"];

/// What the program is for, by example.
const EXAMPLES: [(&str, &str); 3] = [
    ("report incident/ -o html > report.html", "what happened, who caused it, what to do"),
    ("tui --context prod", "watch a live cluster"),
    ("quota check --fail-on critical", "for cron: exit code 1 if a quota is full"),
];

/// Lines of examples that `-h` shows.
const FIRST_LINES: usize = 3;
/// Headings of flags that most calls do without: `--help` shows them.
const RARE_HEADINGS: [&str; 8] =
    ["Several apiservers", "Retention", "Output", "Prometheus", "Cluster", "Cgroups", "What if", "etcd"];
/// Single flags that most calls do without.
const RARE_FLAGS: [&str; 15] = [
    "season",
    "events",
    "ended",
    "chart",
    "name",
    "template",
    "state",
    "give_up",
    "owner_key",
    "live",
    "days",
    "objects_every",
    "forecast_every",
    "judge_every",
    "basic_auth_file",
];
/// Flags among these that are worth a line with `-h`.
const USUAL: [&str; 5] = ["hand_to", "context", "prometheus", "path", "component"];
/// The explanation of a flag with `-h` is no longer.
const MAX_SHORT_HELP_CHARS: usize = 66;
/// from as many on a clause stands for the whole,
const MIN_SHORT_HELP_CHARS: usize = 24;
/// and so many a clause may have that does not fit on one line.
const MAX_CLAUSE_CHARS: usize = 112;
/// The usage comes behind the examples.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// Whether what stands in place of a command line's meaning is help.
pub fn is_shown(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Arranges the help of the program and of all its commands.
pub fn arranged(parser: Command) -> Command {
    let overview = overview(&parser);
    let parser = each_flag(parser).mut_subcommands(command);
    parser.override_help(overview)
}

/// The help of the program: its commands in groups.
fn overview(parser: &Command) -> String {
    let mut text = String::new();
    let about = parser.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "{about}\nUsage: plimsoll <COMMAND> [OPTIONS]\n\nExamples:");
    for (command, what) in EXAMPLES {
        let _ = writeln!(text, "  {:<52}  # {what}", format!("plimsoll {command}"));
    }
    let line = |name: &str| {
        let about = parser.find_subcommand(name)?.get_about()?.to_string();
        Some(format!("  {name:<12} {about}\n"))
    };
    text.push('\n');
    for (group, names) in GROUPS {
        let _ = write!(text, "{group}:\n{}", names.iter().filter_map(|name| line(name)).collect::<String>());
    }
    let _ = write!(
        text,
        "\nFor shells: {}. Flags: plimsoll COMMAND -h or --help; of all commands: plimsoll help options.\n\
         Exit codes: 0 ok, 1 findings at or above --fail-on, 2 usage, 3 part of an input could not be read.",
        OTHERS.join(", ")
    );
    text
}

/// Arranges the help of a command and of those below it.
fn command(own: Command) -> Command {
    let after = own.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, rest): (Vec<&str>, Vec<&str>) = after.split("\n\n").partition(|part| part.starts_with("EXAMPLES"));
    let (examples, rest) = (examples.join("\n"), rest.join("\n\n"));
    let mut own = each_flag(own).help_template(TEMPLATE).mut_subcommands(command);
    if !examples.is_empty() {
        own = own.before_help(first_examples(&examples)).before_long_help(examples);
    }
    own.after_help("--help explains all flags; plimsoll help options lists the flags that every command has.")
        .after_long_help(rest)
}

/// The heading, and as many of the first examples as fit into `FIRST_LINES`, each with its comment and all its lines.
fn first_examples(examples: &str) -> String {
    let (heading, lines) = examples.split_once('\n').unwrap_or((examples, ""));
    let (mut shown, mut example) = (vec![heading], Vec::new());
    for line in lines.lines() {
        example.push(line);
        if line.trim_start().starts_with('#') || line.ends_with('\\') {
            continue;
        }
        if shown.len() - 1 + example.len() > FIRST_LINES {
            break;
        }
        shown.append(&mut example);
    }
    shown.join("\n")
}

fn each_flag(own: Command) -> Command {
    own.mut_args(|flag| {
        let is_rare = flag.get_help_heading().is_some_and(|heading| RARE_HEADINGS.contains(&heading))
            || RARE_FLAGS.contains(&flag.get_id().as_str());
        let is_usual = USUAL.contains(&flag.get_id().as_str());
        shortened(flag).hide_short_help(is_rare && !is_usual)
    })
}

/// With `-h` the first clause of what a flag is for, with `--help` all of it.
fn shortened(flag: Arg) -> Arg {
    let Some(help) = flag.get_help().map(ToString::to_string) else { return flag };
    let long = flag.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    flag.help(clause(&help)).long_help(long)
}

/// The first clause of a sentence, if it is too long as a whole.
fn clause(help: &str) -> String {
    if help.chars().count() <= MAX_SHORT_HELP_CHARS {
        return help.trim_end_matches('.').to_owned();
    }
    // Not within brackets.
    let is_whole = |at: &usize| {
        let count = |c: char| help[..*at].matches(c).count();
        count('(') == count(')') && count('[') == count(']')
    };
    let ends = |ends: &[&str]| -> Vec<usize> {
        let found = ends.iter().flat_map(|end| help.match_indices(end)).map(|(at, _)| at);
        found.filter(|at| *at >= MIN_SHORT_HELP_CHARS).filter(is_whole).collect()
    };
    let fits = |at: &usize| *at <= MAX_SHORT_HELP_CHARS;
    let mut clauses = ends(&[": ", "; ", ". ", " (", " ["]);
    clauses.push(help.trim_end_matches('.').len());
    // A clause on one line, a longer one as a whole, a part of one, or as much as there is room for.
    let cut = clauses.iter().copied().filter(fits).max();
    let cut = cut.or_else(|| clauses.into_iter().filter(|at| *at <= MAX_CLAUSE_CHARS).min());
    let cut = cut.or_else(|| ends(&[", "]).into_iter().filter(fits).max());
    match cut.or_else(|| help.match_indices(' ').map(|(at, _)| at).filter(fits).max()) {
        Some(at) if cut.is_some() => help[..at].trim_end_matches('.').to_owned(),
        Some(at) => format!("{} …", &help[..at]),
        None => help.to_owned(),
    }
}

/// The flags of every command; `parser` is not arranged.
pub fn options(parser: Command) -> String {
    let text = parser.help_template("{all-args}").render_long_help().to_string();
    let from = text.find("Output:").unwrap_or_default();
    text[from..].trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Cli;
    use std::collections::BTreeSet;

    #[test]
    fn all_commands_are_in_one_group_and_described_in_ten_words() {
        let parser = Cli::parser();
        let shown = parser.get_subcommands().filter(|command| !command.is_hide_set());
        let all: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let reported: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).chain(&OTHERS).copied().collect();
        assert_eq!(reported.len(), all.len());
        assert_eq!(reported.into_iter().collect::<BTreeSet<_>>(), all);
        fn describe(command: &Command) {
            for own in command.get_subcommands() {
                let about = own.get_about().map(ToString::to_string).unwrap_or_default();
                let words = about.split_whitespace().count();
                assert!((2..=10).contains(&words) && !about.ends_with('.'), "{}: {about}", own.get_name());
                describe(own);
            }
        }
        describe(&parser);
    }

    #[test]
    fn a_clause_is_whole_or_shows_that_it_is_cut() {
        assert_eq!(clause("Split by time."), "Split by time");
        let long = "Keep single points for this long; of older days what they came to is kept: peak, quantiles, mean.";
        assert_eq!(clause(long), "Keep single points for this long");
        let whole =
            "Write pseudonyms in place of users, addresses, namespaces and names of objects; the same each time.";
        assert_eq!(clause(whole), "Write pseudonyms in place of users, addresses, namespaces and names of objects");
        let list = format!("Read these{}", " and some that follow from these, if there are any".repeat(4));
        assert_eq!(clause(&list), "Read these and some that follow from these");
        assert_eq!(clause(&"word ".repeat(40)), format!("{} …", ["word"; 13].join(" ")));
    }

    #[test]
    fn help_fits_on_a_screen_and_begins_with_an_example() {
        let mut parser = Cli::parser();
        parser.build();
        let lines = |text: &str| text.trim_end().lines().count();
        let overview = parser.render_help().to_string();
        assert!(lines(&overview) < 40 && overview.lines().all(|line| line.chars().count() <= 110), "{overview}");
        fn look(command: &mut Command, lines: &dyn Fn(&str) -> usize) {
            for own in command.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
                let text = own.render_help().to_string();
                assert!(lines(&text) < 40, "{}: {} lines\n{text}", own.get_name(), lines(&text));
                let is_leaf = !own.has_subcommands() && !OTHERS.contains(&own.get_name());
                let is_shown = text.find("plimsoll ").unwrap_or(usize::MAX) < text.find("Usage:").unwrap_or(0);
                assert!(!is_leaf || is_shown, "{}: no example before its usage\n{text}", own.get_name());
                look(own, lines);
            }
        }
        look(&mut parser, &lines);
        let options = options(<Cli as clap::CommandFactory>::command());
        assert!(options.starts_with("Output:") && options.contains("--fail-on"), "{options}");
    }
}
