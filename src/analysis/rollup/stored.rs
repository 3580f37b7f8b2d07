//! A roll-up from its stored tables: whole, or some of it. Several become one, as parts do that share their time.

use super::Part;
use super::clients::{Client, ClientKey, Sample};
use super::deprecated::Calls;
use super::keys::{OTHER, OTHER_SYMBOL, Op, PulseKey, Subject, TrafficKey};
use super::notable::{KINDS, Notable};
use super::objects::Object;
use super::rows::{Fact, Gaps, Pulse, SourceSet, Sources, Traffic};
use super::seams::{Joints, Seams, Undone};
use super::tables::Rollup;
use super::tiles::{OTHER_KEY, Row};
pub use super::wanted::{Tables, Wanted, is_answered};
use crate::analysis::dims::{Dim, service_account_of};
use crate::analysis::repeated::RepeatedIds;
use crate::model::event::Level;
use crate::model::histogram::Histogram;
use crate::model::problem::Problem;
use crate::model::rollup::{Cells, Manifest, Rows, TableSpec};
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, SECOND, is_within, together};
use crate::model::uri::{ReadShape, Scope};
use std::ops::RangeInclusive;

/// No apiserver answers more requests in a tile: sums of these can't overflow.
const MAX_REQUESTS: i64 = 1 << 40;

/// Takes a row of a table; the error is the column that does not hold a value of a roll-up.
pub(super) type TakeRow = fn(&mut Loader, &[Cells<'_>], usize) -> Result<(), &'static str>;

/// Puts stored tables together.
#[derive(Debug)]
pub struct Loader {
    pub(super) wanted: Wanted,
    pub(super) part: Part,
    /// The length of a tile of what is being read, in seconds.
    pub(super) tile: i64,
    longest: i64,
    span: Option<(Micros, Micros)>,
    /// From the first event of the clients that are wanted to the last.
    active: Option<(Micros, Micros)>,
    late: u64,
    open: u64,
    repeated: RepeatedIds,
    objects_dropped: u64,
    joints: Joints,
    /// Whether all that was begun has seams.
    is_joined: bool,
    /// Client and resource of the row before: cluster, user, agent, group and resource, and their number.
    last_subject: ([Symbol; 5], u32),
    /// By number of a subject: whether it is wanted.
    wanted_subjects: Vec<Option<bool>>,
}

impl Loader {
    /// Nothing yet.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            part: Part::new(0),
            tile: 10,
            longest: 10,
            span: None,
            active: None,
            late: 0,
            open: 0,
            repeated: RepeatedIds::default(),
            objects_dropped: 0,
            joints: Joints::default(),
            is_joined: true,
            last_subject: ([OTHER_SYMBOL; 5], OTHER_KEY as u32),
            wanted_subjects: Vec::new(),
        }
    }

    /// Tiles are to be at least so many seconds long.
    pub fn at_least(&mut self, tile: i64) {
        self.longest = self.longest.max(tile);
    }

    /// Begins a roll-up; its tables follow, and its seams if it has some.
    pub fn begin(&mut self, manifest: &Manifest, has_seams: bool) {
        self.is_joined &= has_seams;
        self.joints.0.push((manifest.first.unwrap_or(Micros::MIN), Seams::default()));
        self.tile = manifest.tile_seconds;
        self.longest = self.longest.max(self.tile);
        self.late += manifest.late_events;
        self.open += manifest.open_requests;
        let (repeated, estimated) = manifest.repeated_audit_ids;
        self.repeated.repeated += repeated;
        self.repeated.estimated |= estimated;
        self.objects_dropped += manifest.objects_dropped;
        self.part.notable_dropped += manifest.notable_dropped;
        if manifest.operations_dropped > 0 {
            self.part.extras.get_or_insert_default().operations.dropped += manifest.operations_dropped;
        }
        let (from, to) = self.bounds();
        let within = manifest.first.zip(manifest.last).map(|(first, last)| (first.max(from), last.min(to)));
        self.span = together(self.span, within.filter(|(first, last)| first <= last));
    }

    /// The time that is taken, in whole tiles.
    pub fn bounds(&self) -> (Micros, Micros) {
        let length = self.tile * SECOND;
        let down = |at: Micros| at.div_euclid(length).saturating_mul(length);
        let from = self.wanted.since.map_or(Micros::MIN, down);
        let to = self.wanted.until.map_or(Micros::MAX, |until| {
            let whole = down(until);
            if whole < until { whole.saturating_add(length) } else { until }
        });
        (from, to)
    }

    /// What follows is in tiles of another length, in seconds, than the roll-up that was begun.
    pub fn in_tiles(&mut self, tile: i64) {
        self.tile = tile;
        self.longest = self.longest.max(tile);
    }

    /// Which rows of a table are wanted, by its first column where that is a time.
    pub fn wants(&self, spec: &TableSpec) -> RangeInclusive<i64> {
        let (from, to) = self.bounds();
        match spec.columns.first() {
            // The bounds are those of tiles.
            Some(&("tile" | "second" | "minute")) => from.div_euclid(SECOND)..=to.saturating_sub(1).div_euclid(SECOND),
            Some(&"at") => {
                self.wanted.since.unwrap_or(Micros::MIN)
                    ..=self.wanted.until.map_or(Micros::MAX, |until| until.saturating_sub(1))
            }
            _ => i64::MIN..=i64::MAX,
        }
    }

    pub(super) fn takes_tile(&self, second: i64) -> bool {
        let (from, to) = self.bounds();
        let at = second.saturating_mul(SECOND);
        from <= at && at < to
    }

    pub(super) fn overlaps(&self, (first, last): (Micros, Micros)) -> bool {
        let (from, to) = self.bounds();
        first < to && last >= from
    }

    /// Takes rows of a table; of one that it does not know nothing.
    pub fn take(&mut self, spec: &TableSpec, rows: &Rows<'_>) -> Result<(), Problem> {
        let one: TakeRow = match spec.name {
            "traffic" => Self::traffic,
            "pulse" => Self::pulse,
            "sequences" => Self::sequences,
            "sources" => Self::sources,
            "objects" => Self::objects,
            "notable" => Self::notable,
            "clients" => Self::clients,
            "nodes" => Self::nodes,
            "deprecated" => Self::deprecated,
            "failures" => Self::failures,
            "seams" => Self::seams,
            other => match Self::taker_of_extra(other) {
                Some(one) => {
                    self.part.extras.get_or_insert_default();
                    one
                }
                None => return Ok(()),
            },
        };
        let cells = &rows.columns;
        (0..rows.count).try_for_each(|row| {
            one(self, cells, row)
                .map_err(|what| Problem::malformed(format!("{} of row {} is not a value of a roll-up", what, row + 1)))
        })
    }

    pub(super) fn symbol(&mut self, text: &str) -> Symbol {
        self.part.keys.intern(text)
    }

    /// The number of client and resource; `None` if they are not wanted.
    pub(super) fn subject(&mut self, [cluster, user, agent, group, resource]: [&str; 5]) -> Option<u32> {
        let keys = &mut self.part.keys;
        // Rows are sorted by client, so mostly it is the one of the row before.
        let (known, number) = &mut self.last_subject;
        let texts = [cluster, user, agent, group, resource];
        if texts.iter().zip(known.iter()).any(|(text, symbol)| keys.symbols.get(*symbol) != *text) {
            for (text, symbol) in texts.iter().zip(known.iter_mut()) {
                if keys.symbols.get(*symbol) != *text {
                    *symbol = keys.intern(text);
                }
            }
            let [cluster, user, agent, group, resource] = *known;
            *number = keys.subjects.number(Subject { cluster, user, agent, group, resource });
        }
        let number = *number;
        if self.wanted.filters.is_empty() {
            return Some(number);
        }
        if self.wanted_subjects.len() <= number as usize {
            self.wanted_subjects.resize(number as usize + 1, None);
        }
        let text = keys.subject_text(number);
        let filters = &self.wanted.filters;
        let is_wanted = self.wanted_subjects[number as usize]
            .get_or_insert_with(|| filters.iter().all(|filter| filter.holds(&of_subject(filter.dim, text))));
        is_wanted.then_some(number)
    }

    fn traffic(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let tile = cells[0].number(row);
        if !self.takes_tile(tile) {
            return Ok(());
        }
        let text = |column: usize| cells[column].text(row);
        let Some((key, _)) = self.traffic_key(std::array::from_fn(|column| text(column + 1)))? else { return Ok(()) };
        let count = |column: usize| cells[column].count(row);
        if !(0..=MAX_REQUESTS).contains(&cells[13].number(row)) || cells[14].number(row) > cells[13].number(row) {
            return Err("requests");
        }
        let histogram = |column: usize| Histogram::decode(text(column), count(column + 1), count(column + 2));
        let mut read =
            Traffic { requests: count(13), open: count(14), latency: histogram(15).ok_or("latency")?, more: None };
        let lifetime = histogram(18).ok_or("lifetime")?;
        let rest: [u64; 9] = std::array::from_fn(|column| count(column + 21));
        if !lifetime.is_empty() || rest.iter().any(|value| *value > 0) {
            let more = read.more();
            more.lifetime = lifetime;
            for (into, from) in more.bodies.iter_mut().chain(&mut more.spent).chain(&mut more.timeouts).zip(rest) {
                *into = from;
            }
        }
        let Part { traffic, keys, .. } = &mut self.part;
        traffic.stored(self.tile, tile.saturating_mul(SECOND), u64::from(key), keys).merge(read, keys);
        Ok(())
    }

    /// The numbers of a traffic key, and of its client and resource; `None` if they are not wanted.
    fn traffic_key(&mut self, texts: [&str; 12]) -> Result<Option<(u32, u32)>, &'static str> {
        let [cluster, instance, user, agent, verb, group, resource, subresource, scope, namespace, code, shape] = texts;
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(None) };
        if scope == OTHER {
            return Ok(Some((OTHER_KEY as u32, subject)));
        }
        let [instance, verb, subresource, namespace] =
            [instance, verb, subresource, namespace].map(|text| self.symbol(text));
        let scope = Scope::ALL.into_iter().find(|known| known.name() == scope).ok_or("scope")?;
        let code = match code {
            "" => None,
            code => Some(code.parse().map_err(|_| "code")?),
        };
        let shape = match shape {
            "" => None,
            shape => Some(ReadShape::decode(shape).ok_or("shape")?),
        };
        let key = TrafficKey { subject, instance, verb, subresource, scope, namespace, code, shape };
        Ok(Some((self.part.keys.number(key), subject)))
    }

    fn seams(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let (edge, at) = (cells[0].text(row), cells[1].number(row));
        let (from, to) = self.bounds();
        // Of a window, what came before it is not known, as it is where a log is read.
        let is_wanted = self.wanted.tables.has_facts() || matches!(edge, "started" | "ended");
        if !is_wanted || edge != "id" && !(from <= at && at < to) {
            return Ok(());
        }
        let texts: [&str; 12] = std::array::from_fn(|column| cells[column + 7].text(row));
        let [cluster, _, user, agent, _, group, resource, subresource, _, namespace, _, _] = texts;
        let numbers = match edge {
            "started" | "ended" => self.traffic_key(texts)?,
            "first" | "object" | "first-write" | "last-write" => {
                self.subject([cluster, user, agent, group, resource]).map(|subject| (0, subject))
            }
            _ => Some((0, 0)),
        };
        let names = [subresource, namespace].map(|text| self.symbol(text));
        numbers.map_or(Ok(()), |numbers| self.joints.take(cells, row, numbers, names))
    }

    fn pulse(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let second = cells[0].number(row);
        if !self.takes_tile(second) {
            return Ok(());
        }
        let [cluster, instance, user, agent, group, resource, op] =
            std::array::from_fn(|column| cells[column + 1].text(row));
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(()) };
        let key = if op == OTHER {
            OTHER_KEY
        } else {
            let op = Op::ALL.into_iter().find(|known| known.name() == op).ok_or("op")?;
            let instance = self.symbol(instance);
            u64::from(self.part.keys.pulses.number(PulseKey { subject, instance, op }))
        };
        let [starts, ends, errors, throttled] =
            std::array::from_fn(|column| u32::try_from(cells[column + 8].count(row)).unwrap_or(u32::MAX));
        let Part { pulse, keys, .. } = &mut self.part;
        let row = pulse.stored(self.tile, second.saturating_mul(SECOND), key, keys);
        row.merge(Pulse { starts, ends, errors, throttled }, keys);
        Ok(())
    }

    fn sequences(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let tile = cells[0].number(row);
        if !self.takes_tile(tile) {
            return Ok(());
        }
        let [cluster, user, agent, group, resource, fact] = std::array::from_fn(|column| cells[column + 1].text(row));
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(()) };
        let key = if fact == OTHER {
            OTHER_KEY
        } else {
            Fact::ALL.into_iter().find(|known| known.name() == fact).ok_or("fact")?.key(subject)
        };
        let gaps =
            Gaps(Histogram::decode(cells[8].text(row), cells[9].count(row), cells[10].count(row)).ok_or("gaps")?);
        let Part { facts, keys, .. } = &mut self.part;
        facts.stored(self.tile, tile.saturating_mul(SECOND), key, keys).merge(gaps, keys);
        Ok(())
    }

    fn sources(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let tile = cells[0].number(row);
        if !self.takes_tile(tile) {
            return Ok(());
        }
        let subject = std::array::from_fn(|column| cells[column + 1].text(row));
        let Some(subject) = self.subject(subject) else { return Ok(()) };
        let mut counts = |text: &str| pairs(text).map(|(name, count)| (self.part.keys.intern(name), count)).collect();
        let set = if cells[7].text(row) == "true" {
            SourceSet::Exact(counts(cells[8].text(row)))
        } else {
            let hashes = cells[9].text(row).split(';').filter(|hash| !hash.is_empty());
            let smallest = hashes.map(|hash| u64::from_str_radix(hash, 16)).collect::<Result<_, _>>();
            SourceSet::Sketch { smallest: smallest.map_err(|_| "sketch")?, heaviest: counts(cells[10].text(row)) }
        };
        let read = Sources { requests: cells[6].count(row), set };
        let Part { sources, keys, .. } = &mut self.part;
        sources.stored(self.tile, tile.saturating_mul(SECOND), u64::from(subject), keys).merge(read, keys);
        Ok(())
    }

    fn objects(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let [cluster, group, resource, namespace, name, user, agent] =
            std::array::from_fn(|column| cells[column].text(row));
        let span = (cells[10].number(row), cells[11].number(row));
        if !self.overlaps(span) {
            return Ok(());
        }
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(()) };
        let [reads, writes, conflicts] = std::array::from_fn(|column| cells[column + 7].count(row));
        let namespace = self.symbol(namespace);
        let object = Object { reads, writes, conflicts, span: Some(span), lease: resource == "leases" && writes > 0 };
        self.part.objects.keep(subject, namespace, name, &object);
        Ok(())
    }

    fn notable(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let at = cells[0].number(row);
        if !self.takes_instant(at) {
            return Ok(());
        }
        self.part.notable.push(notable(cells, row, &KINDS)?);
        Ok(())
    }

    pub(super) fn takes_instant(&self, at: Micros) -> bool {
        is_within((self.wanted.since, self.wanted.until), at)
    }

    /// A client's key, if anything of it is wanted.
    fn client(&mut self, cells: &[Cells<'_>], row: usize) -> Option<ClientKey> {
        let names: [&str; 3] = std::array::from_fn(|column| cells[column].text(row));
        let [cluster, user, agent] = names;
        let text = [cluster, user, agent, "", ""];
        let is_wanted = self.wanted.filters.iter().all(|filter| filter.holds(&of_subject(filter.dim, text)));
        is_wanted.then(|| names.map(|text| self.symbol(text)))
    }

    fn clients(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let span = (cells[4].number(row), cells[5].number(row));
        if !self.overlaps(span) {
            return Ok(());
        }
        let Some(key) = self.client(cells, row) else { return Ok(()) };
        let (from, to) = self.bounds();
        let sample = |column: usize| Sample::of(cells[column].text(row).split(';').filter(|text| !text.is_empty()));
        let client = Client {
            requests: cells[3].count(row),
            span: Some((span.0.max(from), span.1.min(to))),
            service_account: cells[6].text(row).to_owned(),
            versions: sample(7),
            groups: sample(8),
            pods: sample(10),
            instances: sample(11),
            nodes: Default::default(),
        };
        self.active = together(self.active, client.span);
        self.part.clients.add(key, client, &self.part.keys);
        Ok(())
    }

    fn nodes(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(key) = self.client(cells, row) else { return Ok(()) };
        let node = self.symbol(cells[3].text(row));
        self.part.clients.add_node(key, node, cells[4].count(row));
        Ok(())
    }

    fn deprecated(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let key: [&str; 7] = std::array::from_fn(|column| cells[column].text(row));
        let span = (cells[8].number(row), cells[9].number(row));
        let [cluster, user, agent, version, resource, ..] = key;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let text = [cluster, user, agent, group, resource];
        let is_wanted = self.wanted.filters.iter().all(|filter| filter.holds(&of_subject(filter.dim, text)));
        if is_wanted && self.overlaps(span) {
            let calls = Calls { requests: cells[7].count(row), span: Some(span) };
            self.part.deprecated.add(key.map(str::to_owned), &calls);
        }
        Ok(())
    }

    /// The roll-up of all that was taken.
    pub fn finish(mut self) -> Rollup {
        let is_whole = !self.wanted.filters.iter().any(|filter| chooses_logs(filter.dim));
        self.part.span = if is_whole { self.span } else { self.active };
        self.part.late = self.late;
        self.part.traffic.at_least(self.longest);
        self.part.pulse.at_least(self.longest);
        self.part.facts.at_least(self.longest);
        self.part.sources.at_least(self.longest);
        self.part.failures.at_least(self.longest);
        if let Some(extras) = &mut self.part.extras {
            extras.at_least(self.longest);
        }
        let is_apart = self.joints.0.len() > 1;
        let undone = std::mem::take(&mut self.joints).join(&mut self.part);
        undone.iter().for_each(|undone| undone.take_back(&mut self.part));
        if is_apart {
            let Part { keys, span, traffic, pulse, facts, sources, failures, extras, .. } = &mut self.part;
            let span = span.map_or(0, |(first, last)| last - first);
            traffic.refold(span, keys);
            pulse.refold(span, keys);
            facts.refold(span, keys);
            sources.refold(span, keys);
            failures.refold(span, keys);
            if let Some(extras) = extras {
                extras.refold(span, keys);
            }
        }
        let mut rollup = self.part.finish();
        rollup.traffic.retain(|(_, _, row)| row.requests > 0 || !row.latency.is_empty());
        rollup.extra.load.retain(|(_, _, row)| row.requests > 0 || !row.latency.is_empty());
        let opens = undone.iter().filter(|undone| matches!(undone, Undone::Start { open: true, .. })).count() as u64;
        let is_all = is_whole && self.wanted.since.is_none() && self.wanted.until.is_none();
        let seen = || rollup.traffic.iter().map(|(_, _, row)| row.open).sum();
        rollup.open = if is_all { self.open.saturating_sub(opens) } else { seen() };
        if !(is_apart && self.is_joined) {
            rollup.repeated_ids = self.repeated;
        }
        rollup.objects_dropped += self.objects_dropped;
        rollup
    }
}

/// A dangerous operation of one of these kinds.
pub(super) fn notable(cells: &[Cells<'_>], row: usize, kinds: &[&'static str]) -> Result<Notable, &'static str> {
    let at = cells[0].number(row);
    let text = |column: usize| cells[column].text(row);
    let owned = |column: usize| text(column).to_owned();
    let kind = kinds.iter().find(|known| **known == text(3)).ok_or("kind")?;
    let level = Level::ALL.into_iter().find(|known| known.name() == text(17)).ok_or("level")?.name();
    let code = if text(14).is_empty() { None } else { Some(text(14).parse().map_err(|_| "code")?) };
    Ok(Notable {
        at,
        cluster: owned(1),
        instance: owned(2),
        kind,
        user: owned(4),
        agent: owned(5),
        impersonated: owned(6),
        source: owned(7),
        verb: owned(8),
        group: owned(9),
        resource: owned(10),
        subresource: owned(11),
        namespace: owned(12),
        name: owned(13),
        code,
        uri: owned(15),
        audit_id: owned(16),
        level,
        detail: owned(18),
        received: None,
        identity: None,
        starts: false,
    })
}

/// Whether a condition on this chooses among logs: of what it leaves out it is not known whether it was looked at.
pub fn chooses_logs(dim: Dim) -> bool {
    matches!(dim, Dim::Cluster | Dim::Instance)
}

/// The value of a dimension for cluster, user, agent, group and resource; empty for others.
pub fn of_subject(dim: Dim, [cluster, user, agent, group, resource]: [&str; 5]) -> String {
    match dim {
        Dim::Cluster => cluster,
        Dim::User | Dim::Client => user,
        Dim::ServiceAccount => service_account_of(user).unwrap_or_default(),
        Dim::Agent => agent,
        Dim::Group => group,
        Dim::Resource => resource,
        _ => "",
    }
    .to_owned()
}

/// What `name=count` joined by `;` says. Names may hold both.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u32)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut from = 0;
        while !rest.is_empty() {
            let end = rest[from..].find(';').map_or(rest.len(), |at| from + at);
            let pair = rest[..end].rsplit_once('=').and_then(|(name, count)| Some((name, count.parse().ok()?)));
            match pair {
                Some(pair) => {
                    rest = rest.get(end + 1..).unwrap_or_default();
                    return Some(pair);
                }
                None if end < rest.len() => from = end + 1,
                None => break,
            }
        }
        None
    })
}
