//! What a command works with: settings, writers, and whether anything was lost.

use super::error::Error;
use super::flags::FailOn;
use super::io::Io;
use super::memory::give_back;
use super::settings::{Settings, Shown};
use super::shared::Shared;
use crate::model::flame::Tree;
use crate::model::moment::Capture;
use crate::model::report::Report;
use crate::model::time;
use crate::views;
use std::collections::BTreeSet;
use std::io::Write;

/// What a command works with.
#[derive(Debug)]
pub struct Context<'io> {
    pub settings: Settings,
    /// Writers and clock.
    pub io: &'io mut Io,
    partial: bool,
    failing: bool,
    /// What was read and asked so far, where several questions share it.
    pub shared: Shared,
    is_composing: bool,
    /// What was lost, where several commands may meet it.
    losses: Option<BTreeSet<String>>,
    /// What was said and is not to be said again.
    noticed: BTreeSet<String>,
    /// Captures that stand for the moment that was asked for.
    captures: Vec<Capture>,
}

impl<'io> Context<'io> {
    /// A context with nothing lost yet.
    pub fn new(settings: Settings, io: &'io mut Io) -> Self {
        Self {
            settings,
            io,
            partial: false,
            failing: false,
            shared: Shared::default(),
            is_composing: false,
            losses: None,
            noticed: BTreeSet::new(),
            captures: Vec::new(),
        }
    }

    /// Says that part of an input was lost, and goes on.
    pub fn lost(&mut self, what: impl std::fmt::Display) -> Result<(), Error> {
        self.partial = true;
        if self.losses.as_mut().is_some_and(|losses| !losses.insert(what.to_string())) {
            return Ok(());
        }
        self.warn(what)
    }

    /// From here on each loss is reported once, however many commands meet it.
    pub fn report_losses_once(&mut self) {
        self.losses.get_or_insert_default();
    }

    /// What was lost since then.
    pub fn losses(&self) -> impl Iterator<Item = &str> {
        self.losses.iter().flatten().map(String::as_str)
    }

    /// Answers a question on behalf of another command, which goes on afterwards: with the settings that this one asks
    /// for, not those of a person.
    pub fn compose<T>(&mut self, shown: Shown, answer: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let settings = self.settings.of_composed(shown, self.io)?;
        let own = std::mem::replace(&mut self.settings, settings);
        let outer = std::mem::replace(&mut self.is_composing, true);
        let result = answer(self);
        (self.settings, self.is_composing) = (own, outer);
        give_back();
        result
    }

    /// Whether another command composes the answer into its own, and goes on when this one has ended.
    pub fn is_composing(&self) -> bool {
        self.is_composing
    }

    /// Says something on stderr, also to those who asked for quiet.
    pub fn warn(&mut self, what: impl std::fmt::Display) -> Result<(), Error> {
        let text = what.to_string();
        Ok(writeln!(self.io.err, "plimsoll: {}", views::text::plain(&text))?)
    }

    /// Says something, unless asked to be quiet.
    pub fn notice(&mut self, what: impl std::fmt::Display) -> Result<(), Error> {
        if !self.settings.quiet {
            let text = what.to_string();
            writeln!(self.io.err, "plimsoll: {}", views::text::plain(&text))?;
        }
        Ok(())
    }

    /// The same, but not twice in one run.
    pub fn notice_once(&mut self, what: impl std::fmt::Display) -> Result<(), Error> {
        let text = what.to_string();
        if self.noticed.insert(text.clone()) { self.notice(text) } else { Ok(()) }
    }

    /// The field of `--sort-by`, which must be one of `fields`.
    pub fn sort_by(&self, fields: &[&str]) -> Result<Option<String>, Error> {
        match &self.settings.sort_by {
            Some(field) if !fields.contains(&field.as_str()) => {
                Err(Error::Usage(format!("--sort-by {field}: unknown field; use one of: {}", fields.join(" "))))
            }
            field => Ok(field.clone()),
        }
    }

    /// Refuses `--sort-by` where rows have an order of their own; `why` says which, and what to do.
    pub fn refuse_sort(&self, why: &str) -> Result<(), Error> {
        match &self.settings.sort_by {
            Some(field) => Err(Error::Usage(format!("--sort-by {field}: {why}"))),
            None => Ok(()),
        }
    }

    /// Remembers that a capture stands for the moment that was asked for: what is printed names it.
    pub fn shows(&mut self, capture: Capture) {
        if !self.captures.contains(&capture) {
            self.captures.push(capture);
        }
    }

    /// Prints `report`, and remembers whether its findings fail the command.
    pub fn print(&mut self, report: &Report, fail_on: FailOn) -> Result<(), Error> {
        self.judge(report, fail_on);
        views::render(report, self.settings.format, &self.settings.style, &mut self.io.out)?;
        Ok(self.io.out.flush()?)
    }

    /// Names the captures that stand for the moment that was asked for, in what is made of them.
    pub fn date(&mut self, report: &mut Report) {
        dated(report, &std::mem::take(&mut self.captures));
    }

    /// The same, of a flame graph.
    pub fn date_tree(&mut self, tree: &mut Tree) {
        if let Some(capture) = std::mem::take(&mut self.captures).last() {
            tree.subtitle += &format!(", of {}", time::format(capture.taken));
        }
    }

    /// Remembers whether the findings of a report, which is printed in a form of its own, fail the command.
    pub fn judge(&mut self, report: &Report, fail_on: FailOn) {
        let fail_on = self.settings.fail_on.unwrap_or(fail_on);
        self.failing |= report.findings.iter().any(|finding| fail_on.includes(finding.severity));
    }

    /// What the command comes to: losses beat findings.
    pub fn verdict(&self) -> Result<(), Error> {
        if self.partial {
            Err(Error::Partial)
        } else if self.failing {
            Err(Error::Findings)
        } else {
            Ok(())
        }
    }
}

/// A report that names the captures that it is about.
fn dated(report: &mut Report, captures: &[Capture]) {
    let words = match captures {
        [only] => only.in_words(),
        [first, .., last] => {
            let oldest = captures.iter().min_by_key(|capture| capture.taken).unwrap_or(first);
            format!("{} captures at {}; the oldest: {}", captures.len(), time::format(last.moment), oldest.in_words())
        }
        [] => return,
    };
    report.lead.insert(0, words);
    let one = |capture: &Capture| {
        let age = (capture.moment - capture.taken) as f64 / time::SECOND as f64;
        serde_json::json!({"path": capture.path, "at": time::format(capture.taken), "age_s": age})
    };
    report.coverage.insert("captures".to_owned(), captures.iter().map(one).collect());
}
