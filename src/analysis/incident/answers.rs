//! What the questions of a report came to, as its analysis uses them: typed, whatever of them is shown.

use crate::analysis::answer::{ClientRate, Rows};
use crate::analysis::compare;
use crate::analysis::controllers::handovers::Handover;
use crate::analysis::guard::Group;
use crate::model::incident::Section;
use crate::model::report::Finding;

/// Rows and findings of all sections.
#[derive(Debug, Default)]
pub struct Answers {
    findings: Vec<(&'static str, Vec<Finding>)>,
    /// Requests a second by client.
    pub rates: Vec<ClientRate>,
    /// What changed from before the window to within.
    pub changes: Vec<compare::Row>,
    /// Dangerous operations.
    pub operations: Vec<Group>,
    /// Lease handovers.
    pub handovers: Vec<Handover>,
}

impl Answers {
    /// Takes in what a section came to.
    pub fn add(&mut self, section: &Section, rows: Rows) {
        self.findings.push((section.name, section.report.findings.clone()));
        match rows {
            Rows::Rates(rates) => self.rates = rates,
            Rows::Changes(changes) => self.changes = changes,
            Rows::Operations(operations) => self.operations = operations,
            Rows::Handovers(handovers) => self.handovers = handovers,
            Rows::Timeline(_) | Rows::Other => {}
        }
    }

    /// Takes in others.
    pub fn merge(&mut self, other: Self) {
        let Self { findings, rates, changes, operations, handovers } = other;
        self.findings.extend(findings);
        self.rates.extend(rates);
        self.changes.extend(changes);
        self.operations.extend(operations);
        self.handovers.extend(handovers);
    }

    /// The findings of a section.
    pub fn findings(&self, section: &str) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |(name, _)| *name == section).flat_map(|(_, findings)| findings)
    }
}
