//! What ends a command, and the exit code it stands for.

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

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Findings => 1,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Partial | Self::Input(_) | Self::Unanswered | Self::Output(_) => 3,
        }
    }

    /// What to print; nothing where it has been said, or where nobody listens.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Partial | Self::Findings => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            other => Some(other.to_string()),
        }
    }
}
