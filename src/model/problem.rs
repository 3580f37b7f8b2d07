//! What is wrong with something that was to be read or used: what kind of problem, where, and what to do about it.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The system would not open or read it.
    Io,
    /// It is not in the form that it should have: no JSON, a column that is missing, a number that is none.
    Malformed,
    /// It has changed or was cut off since it was written.
    Damaged,
    /// Another version of plimsoll wrote it.
    Version,
    /// It is larger than what is read.
    TooLarge,
    /// It lacks what the question needs.
    Unanswered,
    /// A flag or setting asks for something that makes no sense.
    Setting,
}

/// What is wrong. Written as `place: what; hint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// File and line, flag, or name of a setting, from the outermost to the innermost; empty where there is none.
    pub place: String,
    /// What is wrong there.
    pub what: Cow<'static, str>,
    /// What to do about it; empty where that is obvious.
    pub hint: Cow<'static, str>,
}

impl Problem {
    /// A problem of a kind, nowhere in particular.
    pub fn new(kind: ProblemKind, what: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, place: String::new(), what: what.into(), hint: Cow::Borrowed("") }
    }

    /// The system would not open or read a file.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(ProblemKind::Io, error.to_string()).at(path.display())
    }

    /// It is not in the form that it should have.
    pub fn malformed(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Malformed, what)
    }

    /// It has changed or was cut off since it was written.
    pub fn damaged(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Damaged, what)
    }

    /// A flag or setting that makes no sense.
    pub fn setting(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Setting, what)
    }

    /// It lacks what the question needs.
    pub fn unanswered(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Unanswered, what)
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// The place that what is known of its place lies in.
    pub fn at(self, place: impl Display) -> Self {
        let place = if self.place.is_empty() { place.to_string() } else { format!("{place}: {}", self.place) };
        Self { place, ..self }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.what)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::new(ProblemKind::Io, error.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::malformed(error.to_string())
    }
}

/// Keeps a decoder's panic from ending the program: its input was not checked if the index is missing.
pub fn guarded<T>(decode: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(Problem::malformed("it can't be decoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_from_the_outermost_to_the_innermost() {
        let problem = Problem::malformed("'x' is not a number").hint("write 1500").at(3).at("limits.csv");
        assert_eq!(problem.to_string(), "limits.csv: 3: 'x' is not a number; write 1500");
        assert_eq!(Problem::setting("the list is empty").to_string(), "the list is empty");
    }
}
