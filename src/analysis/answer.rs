//! What a question came to: what its command prints, and beside it the rows that other analyses build on.

use crate::analysis::compare;
use crate::analysis::controllers::handovers::Handover;
use crate::analysis::guard::Group;
use crate::model::flame::Tree;
use crate::model::incident::Entry;
use crate::model::report::Report;

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// A report, and its typed rows.
    Report(Box<Report>, Rows),
    /// A flame graph.
    Flame(Box<Tree>),
    /// Objects as YAML, ready to be applied.
    Manifests(String),
}

/// Rows that other analyses build on. A report of other rows has none here.
#[derive(Debug, Default)]
pub enum Rows {
    /// No one builds on them.
    #[default]
    Other,
    /// Requests a second by client, of a breakdown by user and agent.
    Rates(Vec<ClientRate>),
    Changes(Vec<compare::Row>),
    /// Dangerous operations.
    Operations(Vec<Group>),
    /// Lease handovers.
    Handovers(Vec<Handover>),
    /// Timeline, of a report.
    Timeline(Vec<Entry>),
}

/// How many requests a second a client sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRate {
    pub user: String,
    /// The product of the user agent.
    pub agent: String,
    /// Requests a second.
    pub rps: f64,
}

impl Answer {
    /// A report of which only the tables matter.
    pub fn of(report: Report) -> Self {
        Self::Report(Box::new(report), Rows::Other)
    }
}
