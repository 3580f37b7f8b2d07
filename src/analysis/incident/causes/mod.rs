//! What may have caused an incident: every candidate is looked at, whether anything speaks for it or not. (Weights and
//! why: docs/report.md.)
//!
//! Each piece of evidence moves a candidate's log-odds; what they come to is lowered by what was not at hand, as any of
//! it might have told of another cause.

pub mod clients;
mod control_plane;
mod memory;
mod store;

use super::suspects::{Suspect, growth};
use super::timeline::Known;
use crate::analysis::metrics::facts::Facts;
use crate::model::incident::{Cause, Evidence, Source, Span};
use crate::model::time::{Micros, SECOND};
use crate::model::units::percent;

/// Log-odds of a candidate that nothing is known of: about one in eight.
const NOTHING: f64 = -2.0;
/// No evidence makes more certain than this.
const SUREST: f64 = 0.97;
/// So much more work than before is nobody's surge, whosever most of it is.
const HARDLY: f64 = 0.25;
/// What happens so close to the start or the end of the window happened with it.
const WITH: Micros = 15 * SECOND;
/// Candidates of one kind that are told.
const OF_A_KIND: usize = 5;

/// What causes are told from.
#[derive(Debug)]
pub struct Case<'k> {
    /// What is known altogether.
    pub known: Known<'k>,
    /// What was read, as the words of a command.
    pub sources: String,
    /// When it was.
    pub window: Span,
    /// Metrics of the time before it.
    pub before: &'k Facts,
    /// Metrics of the window.
    pub within: &'k Facts,
    /// What was read.
    pub read: &'k [Source],
}

/// What kinds of sources tell that others don't, and how much surer they make.
fn without(source: Source) -> (f64, &'static str) {
    match source {
        Source::Audit => (0.6, "audit logs: who sent the requests, and what people did"),
        Source::Metrics => {
            (0.85, "metrics: whether apiservers restarted or refused requests, and how fast etcd and webhooks were")
        }
        Source::Etcd => (0.95, "a database of etcd: what filled the key space"),
        Source::Cgroup => (0.93, "memory.stat of the apiservers' cgroups: whether memory was short, and of what"),
        Source::Heap => (0.97, "heap profiles: what the apiservers held in memory"),
        Source::Objects => (0.95, "Kubernetes objects: owners, quotas, webhooks"),
    }
}

/// A candidate while its evidence is gathered.
#[derive(Debug)]
struct Draft {
    cause: Cause,
    odds: f64,
}

impl Draft {
    fn new(kind: &'static str, subject: Vec<(&'static str, String)>, summary: String) -> Self {
        let cause = Cause {
            kind,
            subject,
            summary,
            confidence: 0.0,
            confidence_if_complete: 0.0,
            supports: Vec::new(),
            contradicts: Vec::new(),
            missing: Vec::new(),
            now: Vec::new(),
            later: Vec::new(),
            manifests: Vec::new(),
        };
        Self { cause, odds: NOTHING }
    }

    /// Adds evidence: above 0 it speaks for it, else against it.
    fn says(&mut self, source: Source, weight: f64, text: impl Into<String>) {
        let evidence = Evidence { text: text.into(), source, weight };
        self.odds += weight;
        if weight > 0.0 { self.cause.supports.push(evidence) } else { self.cause.contradicts.push(evidence) }
    }

    fn finish(mut self, read: &[Source]) -> Cause {
        let sure = 1.0 / (1.0 + (-self.odds).exp());
        // Without anything that speaks for it, it is no more than a name.
        let sure = if self.cause.supports.is_empty() { sure.min(0.05) } else { sure.min(SUREST) };
        self.cause.confidence_if_complete = sure;
        self.cause.confidence = sure;
        for source in Source::ALL.into_iter().filter(|source| !read.contains(source)) {
            let (factor, what) = without(source);
            self.cause.confidence *= factor;
            self.cause.missing.push(what.to_owned());
        }
        let strongest = |a: &Evidence, b: &Evidence| b.weight.abs().total_cmp(&a.weight.abs());
        self.cause.supports.sort_by(strongest);
        self.cause.contradicts.sort_by(strongest);
        self.cause
    }
}

/// All candidates, the likeliest first.
pub fn causes(case: &Case<'_>) -> Vec<Cause> {
    let mut drafts = clients::surges(case);
    drafts.extend(clients::requests(case));
    drafts.extend(clients::lists(case));
    drafts.extend(clients::writes(case));
    if let Some(growth) = growth(case.known.suspects).filter(|growth| *growth < HARDLY) {
        let source = clients::source_of(case);
        let text = format!("altogether hardly more work was asked for than before: {} on top", percent(growth));
        drafts.iter_mut().for_each(|draft| draft.says(source, -2.0, text.clone()));
    }
    drafts.extend(clients::cascades(case));
    drafts.extend(control_plane::restarts(case));
    drafts.extend(control_plane::webhooks(case));
    drafts.extend(control_plane::imbalance(case));
    drafts.extend(store::slow(case));
    drafts.extend(store::full(case));
    drafts.extend(memory::short(case));
    let mut all: Vec<Cause> = drafts.into_iter().map(|draft| draft.finish(case.read)).collect();
    all.sort_by(|a, b| {
        b.confidence.total_cmp(&a.confidence).then_with(|| (a.kind, &a.subject).cmp(&(b.kind, &b.subject)))
    });
    all
}

/// Who asked for more, if anyone can be named.
fn named<'k>(case: &Case<'k>) -> impl Iterator<Item = &'k Suspect> {
    case.known.suspects.iter().filter(|suspect| !suspect.who[0].is_empty())
}
