//! A window of a roll-up that is held in memory, as the roll-up of the log's window.

use super::extras::ExtraTables;
use super::rows::Traffic;
use super::shared::Shared;
use super::steps::{ArrivalCount, StepWindow, Steps};
use super::tables::Rollup;
use super::tiles::OTHER_KEY;
use super::wanted::{Tables, Wanted};
use crate::analysis::traffic::Outcome;
use crate::model::time::{Micros, SECOND};
use std::sync::Arc;

impl Rollup {
    /// What is wanted of a roll-up that is held; `None` where it can't determine: of some clients, of a time that is
    /// not in whole tiles, or where it was made without what that takes.
    pub fn within(&self, wanted: &Wanted) -> Option<Self> {
        let held = self.held.as_ref()?;
        if !wanted.filters.is_empty() || wanted.with_seams {
            return None;
        }
        let bounds = self.whole_tiles(wanted.since, wanted.until)?;
        let (from, to) = bounds;
        let (span, late) = held.steps.span(bounds);
        let overlaps = |(first, last): (Micros, Micros)| first < to && last >= from;
        let is_all = |own: &Option<(Micros, Micros)>| own.is_none_or(overlaps);
        let with_rest = match wanted.tables {
            Tables::Clients => true,
            // Its seams are not held.
            Tables::All | Tables::OperationsOfSome => return None,
            _ => false,
        };
        let begun: Vec<_> = held
            .steps
            .across(bounds)
            .map(|long| {
                let tile = long.start.div_euclid(self.tile * SECOND) * self.tile;
                let row = Traffic { requests: 1, open: u64::from(!long.failed), ..Traffic::default() };
                (tile, u64::from(long.key), row)
            })
            .collect();
        let traffic = self.traffic.of_time(bounds);
        let open = traffic.iter().chain(&begun).map(|(_, _, row)| row.open).sum();
        let clients = self.clients.only(|(_, client)| with_rest && is_all(&client.span));
        Some(Self {
            keys: Arc::clone(&self.keys),
            traffic,
            begun,
            extra: self.extra_within(wanted.tables, bounds),
            pulse: self.pulse.of_time(bounds),
            facts: if with_rest { self.facts.of_time(bounds) } else { Shared::default() },
            sources: if with_rest { self.sources.of_time(bounds) } else { Shared::default() },
            failures: if with_rest { self.failures.of_time(bounds) } else { Shared::default() },
            objects: self.objects.only(|(_, _, object)| with_rest && is_all(&object.span)),
            notable: self.notable.only(|one| with_rest && (from..to).contains(&one.at)),
            clients: if clients.len() == self.clients.len() { clients } else { clipped(&clients, bounds) },
            deprecated: self.deprecated.only(|(_, calls)| with_rest && is_all(&calls.span)),
            seams: None,
            held: Some(StepWindow { steps: Arc::clone(&held.steps), bounds }),
            tile: self.tile,
            span,
            late,
            open,
            repeated_ids: self.repeated_ids,
            objects_dropped: self.objects_dropped,
            notable_dropped: self.notable_dropped,
        })
    }

    /// Of the tables beside those of clients the ones that are wanted. Operations have exact times, writes count in the
    /// minute that begins in the window, and of pairs of writers and of pods that somebody created all is taken that
    /// the window may show the end of: as of a stored roll-up.
    fn extra_within(&self, tables: Tables, bounds: (Micros, Micros)) -> ExtraTables {
        let (from, to) = bounds;
        let overlaps = |(first, last): (Micros, Micros)| first < to && last >= from;
        let begun = |(first, _): (Micros, Micros)| first < to;
        let mut extra = ExtraTables { without: self.extra.without.clone(), ..ExtraTables::default() };
        for spec in tables.specs() {
            match spec.name {
                "load" => extra.load = self.extra.load.of_time(bounds),
                "omitted" => extra.omitted = self.extra.omitted.of_time(bounds),
                "cascades" => extra.cascades = self.extra.cascades.of_time(bounds),
                "refusals" => extra.refusals = self.extra.refusals.of_time(bounds),
                "leases" => extra.leases = self.extra.leases.of_time(bounds),
                "operations" => {
                    extra.operations = self.extra.operations.only(|one| (from..to).contains(&one.at));
                    extra.operations_dropped = self.extra.operations_dropped;
                }
                "created" => extra.created = self.extra.created.only(|(_, calls)| calls.span.is_none_or(begun)),
                "writes" => extra.writes = self.extra.writes.of_time(bounds),
                "alternations" => {
                    extra.alternations = self.extra.alternations.only(|(_, turns)| turns.span.is_none_or(overlaps));
                }
                _ => {}
            }
        }
        extra
    }

    /// Bounds that are those of tiles, or lie where nothing is.
    fn whole_tiles(&self, since: Option<Micros>, until: Option<Micros>) -> Option<(Micros, Micros)> {
        let (first, last) = self.span?;
        let is_edge = |at: &Micros| at.rem_euclid(self.tile * SECOND) == 0;
        let from = since.filter(|since| *since > first);
        let to = until.filter(|until| *until <= last);
        let is_whole = from.as_ref().is_none_or(is_edge) && to.as_ref().is_none_or(is_edge);
        is_whole.then(|| (from.unwrap_or(Micros::MIN), to.unwrap_or(Micros::MAX)))
    }

    /// Requests by second of arrival, where they are held.
    pub(in crate::analysis) fn timed(&self) -> Option<impl Iterator<Item = ArrivalCount>> {
        let StepWindow { steps, bounds } = self.held.as_ref()?;
        let across = steps.across(*bounds).map(|long| {
            let second = |at: Micros| at.div_euclid(SECOND);
            let tile = second(long.start).div_euclid(10) * 10;
            ArrivalCount { tile, second: second(long.received), key: long.key, count: 1 }
        });
        Some(steps.arrivals(*bounds)?.chain(across))
    }

    /// Failed requests whose end is not in the window: errors, and 429.
    pub(in crate::analysis) fn failed_across(&self) -> (u64, u64) {
        self.begun.iter().filter(|(_, _, row)| row.open == 0).fold((0, 0), |(errors, throttled), (_, key, _)| {
            match Outcome::of_code(self.keys.traffic.get(*key as u32).code) {
                Outcome::Error => (errors + 1, throttled),
                Outcome::Throttled => (errors, throttled + 1),
                _ => (errors, throttled),
            }
        })
    }

    /// Whether every request stands in a row of its own kind, and every kubelet for itself: whether a breakdown by
    /// users, or by anything else, is the log's own.
    pub fn is_exact(&self, by_user: bool) -> bool {
        let is_folded = self.traffic.iter().any(|(_, key, row)| *key == OTHER_KEY && row.requests > 0);
        let kubelets =
            || self.keys.subjects.iter().any(|subject| self.keys.symbols.get(subject.user) == "system:node:*");
        !(is_folded || by_user && kubelets())
    }

    /// Whether nothing of rare events was folded or dropped: whether what they show of a window is what the log shows.
    pub fn has_all_rare(&self) -> bool {
        self.extra.is_all()
    }

    /// Keeps beside the tables what its windows are derived from.
    pub(super) fn hold(&mut self, steps: Steps) {
        self.held = Some(StepWindow { steps: Arc::new(steps), bounds: (Micros::MIN, Micros::MAX) });
    }
}

impl<K, V> Shared<(i64, K, V)> {
    /// The rows of some tiles.
    fn of_time(&self, (from, to): (Micros, Micros)) -> Self {
        let place = |at: Micros| self.partition_point(|(second, ..)| second.saturating_mul(SECOND) < at);
        self.between(place(from), place(to))
    }
}

type Client = (super::clients::ClientKey, super::clients::Client);

/// Clients, whose time is cut to the window.
fn clipped(clients: &Shared<Client>, (from, to): (Micros, Micros)) -> Shared<Client> {
    let clip = |(key, client): &Client| {
        let mut client = client.clone();
        client.span = client.span.map(|(first, last)| (first.max(from), last.min(to)));
        (*key, client)
    };
    clients.iter().map(clip).collect::<Vec<_>>().into()
}
