//! Tables beside requests and clients: `load`, and what few events have (docs/rollup.md, section 4). They are made only
//! for roll-ups that are stored; `writes` and `alternations` ([`super::writers`]), which stand here when they are done,
//! for all of them.

use super::deprecated::Calls;
use super::extra::Extra;
use super::extra_rows::{Cascades, Count, Load};
use super::keys::Keys;
use super::leases::{self, LeaseKey, Leases, Named};
use super::notable::{self, Notable, is_control_plane};
use super::operations::{Created, CreatedKey, MAX_CREATED, Operations};
use super::shared::Shared;
use super::tiles::{OTHER_KEY, Progress, Scale, Tiles, sorted};
use super::writers::{Busy, PairKey, Turns};
use crate::analysis::controllers::handovers::Run;
use crate::analysis::guard::consequences::Deletions;
use crate::analysis::quota::refused::Refusals;
use crate::analysis::rollup::keys::{LoadKey, Omitted, OmittedKey};
use crate::model::symbols::Symbol;
use crate::model::time::Micros;
use std::collections::BTreeSet;

/// The tables while events are counted.
#[derive(Debug)]
pub struct Extras {
    pub(super) load: Tiles<Load>,
    /// By number of a traffic key, the number of its load key; 0 where that is not known yet.
    loads: Vec<u32>,
    pub(super) omitted: Tiles<Count>,
    pub(super) cascades: Tiles<Cascades>,
    pub(super) refusals: Tiles<Refusals>,
    pub(super) operations: Operations,
    pub(super) created: Created,
    pub(super) leases: Leases,
    /// Tables that some part lacks.
    pub(super) without: BTreeSet<String>,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            load: Tiles::new(Scale::LOAD),
            loads: Vec::new(),
            omitted: Tiles::new(Scale::SUBJECTS),
            cascades: Tiles::new(Scale::SUBJECTS),
            refusals: Tiles::new(Scale::SUBJECTS),
            operations: Operations::default(),
            created: Created::default(),
            leases: Leases::default(),
            without: BTreeSet::new(),
        }
    }
}

/// An event as these tables need it.
pub(super) struct Seen {
    pub(super) at: Micros,
    pub(super) late: bool,
    /// Number of its traffic key.
    pub(super) key: u32,
}

impl Extras {
    /// The row of `load` in which a request with a traffic key counts.
    #[inline]
    pub(super) fn load(&mut self, &Seen { at, late, key }: &Seen, keys: &mut Keys) -> &mut Load {
        let place = key as usize;
        if place >= self.loads.len() {
            self.loads.resize(place + 1, 0);
        }
        if self.loads[place] == 0 && key != 0 {
            let load = LoadKey::of(keys.traffic.get(key), keys);
            self.loads[place] = keys.extra.loads.number(load);
        }
        self.load.row(at, late, u64::from(self.loads[place]), keys)
    }

    /// Counts what few events have.
    pub(super) fn count(&mut self, seen: &Seen, extra: Extra, name: &str, keys: &mut Keys) {
        let &Seen { at, late, key } = seen;
        let traffic = *keys.traffic.get(key);
        let subject = *keys.subjects.get(traffic.subject);
        let Extra { meaning, lease, refusal } = extra;
        if let Some(is_collection) = meaning.follows {
            let place = [subject.cluster, traffic.namespace, subject.group, subject.resource];
            let number = u64::from(keys.extra.cascades.number(place));
            self.cascades.row(at, late, number, keys).0.add(at, is_collection);
        }
        for (is_so, fact) in [(meaning.is_dry_run, Omitted::DryRun), (meaning.is_hidden, Omitted::Hidden)] {
            if is_so {
                let (subject, instance, verb) = (traffic.subject, traffic.instance, traffic.verb);
                let (subresource, namespace) = (traffic.subresource, traffic.namespace);
                let key = OmittedKey { subject, instance, verb, subresource, namespace, fact };
                let number = u64::from(keys.extra.omitted.number(key));
                self.omitted.row(at, late, number, keys).0 += 1;
            }
        }
        if meaning.creates {
            let user = keys.symbols.get(subject.user);
            // Only of these a deleted pod is an operation.
            if !is_control_plane(user) && !user.starts_with("system:node:") {
                let texts = [subject.cluster, subject.user, traffic.namespace].map(|symbol| keys.symbols.get(symbol));
                let [cluster, user, namespace] = texts.map(str::to_owned);
                self.created.count(at, [cluster, user, namespace, name.to_owned()]);
            }
        }
        if let Some(one) = meaning.operation {
            self.operations.take(*one);
        }
        if let Some(write) = lease {
            self.leases.take(at, late, *write, subject.cluster, keys);
        }
        if let Some(refusal) = refusal {
            let quota = keys.intern(&refusal.quota);
            for (resource, needed) in refusal.needed {
                let key = [subject.cluster, traffic.namespace, quota, keys.intern(&resource)];
                let number = u64::from(keys.extra.refusals.number(key));
                let one = Refusals { count: 1, span: Some((at, at)), needed };
                self.refusals.row(at, late, number, keys).merge(&one);
            }
        }
    }

    pub(super) fn close(&mut self, progress: Progress, keys: &Keys) {
        self.load.close(progress, keys);
        self.omitted.close(progress, keys);
        self.cascades.close(progress, keys);
        self.refusals.close(progress, keys);
        self.leases.close(progress.released, leases::length(progress.span), keys);
    }

    /// Folds tiles to so many rows.
    pub(super) fn fold_to(&mut self, rows: usize) {
        self.omitted.fold_to(rows);
        self.cascades.fold_to(rows);
        self.refusals.fold_to(rows);
    }

    /// Tiles are to be at least so many seconds long.
    pub(super) fn at_least(&mut self, length: i64) {
        self.load.at_least(length);
        self.omitted.at_least(length);
        self.cascades.at_least(length);
        self.refusals.at_least(length);
    }

    /// Folds stored tiles of several roll-ups, as those of one are folded.
    pub(super) fn refold(&mut self, span: Micros, keys: &Keys) {
        self.load.refold(span, keys);
        self.omitted.refold(span, keys);
        self.cascades.refold(span, keys);
        self.refusals.refold(span, keys);
    }

    /// The rows, in tiles of a length.
    pub(super) fn finish(self, span: Option<(Micros, Micros)>, length: i64, keys: &Keys) -> ExtraTables {
        let long = span.map_or(0, |(first, last)| last - first);
        let (operations, operations_dropped) = self.operations.finish();
        ExtraTables {
            load: sorted(self.load.finish(long, keys), keys).into(),
            omitted: sorted(self.omitted.finish(long, keys), keys).into(),
            cascades: sorted(self.cascades.finish(long, keys), keys).into(),
            refusals: sorted(self.refusals.finish(long, keys), keys).into(),
            operations: operations.into(),
            operations_dropped,
            created: self.created.into_rows().into(),
            leases: self.leases.finish(length, keys).into(),
            without: self.without,
            ..ExtraTables::default()
        }
    }
}

/// The tables, finished.
#[derive(Debug, Default)]
pub(super) struct ExtraTables {
    pub(super) load: Shared<(i64, u64, Load)>,
    pub(super) omitted: Shared<(i64, u64, Count)>,
    pub(super) cascades: Shared<(i64, u64, Cascades)>,
    pub(super) refusals: Shared<(i64, u64, Refusals)>,
    pub(super) operations: Shared<Notable>,
    pub(super) operations_dropped: u64,
    pub(super) created: Shared<(CreatedKey, Calls)>,
    pub(super) leases: Shared<(i64, LeaseKey, Run<Named>)>,
    pub(super) writes: Shared<Busy>,
    pub(super) alternations: Shared<(PairKey, Turns)>,
    pub(super) without: BTreeSet<String>,
}

impl ExtraTables {
    /// Whether nothing of the tables of rare events was folded or dropped.
    pub(super) fn is_all(&self) -> bool {
        let folded = [
            self.omitted.iter().any(|(_, key, _)| *key == OTHER_KEY),
            self.cascades.iter().any(|(_, key, _)| *key == OTHER_KEY),
            self.refusals.iter().any(|(_, key, _)| *key == OTHER_KEY),
        ];
        self.operations_dropped == 0 && !folded.contains(&true) && self.created.len() < MAX_CREATED
    }

    /// Hands the rows of one of these tables, as text, to `each`; false if there is no such table.
    pub(super) fn rows(&self, keys: &Keys, table: &str, each: &mut dyn FnMut(Vec<String>)) -> bool {
        let numbers = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>();
        let line = |texts: &[&[&str]], more: Vec<String>| {
            let mut row: Vec<String> = texts.iter().copied().flatten().map(|text| (*text).to_owned()).collect();
            row.extend(more);
            row
        };
        let texts = |symbols: [Symbol; 4]| symbols.map(|symbol| keys.symbols.get(symbol));
        let span = |span: Option<(Micros, Micros)>| span.unwrap_or_default();
        match table {
            "load" => self.load.iter().for_each(|(tile, key, row)| {
                let LoadKey { cluster, instance, verb, class } = *keys.extra.loads.get(*key as u32);
                let [cluster, instance, verb] = [cluster, instance, verb].map(|symbol| keys.symbols.get(symbol));
                let Load { requests, open, ended, latency } = row;
                let mut more = [requests, open, ended].map(u64::to_string).to_vec();
                more.extend([latency.encode(), latency.sum.to_string(), latency.max.to_string()]);
                each(line(&[&[&tile.to_string(), cluster, instance, verb, class]], more));
            }),
            "omitted" => self.omitted.iter().for_each(|(tile, key, row)| {
                let k = keys.extra.omitted.get(*key as u32);
                let [cluster, user, agent, group, resource] = keys.subject_text(k.subject);
                let [instance, verb, subresource, namespace] = texts([k.instance, k.verb, k.subresource, k.namespace]);
                let fact = if *key == OTHER_KEY { super::keys::OTHER } else { k.fact.name() };
                let all = [cluster, instance, user, agent, verb, group, resource, subresource, namespace, fact];
                each(line(&[&[&tile.to_string()], &all], vec![row.0.to_string()]));
            }),
            "cascades" => self.cascades.iter().for_each(|(tile, key, Cascades(gone))| {
                let Deletions { objects, collections, first, last } = *gone;
                let mut more = [objects, collections].map(|count| count.to_string()).to_vec();
                more.extend(numbers(&[first, last]));
                each(line(&[&[&tile.to_string()], &texts(*keys.extra.cascades.get(*key as u32))], more));
            }),
            "refusals" => self.refusals.iter().for_each(|(tile, key, row)| {
                let (first, last) = span(row.span);
                let mut more = vec![row.count.to_string(), row.needed.to_string()];
                more.extend(numbers(&[first, last]));
                each(line(&[&[&tile.to_string()], &texts(*keys.extra.refusals.get(*key as u32))], more));
            }),
            "operations" => self.operations.iter().for_each(|one| {
                let mut row = notable::row(one);
                row.extend([one.received.unwrap_or_default().to_string(), one.starts.to_string()]);
                each(row);
            }),
            "created" => self.created.iter().for_each(|(key, calls)| {
                let (first, last) = span(calls.span);
                let mut row = key.to_vec();
                row.push(calls.requests.to_string());
                row.extend(numbers(&[first, last]));
                each(row);
            }),
            "leases" => self.leases.iter().for_each(|(tile, lease, run)| {
                let lease = lease.map(|symbol| keys.symbols.get(symbol));
                let mut row = line(&[&[&tile.to_string()], &lease], numbers(&[run.first, run.last]));
                row.extend(texts(run.holder.0).map(str::to_owned));
                row.extend([run.writes.to_string(), run.longest.to_string(), run.is_released.to_string()]);
                row.push(run.lasts.unwrap_or_default().to_string());
                each(row);
            }),
            "writes" => self.writes.iter().for_each(|(minute, key, count)| {
                each(line(&[&[&minute.to_string()], &key.text(keys)], vec![count.to_string()]));
            }),
            "alternations" => self.alternations.iter().for_each(|(pair, turns)| {
                let ((object, other), (first, last)) = (pair.text(keys), span(turns.span));
                let mut more = vec![turns.turns.to_string()];
                more.extend(numbers(&[first, last]));
                each(line(&[&object, &other], more));
            }),
            _ => return false,
        }
        true
    }
}
