//! Questions of the terminal UI, and what each is for.

use super::Tab;
use crate::model::incident::command_line;
use crate::model::question::Question;

/// One thing that is to be found out.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// What a question comes to.
    Answer(Box<Question>),
    /// The load, memory and sizes in all of the time that these sources cover.
    Course(Vec<String>),
}

impl Want {
    /// The command that asks the same, as one types it: with all rows, as the screen shows them.
    pub fn line(&self) -> String {
        let all = if self.shows_all() { vec!["--top".to_owned(), "0".to_owned()] } else { Vec::new() };
        match self {
            Self::Answer(question) => command_line(&[question.words(), all].concat()),
            Self::Course(sources) => command_line(&[vec!["report".to_owned()], sources.clone()].concat()),
        }
    }

    /// Whether the screen shows all rows; else as many as a person is shown by default.
    pub fn shows_all(&self) -> bool {
        match self {
            Self::Answer(question) => match &**question {
                Question::EtcdFlame(_) | Question::HeapFlame(_) | Question::Report(_) => false,
                Question::Traffic(traffic) => !traffic.health && !traffic.series,
                _ => true,
            },
            Self::Course(_) => false,
        }
    }
}

/// What a question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// What a tab shows.
    View(Tab),
    /// The load in time.
    Course,
    /// What happened, by an incident report: marks in time, causes.
    Story,
    /// How it went in time with what a popup is about.
    Detail,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// A number, larger than that of all questions before it.
    pub number: u64,
    pub role: Role,
    /// What is asked; answered together.
    pub wants: Vec<Want>,
    /// Whether a person waits for it.
    pub is_seen: bool,
}
