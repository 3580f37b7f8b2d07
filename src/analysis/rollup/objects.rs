//! Objects that are asked for again and again, or fought over: by object and client.
//!
//! Names of objects are many, so they are held only for tiles that are open and for what is kept.

use super::keys::Keys;
use super::tiles::Progress;
use crate::model::symbols::{Symbol, Symbols};
use crate::model::time::{Micros, SECOND, together};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The tile in which an object has to be busy to be kept, in µs.
const TILE: Micros = 10 * SECOND;

/// Requests in a tile from which on an object is kept.
const BUSY: u64 = 3;

/// Rows kept.
pub const MAX_OBJECTS: usize = 50_000;

/// Names held before those of no row are dropped, in bytes.
const MAX_NAMES: usize = 32 << 20;

/// An object and a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Client, group and resource.
    pub subject: u32,
    /// Namespace; a symbol of the keys.
    pub namespace: Symbol,
    /// Name; a symbol of this table.
    pub name: Symbol,
}

/// What a client did with an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Object {
    /// get, list, watch.
    pub reads: u64,
    /// Everything else.
    pub writes: u64,
    /// Code 409.
    pub conflicts: u64,
    /// First and last `at`.
    pub span: Option<(Micros, Micros)>,
    /// Whether it is a lease that was written to.
    pub lease: bool,
}

impl Object {
    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.conflicts += other.conflicts;
        self.lease |= other.lease;
        self.span = together(self.span, other.span);
    }

    /// Whether that was enough in one tile.
    pub fn is_kept(&self) -> bool {
        self.reads + self.writes >= BUSY || self.conflicts > 0 || self.lease
    }
}

/// What a client did with an object in one of the first tiles, or the last: parts that meet in a tile judge it
/// together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeObject {
    /// The tile, in units of its length.
    pub tile: i64,
    /// Client, group and resource.
    pub subject: u32,
    /// Namespace; a symbol of the keys.
    pub namespace: Symbol,
    pub name: String,
    /// What was done.
    pub object: Object,
    /// Whether it is among what is kept.
    pub is_kept: bool,
}

type Rows = HashMap<ObjectKey, Object, foldhash::fast::FixedState>;

/// Objects by tile, then those that were kept.
#[derive(Debug, Default)]
pub struct Objects {
    names: Symbols,
    open: BTreeMap<i64, Rows>,
    kept: Rows,
    /// Of the first tiles and the last what was done with each object, where that is wanted.
    edges: Option<Vec<EdgeObject>>,
    /// The first tile.
    first: Option<i64>,
    /// Requests of rows that were dropped for want of room.
    pub dropped: u64,
}

impl Objects {
    /// The same, and the first tile and the last are remembered.
    pub fn with_edges() -> Self {
        Self { edges: Some(Vec::new()), ..Self::default() }
    }

    /// The row of an object, in the tile of `at`.
    pub fn at(&mut self, at: Micros, subject: u32, namespace: Symbol, name: &str) -> &mut Object {
        let name = self.names.intern(name);
        self.open.entry(at.div_euclid(TILE)).or_default().entry(ObjectKey { subject, namespace, name }).or_default()
    }

    /// Keeps an object that was found to be busy.
    pub fn keep(&mut self, subject: u32, namespace: Symbol, name: &str, object: &Object) {
        let name = self.names.intern(name);
        self.kept.entry(ObjectKey { subject, namespace, name }).or_default().merge(object);
    }

    /// Keeps what was busy in the tiles whose time is over.
    pub fn close(&mut self, progress: Progress, keys: &Keys) {
        let done: Vec<i64> =
            self.open.keys().copied().take_while(|tile| (tile + 1).saturating_mul(TILE) <= progress.released).collect();
        let is_end = progress.released == Micros::MAX;
        self.first = self.first.or(done.first().copied());
        for tile in done {
            for (key, object) in self.open.remove(&tile).unwrap_or_default() {
                // Lines stand some seconds out of order, so the tile beside may be shared as well.
                if (is_end || self.first.is_some_and(|first| tile <= first + 1))
                    && let Some(edges) = &mut self.edges
                {
                    let (name, ObjectKey { subject, namespace, .. }) = (self.names.get(key.name).to_owned(), key);
                    edges.push(EdgeObject { tile, subject, namespace, name, object, is_kept: object.is_kept() });
                }
                if object.is_kept() {
                    self.kept.entry(key).or_default().merge(&object);
                }
            }
        }
        if self.kept.len() > MAX_OBJECTS * 4 {
            self.fold(MAX_OBJECTS * 2, keys);
        }
        if self.names.bytes() > MAX_NAMES {
            self.forget_names();
        }
    }

    /// Keeps the busiest rows.
    fn fold(&mut self, limit: usize, keys: &Keys) {
        if self.kept.len() <= limit {
            return;
        }
        let mut rows: Vec<(ObjectKey, Object)> = self.kept.drain().collect();
        let text =
            |k: &ObjectKey| (keys.subject_text(k.subject), keys.symbols.get(k.namespace), self.names.get(k.name));
        rows.sort_unstable_by(|(a, x), (b, y)| {
            (y.reads + y.writes).cmp(&(x.reads + x.writes)).then_with(|| text(a).cmp(&text(b)))
        });
        self.dropped += rows.split_off(limit).iter().map(|(_, o)| o.reads + o.writes).sum::<u64>();
        self.kept = rows.into_iter().collect();
    }

    fn forget_names(&mut self) {
        let mut names = Symbols::default();
        let mut change = |rows: &mut Rows, old: &Symbols| {
            *rows = rows
                .drain()
                .map(|(key, object)| (ObjectKey { name: names.intern(old.get(key.name)), ..key }, object))
                .collect();
        };
        self.open.values_mut().for_each(|rows| change(rows, &self.names));
        change(&mut self.kept, &self.names);
        self.names = names;
    }

    /// Closes all tiles, and gives what is remembered of the first and the last.
    pub fn edges(&mut self, keys: &Keys) -> Vec<EdgeObject> {
        self.close(Progress { released: Micros::MAX, span: 0 }, keys);
        self.edges.take().unwrap_or_default()
    }

    /// All rows: key, name, counts.
    pub fn finish(mut self, keys: &Keys) -> (Vec<(ObjectKey, String, Object)>, u64) {
        self.close(Progress { released: Micros::MAX, span: 0 }, keys);
        self.fold(MAX_OBJECTS, keys);
        let names = self.names;
        (
            self.kept.into_iter().map(|(key, object)| (key, names.get(key.name).to_owned(), object)).collect(),
            self.dropped,
        )
    }
}
