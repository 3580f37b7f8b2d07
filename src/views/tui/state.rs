//! All that is known, and how it is looked at.

use super::clock::Clock;
use super::keys::Keys;
use super::pane::Pane;
use super::popup::{Popup, Prompt};
use super::sheet::{Course, Mark};
use super::theme::Theme;
use super::{Ask, Effect, FleetCluster, Tab, Want};
use crate::model::report::{Finding, Severity};
use crate::model::time::{Micros, SECOND, clock};
use crate::views::tui::found::SourceKinds;
use crate::views::tui::want::Role;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Tabs that have findings for the first one, and whether these change while all is live: snapshots, profiles and
/// objects that were named stay as they are.
const TELLING: [(Tab, bool); 8] = [
    (Tab::Overview, true),
    (Tab::Clients, true),
    (Tab::Keyspace, false),
    (Tab::Memory, true),
    (Tab::Heap, false),
    (Tab::Quotas, false),
    (Tab::Guard, true),
    (Tab::Forecast, false),
];

/// How often those that are not looked at are asked, while all is live.
const AROUND: Micros = 30 * SECOND;

/// Lines of the log that are kept.
const LINES: usize = 2_000;

/// How a source does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It gave what was asked for, last at this time.
    Well(Micros),
    /// It is not asked any more: others stand in its place.
    Gone,
    /// It fails.
    Failing {
        /// Since when.
        since: Micros,
        why: String,
        /// When it is tried again.
        again: Option<Micros>,
    },
}

impl Standing {
    /// Whether it fails, and what is said of that.
    pub(super) fn failure(&self, now: Micros) -> Option<String> {
        let Self::Failing { since, why, again } = self else { return None };
        let seconds = |at: &Micros| (at - now).max(0).div_euclid(SECOND);
        let again = again.as_ref().map_or_else(String::new, |at| format!("; next retry in {} s", seconds(at)));
        Some(format!("fails since {}: {why}{again}", clock(*since)))
    }
}

/// How a live source stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it is called.
    pub name: String,
    /// How it does.
    pub standing: Standing,
}

/// By what traffic is broken down, and what of it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pivot {
    /// Dimensions.
    pub by: Vec<String>,
    /// Conditions.
    pub filters: Vec<String>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub at: Micros,
    /// How grave.
    pub severity: Severity,
    pub what: String,
    /// How often, one after another.
    pub times: u64,
}

/// All of it.
#[derive(Debug)]
pub struct State {
    /// What is looked at, in a few words.
    pub name: String,
    /// Whether it is live.
    pub is_live: bool,
    /// What time it is.
    pub now: Micros,
    /// What there is to look at.
    pub found: Option<SourceKinds>,
    /// Clusters of which one is looked at, as the command line names them; else none.
    pub fleet: Vec<String>,
    /// What each of them is read from.
    pub clusters: Vec<FleetCluster>,
    /// How many of them were opened so far.
    pub opened: u64,
    /// The number of the last question when that was.
    pub(super) opened_at: u64,
    /// The time that is looked at.
    pub clock: Clock,
    /// The tab in view.
    pub tab: Tab,
    /// The tabs' contents.
    pub panes: [Pane; Tab::ALL.len()],
    /// How traffic is broken down.
    pub pivot: Pivot,
    /// How it was before one looked into rows.
    pub pivots: Vec<Pivot>,
    /// Whether traffic is taken from metrics although there are logs.
    pub by_metrics: bool,
    /// Whether the first and the last snapshot are compared.
    pub compares: bool,
    /// What widths of the key space are: a place among the weights.
    pub weight: usize,
    /// The load in time.
    pub course: Option<Course>,
    /// Timeline.
    pub marks: Vec<Mark>,
    /// Sentences about what happened.
    pub story: Vec<String>,
    /// What is being found out beside the tabs.
    pub asked: Vec<Ask>,
    pub of_report: Vec<Finding>,
    /// Findings of the tabs that were looked at.
    pub findings: BTreeMap<Tab, Vec<Finding>>,
    /// Which finding of the overview is selected.
    pub selected: usize,
    /// What lies over the tab.
    pub popup: Option<Popup>,
    /// What is being typed.
    pub prompt: Option<Prompt>,
    /// What is said in the last line for a while.
    pub message: Option<(Micros, String)>,
    /// What plimsoll did.
    pub log: VecDeque<LogLine>,
    /// How far up from its end the log is scrolled.
    pub log_scroll: usize,
    /// How live sources stand.
    pub sources: BTreeMap<String, Standing>,
    /// Which key does what.
    pub keys: Keys,
    /// Colours.
    pub theme: Theme,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// Whether something came while the tab in view, or the course of time, was being found out.
    pub(super) has_more: bool,
    pub(super) course_has_more: bool,
    /// The question about what the popup shows.
    pub(super) detail: Option<u64>,
    /// The last question's number.
    pub(super) number: u64,
    /// The event that one went to last, and the moment that one looked at then.
    pub(super) jumped: Option<(Micros, Micros)>,
    /// When tabs that are not looked at were asked for their findings.
    asked_around: BTreeMap<Tab, Micros>,
}

impl State {
    /// Nothing is known yet.
    pub fn new(name: &str, is_live: bool, keys: Keys, theme: Theme) -> Self {
        Self {
            name: name.to_owned(),
            is_live,
            now: 0,
            found: None,
            fleet: Vec::new(),
            clusters: Vec::new(),
            opened: 0,
            opened_at: 0,
            clock: Clock::new(is_live),
            tab: Tab::Overview,
            panes: Default::default(),
            pivot: Pivot { by: vec!["verb".to_owned(), "resource".to_owned()], filters: Vec::new() },
            pivots: Vec::new(),
            by_metrics: false,
            compares: false,
            weight: 0,
            course: None,
            marks: Vec::new(),
            story: Vec::new(),
            asked: Vec::new(),
            of_report: Vec::new(),
            findings: BTreeMap::new(),
            selected: 0,
            popup: None,
            prompt: None,
            message: None,
            log: VecDeque::new(),
            log_scroll: 0,
            sources: BTreeMap::new(),
            keys,
            theme,
            size: (80, 24),
            has_more: false,
            course_has_more: false,
            detail: None,
            number: 0,
            jumped: None,
            asked_around: BTreeMap::new(),
        }
    }

    /// The same of many clusters: one begins with all of them.
    pub fn of_fleet(mut self, arguments: &[String], clusters: Vec<FleetCluster>) -> Self {
        (self.fleet, self.clusters, self.tab) = (arguments.to_vec(), clusters, Tab::Fleet);
        self
    }

    /// The tabs that can be gone to, in the order in which they stand.
    pub fn tabs(&self) -> Vec<Tab> {
        let own = |tab: &Tab| match tab {
            Tab::Fleet => false,
            Tab::Log => true,
            _ => self.fleet.is_empty() || self.opened > 0,
        };
        let fleet = Some(Tab::Fleet).filter(|_| !self.fleet.is_empty());
        fleet.into_iter().chain(Tab::ALL.into_iter().filter(own)).collect()
    }

    /// Goes to a tab, if there is one.
    pub(super) fn go(&mut self, tab: Tab) {
        match (self.tabs().contains(&tab), tab) {
            (true, _) => {
                self.tab = tab;
                self.message = None;
            }
            (false, Tab::Fleet) => self.show_message("one cluster; several: plimsoll tui NAME=SOURCE NAME=SOURCE"),
            (false, _) => self.show_message("no cluster is open: Enter opens the one that is selected"),
        }
    }

    /// Opens a cluster of the fleet in place of the one that was open.
    pub(super) fn open(&mut self, name: &str, cluster: FleetCluster) -> Effect {
        let new = Self::new(name, false, std::mem::take(&mut self.keys), self.theme.clone());
        let mut before = std::mem::replace(self, new);
        self.panes[Tab::Fleet.index()] = std::mem::take(&mut before.panes[Tab::Fleet.index()]);
        (self.fleet, self.clusters, self.log) = (before.fleet, before.clusters, before.log);
        (self.now, self.size, self.number, self.opened) = (before.now, before.size, before.number, before.opened + 1);
        self.opened_at = self.number;
        let FleetCluster { sources, history, .. } = cluster;
        Effect::Open { opened: self.opened, sources, history }
    }

    /// What a course of time is drawn of: that of the cluster in view.
    pub(super) fn has_time(&self) -> bool {
        self.tab != Tab::Fleet && self.clock.span.is_some()
    }

    /// The content of the tab in view.
    pub fn pane(&self) -> &Pane {
        &self.panes[self.tab.index()]
    }

    /// The same, to be changed.
    pub fn pane_mut(&mut self) -> &mut Pane {
        &mut self.panes[self.tab.index()]
    }

    /// Asks what a tab shows, unless that is known or being found out already.
    pub(super) fn ask(&mut self, tab: Tab, is_refresh: bool) -> Option<Effect> {
        let wants = self.wants(tab).ok()?;
        let pane = &self.panes[tab.index()];
        // What was asked in passing is asked again when somebody waits for it.
        let is_late = tab == self.tab && pane.asked.as_ref().is_some_and(|asked| !asked.is_seen);
        // Back at what is shown, before the answer to another question came: nobody waits for that one any more.
        if !is_refresh && pane.shows(&wants) && pane.asked.as_ref().is_some_and(|asked| asked.wants != wants) {
            self.panes[tab.index()].asked = None;
            return None;
        }
        let is_busy = pane.asked.as_ref().is_some_and(|asked| is_refresh && asked.wants == wants);
        if !is_late && (is_busy || pane.is_about(&wants) && !is_refresh) {
            return None;
        }
        // What is being found out is waited for: what plays would never be seen if each moment overtook the one before.
        if pane.asked.is_some() && self.clock.is_playing && !is_late {
            return None;
        }
        self.number += 1;
        let ask = Ask { number: self.number, role: Role::View(tab), wants, is_seen: tab == self.tab };
        self.panes[tab.index()].asked = Some(ask.clone());
        Some(Effect::Ask(ask))
    }

    /// Asks tabs that are not looked at for their findings: while all is live each now and then, as no report reports
    /// all of the time; else what no report has, forecasts.
    pub(super) fn ask_around(&mut self) -> Vec<Effect> {
        if self.is_live && !self.clock.is_playing {
            return Vec::new();
        }
        let lists_objects = self.found.as_ref().is_some_and(|found| found.lists_objects);
        let changing = TELLING.map(|(tab, changes)| (tab, changes || tab == Tab::Quotas && lists_objects));
        let is_due = |(tab, changes): &(Tab, bool)| {
            let asked = self.asked_around.get(tab);
            let is_asked_for = self.is_live || *tab == Tab::Forecast;
            is_asked_for && *tab != self.tab && asked.is_none_or(|at| *changes && self.now - at >= AROUND)
        };
        let due: Vec<(Tab, bool)> = changing.into_iter().filter(is_due).collect();
        let mut effects = Vec::new();
        for (tab, changes) in due {
            if let Some(effect) = self.ask(tab, changes) {
                self.asked_around.insert(tab, self.now);
                effects.push(effect);
            }
        }
        effects
    }

    /// Asks for what stands beside the tabs, unless it is being found out already.
    pub(super) fn ask_beside(&mut self, role: Role) -> Option<Effect> {
        let want = self.beside(role).filter(|_| self.asked.iter().all(|asked| asked.role != role))?;
        self.number += 1;
        let ask = Ask { number: self.number, role, wants: vec![want], is_seen: role == Role::Course };
        self.asked.push(ask.clone());
        Some(Effect::Ask(ask))
    }

    /// Asks how it went in time with what the popup shows.
    pub(super) fn ask_detail(&mut self, want: Want) -> Effect {
        self.number += 1;
        let ask = Ask { number: self.number, role: Role::Detail, wants: vec![want], is_seen: true };
        self.detail = Some(self.number);
        self.asked.retain(|asked| asked.role != Role::Detail);
        self.asked.push(ask.clone());
        Effect::Ask(ask)
    }

    /// Findings, the gravest first, each once: those of the report, which is about all of the time, and of forecasts,
    /// which it has not; without one those of all tabs that were looked at.
    pub fn all_findings(&self) -> Vec<&Finding> {
        // The report puts them in order: the heaviest episode first, then what weighs in it.
        let of_forecasts = self.findings.get(&Tab::Forecast).into_iter().flatten();
        let mut all: Vec<&Finding> = self.of_report.iter().chain(of_forecasts).collect();
        let is_it = |finding: &Finding| matches!(finding.id.as_str(), "incident" | "episode");
        all.sort_by_key(|finding| (!is_it(finding), std::cmp::Reverse(finding.severity)));
        if self.story.is_empty() {
            all = self.findings.values().flatten().collect();
            all.sort_by(|a, b| a.graver(b).then_with(|| a.id.cmp(&b.id)));
        }
        let mut met = BTreeSet::new();
        all.retain(|finding| met.insert(&finding.fingerprint));
        all
    }

    /// Says something in the last line for a while.
    pub fn show_message(&mut self, what: impl Into<String>) {
        self.message = Some((self.now, what.into()));
    }

    /// Remembers something.
    pub fn remember(&mut self, severity: Severity, what: &str) {
        if let Some(last) = self.log.back_mut().filter(|last| last.what == what) {
            (last.times, last.at) = (last.times + 1, self.now);
            return;
        }
        if self.log.len() == LINES {
            self.log.pop_front();
        }
        self.log.push_back(LogLine { at: self.now, severity, what: what.to_owned(), times: 1 });
    }
}
