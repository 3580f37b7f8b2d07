//! How messages change the state, and what is to be done outside because of them.

use super::ask::WEIGHTS;
use super::keys::{Action, behind_escape};
use super::popup::{ANALYSING, Asks, Look, Popup};
use super::scene::Scene;
use super::sheet::{Answer, Body};
use super::state::{Pivot, Standing, State};
use super::theme::{NAMES, Theme};
use super::{Effect, Msg, Tab};
use crate::model::cause::Source;
use crate::model::question::condition;
use crate::model::report::{Severity, Value};
use crate::model::time::{self, Micros, SECOND, together};
use crate::model::units::duration;
use crate::views::tui::want::Role;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// How long something is said in the last line.
const SAID: Micros = 6 * SECOND;
/// Rows of a page.
const PAGE: isize = 15;

/// By what logs may be broken down, in the order in which a key goes through them, and by which one looks into rows.
const OF_LOGS: [&[&str]; 9] = [
    &["verb", "resource"],
    &["user"],
    &["agent"],
    &["namespace"],
    &["source-ip"],
    &["code"],
    &["list-kind"],
    &["name"],
    &["user", "verb", "resource"],
];
/// The same of metrics.
const OF_METRICS: [&[&str]; 6] =
    [&["verb", "resource"], &["code"], &["scope"], &["instance"], &["component"], &["flow_schema", "priority_level"]];

impl State {
    /// Takes a message; says what is to be done.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects: Vec<Effect> = match msg {
            Msg::Key(key) if key.kind != KeyEventKind::Release => self.key(&key),
            Msg::Key(_) => Vec::new(),
            Msg::Mouse(mouse) => self.mouse(&mouse),
            Msg::Resize(width, height) => {
                self.size = (width, height);
                Vec::new()
            }
            Msg::Tick(now) => {
                self.now = now;
                self.clock.tick(now);
                self.message = self.message.take().filter(|(at, _)| now - at < SAID);
                Vec::new()
            }
            // What there was of a cluster that is looked at no more.
            Msg::SourceKinds(found) if found.opened != self.opened => Vec::new(),
            Msg::SourceKinds(found) => {
                // Logs that were there already reach farther back than what was read since.
                let of_course = self.course.as_ref().and_then(|course| course.span);
                if let Some(span) = together(found.span, of_course) {
                    self.clock.covers(span);
                }
                self.clock.is_bounded = found.bounds != (None, None);
                self.found = Some(found);
                let beside = [self.ask_beside(Role::Course), self.ask_beside(Role::Story)];
                let is_refresh = self.is_live && self.clock.is_playing;
                self.has_more = is_refresh && self.pane().asked.is_some();
                self.course_has_more = self.is_live && beside[0].is_none();
                let mut effects: Vec<Effect> =
                    beside.into_iter().chain([self.ask(self.tab, is_refresh)]).flatten().collect();
                effects.extend(self.ask_around());
                effects
            }
            Msg::Answer(answer) => {
                self.answer(answer);
                // What came while this was found out is not in it.
                let view = self.has_more && self.pane().asked.is_none();
                let course = self.course_has_more && self.asked.iter().all(|asked| asked.role != Role::Course);
                self.has_more &= !view;
                self.course_has_more &= !course;
                let view = if view { self.ask(self.tab, true) } else { None };
                let course = if course { self.ask_beside(Role::Course) } else { None };
                [view, course].into_iter().flatten().collect()
            }
            Msg::Held(opened, _) if opened != self.opened => Vec::new(),
            Msg::Held(_, tile) => {
                self.clock.tile = tile.max(SECOND);
                let what = "the logs are kept in memory: steps in time do not read them again, and windows are \
                     aligned to";
                self.remember(Severity::Info, &format!("{what} {}", duration(self.clock.tile)));
                Vec::new()
            }
            Msg::Said(severity, what) => {
                self.remember(severity, &what);
                Vec::new()
            }
            Msg::Name(name) => {
                self.name = name;
                Vec::new()
            }
            Msg::Source(status) => {
                let text = match &status.standing {
                    Standing::Failing { why, .. } => Some((Severity::Warning, format!("{}: {why}", status.name))),
                    Standing::Well(_) if matches!(self.sources.get(&status.name), Some(Standing::Failing { .. })) => {
                        Some((Severity::Info, format!("{}: recovered", status.name)))
                    }
                    Standing::Well(_) | Standing::Gone => None,
                };
                if let Some((severity, text)) = text {
                    self.remember(severity, &text);
                }
                match status.standing {
                    Standing::Gone => drop(self.sources.remove(&status.name)),
                    standing => drop(self.sources.insert(status.name, standing)),
                }
                Vec::new()
            }
            Msg::Done(what) => {
                self.remember(Severity::Info, &what);
                self.show_message(what);
                Vec::new()
            }
            Msg::Quit => vec![Effect::Quit],
        };
        // Whatever it was: the tab in view shows the moment, and the rows, that are looked at.
        effects.extend(self.ask(self.tab, false));
        effects
    }

    fn answer(&mut self, answer: Box<Answer>) {
        // Who has gone to a finding stays at it; who has not sees the gravest.
        let chosen = self
            .all_findings()
            .get(self.selected)
            .filter(|_| self.selected > 0)
            .map(|finding| finding.fingerprint.clone());
        self.keep(answer);
        if let Some(chosen) = chosen {
            self.selected =
                self.all_findings().iter().position(|finding| finding.fingerprint == chosen).unwrap_or(self.selected);
        }
    }

    fn keep(&mut self, answer: Box<Answer>) {
        for error in &answer.errors {
            self.remember(Severity::Warning, error);
        }
        match answer.role {
            Role::View(tab) => {
                let pane = &mut self.panes[tab.index()];
                if pane.asked.as_ref().is_none_or(|asked| asked.number != answer.number) {
                    return;
                }
                // What is said of many clusters is not said of the one that is open.
                if tab != Tab::Fleet {
                    self.findings.insert(tab, answer.findings.clone());
                }
                pane.take(answer);
            }
            Role::Detail => {
                self.asked.retain(|asked| asked.number != answer.number);
                if let Some(popup) =
                    self.popup.as_mut().filter(|popup| self.detail == Some(answer.number) && !popup.about.is_empty())
                {
                    popup.add_course(&answer);
                }
            }
            // Asked of a cluster that is looked at no more.
            _ if answer.number <= self.opened_at => {}
            role => {
                self.asked.retain(|asked| asked.number != answer.number);
                let Answer { course, marks, lead, findings, .. } = *answer;
                if let Some(course) = course {
                    if let Some(span) = together(course.span, self.found.as_ref().and_then(|found| found.span)) {
                        self.clock.covers(span);
                    }
                    self.course = Some(course);
                }
                if role == Role::Story {
                    (self.marks, self.story, self.of_report) = (marks, lead, findings);
                }
            }
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Vec<Effect> {
        if let Some(second) = behind_escape(key) {
            let mut effects = self.key(&KeyEvent::from(KeyCode::Esc));
            effects.extend(self.key(&second));
            return effects;
        }
        // Whatever is open: one can always leave.
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return vec![Effect::Quit];
        }
        if self.prompt.is_some() {
            return self.typed(key);
        }
        let Some(action) = self.keys.action(key) else { return Vec::new() };
        if self.popup.is_some() && self.in_popup(action) {
            return Vec::new();
        }
        self.act(action)
    }

    /// A key while something lies over the tab; whether that was what it was for.
    pub(super) fn in_popup(&mut self, action: Action) -> bool {
        if matches!(action, Action::Copy | Action::CopyCommand) {
            // It stays open: one reads on.
            return false;
        }
        let ((width, height), has_time) = (self.size, self.has_time());
        let Some(popup) = &mut self.popup else { return false };
        let last = popup.scrolls(Scene::of((width, height), has_time).body);
        match action {
            Action::Down => popup.scroll = (popup.scroll + 1).min(last),
            Action::Up => popup.scroll = popup.scroll.saturating_sub(1),
            Action::PageDown => popup.scroll = (popup.scroll + PAGE as usize).min(last),
            Action::PageUp => popup.scroll = popup.scroll.saturating_sub(PAGE as usize),
            Action::First => popup.scroll = 0,
            Action::Last => popup.scroll = last,
            Action::Back | Action::Enter | Action::Help | Action::Quit => self.popup = None,
            _ => {
                self.popup = None;
                return false;
            }
        }
        true
    }

    pub(super) fn act(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Go(tab) => self.go(tab),
            Action::NextTab => self.turn_tab(1),
            Action::LastTab => self.turn_tab(-1),
            Action::NextPart => self.pane_mut().turn(true),
            Action::LastPart => self.pane_mut().turn(false),
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-PAGE),
            Action::PageDown => self.step(PAGE),
            Action::First => self.step(isize::MIN / 2),
            Action::Last => self.step(isize::MAX / 2),
            Action::Left | Action::Right => self.sideways(action == Action::Right),
            Action::Enter => return self.enter(),
            Action::Back => self.back(),
            Action::Filter => self.type_in(Asks::Filter),
            Action::Command => self.type_in(Asks::Command),
            Action::Export => self.type_in(Asks::Export),
            Action::Save if self.is_live => self.type_in(Asks::Save),
            Action::Save => self.show_message("no source is live; these are already files"),
            Action::Help => {
                self.popup = Some(Popup::help(self.tab, &self.keys.help(self.tab)));
            }
            Action::Sort if self.tab == Tab::Keyspace && matches!(self.body_mut(), Some(Body::Icicle(_))) => {
                self.weight = (self.weight + 1) % WEIGHTS.len();
                self.show_message(format!("widths are {}", WEIGHTS[self.weight].1));
            }
            Action::Sort | Action::Reverse => {
                if let Some(Body::Grid(grid)) = self.body_mut() {
                    if action == Action::Sort {
                        grid.sort_next()
                    } else {
                        grid.reverse()
                    }
                    let order = grid.order_in_words();
                    self.show_message(if order.is_empty() {
                        "in the command's order".to_owned()
                    } else {
                        format!("sorted {order}")
                    });
                }
            }
            Action::By if self.tab == Tab::Traffic => self.next_dims(),
            Action::From if self.tab == Tab::Traffic => self.turn_source(),
            Action::Compare if self.tab == Tab::Keyspace => {
                match self.found.as_ref().is_some_and(|found| found.ends.len() == 2) {
                    true => self.compares = !self.compares,
                    false => self.show_message("only one snapshot; comparison requires two"),
                }
            }
            Action::By | Action::From | Action::Compare => {}
            Action::Copy => return self.copy(),
            Action::CopyCommand => return self.copy_command(),
            Action::Play => {
                self.clock.toggle();
                let words = match (self.clock.is_playing, self.is_live) {
                    (true, true) => "following the present".to_owned(),
                    (true, false) => format!("playing at {} times real time", self.clock.speed()),
                    (false, _) => "standing still".to_owned(),
                };
                self.show_message(words);
            }
            Action::Earlier => self.clock.by_steps(-1),
            Action::Later => self.clock.by_steps(1),
            Action::LastMark | Action::NextMark => self.go_to_mark(action == Action::NextMark),
            Action::Shorter | Action::Longer => {
                self.clock.resize(action == Action::Longer);
                let length = self.clock.length().map_or_else(
                    || "all of the time".to_owned(),
                    |length| format!("{} before that moment", duration(length)),
                );
                self.show_message(format!("window: {length}"));
            }
            Action::Always => self.clock.all(),
            Action::Slower | Action::Faster => {
                self.clock.hurry(action == Action::Faster);
                self.show_message(format!("{} times real time", self.clock.speed()));
            }
            Action::Refresh => {
                let asked = [self.ask(self.tab, true), self.ask_beside(Role::Course)];
                return asked.into_iter().flatten().chain([Effect::Redraw]).collect();
            }
            Action::Theme => {
                let next =
                    NAMES.iter().position(|name| *name == self.theme.name).map_or(0, |at| (at + 1) % NAMES.len());
                self.set_theme(NAMES[next]);
            }
            Action::Suspend => return vec![Effect::Suspend],
            Action::Quit => return vec![Effect::Quit],
        }
        Vec::new()
    }

    /// To the next tab, or the one before.
    fn turn_tab(&mut self, by: isize) {
        let tabs = self.tabs();
        let at = tabs.iter().position(|tab| *tab == self.tab).unwrap_or(0) as isize;
        self.tab = tabs[(at + by).rem_euclid(tabs.len() as isize) as usize];
        self.message = None;
    }

    pub(super) fn body_mut(&mut self) -> Option<&mut Body> {
        self.pane_mut().part_mut().map(|part| &mut part.body)
    }

    pub(super) fn set_theme(&mut self, name: &str) {
        match Theme::named(name) {
            Some(theme) => self.theme = theme,
            None => self.show_message(format!("unknown theme {name}; use one of: {}", NAMES.join(", "))),
        }
    }

    /// Moves the selection.
    pub(super) fn step(&mut self, by: isize) {
        if self.tab == Tab::Log {
            let up = if by < 0 { by.unsigned_abs() } else { 0 };
            self.log_scroll = if up > 0 {
                (self.log_scroll + up).min(self.log.len().saturating_sub(1))
            } else {
                self.log_scroll.saturating_sub(by.unsigned_abs())
            };
            return;
        }
        if self.tab == Tab::Overview && self.pane().place() == 0 {
            let last = self.all_findings().len().saturating_sub(1);
            self.selected = self.selected.saturating_add_signed(by).min(last);
            return;
        }
        let pane = self.pane_mut();
        let scroll = pane.scroll.saturating_add_signed(by).min(1_000);
        match pane.part_mut().map(|part| &mut part.body) {
            Some(Body::Grid(grid)) if by.unsigned_abs() > 1_000_000 => grid.jump(by > 0),
            Some(Body::Grid(grid)) => grid.step(by),
            Some(Body::Icicle(icicle)) if by < -1_000_000 => icicle.top(),
            Some(Body::Icicle(icicle)) => icicle.step(by > 0),
            Some(Body::Pictures(pictures)) => pane.scroll = scroll.min(pictures.len().saturating_sub(1)),
            Some(Body::Notes(lines)) => pane.scroll = scroll.min(lines.len().saturating_sub(1)),
            Some(Body::Load) | None => {}
        }
    }

    fn sideways(&mut self, right: bool) {
        match self.body_mut() {
            Some(Body::Grid(grid)) => grid.sideways(right),
            Some(Body::Icicle(icicle)) => icicle.sideways(right),
            _ => {}
        }
    }

    /// Looks into what is selected.
    pub(super) fn enter(&mut self) -> Vec<Effect> {
        if self.tab == Tab::Overview && self.pane().place() == 0 {
            let popup = self.all_findings().get(self.selected).map(|finding| Popup::finding(finding));
            self.popup = popup;
            return Vec::new();
        }
        if let Some(Body::Icicle(icicle)) = self.body_mut() {
            icicle.enter();
            return Vec::new();
        }
        let pane = self.pane();
        let (Some(answer), Some(Body::Grid(grid))) = (&pane.answer, pane.part().map(|part| &part.body)) else {
            return Vec::new();
        };
        if grid.title == "findings" {
            self.popup = grid.selected_index().and_then(|at| answer.findings.get(at)).map(Popup::finding);
            return Vec::new();
        }
        if self.tab == Tab::Fleet && pane.place() == 0 {
            return self.open_selected().into_iter().collect();
        }
        if self.tab == Tab::Traffic && pane.place() == 0 {
            let fields = grid.selected_fields();
            let chosen: Vec<(String, String)> =
                fields
                    .iter()
                    .filter(|(name, _)| self.pivot.by.iter().any(|dim| dim == name))
                    .filter_map(|(name, value)| {
                        if let Value::Text(text) = value { Some(((*name).to_owned(), text.clone())) } else { None }
                    })
                    .collect();
            return self.look_into(&chosen);
        }
        let popup = Popup::row(grid, answer);
        // What was asked for another popup does not belong to this one.
        let want = popup.as_ref().and_then(|popup| self.course_of(&popup.about));
        (self.popup, self.detail) = (popup, None);
        if let Some(popup) = self.popup.as_mut().filter(|_| want.is_some()) {
            popup.lines.insert(0, (Look::Heading, format!("in time\t{ANALYSING}")));
        }
        want.map(|want| self.ask_detail(want)).into_iter().collect()
    }

    /// Opens the cluster of the selected row.
    fn open_selected(&mut self) -> Option<Effect> {
        let pane = self.pane();
        let (answer, Body::Grid(grid)) = (pane.answer.as_ref()?, &pane.part()?.body) else { return None };
        // The whole table stands in the order of the one for people.
        let (table, row) =
            answer.whole.first().and_then(|table| Some((table, table.rows.get(grid.selected_index()?)?)))?;
        let text = |name: &str| {
            let at = table.columns.iter().position(|column| column == name)?;
            if let Value::Text(text) = &row[at] { Some(text.clone()) } else { None }
        };
        let (name, source, problem) = (text("cluster")?, text("source")?, text("problem"));
        let cluster = self.clusters.iter().find(|own| own.shown == source)?.clone();
        if let Some(problem) = problem.filter(|problem| !problem.is_empty()) {
            self.show_message(format!("{name}: {problem}"));
            return None;
        }
        Some(self.open(&name, cluster))
    }

    fn dims(&self) -> &'static [&'static [&'static str]] {
        let has_logs = self.found.as_ref().is_some_and(|found| found.has(Source::Audit));
        if has_logs && !self.by_metrics { &OF_LOGS } else { &OF_METRICS }
    }

    /// Breaks a row of traffic down by what is not known of it yet.
    fn look_into(&mut self, chosen: &[(String, String)]) -> Vec<Effect> {
        if chosen.is_empty() || chosen.iter().any(|(_, value)| value == "(other)") {
            self.show_message("this row adds up all rows beyond the limit");
            return Vec::new();
        }
        let mut next = self.pivot.clone();
        next.filters.extend(chosen.iter().map(|(dim, value)| condition(dim, value)));
        let is_known = |dim: &str| next.filters.iter().any(|filter| filter.starts_with(&format!("{dim}=")));
        let Some(dims) = self.dims().iter().find(|dims| !dims.iter().any(|dim| is_known(dim))) else {
            self.show_message("no details for this row (:by breaks it down by any dimensions)");
            return Vec::new();
        };
        next.by = dims.iter().map(|dim| (*dim).to_owned()).collect();
        self.pivots.push(std::mem::replace(&mut self.pivot, next));
        Vec::new()
    }

    fn next_dims(&mut self) {
        let dims = self.dims();
        let at = dims.iter().position(|dims| dims.iter().eq(self.pivot.by.iter()));
        let next = dims[at.map_or(0, |at| (at + 1) % dims.len())];
        self.pivot.by = next.iter().map(|dim| (*dim).to_owned()).collect();
    }

    fn turn_source(&mut self) {
        let has = |kind| self.found.as_ref().is_some_and(|found| found.has(kind));
        if !(has(Source::Audit) && has(Source::Metrics)) {
            return self.show_message("only one of audit logs and metrics is available");
        }
        self.by_metrics = !self.by_metrics;
        self.pivots.clear();
        self.pivot = Pivot { by: vec!["verb".to_owned(), "resource".to_owned()], filters: Vec::new() };
        self.show_message(if self.by_metrics { "by metrics" } else { "from audit logs" });
    }

    /// Back: out of a filter, a zoom, a row.
    fn back(&mut self) {
        let is_done = match self.body_mut() {
            Some(Body::Grid(grid)) if !grid.filter_text.is_empty() => {
                grid.set_filter("");
                true
            }
            Some(Body::Icicle(icicle)) => icicle.back(),
            _ => false,
        };
        if is_done {
            return;
        }
        if self.pane().place() > 0 {
            return self.pane_mut().go(0);
        }
        if self.tab == Tab::Overview && !self.fleet.is_empty() {
            self.tab = Tab::Fleet;
        }
        if self.tab == Tab::Traffic
            && let Some(before) = self.pivots.pop()
        {
            self.pivot = before;
        }
    }

    fn go_to_mark(&mut self, next: bool) {
        // From the mark that one went to last, while one is still there; else from what is in the middle of the window.
        let jumped = self.jumped.filter(|(_, moment)| *moment == self.clock.at).map(|(mark, _)| mark);
        let middle = self
            .clock
            .window()
            .map_or(self.clock.at, |(from, to)| if self.clock.is_all() { to } else { from + (to - from) / 2 });
        let here = jumped.unwrap_or(middle);
        let found = match next {
            // Behind the end of all of the time there is nothing: one begins with the first.
            true if jumped.is_none() && self.clock.is_all() => self.marks.first(),
            true => self.marks.iter().find(|mark| mark.at > here),
            false => self.marks.iter().rev().find(|mark| mark.at < here),
        };
        match found.cloned() {
            Some(mark) => {
                self.clock.go_around(mark.at);
                self.jumped = Some((mark.at, self.clock.at));
                self.show_message(format!("{}: {}", time::moment_of(mark.at, self.clock.span), mark.what));
            }
            None if self.marks.is_empty() && !self.is_live => {
                self.show_message("the timeline is still being computed, or is empty")
            }
            None => self.show_message("no event in that direction"),
        }
    }
}
