//! Lines that are typed: filters, commands, names of files.

use super::keys::Action;
use super::popup::{Asks, Prompt};
use super::sheet::{Body, findings};
use super::state::State;
use super::{Effect, Tab, Want};
use crate::model::report::Table;
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::{duration, parse_duration};
use crate::views::tui::want::Role;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What is typed is no longer than this.
const TYPED: usize = 500;

impl State {
    pub(super) fn type_in(&mut self, asks: Asks) {
        let text = match asks {
            Asks::Filter => match self.pane().part().map(|part| &part.body) {
                Some(Body::Grid(grid)) => grid.filter_text.clone(),
                _ => return self.show_message("only tables have rows to filter (v: next part of the tab)"),
            },
            Asks::Export => match self.pane().part().map(|part| &part.body) {
                Some(Body::Icicle(_)) => format!("{}.svg", self.tab.name().to_lowercase()),
                Some(_) => format!("{}.csv", self.tab.name().to_lowercase()),
                None => return self.show_message("nothing to write here"),
            },
            Asks::Save => {
                let name: String = self
                    .name
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
                    .take(40)
                    .collect();
                format!("{name}-{}", time::format(self.now - self.now % SECOND).replace(':', "-"))
            }
            Asks::Command => String::new(),
        };
        self.prompt = Some(Prompt { asks, is_default: !text.is_empty(), text });
    }

    /// A key while something is typed.
    pub(super) fn typed(&mut self, key: &KeyEvent) -> Vec<Effect> {
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        match key.code {
            KeyCode::Esc => {
                let asks = prompt.asks;
                self.prompt = None;
                if asks == Asks::Filter {
                    self.filter("");
                }
            }
            KeyCode::Enter => {
                let Some(prompt) = self.prompt.take() else { return Vec::new() };
                return self.entered(&prompt);
            }
            KeyCode::Backspace if prompt.text.is_empty() => self.prompt = None,
            KeyCode::Backspace if prompt.is_default => {
                (prompt.is_default, prompt.text) = (false, String::new());
                self.filter_as_typed();
            }
            KeyCode::Left | KeyCode::Right | KeyCode::Home | KeyCode::End => prompt.is_default = false,
            KeyCode::Backspace => {
                prompt.text.pop();
                self.filter_as_typed();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                prompt.text.clear();
                prompt.is_default = false;
                self.filter_as_typed();
            }
            KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) && prompt.text.len() < TYPED => {
                if std::mem::take(&mut prompt.is_default) {
                    prompt.text.clear();
                }
                prompt.text.push(c);
                self.filter_as_typed();
            }
            _ => {}
        }
        Vec::new()
    }

    fn filter_as_typed(&mut self) {
        if let Some(text) =
            self.prompt.as_ref().filter(|prompt| prompt.asks == Asks::Filter).map(|prompt| prompt.text.clone())
        {
            self.filter(&text);
        }
    }

    fn filter(&mut self, text: &str) {
        if let Some(Body::Grid(grid)) = self.body_mut() {
            grid.set_filter(text);
        }
    }

    /// What was typed is meant.
    fn entered(&mut self, prompt: &Prompt) -> Vec<Effect> {
        let text = prompt.text.trim();
        match prompt.asks {
            Asks::Filter => Vec::new(),
            Asks::Command => self.command(text),
            Asks::Export => self.export(text),
            Asks::Save if text.is_empty() => Vec::new(),
            Asks::Save => vec![Effect::Save(text.to_owned())],
        }
    }

    /// A command and its words.
    fn command(&mut self, text: &str) -> Vec<Effect> {
        let (name, rest) = text.split_once(' ').map_or((text, ""), |(name, rest)| (name, rest.trim()));
        let tab = Tab::ALL.into_iter().find(|tab| tab.name().eq_ignore_ascii_case(name));
        match name {
            _ if tab.is_some() => self.go(tab.unwrap_or_default()),
            "" => {}
            "q" | "quit" if rest.is_empty() => return vec![Effect::Quit],
            "help" if rest.is_empty() => return self.act(Action::Help),
            "by" if !rest.is_empty() => {
                self.tab = Tab::Traffic;
                self.pivots.push(self.pivot.clone());
                self.pivot.by = rest.split([',', ' ']).filter(|dim| !dim.is_empty()).map(str::to_owned).collect();
            }
            "by" => self
                .show_message("write what rows are by as :by verb,resource (all dimensions: plimsoll traffic --help)"),
            "where" => {
                self.tab = Tab::Traffic;
                self.pivots.push(self.pivot.clone());
                if rest.is_empty() { self.pivot.filters.clear() } else { self.pivot.filters.push(rest.to_owned()) }
            }
            "time" => match self.moment(rest) {
                Some(at) => {
                    self.clock.go(at);
                    if self.clock.at != at && self.clock.span.is_some() {
                        self.show_message(format!("{} is outside the time that the sources cover", time::format(at)));
                    }
                }
                None => self.show_message(format!(
                    "'{rest}' is not a time; write 09:21:55, 2026-11-20T09:21:55Z, or -90s (relative)"
                )),
            },
            "window" if rest == "all" => self.clock.all(),
            "window" => match parse_duration(rest) {
                Some(length) if length >= SECOND => {
                    self.clock.set_length(length);
                    if length < self.clock.tile {
                        let shortest = duration(self.clock.tile);
                        self.show_message(format!(
                            "{shortest} is the shortest window here: what is shown is held in \
                                                   pieces so long"
                        ));
                    }
                }
                _ => self.show_message("write a window as 30s, 5m, 1h, or all"),
            },
            "export" | "w" if !rest.is_empty() => return self.export(rest),
            "save" if self.is_live && !rest.is_empty() => return vec![Effect::Save(rest.to_owned())],
            "theme" => self.set_theme(rest),
            _ => self.show_message(format!(
                "'{text}' is not a command; use :by DIMS, :where EXPR, :time, :window, :export FILE, :save BUNDLE, \
                 :theme, :quit, and the tabs' names"
            )),
        }
        Vec::new()
    }

    /// A moment: a time of the day that is looked at, a whole date, or so much from where one is.
    fn moment(&self, text: &str) -> Option<Micros> {
        let at = self.clock.at;
        if let Some(back) = text.strip_prefix('-').and_then(parse_duration) {
            return Some(at - back);
        }
        if let Some(on) = text.strip_prefix('+').and_then(parse_duration) {
            return Some(at + on);
        }
        // Of the days that are covered the one on which it lies in what is covered.
        let span = self.clock.span.unwrap_or((at, at));
        let day = |at: Micros| time::format(at).split('T').next().unwrap_or_default().to_owned();
        let whole = |day: String| {
            time::parse_any(&format!("{day}T{text}Z")).or_else(|| time::parse_any(&format!("{day}T{text}:00Z")))
        };
        let on_days: Vec<Micros> = [at, span.0, span.1].into_iter().filter_map(|at| whole(day(at))).collect();
        let is_in = |at: &&Micros| (span.0..=span.1).contains(*at);
        time::parse_any(text).or_else(|| on_days.iter().find(is_in).or(on_days.first()).copied())
    }

    fn export(&mut self, path: &str) -> Vec<Effect> {
        // The heading names what was asked for; the rows below it may still be those of the question before.
        let is_behind = self.wants(self.tab).is_ok_and(|wants| !self.pane().shows(&wants));
        if is_behind && self.tab != Tab::Overview && !self.clock.is_playing {
            self.show_message("still analysing; export again when the rows have changed");
            return Vec::new();
        }
        let Some(want) = self.shown_want().filter(|_| !path.is_empty()) else { return Vec::new() };
        let rows: Option<Table> = match self.pane().part().map(|part| &part.body) {
            Some(Body::Grid(grid)) => Some(grid.table()),
            Some(Body::Load) => Some(findings(self.all_findings())),
            _ => None,
        };
        vec![Effect::Export { want, rows, path: path.to_owned() }]
    }

    /// What shows the part that is in view.
    pub(super) fn shown_want(&self) -> Option<Want> {
        let part = self.pane().part();
        if self.tab == Tab::Overview && part.is_none_or(|part| matches!(part.body, Body::Load)) {
            return self.beside(Role::Story).or_else(|| self.beside(Role::Course));
        }
        self.pane().answer.as_ref()?.wants.get(part?.want).cloned()
    }
}
