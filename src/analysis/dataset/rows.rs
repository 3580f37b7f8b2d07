//! From events to columns: what follows from one event, and where it stands among those of its block.

use crate::analysis::dims::{extra, folded, node, scope_of, service_account};
use crate::analysis::rollup::{Op, Routes, response_size, spent};
use crate::model::dataset::{COUNTS, Partition};
use crate::model::event::{BODY_SIZES, Event, Timed};
use crate::model::event_rows::{EventBatch, EventRows};
use crate::model::json::text_of;
use crate::model::time::{HOUR, Micros};
use crate::model::uri::{ReadShape, api_version};
use crate::model::walk::{member, strings};
use xxhash_rust::xxh3::xxh3_64;

/// What is kept of the bodies of an event's request and response, as JSON; empty where that is nothing.
pub type Keep = fn(&Event<'_>) -> [String; 2];

/// Makes rows of events, on one thread.
#[derive(Debug)]
pub struct RowReader {
    batch: EventBatch,
    routes: Routes,
    keep: Keep,
}

impl RowReader {
    /// One that keeps this of bodies.
    pub fn new(keep: Keep) -> Self {
        Self { batch: EventBatch::default(), routes: Routes::default(), keep }
    }

    /// Takes an event; `log` is its log's name in the dataset.
    pub fn event(&mut self, event: &Timed<'_, '_>, log: &str) {
        let hour = event.at.div_euclid(HOUR);
        let partition = Partition { cluster: event.cluster().to_owned(), hour };
        let batch = &mut self.batch;
        let rows = batch.rows.entry(partition).or_default();
        rows.before.push(batch.latest.unwrap_or(Micros::MIN));
        let seq = i64::try_from(batch.events).ok();
        batch.events += 1;
        batch.latest = batch.latest.max(Some(event.at));
        let kept = (self.keep)(event.event);
        add(rows, event, (log, seq), &kept, &mut self.routes);
    }

    /// Ends a block.
    pub fn flush(&mut self) -> EventBatch {
        std::mem::take(&mut self.batch)
    }
}

fn add(
    rows: &mut EventRows,
    event: &Timed<'_, '_>,
    (log, seq): (&str, Option<i64>),
    [request, response]: &[String; 2],
    routes: &mut Routes,
) {
    let e = event.event;
    let (is_terminal, is_long) = (event.stage.is_terminal(), e.is_long_running());
    let elapsed = event.elapsed().filter(|_| is_terminal).and_then(|micros| i64::try_from(micros).ok());
    let number = |count: u64| i64::try_from(count).ok().filter(|count| *count > 0);
    let annotation = |name: &str| {
        (!e.only_reason).then(|| member(e.annotations, name)).flatten().and_then(text_of).map(|text| text.decode())
    };
    let body = |name: &str, own: &[u8]| {
        let noted = annotation(name).and_then(|text| text.parse::<u64>().ok());
        number(noted.unwrap_or(own.len() as u64))
    };
    let (response_bytes, response_items) = response_size(e);
    let [etcd, webhook, queue] = spent(e).map(number);
    let is_deprecated = annotation("k8s.io/deprecated").is_some_and(|text| text == "true");
    for (column, value) in rows.times.iter_mut().zip([Some(event.at), event.received]) {
        column.push(value);
    }
    let numbers = [
        elapsed.filter(|_| !is_long),
        elapsed.filter(|_| is_long),
        e.code.map(i64::from),
        body(BODY_SIZES[0], e.request_body),
        number(response_bytes),
        number(response_items),
        etcd,
        webhook,
        queue,
        seq,
    ];
    rows.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.push(value));
    let truths = [is_terminal, is_long, false, is_deprecated];
    rows.truths.iter_mut().zip(truths).for_each(|(column, value)| column.push(value));

    let uri = e.uri.decode();
    let verb = e.verb.decode();
    let route = routes.find(e, verb.as_bytes(), xxh3_64(e.uri.raw()));
    let shape = if e.resource.is_empty() { Some(ReadShape::of_path(e.uri.raw())) } else { route.shape };
    let shape = shape.map_or_else(String::new, |shape| shape.encode());
    let user = e.user.decode();
    // Of events whose annotations say nothing else the reader knows that they were let in.
    let decision = e.decision();
    let removed = if is_deprecated { annotation("k8s.io/removed-release") } else { None };
    let impersonated = member(e.impersonated, "username").and_then(text_of);
    let texts: [&str; COUNTS[3]] = [
        &e.audit_id.decode(),
        log,
        event.instance(),
        event.stage.name(),
        e.level.name(),
        &verb,
        Op::of(&verb).name(),
        &uri,
        &e.group.decode(),
        api_version(&uri),
        &e.resource.decode(),
        &e.subresource.decode(),
        &e.namespace.decode(),
        &e.name.decode(),
        scope_of(e, route.path).name(),
        &shape,
        &user,
        folded(&user),
        &e.agent_product(),
        &e.agent_version(),
        &e.agent.decode(),
        &service_account(e.user).unwrap_or_default(),
        &impersonated.map(|text| text.decode()).unwrap_or_default(),
        &e.source.decode(),
        &node(e),
        &extra(e, "authentication.kubernetes.io/pod-name"),
        &decision.map(|text| text.decode()).unwrap_or_default(),
        &removed.unwrap_or_default(),
        &e.message.decode(),
        request,
        response,
    ];
    for (column, text) in rows.texts.iter_mut().zip(texts) {
        rows.text_bytes += text.len();
        column.push(text);
    }
    groups(rows, e);
}

fn groups(rows: &mut EventRows, event: &Event<'_>) {
    let (all, ends) = &mut rows.groups;
    strings(event.groups).for_each(|group| all.push(&group.decode()));
    ends.push(all.len());
}
