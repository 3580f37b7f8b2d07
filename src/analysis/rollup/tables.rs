//! The roll-up in its final form: typed rows, and the same as text, sorted by key.

use super::Part;
use super::clients::{Client, ClientKey, Sample};
use super::deprecated::{Calls, DeprecatedKey};
use super::extra_rows::Failures;
use super::extras::ExtraTables;
use super::keys::{Keys, OTHER};
use super::notable::{self, Notable, once};
use super::objects::{Object, ObjectKey};
use super::rows::{Fact, Gaps, Pulse, SourceSet, Sources, Traffic};
use super::seams::Seams;
use super::shared::Shared;
use super::steps::StepWindow;
use super::tiles::{Row, sorted};
use crate::analysis::repeated::RepeatedIds;
use crate::model::rollup::Field;
use crate::model::symbols::Symbol;
use crate::model::time::Micros;
use std::sync::Arc;

/// A finished roll-up. Rows of tiled tables are (start in seconds, key, values), sorted by time and by
/// the text of their keys.
#[derive(Debug)]
pub struct Rollup {
    pub(super) keys: Arc<Keys>,
    pub(super) traffic: Shared<(i64, u64, Traffic)>,
    /// Of a window: requests that began in it and ended behind it.
    pub(super) begun: Vec<(i64, u64, Traffic)>,
    pub(super) pulse: Shared<(i64, u64, Pulse)>,
    pub(super) facts: Shared<(i64, u64, Gaps)>,
    pub(super) sources: Shared<(i64, u64, Sources)>,
    pub(super) failures: Shared<(i64, u64, Failures)>,
    pub(super) objects: Shared<(ObjectKey, String, Object)>,
    pub(super) notable: Shared<Notable>,
    pub(super) clients: Shared<(ClientKey, Client)>,
    pub(super) deprecated: Shared<(DeprecatedKey, Calls)>,
    /// Tables beside requests and clients, where they were asked for.
    pub(super) extra: ExtraTables,
    /// What parts of one log are joined by, where it was asked for.
    pub(super) seams: Option<Seams>,
    /// What its windows are derived from, where it is held.
    pub(super) held: Option<StepWindow>,
    /// The length of a tile in seconds.
    pub(super) tile: i64,
    /// First and last `at`, in µs.
    pub span: Option<(Micros, Micros)>,
    /// Events that were late.
    pub late: u64,
    /// Long-running requests still open.
    pub open: u64,
    /// Requests whose audit id another one has.
    pub repeated_ids: RepeatedIds,
    /// Requests on objects that were dropped for want of room.
    pub objects_dropped: u64,
    /// Notable events that were dropped for want of room.
    pub notable_dropped: u64,
}

/// Finishes a part that is complete.
pub(super) fn finish(mut part: Part, open: u64) -> Rollup {
    let span = part.span.map_or(0, |(first, last)| last - first);
    let keys = std::mem::take(&mut part.keys);
    let tile = part.traffic.length(span);
    let end = part.span.map_or(0, |(_, last)| last);
    let seams = part.seams.take().map(|mut seams| {
        if let Some(firsts) = part.sequences.firsts() {
            seams.firsts = firsts;
            (seams.lasts, seams.turns) = (part.sequences.lasts(end), part.sequences.turns(end));
            seams.objects.extend(part.objects.edges(&keys));
            seams.ids = part.ids.clone();
        }
        if let Some(edges) = part.span.and_then(|span| part.writers.edges(span)) {
            [seams.first_writes, seams.last_writes] = edges;
        }
        seams.sort(&keys);
        seams
    });
    let (mut objects, objects_dropped) = part.objects.finish(&keys);
    objects.sort_by_cached_key(|(key, name, _)| object_key(&keys, key, name).map(str::to_owned));
    let mut extra = part.extras.map(|extras| extras.finish(part.span, tile, &keys)).unwrap_or_default();
    let (writes, alternations) = part.writers.finish(part.span, &keys);
    (extra.writes, extra.alternations) = (writes.into(), alternations.into());
    let mut sources = sorted(part.sources.finish(span, &keys), &keys);
    sources.iter_mut().for_each(|(_, _, row)| row.close(&keys));
    let mut notable = part.notable;
    once(&mut notable);
    notable.sort();
    let mut clients: Vec<(ClientKey, Client)> = part.clients.into_rows().collect();
    clients.sort_by_cached_key(|(key, _)| key.map(|symbol| keys.symbols.get(symbol).to_owned()));
    let mut rollup = Rollup {
        traffic: sorted(part.traffic.finish(span, &keys), &keys).into(),
        begun: Vec::new(),
        pulse: sorted(part.pulse.finish(span, &keys), &keys).into(),
        facts: sorted(part.facts.finish(span, &keys), &keys).into(),
        sources: sources.into(),
        failures: sorted(part.failures.finish(span, &keys), &keys).into(),
        objects: objects.into(),
        notable: notable.into(),
        clients: clients.into(),
        deprecated: part.deprecated.into_rows().into(),
        extra,
        seams,
        held: None,
        tile,
        span: part.span,
        late: part.late,
        open,
        repeated_ids: part.ids.repeated(),
        objects_dropped,
        notable_dropped: part.notable_dropped,
        keys: Arc::new(keys),
    };
    if let Some(mut steps) = part.steps.take() {
        steps.finish();
        rollup.hold(steps);
    }
    rollup
}

impl Rollup {
    /// Hands the rows of a table, as text, to `each`; false if there is no such table.
    pub fn rows(&self, table: &str, mut each: impl FnMut(Vec<String>)) -> bool {
        self.fields(table, &mut |row| each(row.iter().map(|field| field.text().into_owned()).collect()))
    }

    /// Hands the rows of a table to `each`; false if there is no such table.
    pub fn fields(&self, table: &str, each: &mut dyn FnMut(Vec<Field<'_>>)) -> bool {
        let keys = &self.keys;
        let texts = |row: Vec<String>| row.into_iter().map(Field::from).collect();
        match table {
            "traffic" => self.traffic.iter().for_each(|(tile, key, row)| each(traffic_row(keys, *tile, *key, row))),
            "pulse" => self.pulse.iter().for_each(|(second, key, row)| each(pulse_row(keys, *second, *key, row))),
            "sequences" => self.facts.iter().for_each(|(tile, key, row)| each(facts_row(keys, *tile, *key, row))),
            "sources" => self.sources.iter().for_each(|(tile, key, row)| each(sources_row(keys, *tile, *key, row))),
            "objects" => self.objects.iter().for_each(|(key, name, row)| each(texts(object_row(keys, key, name, row)))),
            "notable" => self.notable.iter().for_each(|row| each(texts(notable::row(row)))),
            "nodes" => {
                for (key, row) in self.clients.iter() {
                    let key = key.map(|symbol| keys.symbols.get(symbol));
                    let mut nodes: Vec<(&str, u64)> =
                        row.nodes.iter().map(|(node, requests)| (keys.symbols.get(*node), *requests)).collect();
                    nodes.sort_unstable();
                    for (node, requests) in nodes {
                        let [cluster, user, agent] = key;
                        let mut row = [cluster, user, agent, node].map(Field::from).to_vec();
                        row.push(requests.into());
                        each(row);
                    }
                }
            }
            "failures" => self.failures.iter().for_each(|(tile, key, row)| each(failures_row(keys, *tile, *key, row))),
            "deprecated" => self.deprecated.iter().for_each(|(key, row)| each(texts(deprecated_row(key, row)))),
            "seams" => self.seams.iter().for_each(|seams| seams.rows(keys, each)),
            "clients" => self.clients.iter().for_each(|(key, row)| each(texts(client_row(keys, *key, row)))),
            _ => return self.extra.rows(keys, table, &mut |row| each(texts(row))),
        }
        true
    }

    /// How many rows the tables of requests and clients have, in the order of [`crate::model::rollup::TABLES`].
    pub fn sizes(&self) -> [usize; 9] {
        [
            self.traffic.len(),
            self.pulse.len(),
            self.facts.len(),
            self.sources.len(),
            self.objects.len(),
            self.notable.len(),
            self.clients.len(),
            self.clients.iter().map(|(_, client)| client.nodes.len()).sum(),
            self.deprecated.len(),
        ]
    }
}

fn traffic_row<'k>(keys: &'k Keys, tile: i64, key: u64, row: &Traffic) -> Vec<Field<'k>> {
    let mut fields = Vec::with_capacity(30);
    fields.push(tile.into());
    fields.extend(keys.traffic_fields(key as u32));
    fields.extend([row.requests, row.open].map(Field::from));
    let none = super::rows::TrafficMore::default();
    let more = row.more.as_deref().unwrap_or(&none);
    for histogram in [&row.latency, &more.lifetime] {
        fields.extend([histogram.encode().into(), histogram.sum.into(), histogram.max.into()]);
    }
    fields.extend(more.bodies.iter().chain(&more.spent).chain(&more.timeouts).map(|count| Field::from(*count)));
    fields
}

fn pulse_row<'k>(keys: &'k Keys, second: i64, key: u64, row: &Pulse) -> Vec<Field<'k>> {
    let k = keys.pulses.get(key as u32);
    let [cluster, user, agent, group, resource] = keys.subject_text(k.subject);
    let op = if key == super::tiles::OTHER_KEY { OTHER } else { k.op.name() };
    let mut fields = Vec::with_capacity(12);
    fields.push(second.into());
    fields.extend([cluster, keys.symbols.get(k.instance), user, agent, group, resource, op].map(Field::from));
    fields.extend([row.starts, row.ends, row.errors, row.throttled].map(|count| u64::from(count).into()));
    fields
}

fn failures_row<'k>(keys: &'k Keys, tile: i64, key: u64, row: &Failures) -> Vec<Field<'k>> {
    let own = *keys.failures.get(key as u32);
    let [cluster, user, agent, group, resource] = keys.subject_text(own.subject);
    let (instance, name) = (keys.symbols.get(own.instance), keys.symbols.get(own.name));
    let (first, last) = row.span.unwrap_or_default();
    let mut fields = vec![tile.into()];
    fields.extend([cluster, instance, user, agent, group, resource, own.fault(), name].map(Field::from));
    fields.extend([row.count.into(), first.into(), last.into()]);
    fields
}

fn facts_row<'k>(keys: &'k Keys, tile: i64, key: u64, gaps: &Gaps) -> Vec<Field<'k>> {
    let (subject, fact) = Fact::of(key);
    let fact = if key == super::tiles::OTHER_KEY { OTHER } else { fact.name() };
    let mut fields = Vec::with_capacity(11);
    fields.push(tile.into());
    fields.extend(keys.subject_text(subject).map(Field::from));
    fields.extend([fact.into(), gaps.0.count().into(), gaps.0.encode().into()]);
    fields.extend([gaps.0.sum, gaps.0.max].map(Field::from));
    fields
}

fn sources_row<'k>(keys: &'k Keys, tile: i64, subject: u64, row: &Sources) -> Vec<Field<'k>> {
    let mut fields = Vec::with_capacity(11);
    fields.push(tile.into());
    fields.extend(keys.subject_text(subject as u32).map(Field::from));
    fields.push(row.requests.into());
    match &row.set {
        SourceSet::Open(_) => fields.extend(["true", "", "", ""].map(Field::from)),
        SourceSet::Exact(counts) => {
            let mut counts = counts.clone();
            counts.sort_unstable_by_key(|(source, _)| keys.symbols.get(*source));
            fields.extend(["true".into(), pairs(keys, &counts).into(), "".into(), "".into()]);
        }
        SourceSet::Sketch { smallest, heaviest } => {
            let hashes: Vec<String> = smallest.iter().map(|hash| format!("{hash:016x}")).collect();
            fields.extend(["false".into(), "".into(), hashes.join(";").into(), pairs(keys, heaviest).into()]);
        }
    }
    fields
}

fn object_key<'k>(keys: &'k Keys, key: &ObjectKey, name: &'k str) -> [&'k str; 7] {
    let [cluster, user, agent, group, resource] = keys.subject_text(key.subject);
    [cluster, group, resource, keys.symbols.get(key.namespace), name, user, agent]
}

fn object_row(keys: &Keys, key: &ObjectKey, name: &str, row: &Object) -> Vec<String> {
    let (first, last) = row.span.unwrap_or_default();
    let mut fields = object_key(keys, key, name).map(str::to_owned).to_vec();
    fields.extend([row.reads, row.writes, row.conflicts].map(|n| n.to_string()));
    fields.extend([first, last].map(|at| at.to_string()));
    fields
}

fn client_row(keys: &Keys, key: ClientKey, client: &Client) -> Vec<String> {
    let (first, last) = client.span.unwrap_or_default();
    let text = |symbol: Symbol| keys.symbols.get(symbol);
    let mut nodes: Vec<(Symbol, u64)> = client.nodes.iter().map(|(node, count)| (*node, *count)).collect();
    nodes.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| text(a.0).cmp(text(b.0))));
    let heaviest: Vec<String> = nodes.iter().take(16).map(|(node, n)| format!("{}={n}", text(*node))).collect();
    let mut fields = key.map(|symbol| text(symbol).to_owned()).to_vec();
    fields.extend([client.requests.to_string(), first.to_string(), last.to_string(), client.service_account.clone()]);
    fields.extend([client.versions.members().join(";"), client.groups.members().join(";")]);
    fields.push(Sample::of(nodes.iter().map(|(node, _)| text(*node))).members().join(";"));
    fields.extend([
        client.pods.members().join(";"),
        client.instances.members().join(";"),
        nodes.len().to_string(),
        heaviest.join(";"),
    ]);
    fields
}

fn deprecated_row(key: &DeprecatedKey, row: &Calls) -> Vec<String> {
    let (first, last) = row.span.unwrap_or_default();
    let mut fields = key.to_vec();
    fields.extend([row.requests.to_string(), first.to_string(), last.to_string()]);
    fields
}

/// `text=count` joined by `;`.
fn pairs(keys: &Keys, counts: &[(Symbol, u32)]) -> String {
    let pairs: Vec<String> =
        counts.iter().map(|(source, count)| format!("{}={count}", keys.symbols.get(*source))).collect();
    pairs.join(";")
}
