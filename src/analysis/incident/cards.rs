//! Who asked for more, and who behaves badly: a card for each.

use super::causes::clients::request;
use super::rows::{rows, section};
use super::suspects::Suspect;
use crate::model::incident::{Card, Section};
use crate::model::report::{Finding, Severity};
use std::collections::BTreeMap;

/// Cards that are shown.
const CARDS: usize = 16;
/// A smaller part of the added work has no card for it alone.
const SMALL: f64 = 0.02;
/// Kinds of requests that a card names.
const ASKS: usize = 4;

/// Cards, those first who added most; then those of whom something was found.
pub fn cards(suspects: &[Suspect], sections: &[Section]) -> Vec<Card> {
    let mut found: BTreeMap<(String, String), Vec<Finding>> = BTreeMap::new();
    let reports = ["clients", "chronic"].into_iter().filter_map(|name| section(sections, name));
    for finding in reports.flat_map(|report| &report.findings).filter(|finding| finding.severity >= Severity::Warning) {
        let field = |name: &str| finding.subject.get(name).cloned().unwrap_or_default();
        let own = found.entry((field("user"), field("agent"))).or_default();
        if own.iter().all(|other| other.fingerprint != finding.fingerprint) {
            own.push(finding.clone());
        }
    }
    let mut all: Vec<Card> = Vec::new();
    for suspect in suspects.iter().filter(|suspect| !suspect.who[0].is_empty()) {
        let [user, agent] = &suspect.who;
        let findings = found.remove(&(user.clone(), agent.clone())).unwrap_or_default();
        if suspect.share < SMALL && findings.is_empty() {
            continue;
        }
        let asks = suspect
            .lines
            .iter()
            .filter(|line| line.rps[1] > 0.0)
            .take(ASKS)
            .map(|line| (request(line), line.rps))
            .collect();
        let rps = [Some(suspect.rps[0]), Some(suspect.rps[1]), None];
        all.push(Card { user: user.clone(), agent: agent.clone(), rps, share: Some(suspect.share), asks, findings });
    }
    // Without a window, and of those who were only there before it.
    let rates = section(sections, "traffic_by_client");
    for ((user, agent), findings) in found {
        let is_it = |row: &super::rows::Cells<'_>| row.text("user") == user && row.text("agent") == agent;
        let rps = rates.and_then(|report| rows(report).find(is_it)).and_then(|row| row.number("rps"));
        all.push(Card { user, agent, rps: [None, rps, None], share: None, asks: Vec::new(), findings });
    }
    all.truncate(CARDS);
    all
}
