//! Questions as plain data, whoever asks them. The command line, a report and the terminal UI compose them;
//! `commands::answer` answers them; [`Question::words`] writes the command that asks the same.
//!
//! A question holds nothing about how the answer is shown (`-o`, `--top`, `--sort-by`), and nothing about live clusters
//! and Prometheus, which only the command line names. Conditions (`--where`) and dimensions are the texts of the
//! command line: the command that answers reads them and reports what is wrong with them.

mod capacity;
mod condition;
mod line;
mod requests;
mod state;

pub use capacity::{Forecast, PeakOf, QuotaCheck, QuotaLint, QuotaPropose, QuotaSources};
pub use condition::condition;
pub use line::Line;
pub use requests::{Balance, Clients, Compare, Controllers, Emit, Form, GatewayName, GuardEvents, Kind, Traffic};
pub use state::{
    EtcdCheck, EtcdDiff, EtcdFlame, EtcdHealth, EtcdHistory, EtcdPages, EtcdSplit, EtcdTop, EtcdUsage, HeapDiff,
    HeapFlame, HeapTop, HeapWhat, HistoryBy, KeysBy, MemoryShow, StacksBy, Weight,
};

use super::time::{Bounds, Micros};

/// The bounds of what happened up to a moment, which belongs to them; those given where there is none.
pub fn up_to(at: Option<Micros>, (since, until): Bounds) -> Bounds {
    (since, at.map(|moment| moment + 1).or(until))
}

/// A question that one command answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    Traffic(Traffic),
    Clients(Clients),
    Balance(Balance),
    Compare(Compare),
    Controllers(Controllers),
    GuardEvents(GuardEvents),
    EtcdUsage(EtcdUsage),
    EtcdFlame(EtcdFlame),
    EtcdTop(EtcdTop),
    EtcdHistory(EtcdHistory),
    EtcdPages(EtcdPages),
    EtcdCheck(EtcdCheck),
    EtcdDiff(EtcdDiff),
    EtcdSplit(EtcdSplit),
    EtcdHealth(EtcdHealth),
    MemoryShow(MemoryShow),
    HeapTop(HeapTop),
    HeapFlame(HeapFlame),
    HeapDiff(HeapDiff),
    QuotaPropose(QuotaPropose),
    QuotaCheck(QuotaCheck),
    QuotaLint(QuotaLint),
    Forecast(Forecast),
    Fleet(Fleet),
    Report(Report),
}

impl Question {
    /// The command line that asks the same, without the program's name.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::Traffic(own) => own.line(),
            Self::Clients(own) => own.line(),
            Self::Balance(own) => own.line(),
            Self::Compare(own) => own.line(),
            Self::Controllers(own) => own.line(),
            Self::GuardEvents(own) => own.line(),
            Self::EtcdUsage(own) => own.line(),
            Self::EtcdFlame(own) => own.line(),
            Self::EtcdTop(own) => own.line(),
            Self::EtcdHistory(own) => own.line(),
            Self::EtcdPages(own) => own.line(),
            Self::EtcdCheck(own) => own.line(),
            Self::EtcdDiff(own) => own.line(),
            Self::EtcdSplit(own) => own.line(),
            Self::EtcdHealth(own) => own.line(),
            Self::MemoryShow(own) => own.line(),
            Self::HeapTop(own) => own.line(),
            Self::HeapFlame(own) => own.line(),
            Self::HeapDiff(own) => own.line(),
            Self::QuotaPropose(own) => own.line(),
            Self::QuotaCheck(own) => own.line(),
            Self::QuotaLint(own) => own.line(),
            Self::Forecast(own) => own.line(),
            Self::Fleet(own) => own.line(),
            Self::Report(own) => own.line(),
        }
        .into_words()
    }
}

/// `plimsoll fleet`, of clusters that do not answer now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fleet {
    /// A source of a cluster each, or `NAME=SOURCE`, or a folder of clusters.
    pub sources: Vec<String>,
    /// What of each cluster's data is looked at.
    pub bounds: Bounds,
    /// The version to upgrade to: 1.37.
    pub to: Option<String>,
}

impl Fleet {
    fn line(&self) -> Line {
        Line::new(&["fleet"]).sources(&self.sources).bounds(self.bounds).text("--to", self.to.as_ref())
    }
}

/// `plimsoll report`, as far as others refer to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Sources of any kind.
    pub sources: Vec<String>,
    /// What is read at all.
    pub bounds: Bounds,
    /// The window, where it is named.
    pub window: Option<(Micros, Micros)>,
    /// Heading of the report.
    pub title: Option<String>,
    /// Owner named in the report.
    pub owner: Option<String>,
    /// Stores and files with series in time.
    pub history: Vec<String>,
    /// Files with sections of one's own.
    pub templates: Vec<String>,
    /// Whether names are replaced.
    pub redact: bool,
}

impl Report {
    fn line(&self) -> Line {
        Line::new(&["report"])
            .sources(&self.sources)
            .bounds(self.bounds)
            .time("--from", self.window.map(|window| window.0))
            .time("--to", self.window.map(|window| window.1))
            .text("--title", self.title.as_ref())
            .text("--owner", self.owner.as_ref())
            .each("--history", &self.history)
            .each("--template", &self.templates)
            .switch("--redact", self.redact)
    }
}
