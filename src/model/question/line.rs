//! A command line, written flag by flag.

use crate::model::time::{self, Bounds, Micros};
use std::fmt::Display;

/// The words of a command line. What has no value is left out; what has the default of its flag may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    words: Vec<String>,
    /// Sources that look like flags stand behind `--`, at the end.
    behind: Vec<String>,
}

impl Line {
    /// A command, by its name and that of its subcommand.
    pub fn new(command: &[&str]) -> Self {
        Self { words: command.iter().map(|word| (*word).to_owned()).collect(), behind: Vec::new() }
    }

    /// What is read. Sources keep their order: one that looks like a flag takes those after it along.
    pub fn sources(mut self, sources: &[String]) -> Self {
        let is_flag = |source: &String| source.len() > 1 && source.starts_with('-');
        let plain = sources.iter().position(is_flag).unwrap_or(sources.len());
        self.words.extend_from_slice(&sources[..plain]);
        self.behind.extend_from_slice(&sources[plain..]);
        self
    }

    /// A flag with a value.
    pub fn text(mut self, flag: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            let value = value.to_string();
            // A value that looks like a flag would be taken for one.
            match value.starts_with('-') {
                true => self.words.push(format!("{flag}={value}")),
                false => self.words.extend([flag.to_owned(), value]),
            }
        }
        self
    }

    /// A flag for each value.
    pub fn each(self, flag: &str, values: &[String]) -> Self {
        values.iter().fold(self, |line, value| line.text(flag, Some(value)))
    }

    /// A flag whose values are joined by commas.
    pub fn list(self, flag: &str, values: &[String]) -> Self {
        self.text(flag, (!values.is_empty()).then(|| values.join(",")))
    }

    /// A flag without a value.
    pub fn switch(mut self, flag: &str, is_set: bool) -> Self {
        if is_set {
            self.words.push(flag.to_owned());
        }
        self
    }

    /// A flag with a time.
    pub fn time(self, flag: &str, at: Option<Micros>) -> Self {
        self.text(flag, at.map(time::format))
    }

    /// A flag with a length of time (µs), in the largest unit that gives a whole number.
    pub fn length(self, flag: &str, length: Option<Micros>) -> Self {
        const UNITS: [(Micros, &str); 6] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
            (1, "us"),
        ];
        let written = |length: Micros| {
            let of = UNITS.iter().find(|(unit, _)| length != 0 && length % unit == 0);
            of.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", length / unit))
        };
        self.text(flag, length.map(written))
    }

    /// `--since` and `--until`.
    pub fn bounds(self, (since, until): Bounds) -> Self {
        self.time("--since", since).time("--until", until)
    }

    /// The words.
    pub fn into_words(mut self) -> Vec<String> {
        if !self.behind.is_empty() {
            self.words.push("--".to_owned());
            self.words.append(&mut self.behind);
        }
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_sources_that_look_like_flags_are_not_taken_for_some() {
        let sources = ["-", "a b", "-x", "c"].map(str::to_owned);
        let line = Line::new(&["etcd", "top"]).sources(&sources).text("--where", Some("-1")).switch("--all", true);
        assert_eq!(line.into_words(), ["etcd", "top", "-", "a b", "--where=-1", "--all", "--", "-x", "c"]);
    }

    #[test]
    fn lengths_are_whole_numbers_of_the_largest_unit() {
        for (length, text) in [(0, "0s"), (90_000_000, "90s"), (3_600_000_000, "1h"), (1_500, "1500us"), (5_000, "5ms")]
        {
            assert_eq!(Line::default().length("-l", Some(length)).into_words(), ["-l", text]);
        }
    }
}
