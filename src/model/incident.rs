//! What an incident report holds, whoever writes it: what happened, when, who caused it, how sure that is, what to do.

use crate::model::cause::{Cause, Source};
use crate::model::episode::{Episode, Failure};
use crate::model::flame::Tree;
use crate::model::forecast::Unit;
use crate::model::report::{Finding, Report, Severity};
use crate::model::time::{Micros, Span};
use crate::model::units::significant;

/// How long the incident was, and how that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// From here.
    pub from: Micros,
    /// To there.
    pub to: Micros,
    /// How much it deviates from the time around it: the sum over its pieces of how far they lie above the baseline.
    pub score: f64,
    /// Whether somebody said when it was.
    pub is_given: bool,
}

/// What was found out about whether there was an incident.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// There was.
    Incident(Stretch),
    /// There was none, but load rose for a time.
    Surge(Stretch),
    /// There was none in the window that somebody named.
    Named(Stretch),
    /// There was none, and how it is known.
    Quiet(String),
    /// It can't be determined, and why.
    Unknown(String),
}

impl Verdict {
    /// The window, if there is one.
    pub fn window(&self) -> Option<Span> {
        match self {
            Self::Incident(stretch) | Self::Surge(stretch) | Self::Named(stretch) => Some((stretch.from, stretch.to)),
            Self::Quiet(_) | Self::Unknown(_) => None,
        }
    }

    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Incident(_) => "incident",
            Self::Surge(_) => "surge",
            Self::Named(_) | Self::Quiet(_) => "none",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A client, as the report shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    pub user: String,
    pub agent: String,
    /// Requests a second before, within and after the window; without a window the middle one is that of all of the
    /// time.
    pub rps: [Option<f64>; 3],
    /// Its part of the added load; `None` without a window.
    pub share: Option<f64>,
    /// What it asks for: in words, and requests a second before and within.
    pub asks: Vec<(String, [f64; 2])>,
    /// What was found of it.
    pub findings: Vec<Finding>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When, or from when on.
    pub at: Micros,
    /// Until when; `None` where it is a moment.
    pub until: Option<Micros>,
    /// How well the moment is known: it lies so much earlier at most.
    pub slack: Micros,
    /// Which kind: `restart`, `change`, `operation`.
    pub kind: &'static str,
    /// How grave.
    pub severity: Severity,
    /// Who did it; empty where nobody did.
    pub who: String,
    /// What, in words.
    pub what: String,
    /// Where it comes from.
    pub source: Source,
}

/// A number in time, of several things.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its name in JSON.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What it counts.
    pub unit: Unit,
    /// What they are called, and their values.
    pub lines: Vec<(String, Vec<(Micros, f64)>)>,
    /// Where it comes from.
    pub source: Source,
}

/// Heading of what the messages of requests name.
pub const FAILURES: &str = "Why requests failed or were denied";

/// A number before, within and after the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    /// Its name in JSON.
    pub name: &'static str,
    /// What people call it.
    pub words: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Before, within, after; `None` where there is no such time, or nothing is known of it.
    pub values: [Option<f64>; 3],
}

impl Phases {
    /// One of its numbers as people read it.
    pub fn formatted(&self, value: Option<f64>) -> String {
        let unit = if self.unit == Unit::PerSecond { "/s" } else { "" };
        value.map_or_else(|| "-".to_owned(), |value| format!("{}{unit}", significant(value)))
    }
}

/// What a command says of the same sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its name in JSON.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// The command that says it: its words.
    pub command: Vec<String>,
    /// What it says.
    pub report: Report,
}

/// A flame graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// Its name in JSON.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// The command that draws it: its words.
    pub command: Vec<String>,
    /// What it shows.
    pub tree: Tree,
}

/// Text of somebody's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    /// Where it comes from.
    pub path: String,
    pub text: String,
}

/// The whole of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// What it is called.
    pub title: String,
    /// Who answers for it; empty where nobody was named.
    pub owner: String,
    /// What was read, as it was named.
    pub sources: Vec<String>,
    pub clusters: Vec<String>,
    /// When it was written.
    pub written: Micros,
    /// What the sources cover.
    pub span: Option<Span>,
    /// Whether there was an incident, and when.
    pub verdict: Verdict,
    /// The calm before it, which it is set beside.
    pub calm: Option<Span>,
    /// What happened, in a few sentences; the first says it all.
    pub summary: Vec<String>,
    /// All episodes, in order of time.
    pub episodes: Vec<Episode>,
    /// What may have caused the heaviest, likeliest first.
    pub causes: Vec<Cause>,
    /// Who asked for more, and who behaves badly.
    pub clients: Vec<Card>,
    pub timeline: Vec<Entry>,
    /// Numbers before, within and after.
    pub phases: Vec<Phases>,
    /// Numbers in time.
    pub charts: Vec<Chart>,
    /// What commands say.
    pub sections: Vec<Section>,
    /// Flame graphs.
    pub flames: Vec<Flame>,
    /// Which kinds of sources were read.
    pub read: Vec<Source>,
    /// Parts of it that could not be made, and why; what was lost while reading.
    pub lost: Vec<String>,
    /// Sections of somebody's own.
    pub own: Vec<Own>,
}

impl Incident {
    /// Kinds of sources that are missing.
    pub fn missing(&self) -> impl Iterator<Item = Source> + '_ {
        Source::ALL.into_iter().filter(|source| !self.read.contains(source))
    }

    /// What messages of the heaviest episode's failed and denied requests name.
    pub fn failures(&self) -> &[Failure] {
        self.heaviest().map_or(&[], |own| own.failures.as_slice())
    }

    /// The heaviest episode, which the verdict is about.
    pub fn heaviest(&self) -> Option<&Episode> {
        let window = self.verdict.window()?;
        self.episodes.iter().find(|own| window == (own.from, own.to))
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

/// A word as a shell takes it for one. What could act on a terminal is left out.
pub fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '@' | '/' | '-' | '=' | ',');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let tame: String = word.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", tame.replace('\'', "'\\''"))
}

/// A command as one types it.
pub fn command_line(words: &[String]) -> String {
    std::iter::once("plimsoll".to_owned()).chain(words.iter().map(|word| quote(word))).collect::<Vec<_>>().join(" ")
}

/// Commands of plimsoll, and their subcommands where they have some.
pub(crate) const COMMANDS: [(&str, &[&str]); 23] = [
    ("traffic", &[]),
    ("clients", &[]),
    ("etcd", &["usage", "flame", "top", "history", "pages", "check", "diff", "extract", "split", "health", "pull"]),
    ("memory", &["show", "watch", "reclaim"]),
    ("heap", &["top", "flame", "diff"]),
    ("quota", &["propose", "check", "alert", "lint"]),
    ("budget", &["check", "init"]),
    ("upgrade", &[]),
    ("fleet", &[]),
    ("forecast", &[]),
    ("guard", &["episodes", "events", "policies", "webhooks"]),
    ("compare", &[]),
    ("balance", &[]),
    ("controllers", &[]),
    ("report", &[]),
    ("rollup", &[]),
    ("dataset", if cfg!(feature = "dataset") { &["build", "query"] } else { &["build"] }),
    ("dashboards", &[]),
    ("tui", &[]),
    ("collect", &[]),
    ("record", &["import"]),
    ("serve", &[]),
    ("explain", &[]),
];

/// Flags without a value that sentences name.
const SWITCHES: [&str; 7] = ["--seats", "--health", "--series", "--objects", "--recursive", "--history", "--follow"];

/// The commands of plimsoll that a sentence names, without what stands around them.
pub fn commands(text: &str) -> Vec<String> {
    let starts = text
        .match_indices("plimsoll ")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '-'));
    let mut found: Vec<String> = Vec::new();
    for (at, _) in starts {
        let mut words = text[at..].split(' ').skip(1).peekable();
        let mut command = vec!["plimsoll".to_owned()];
        // What ends a sentence, or a part of it, ends the command.
        let bare = |word: &str| word.trim_end_matches(['.', ',', ';', ':', ')']).to_owned();
        let is_last = |word: &str| word.ends_with(['.', ',', ';', ':', ')']);
        let Some((name, subcommands)) =
            words.peek().and_then(|word| COMMANDS.iter().find(|(name, _)| *name == bare(word)))
        else {
            continue;
        };
        let mut ended = words.next().is_some_and(is_last);
        command.push((*name).to_owned());
        if !ended && let Some(word) = words.next_if(|word| subcommands.contains(&bare(word).as_str())) {
            ended = is_last(word);
            command.push(bare(word));
        }
        while !ended {
            let is_flag =
                |word: &&str| word.starts_with("--") && word.len() > 2 || word.len() == 2 && word.starts_with('-');
            let is_name = |word: &&str| {
                let bare = bare(word);
                let is_place = bare.len() > 1 && bare.chars().all(|c| c.is_ascii_uppercase() || c == '-' || c == '_');
                is_place
                    || word.starts_with('\'')
                    || bare.contains('/')
                    || [".db", ".log", ".yaml", ".tar.zst"].iter().any(|end| bare.ends_with(end))
            };
            let Some(word) = words.next_if(|word| is_flag(word) || is_name(word)) else { break };
            command.push(bare(word));
            ended = is_last(word);
            if !ended && is_flag(&word) && !SWITCHES.contains(&word) {
                let Some(value) = words.next() else { break };
                command.push(bare(value));
                ended = is_last(value);
            }
        }
        found.push(command.join(" "));
    }
    found.dedup();
    found
}

/// `1.1/s before, 13.2/s within`.
pub fn change(rps: [f64; 2]) -> String {
    let [before, within] = rps.map(|rps| if rps > 0.0 { format!("{}/s", significant(rps)) } else { "none".to_owned() });
    format!("{before} before, {within} during")
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn commands_are_taken_out_of_sentences() {
        for (text, wanted) in [
            ("raise it: plimsoll quota propose says how much.", vec!["plimsoll quota propose"]),
            (
                "see whether etcd or webhooks are slow (plimsoll etcd health, plimsoll traffic --from metrics \
                 --health)",
                vec!["plimsoll etcd health", "plimsoll traffic --from metrics --health"],
            ),
            (
                "plimsoll etcd extract OLD --deleted-since NEW gives them back.",
                vec!["plimsoll etcd extract OLD --deleted-since NEW"],
            ),
            (
                "run plimsoll clients audit.log --emit fence --client team:bad; then look",
                vec!["plimsoll clients audit.log --emit fence --client team:bad"],
            ),
            ("plimsoll says nothing, and kubectl-plimsoll traffic neither", vec![]),
        ] {
            assert_eq!(super::commands(text), wanted, "{text}");
        }
    }

    #[test]
    fn words_stay_words_in_a_shell() {
        assert_eq!(quote("system:serviceaccount:a:b"), "system:serviceaccount:a:b");
        assert_eq!(quote("a; rm -rf /"), "'a; rm -rf /'");
        assert_eq!(quote("it's $(x)\u{1b}[1m"), "'it'\\''s $(x)[1m'");
        assert_eq!(quote(""), "''");
    }
}
