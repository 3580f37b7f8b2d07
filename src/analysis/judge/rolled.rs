//! Requests of audit logs, by their roll-up.

use super::refusals::is_refusal;
use super::requests::{Axes, FaultCount, Grid, Kind, Requests, Row, kind_of, outcome};
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::read::{TrafficRow, What, Who};
use crate::analysis::traffic::{OTHER, Outcome};
use crate::model::cause::Source;
use crate::model::histogram::midpoint;
use crate::model::time::{SECOND, Span};
use crate::model::uri::Scope;
use hashbrown::{HashMap, HashSet};
use std::hash::Hash;

/// Who apiservers are where they ask themselves.
const APISERVER: &str = "system:apiserver";

/// Intervals that are judged at most, the last ones: of hours five years.
const MOST_TILES: i64 = 50_000;

/// Callers that are judged one by one at most.
const MOST_CALLERS: usize = 10_000;

/// Things by number, each once.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    places: HashMap<T, usize>,
    pub(super) all: Vec<T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { places: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Hash + Eq + Clone> Numbers<T> {
    /// The number of a thing.
    pub(super) fn of(&mut self, thing: T) -> usize {
        *self.places.entry(thing).or_insert_with_key(|thing| {
            self.all.push(thing.clone());
            self.all.len() - 1
        })
    }
}

/// A key of `traffic`, by numbers of [`Axes`].
#[derive(Debug, Clone, Copy)]
struct Key {
    caller: usize,
    kind: usize,
    instance: usize,
    /// How such requests ended.
    outcome: Outcome,
    /// Whether a rule of the cluster refused them.
    is_refused: bool,
    /// Whether they had no valid credentials.
    is_unauthorized: bool,
}

/// The requests of a roll-up, without those of the apiservers themselves, of which there are many whenever one starts.
#[derive(Debug)]
pub struct Rolled<'r> {
    rollup: &'r Rollup,
    axes: Axes,
    /// By number of a key; `None` of what is left out.
    keys: Vec<Option<Key>>,
    /// What apiservers ask themselves.
    own: HashSet<Kind>,
    faults: Vec<FaultCount>,
    starts: Vec<(Span, usize)>,
}

impl<'r> Rolled<'r> {
    /// `None` where the roll-up holds nothing.
    pub fn new(rollup: &'r Rollup) -> Option<Self> {
        let (mut callers, mut kinds, mut instances) = (Numbers::default(), Numbers::default(), Numbers::default());
        let mut keys: Vec<Option<Option<Key>>> = Vec::new();
        let mut own = HashSet::default();
        let mut starts = Vec::new();
        let subjects = rollup.subjects();
        let busy = busiest(rollup);
        let tile = rollup.tile_seconds() * SECOND;
        for row in rollup.traffic() {
            let number = row.key as usize;
            if is_start(&row, &subjects) {
                starts.push(((row.tile * SECOND, row.tile * SECOND + tile), instances.of(row.instance.to_owned())));
            }
            if keys.len() <= number {
                keys.resize(number + 1, None);
            }
            keys[number].get_or_insert_with(|| {
                let (who, (group, resource)) = subjects.get(row.subject)?;
                let kind = kind_of([row.verb, group, resource, row.subresource], row.scope == Scope::Namespace);
                if who.user == APISERVER {
                    own.insert(kind);
                    return None;
                }
                let is_named = busy.as_ref().is_none_or(|busy| busy.contains(&(who.user, who.agent)));
                let caller = if is_named { [who.user, who.agent] } else { [OTHER; 2] };
                let caller = callers.of(caller.map(str::to_owned));
                let kind = kinds.of(kind);
                let instance = instances.of(row.instance.to_owned());
                let (outcome, is_refused) = (outcome(row.code, &kinds.all[kind]), is_refusal(row.code));
                // Where the authenticator refuses, it does not know whom.
                let is_unauthorized = row.code == Some(401) && matches!(who.user, "" | "system:anonymous");
                Some(Key { caller, kind, instance, outcome, is_refused, is_unauthorized })
            });
        }
        let (from, to) = rollup.span.filter(|(from, to)| from < to)?;
        // A few events that are dated a thousand years back are no record of a thousand years.
        let span = (from.max(to - MOST_TILES * tile), to);
        let grid = Grid { tile, phase: 0, span };
        let others = rollup.failures().filter(|row| row.subject[1] != APISERVER);
        let faults = others.filter_map(|row| {
            let tile = grid.place(row.tile * SECOND)?;
            Some(FaultCount { tile, fault: row.fault, name: row.name.to_owned(), count: row.count as f64 })
        });
        let faults = faults.collect();
        Some(Self {
            rollup,
            faults,
            starts,
            axes: Axes { grid, callers: callers.all, kinds: kinds.all, instances: instances.all },
            keys: keys.into_iter().map(Option::flatten).collect(),
            own,
        })
    }
}

/// Whether an apiserver starts: each creates a lease of its own then (from Kubernetes 1.26 on, `apiserver-…` in
/// kube-system), and keeps it as long as it lives.
fn is_start(row: &TrafficRow<'_>, subjects: &[(Who<'_>, What<'_>)]) -> bool {
    row.verb == "create"
        && matches!(row.code, Some(200..=299))
        && subjects.get(row.subject).is_some_and(|(who, (_, resource))| who.user == APISERVER && *resource == "leases")
}

/// The callers with most requests, where there are more than [`MOST_CALLERS`]: a client that calls itself something
/// else each time could otherwise fill the memory.
fn busiest(rollup: &Rollup) -> Option<HashSet<(&str, &str)>> {
    let subjects = rollup.subjects();
    if subjects.len() <= MOST_CALLERS {
        return None;
    }
    let mut requests = vec![0; subjects.len()];
    rollup.traffic().for_each(|row| requests[row.subject] += row.requests);
    let mut counts: HashMap<(&str, &str), u64> = HashMap::default();
    for ((who, _), requests) in subjects.iter().zip(requests) {
        *counts.entry((who.user, who.agent)).or_default() += requests;
    }
    if counts.len() <= MOST_CALLERS {
        return None;
    }
    let mut counts: Vec<((&str, &str), u64)> = counts.into_iter().collect();
    counts.select_nth_unstable_by(MOST_CALLERS, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Some(counts.into_iter().take(MOST_CALLERS).map(|(who, _)| who).collect())
}

impl Requests for Rolled<'_> {
    fn source(&self) -> Source {
        Source::Audit
    }

    fn axes(&self) -> &Axes {
        &self.axes
    }

    fn leaves_out(&self, kind: &Kind) -> bool {
        self.own.contains(kind)
    }

    fn faults(&self) -> &[FaultCount] {
        &self.faults
    }

    fn starts(&self) -> &[(Span, usize)] {
        &self.starts
    }

    fn each(&self, take: &mut dyn FnMut(Row<'_>)) {
        let mut latency = Vec::new();
        for row in self.rollup.traffic() {
            let Some(&Some(Key { caller, kind, instance, outcome, is_refused, is_unauthorized })) =
                self.keys.get(row.key as usize)
            else {
                continue;
            };
            let Some(tile) = self.axes.grid.place(row.tile * SECOND) else { continue };
            let requests = row.requests as f64;
            let of = |wanted: Outcome| if outcome == wanted { requests } else { 0.0 };
            latency.clear();
            latency.extend(
                row.latency().buckets().iter().map(|(bucket, count)| ((midpoint(*bucket) / 1e6) as f32, *count as f32)),
            );
            take(Row {
                tile,
                caller,
                kind,
                is_start: false,
                controller: None,
                instance,
                requests,
                errors: of(Outcome::Error),
                throttled: of(Outcome::Throttled),
                refused: if is_refused { requests } else { 0.0 },
                unauthorized: if is_unauthorized { requests } else { 0.0 },
                spent: row.spent().map(|micros| micros as f64 / 1e6),
                latency: &latency,
            });
        }
    }
}
