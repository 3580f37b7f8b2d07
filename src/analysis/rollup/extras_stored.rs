//! The tables of [`super::extras`] from stored ones, and as analyses read them.

use super::deprecated::Calls;
use super::extra_rows::{Cascades, Count, Load};
use super::keys::OTHER;
use super::leases::{self, Named};
use super::notable::{KINDS, KINDS_MORE, Notable};
use super::stored::{Loader, TakeRow, notable};
use super::tables::Rollup;
use super::tiles::{OTHER_KEY, Row};
use super::writers::{PairKey, Turns, WrittenKey};
use crate::analysis::controllers::handovers::{Lease, Run};
use crate::analysis::guard::consequences::{Deletions, Place};
use crate::analysis::quota::refused::{Refusals, Refused};
use crate::analysis::rollup::keys::{LoadKey, Omitted, OmittedKey, VERBS};
use crate::model::histogram::Histogram;
use crate::model::rollup::Cells;
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, SECOND};
use hashbrown::HashMap;

/// Classes of codes.
const CLASSES: [&str; 8] = ["", "0xx", "1xx", "2xx", "3xx", "4xx", "5xx", "other"];

impl Loader {
    /// What takes a row of one of these tables.
    pub(super) fn taker_of_extra(table: &str) -> Option<TakeRow> {
        Some(match table {
            "load" => Self::load,
            "operations" => Self::operation,
            "omitted" => Self::omitted,
            "cascades" => Self::cascades,
            "created" => Self::created,
            "leases" => Self::lease,
            "refusals" => Self::refusals,
            "writes" => Self::writes,
            "alternations" => Self::alternations,
            _ => return None,
        })
    }

    /// A part that was begun lacks a table.
    pub fn lacks(&mut self, table: &str) {
        self.part.extras.get_or_insert_default().without.insert(table.to_owned());
    }

    fn symbols<const N: usize>(&mut self, cells: &[Cells<'_>], row: usize, from: usize) -> [Symbol; N] {
        std::array::from_fn(|column| self.symbol(cells[from + column].text(row)))
    }

    /// Start of the tile if it is wanted, in µs.
    pub(super) fn tile(&self, cells: &[Cells<'_>], row: usize) -> Option<Micros> {
        let tile = cells[0].number(row);
        self.takes_tile(tile).then(|| tile.saturating_mul(SECOND))
    }

    fn load(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let [cluster, instance, verb] = self.symbols(cells, row, 1);
        let class = cells[4].text(row);
        let count = |column: usize| cells[column].count(row);
        let latency = Histogram::decode(cells[8].text(row), count(9), count(10)).ok_or("latency")?;
        let key = if class == OTHER {
            0
        } else {
            let class = CLASSES.into_iter().find(|known| *known == class).ok_or("class")?;
            let text = cells[3].text(row);
            if text != OTHER && !VERBS.contains(&text) {
                return Err("verb");
            }
            self.part.keys.extra.loads.number(LoadKey { cluster, instance, verb, class })
        };
        let read = Load { requests: count(5), open: count(6), ended: count(7), latency };
        let tile = self.tile;
        if let Some(extras) = &mut self.part.extras {
            extras.load.stored(tile, at, u64::from(key), &self.part.keys).merge(read, &self.part.keys);
        }
        Ok(())
    }

    fn operation(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        if !self.takes_instant(cells[0].number(row)) {
            return Ok(());
        }
        let kinds = KINDS.iter().chain(&KINDS_MORE).copied().collect::<Vec<_>>();
        let mut one = notable(cells, row, &kinds)?;
        one.received = Some(cells[19].number(row)).filter(|received| *received != 0);
        one.starts = cells[20].text(row) == "true";
        one.identity = one.is_long_running().then(|| one.stored_identity());
        if let Some(extras) = &mut self.part.extras {
            extras.operations.take(one);
        }
        Ok(())
    }

    fn omitted(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let [cluster, instance, user, agent, verb, group, resource, subresource, namespace] =
            std::array::from_fn(|column| cells[column + 1].text(row));
        let fact = Omitted::ALL.into_iter().find(|known| known.name() == cells[10].text(row)).ok_or("fact")?;
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(()) };
        let key = match fact {
            Omitted::Other => OTHER_KEY,
            fact => {
                let [instance, verb, subresource, namespace] =
                    [instance, verb, subresource, namespace].map(|text| self.symbol(text));
                let key = OmittedKey { subject, instance, verb, subresource, namespace, fact };
                u64::from(self.part.keys.extra.omitted.number(key))
            }
        };
        let (tile, count) = (self.tile, Count(cells[11].count(row)));
        if let Some(extras) = &mut self.part.extras {
            extras.omitted.stored(tile, at, key, &self.part.keys).merge(count, &self.part.keys);
        }
        Ok(())
    }

    fn cascades(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let place = self.symbols(cells, row, 1);
        let key = u64::from(self.part.keys.extra.cascades.number(place));
        let (objects, collections) = (cells[5].count(row), cells[6].count(row));
        let gone = Deletions { objects, collections, first: cells[7].number(row), last: cells[8].number(row) };
        let tile = self.tile;
        if let Some(extras) = &mut self.part.extras {
            extras.cascades.stored(tile, at, key, &self.part.keys).merge(Cascades(gone), &self.part.keys);
        }
        Ok(())
    }

    fn created(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let (first, last) = (cells[5].number(row), cells[6].number(row));
        if self.wanted.until.is_none_or(|until| first < until) {
            let key = std::array::from_fn(|column| cells[column].text(row).to_owned());
            let calls = Calls { requests: cells[4].count(row), span: Some((first, last)) };
            if let Some(extras) = &mut self.part.extras {
                extras.created.add(key, &calls);
            }
        }
        Ok(())
    }

    fn lease(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let lease = self.symbols(cells, row, 1);
        let holder = Named(self.symbols(cells, row, 6));
        let number = |column: usize| cells[column].number(row);
        let run = Run {
            holder,
            first: number(4),
            last: number(5),
            writes: cells[10].count(row),
            longest: number(11),
            is_released: cells[12].text(row) == "true",
            lasts: Some(number(13)).filter(|lasts| *lasts > 0),
        };
        if let Some(extras) = &mut self.part.extras {
            extras.leases.add(at, lease, run);
        }
        Ok(())
    }

    fn refusals(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let key = self.symbols(cells, row, 1);
        let key = u64::from(self.part.keys.extra.refusals.number(key));
        let needed = cells[6].text(row).parse().map_err(|_| "needed")?;
        let span = Some((cells[7].number(row), cells[8].number(row)));
        let (tile, read) = (self.tile, Refusals { count: cells[5].count(row), span, needed });
        if let Some(extras) = &mut self.part.extras {
            Row::merge(extras.refusals.stored(tile, at, key, &self.part.keys), read, &self.part.keys);
        }
        Ok(())
    }

    /// What was written, whose columns begin at `from`: cluster, group, resource, subresource, namespace, name, user,
    /// agent.
    fn written(&mut self, cells: &[Cells<'_>], row: usize, from: usize) -> Option<WrittenKey> {
        let [cluster, group, resource, subresource, namespace, name, user, agent] =
            std::array::from_fn(|column| cells[from + column].text(row));
        let subject = self.subject([cluster, user, agent, group, resource])?;
        let [subresource, namespace] = [subresource, namespace].map(|text| self.symbol(text));
        Some(WrittenKey { subject, subresource, namespace, name: name.into() })
    }

    fn writes(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let minute = cells[0].number(row);
        if let Some(key) = self.written(cells, row, 1).filter(|_| self.takes_tile(minute)) {
            self.part.writers.add_writes(minute.div_euclid(60), key, cells[9].count(row));
        }
        Ok(())
    }

    fn alternations(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let span = (cells[11].number(row), cells[12].number(row));
        let [cluster, group, resource, user, agent] = [0, 1, 2, 8, 9].map(|column| cells[column].text(row));
        // Of clients of which only one is wanted, the log would show no turns.
        let is_wanted = self.overlaps(span) && self.subject([cluster, user, agent, group, resource]).is_some();
        if let Some(one) = self.written(cells, row, 0).filter(|_| is_wanted) {
            let other = [user, agent].map(|text| self.symbol(text));
            let turns = Turns { turns: cells[10].count(row), span: Some(span) };
            self.part.writers.add_turns(PairKey { one, other }, &turns);
        }
        Ok(())
    }
}

/// Writes and dry runs that a timeline of dangerous operations leaves out.
#[derive(Debug, Clone, Copy)]
pub struct OmittedRow<'r> {
    /// Cluster, user, agent, group and resource.
    pub subject: [&'r str; 5],
    /// Apiserver.
    pub instance: &'r str,
    pub verb: &'r str,
    pub subresource: &'r str,
    pub namespace: &'r str,
    /// Whether they are dry runs of dangerous operations; else their bodies are hidden.
    pub is_dry_run: bool,
    /// How many.
    pub count: u64,
}

/// A row of `load`.
#[derive(Debug, Clone, Copy)]
pub struct LoadRow<'r> {
    /// Start of its tile, in seconds.
    pub tile: i64,
    pub cluster: &'r str,
    /// Apiserver.
    pub instance: &'r str,
    /// Verb; `(other)` for words that are no known method.
    pub verb: &'r str,
    /// Class of the code: `2xx`; empty where requests had none.
    pub class: &'r str,
    /// Requests, open ones included.
    pub requests: u64,
    /// Long-running requests that had not ended.
    pub open: u64,
    /// Terminal events.
    pub ended: u64,
    /// Latencies in µs.
    pub latency: &'r Histogram,
}

/// A row of `writes`.
#[derive(Debug, Clone, Copy)]
pub struct WritesRow<'r> {
    /// Number of client and resource.
    pub subject: usize,
    /// Start of the minute, in seconds.
    pub minute: i64,
    /// Cluster, group, resource, subresource, namespace, name, user, agent.
    pub key: [&'r str; 8],
    /// Writes that were done.
    pub writes: u64,
}

/// A row of `alternations`.
#[derive(Debug, Clone, Copy)]
pub struct AlternationRow<'r> {
    /// Cluster, group, resource, subresource, namespace, name, user, agent.
    pub key: [&'r str; 8],
    /// User and agent of the other client.
    pub other: [&'r str; 2],
    /// Writes that followed one of the other client, before which the same client had written.
    pub turns: u64,
    /// First and last `at`.
    pub span: (Micros, Micros),
}

/// Pods that somebody created: cluster, user, namespace, name; how many, and when the first.
pub type CreatedRow<'r> = ([&'r str; 4], u64, Micros);

impl Rollup {
    /// Terminal events.
    pub fn ended(&self) -> u64 {
        self.extra.load.iter().map(|(_, _, row)| row.ended).sum()
    }

    /// Rows of `load`.
    pub fn load(&self) -> impl Iterator<Item = LoadRow<'_>> {
        self.extra.load.iter().map(|(tile, key, row)| {
            let LoadKey { cluster, instance, verb, class } = *self.keys.extra.loads.get(*key as u32);
            let [cluster, instance, verb] = [cluster, instance, verb].map(|symbol| self.keys.symbols.get(symbol));
            let Load { requests, open, ended, ref latency } = *row;
            LoadRow { tile: *tile, cluster, instance, verb, class, requests, open, ended, latency }
        })
    }

    /// Rows of `writes`.
    pub fn writes(&self) -> impl Iterator<Item = WritesRow<'_>> {
        self.extra.writes.iter().map(|(minute, key, writes)| {
            let (subject, minute, writes) = (key.subject as usize, *minute, *writes);
            WritesRow { subject, minute, key: key.text(&self.keys), writes }
        })
    }

    /// Rows of `alternations`.
    pub fn alternations(&self) -> impl Iterator<Item = AlternationRow<'_>> {
        self.extra.alternations.iter().map(|(pair, turns)| {
            let (key, other) = pair.text(&self.keys);
            AlternationRow { key, other, turns: turns.turns, span: turns.span.unwrap_or_default() }
        })
    }

    /// Dangerous operations in full; of long-running requests both the start and the end, where both are known.
    pub fn operations(&self) -> &[Notable] {
        &self.extra.operations
    }

    /// Dangerous operations that were dropped for want of room.
    pub fn operations_dropped(&self) -> u64 {
        self.extra.operations_dropped
    }

    /// What timelines leave out, without what was folded.
    pub fn omitted(&self) -> impl Iterator<Item = OmittedRow<'_>> {
        self.extra.omitted.iter().map(|(_, key, row)| {
            let k = self.keys.extra.omitted.get(*key as u32);
            let text = |symbol| self.keys.symbols.get(symbol);
            OmittedRow {
                subject: self.keys.subject_text(k.subject),
                instance: text(k.instance),
                verb: text(k.verb),
                subresource: text(k.subresource),
                namespace: text(k.namespace),
                is_dry_run: k.fact == Omitted::DryRun,
                count: row.0,
            }
        })
    }

    /// What the control plane and kubelets deleted.
    pub fn deletions(&self) -> impl Iterator<Item = (Place, Deletions)> {
        let rows = self.extra.cascades.iter().filter(|(_, key, _)| *key != OTHER_KEY);
        rows.map(|(tile, key, row)| {
            let [cluster, namespace, group, resource] =
                self.keys.extra.cascades.get(*key as u32).map(|symbol| self.keys.symbols.get(symbol).to_owned());
            let slot = Place::slot_of(tile.saturating_mul(SECOND));
            (Place { cluster, namespace, group, resource, slot }, row.0)
        })
    }

    /// Pods that somebody created.
    pub fn created(&self) -> impl Iterator<Item = CreatedRow<'_>> {
        self.extra.created.iter().map(|(key, calls)| {
            let first = calls.span.map_or(Micros::MIN, |(first, _)| first);
            (std::array::from_fn(|place| key[place].as_str()), calls.requests, first)
        })
    }

    /// Runs of writes to leases.
    pub fn leases(&self) -> HashMap<Lease, Vec<Run>> {
        let mut all: HashMap<Lease, Vec<Run>> = HashMap::new();
        for (_, lease, run) in self.extra.leases.iter() {
            let (lease, run) = leases::in_words((lease, run), &self.keys);
            all.entry(lease).or_default().push(run);
        }
        all
    }

    /// What quotas refused.
    pub fn refused(&self) -> Refused {
        let mut refused = Refused::default();
        for (_, key, row) in self.extra.refusals.iter().filter(|(_, key, _)| *key != OTHER_KEY) {
            let [_, namespace, quota, resource] =
                self.keys.extra.refusals.get(*key as u32).map(|symbol| self.keys.symbols.get(symbol).to_owned());
            refused.add((namespace, quota, resource), row);
        }
        refused
    }

    /// Tables that it does not have, as a part of it was written by an older plimsoll.
    pub fn without(&self) -> impl Iterator<Item = &String> {
        self.extra.without.iter()
    }
}
