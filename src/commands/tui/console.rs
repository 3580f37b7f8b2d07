//! The terminal UI without a terminal, for tests: messages go in, what is asked is answered at once.

use super::engine::Worker;
use crate::analysis::answer;
use crate::cli::{Io, Settings, Shown};
use crate::commands;
use crate::model::question::Question;
use crate::model::report::Report;
use crate::views::Format;
use crate::views::tui::keys::Keys;
use crate::views::tui::{Answer, Ask, Effect, Msg, SourceKinds, State, Theme, draw};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A state, and what answers its questions on the same thread.
pub(super) struct Console {
    pub(super) state: State,
    pub(super) worker: Worker,
    /// What was answered before.
    pub(super) known: Rc<RefCell<HashMap<String, Answer>>>,
    /// Whether a question about another moment is answered with what is known of the tab: for tests of what keys do.
    pub(super) is_quick: bool,
    pub(super) done: Vec<Effect>,
}

pub(super) fn worker() -> Worker {
    let mut io = Io::process();
    (io.config_file, io.cache_folder) = (None, None);
    Worker::new(Settings::usual(&io).unwrap(), crossbeam_channel::unbounded().0)
}

impl Console {
    /// One that looks at these sources, with all that it asks at first answered.
    pub(super) fn of(sources: &[&str]) -> Self {
        Self::with_history(sources, &[])
    }

    /// The same beside a history.
    pub(super) fn with_history(sources: &[&str], history: &[&str]) -> Self {
        let mut console = Self::new(State::new("list-storm", false, Keys::default(), Theme::usual()));
        let [sources, history] =
            [sources, history].map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<String>>());
        let found = console.look(0, &sources, history);
        console.send(found);
        console
    }

    /// One that knows of nothing.
    pub(super) fn new(state: State) -> Self {
        Self { state, worker: worker(), known: Rc::default(), is_quick: false, done: Vec::new() }
    }

    /// What kinds of sources there are.
    fn look(&self, opened: u64, sources: &[String], history: Vec<String>) -> Msg {
        let found = self.worker.with(|context| super::engine::look(sources, history, context)).unwrap();
        Msg::SourceKinds(SourceKinds { opened, ..found })
    }

    /// What a question comes to, asked without the terminal UI.
    pub(super) fn answered(&self, question: &Question, format: Format) -> Report {
        let shown = Shown { format, top: None };
        let answer = self.worker.with(|context| context.compose(shown, |context| commands::answer(question, context)));
        match answer.unwrap() {
            answer::Answer::Report(report, _) => *report,
            other => panic!("{other:?}"),
        }
    }

    /// Gives a message, and whatever comes of it.
    pub(super) fn send(&mut self, msg: Msg) {
        let mut effects = self.state.update(msg);
        while let Some(effect) = effects.pop() {
            match effect {
                Effect::Ask(ask) => {
                    let answer = self.answer(ask);
                    effects.extend(self.state.update(Msg::Answer(Box::new(answer))));
                }
                Effect::Open { opened, sources, history } => {
                    let found = self.look(opened, &sources, history);
                    effects.extend(self.state.update(found));
                }
                other => self.done.push(other),
            }
        }
    }

    pub(super) fn answer(&self, ask: Ask) -> Answer {
        let role = format!("{:?}", ask.role);
        let key = if self.is_quick { role.clone() } else { format!("{role} {:?}", ask.wants) };
        if let Some(known) = self.known.borrow().get(&key) {
            return Answer { number: ask.number, wants: ask.wants, ..known.clone() };
        }
        let answer = self.worker.answered(ask);
        let mut known = self.known.borrow_mut();
        known.insert(role, answer.clone());
        known.insert(key, answer.clone());
        answer
    }

    pub(super) fn key(&mut self, key: char) {
        self.send(Msg::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)));
    }

    pub(super) fn press(&mut self, key: KeyCode) {
        self.send(Msg::Key(KeyEvent::new(key, KeyModifiers::NONE)));
    }

    /// The screen as text.
    pub(super) fn screen(&mut self, width: u16, height: u16) -> String {
        self.send(Msg::Resize(width, height));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw::draw(&self.state, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }
}
