//! The roll-up's rows as analyses read them: typed, with the text of their keys.

use super::keys::{Keys, Op};
use super::objects::Object;
use super::rows::{Fact, HEAVIEST, SourceSet, Traffic, md5_64};
use super::tables::Rollup;
use super::tiles::OTHER_KEY;
use crate::analysis::traffic::Stats;
use crate::model::histogram::Histogram;
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, SECOND};
use crate::model::units::counted;
use crate::model::uri::{ReadShape, Scope};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// Who, on which resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who<'r> {
    pub cluster: &'r str,
    /// User; all kubelets are `system:node:*`.
    pub user: &'r str,
    /// Agent product.
    pub agent: &'r str,
}

/// API group and resource; both empty for what is no resource.
pub type What<'r> = (&'r str, &'r str);

/// Who asked for what, and what came of it: the key of rows of `traffic`, but for the tile.
#[derive(Debug, Clone, Copy)]
pub struct RequestKey<'r> {
    /// Client and resource: their number among [`Rollup::subjects`].
    pub subject: usize,
    /// Resource.
    pub what: What<'r>,
    /// Apiserver.
    pub instance: &'r str,
    pub verb: &'r str,
    pub subresource: &'r str,
    pub scope: Scope,
    pub namespace: &'r str,
    /// Response code.
    pub code: Option<u16>,
    /// How a read asks to be served.
    pub shape: Option<ReadShape>,
}

/// A row of `traffic`. Rows are many, and their keys few.
#[derive(Debug, Clone)]
pub struct TrafficRow<'r> {
    /// Start of its tile, in seconds.
    pub tile: i64,
    /// Requests, open ones included.
    pub requests: u64,
    /// The number of its key.
    pub(in crate::analysis) key: u32,
    asked: Arc<RequestKey<'r>>,
    row: &'r Traffic,
}

impl<'r> Deref for TrafficRow<'r> {
    type Target = RequestKey<'r>;
    #[inline]
    fn deref(&self) -> &RequestKey<'r> {
        &self.asked
    }
}

impl<'r> TrafficRow<'r> {
    /// Latencies in µs.
    pub fn latency(&self) -> &'r Histogram {
        &self.row.latency
    }

    /// Long-running requests that had not ended.
    pub fn open(&self) -> u64 {
        self.row.open
    }

    /// Lifetimes of long-running requests in µs.
    pub fn lifetime(&self) -> Option<&'r Histogram> {
        self.row.more.as_ref().map(|more| &more.lifetime)
    }

    /// What apiservers say that slow requests spent in etcd, in webhooks, in the APF queue; µs.
    pub fn spent(&self) -> [u64; 3] {
        self.row.more.as_ref().map_or([0; 3], |more| more.spent)
    }

    /// Events with a response body, its bytes, its items.
    pub fn bodies(&self) -> [u64; 3] {
        self.row.more.as_ref().map_or([0; 3], |more| more.bodies)
    }

    /// Requests that took too long, by [`super::Timeout`].
    pub fn timeouts(&self) -> [u64; 3] {
        self.row.more.as_ref().map_or([0; 3], |more| more.timeouts)
    }
}

/// A row of `pulse`.
#[derive(Debug, Clone, Copy)]
pub struct PulseRow {
    /// Second; from 6 h on start of its tile.
    pub second: i64,
    /// Number of client and resource.
    pub subject: usize,
    /// Class of operation.
    pub op: Op,
    /// Requests that arrived.
    pub starts: u64,
    /// Requests that ended.
    pub ends: u64,
}

/// Requests that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals {
    /// Second; from 6 h on start of its tile.
    pub second: i64,
    /// Number of client and resource; `None` of what was folded.
    pub subject: Option<usize>,
    /// How many.
    pub starts: u64,
    /// Of those that ended in this second: code 0 or ≥ 500, and 429.
    pub failed: (u64, u64),
}

/// A row of `deprecated`.
#[derive(Debug, Clone, Copy)]
pub struct DeprecatedRow<'r> {
    /// Client.
    pub who: Who<'r>,
    /// Group and version.
    pub version: &'r str,
    pub resource: &'r str,
    /// The release that has it no more, where the apiserver says.
    pub removed: &'r str,
    pub requests: u64,
    /// First and last `at`.
    pub span: (Micros, Micros),
}

/// A row of `objects`.
#[derive(Debug, Clone, Copy)]
pub struct ObjectRow<'r> {
    /// Number of client and resource.
    pub subject: usize,
    pub namespace: &'r str,
    pub name: &'r str,
    /// get, list, watch.
    pub reads: u64,
    /// Everything else.
    pub writes: u64,
    /// Code 409.
    pub conflicts: u64,
    /// First and last `at`.
    pub span: (Micros, Micros),
}

impl ObjectRow<'_> {
    /// From its first request to its last, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.span.1 - self.span.0) as f64 / SECOND as f64
    }
}

/// A row of `clients`.
#[derive(Debug, Clone)]
pub struct ClientRow<'r> {
    /// Client.
    pub who: Who<'r>,
    /// `NS:NAME`.
    pub service_account: &'r str,
    /// Agent versions.
    pub versions: Vec<&'r str>,
    pub pods: Vec<&'r str>,
    /// Apiservers.
    pub instances: Vec<&'r str>,
    /// Distinct nodes, and those with most requests.
    pub nodes: (usize, Vec<(&'r str, u64)>),
    /// Requests of the node in the middle.
    pub median_node: u64,
    /// First and last `at`.
    pub span: (Micros, Micros),
}

/// Addresses from which requests came.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    smallest: BTreeSet<u64>,
    /// Whether some tile had more than it could keep.
    beyond: bool,
}

/// Hashes that are kept: an estimate from them is within 7 % two times out of three.
const HASHES: usize = 256;

impl Addresses {
    /// Takes in others.
    pub fn merge(&mut self, other: &Self) {
        self.smallest.extend(&other.smallest);
        self.beyond |= other.beyond;
        self.cut();
    }

    fn cut(&mut self) {
        while self.smallest.len() > HASHES {
            self.smallest.pop_last();
            self.beyond = true;
        }
    }

    /// How many there are: exact up to 256, else estimated from the smallest hashes.
    pub fn count(&self) -> u64 {
        match self.smallest.last() {
            Some(&largest) if self.beyond && self.smallest.len() >= HASHES => {
                ((HASHES - 1) as f64 * (u64::MAX as f64) / (largest as f64)).round() as u64
            }
            _ => self.smallest.len() as u64,
        }
    }
}

fn who<'r>(keys: &'r Keys, subject: u32) -> (Who<'r>, What<'r>) {
    let [cluster, user, agent, group, resource] = keys.subject_text(subject);
    (Who { cluster, user, agent }, (group, resource))
}

impl Rollup {
    /// The length of a tile in seconds.
    pub fn tile_seconds(&self) -> i64 {
        self.tile
    }

    /// Clients and resources by number.
    pub fn subjects(&self) -> Vec<(Who<'_>, What<'_>)> {
        (0..self.keys.subjects.iter().count() as u32).map(|subject| who(&self.keys, subject)).collect()
    }

    /// Rows of `traffic`, without what was folded.
    pub fn traffic(&self) -> impl Iterator<Item = TrafficRow<'_>> {
        let rows = self.traffic.iter().chain(&self.begun).filter(|(_, key, _)| *key != OTHER_KEY);
        let mut known: Vec<Option<Arc<RequestKey<'_>>>> = vec![None; self.keys.traffic.len()];
        rows.map(move |(tile, key, row)| {
            let asked = known[*key as usize].get_or_insert_with(|| Arc::new(self.asked(*key as u32)));
            TrafficRow { tile: *tile, requests: row.requests, key: *key as u32, asked: asked.clone(), row }
        })
    }

    /// What a traffic key says.
    pub(in crate::analysis) fn asked(&self, key: u32) -> RequestKey<'_> {
        let key = self.keys.traffic.get(key);
        let s = |symbol| self.keys.symbols.get(symbol);
        let [.., group, resource] = self.keys.subject_text(key.subject);
        RequestKey {
            subject: key.subject as usize,
            what: (group, resource),
            instance: s(key.instance),
            verb: s(key.verb),
            subresource: s(key.subresource),
            scope: key.scope,
            namespace: s(key.namespace),
            code: key.code,
            shape: key.shape,
        }
    }

    /// Requests that were folded for want of room.
    pub fn folded(&self) -> u64 {
        self.traffic.iter().filter(|(_, key, _)| *key == OTHER_KEY).map(|(_, _, row)| row.requests).sum()
    }

    /// What is to be said of them where clients or apiservers have rows; nothing where none were.
    pub fn folded_in_words(&self) -> Option<String> {
        let folded = counted(Some(self.folded()).filter(|folded| *folded > 0)?, "request");
        Some(format!(
            "{folded} of clients that are not kept apart over so much time are in no row; a shorter --since/--until \
             shows them."
        ))
    }

    /// What was folded: tile, and counts; how it ended is not known.
    pub fn others(&self) -> impl Iterator<Item = (i64, Stats)> {
        let rows = self.traffic.iter().filter(|(_, key, _)| *key == OTHER_KEY);
        rows.map(|(tile, _, row)| {
            let (requests, open, latency) = (row.requests, row.open, row.latency.clone());
            (*tile, Stats { requests, open, latency, ..Stats::default() })
        })
    }

    /// Requests by second of arrival and apiserver; those that were folded are of no subject.
    pub fn arrivals(&self) -> impl Iterator<Item = (Arrivals, &str)> {
        self.pulse.iter().map(|(second, key, row)| {
            let of = self.keys.pulses.get(*key as u32);
            let subject = (*key != OTHER_KEY).then_some(of.subject as usize);
            let failed = (u64::from(row.errors), u64::from(row.throttled));
            let arrivals = Arrivals { second: *second, subject, starts: u64::from(row.starts), failed };
            (arrivals, self.keys.symbols.get(of.instance))
        })
    }

    /// Rows of `pulse`, in the order of time.
    pub fn pulse(&self) -> impl Iterator<Item = PulseRow> {
        let rows = self.pulse.iter().filter(|(_, key, _)| *key != OTHER_KEY);
        rows.map(|(second, key, row)| {
            let key = self.keys.pulses.get(*key as u32);
            let (starts, ends) = (u64::from(row.starts), u64::from(row.ends));
            PulseRow { second: *second, subject: key.subject as usize, op: key.op, starts, ends }
        })
    }

    /// Rows of `deprecated`.
    pub fn deprecated(&self) -> impl Iterator<Item = DeprecatedRow<'_>> {
        self.deprecated.iter().map(|([cluster, user, agent, version, resource, _, removed], calls)| DeprecatedRow {
            who: Who { cluster, user, agent },
            version,
            resource,
            removed,
            requests: calls.requests,
            span: calls.span.unwrap_or_default(),
        })
    }

    /// Facts that need the order of events: tile, number of client and resource, fact, and gaps in µs.
    pub fn facts(&self) -> impl Iterator<Item = (i64, usize, Fact, &Histogram)> {
        let rows = self.facts.iter().filter(|(_, key, _)| *key != OTHER_KEY);
        rows.map(|(tile, key, gaps)| {
            let (subject, fact) = Fact::of(*key);
            (*tile, subject as usize, fact, &gaps.0)
        })
    }

    /// Tile, number of client and resource, and the addresses from which their requests came in it.
    pub fn addresses(&self) -> impl Iterator<Item = (i64, usize, Addresses)> {
        let rows = self.sources.iter().filter(|(_, key, _)| *key != OTHER_KEY);
        // The same addresses stand in every tile.
        let mut hashes: HashMap<Symbol, u64, foldhash::fast::FixedState> = HashMap::default();
        rows.map(move |(tile, key, row)| {
            let mut hash =
                |source: Symbol| *hashes.entry(source).or_insert_with(|| md5_64(self.keys.symbols.get(source)));
            let mut addresses = Addresses::default();
            match &row.set {
                SourceSet::Exact(counts) => addresses.smallest.extend(counts.iter().map(|(source, _)| hash(*source))),
                SourceSet::Open(counts) => addresses.smallest.extend(counts.keys().map(|source| hash(*source))),
                SourceSet::Sketch { smallest, .. } => {
                    addresses.smallest.extend(smallest);
                    addresses.beyond = true;
                }
            }
            addresses.cut();
            (*tile, *key as usize, addresses)
        })
    }

    /// Rows of `objects`.
    pub fn objects(&self) -> impl Iterator<Item = ObjectRow<'_>> {
        self.objects.iter().map(|(key, name, row)| {
            let subject = key.subject as usize;
            let namespace = self.keys.symbols.get(key.namespace);
            let Object { reads, writes, conflicts, .. } = *row;
            ObjectRow { subject, namespace, name, reads, writes, conflicts, span: row.span.unwrap_or_default() }
        })
    }

    /// Rows of `clients`.
    pub fn clients(&self) -> impl Iterator<Item = ClientRow<'_>> {
        self.clients.iter().map(|(key, client)| {
            let [cluster, user, agent] = key.map(|symbol| self.keys.symbols.get(symbol));
            let mut heaviest: Vec<(&str, u64)> =
                client.nodes.iter().map(|(node, requests)| (self.keys.symbols.get(*node), *requests)).collect();
            heaviest.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            let count = heaviest.len();
            let median_node = heaviest.get(count / 2).map_or(0, |(_, requests)| *requests);
            heaviest.truncate(HEAVIEST);
            ClientRow {
                who: Who { cluster, user, agent },
                service_account: &client.service_account,
                versions: client.versions.members(),
                pods: client.pods.members(),
                instances: client.instances.members(),
                nodes: (count, heaviest),
                median_node,
                span: client.span.unwrap_or_default(),
            }
        })
    }
}
