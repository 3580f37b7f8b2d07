//! What ends a command, and the exit code it stands for.

use crate::views::text::plain;
use std::io;

/// Why a command did not simply succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line or the config file asks for something that makes no sense. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// An input could not be read, or part of it was lost; it has been said which. Exit code 3.
    #[error("part of the input was lost")]
    Partial,
    /// Nothing could be read. Exit code 3.
    #[error("{0}")]
    Input(String),
    /// There are findings at or above `--fail-on`. Exit code 1.
    #[error("findings at or above --fail-on")]
    Findings,
    /// What was asked for is not known yet: questions were heard, and will be answered together.
    #[error("not answered yet")]
    Unanswered,
    /// The output could not be written. Exit code 3, but 0 where the reader has left (`| head`).
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// A problem with what the command line or the config file asks for.
    pub fn usage(problem: impl std::fmt::Display) -> Self {
        Self::Usage(problem.to_string())
    }

    /// A problem with an input.
    pub fn input(problem: impl std::fmt::Display) -> Self {
        Self::Input(problem.to_string())
    }

    /// Why nothing could be read, a message for each reason. They may hold what a log or a server says.
    pub fn inputs(reasons: impl IntoIterator<Item = impl std::fmt::Display>) -> Self {
        let message = |reason: _| plain(&format!("{reason}")).into_owned();
        Self::Input(reasons.into_iter().map(message).collect::<Vec<_>>().join("\nplimsoll: "))
    }

    /// Whether the output could not be written since its reader has left, as `head` does.
    pub fn is_of_a_reader_who_left(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Findings => 1,
            Self::Output(_) if self.is_of_a_reader_who_left() => 0,
            Self::Partial | Self::Input(_) | Self::Unanswered | Self::Output(_) => 3,
        }
    }

    /// What to print, whatever names of files and answers of servers hold; nothing where it has been said, or where
    /// nobody listens.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Partial | Self::Findings => None,
            Self::Output(_) if self.is_of_a_reader_who_left() => None,
            other => Some(other.to_string().split('\n').map(plain).collect::<Vec<_>>().join("\n")),
        }
    }
}
