//! Who asked for more, and who behaves badly: a card for each.

use super::answers::Answers;
use super::causes::request;
use super::suspects::Suspect;
use crate::analysis::judge::requests::Caller;
use crate::model::incident::Card;
use crate::model::report::{Finding, Severity};
use std::collections::BTreeMap;

/// Cards that are shown.
const CARDS: usize = 16;
/// A smaller part of the added work has no card and no line of the timeline for it alone.
pub(super) const MIN_SHARE: f64 = 0.02;
/// Kinds of requests that a card names.
const ASKS: usize = 4;

/// Cards, those first who added most; then those of whom something was found.
pub fn cards(suspects: &[Suspect], answers: &Answers) -> Vec<Card> {
    let mut found: BTreeMap<(String, String), Vec<Finding>> = BTreeMap::new();
    let all = ["clients", "chronic"].into_iter().flat_map(|name| answers.findings(name));
    for finding in all.filter(|finding| finding.severity >= Severity::Warning) {
        let field = |name: &str| finding.subject.get(name).cloned().unwrap_or_default();
        let own = found.entry((field("user"), field("agent"))).or_default();
        if own.iter().all(|other| other.fingerprint != finding.fingerprint) {
            own.push(finding.clone());
        }
    }
    let mut all: Vec<Card> = Vec::new();
    for suspect in suspects.iter().filter(|suspect| suspect.who != Caller::default()) {
        let [user, agent] = &suspect.who;
        let findings = found.remove(&(user.clone(), agent.clone())).unwrap_or_default();
        if suspect.share < MIN_SHARE && findings.is_empty() {
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
    for ((user, agent), findings) in found {
        let rate = answers.rates.iter().find(|rate| rate.user == user && rate.agent == agent);
        let rps = rate.map(|rate| rate.rps);
        all.push(Card { user, agent, rps: [None, rps, None], share: None, asks: Vec::new(), findings });
    }
    all.truncate(CARDS);
    all
}
