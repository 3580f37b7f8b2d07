//! The roll-up's tables as text, sorted by their keys.

use super::keys::{Keys, OTHER};
use super::rows::{Fact, SourceSet};
use super::{Part, repeated};
use crate::model::rollup::{Rollup, Table};
use crate::model::symbols::Symbol;

/// Makes the tables of a part that is complete.
pub(super) fn tables(part: Part, open: u64) -> Rollup {
    let span = part.span.map_or(0, |(first, last)| last - first);
    let keys = part.keys;
    let mut rollup = Rollup {
        late: part.late,
        open,
        repeated_ids: repeated(&part.ids).repeated,
        notable_dropped: part.notable_dropped,
        span: part.span,
        ..Rollup::default()
    };
    let mut traffic = Table::new(
        "traffic",
        13,
        "tile cluster instance user agent verb group resource subresource scope namespace code shape requests open latency latency_sum latency_max lifetime lifetime_sum lifetime_max bodies body_bytes body_items etcd_us webhook_us queue_us",
    );
    for (tile, rows) in part.traffic.finish(span, &keys) {
        for (key, row) in rows.into_rows() {
            let mut fields = vec![tile.to_string()];
            fields.extend(traffic_key(&keys, key as u32));
            let more = row.more.unwrap_or_default();
            let (l, t) = (&row.latency, &more.lifetime);
            let numbers = [row.requests, row.open].map(|n| n.to_string());
            fields.extend(numbers);
            fields.extend([l.encode(), l.sum.to_string(), l.max.to_string(), t.encode(), t.sum.to_string(), t.max.to_string()]);
            fields.extend(more.bodies.iter().chain(&more.spent).map(u64::to_string));
            traffic.rows.push(fields);
        }
    }
    let mut pulse = Table::new("pulse", 8, "second cluster instance user agent group resource op starts ends errors throttled");
    for (second, rows) in part.pulse.finish(span, &keys) {
        for (key, row) in rows.into_rows() {
            let k = keys.pulses.get(key as u32);
            let [cluster, user, agent, group, resource] = keys.subject_text(k.subject);
            let op = if key == 0 { OTHER } else { k.op.name() };
            let texts = [cluster, keys.symbols.get(k.instance), user, agent, group, resource, op].map(str::to_owned);
            let counts = [row.starts, row.ends, row.errors, row.throttled].map(|n| n.to_string());
            pulse.rows.push([vec![second.to_string()], texts.to_vec(), counts.to_vec()].concat());
        }
    }
    let mut sequences = Table::new("sequences", 7, "tile cluster user agent group resource fact count gaps");
    for (tile, rows) in part.facts.finish(span, &keys) {
        for (key, gaps) in rows.into_rows() {
            let (subject, fact) = Fact::of(key);
            let fact = if key == 0 { OTHER } else { fact.name() };
            let texts = keys.subject_text(subject).map(str::to_owned).to_vec();
            let values = vec![fact.to_owned(), gaps.0.count().to_string(), gaps.0.encode()];
            sequences.rows.push([vec![tile.to_string()], texts, values].concat());
        }
    }
    let mut sources = Table::new("sources", 6, "tile cluster user agent group resource requests exact addresses sketch heaviest");
    for (tile, rows) in part.sources.finish(span, &keys) {
        for (subject, mut row) in rows.into_rows() {
            super::tiles::Row::close(&mut row, &keys);
            let texts = keys.subject_text(subject as u32).map(str::to_owned).to_vec();
            let (exact, addresses, sketch, heaviest) = match row.set {
                SourceSet::Open(_) => (true, String::new(), String::new(), String::new()),
                SourceSet::Exact(mut counts) => {
                    counts.sort_unstable_by_key(|(source, _)| keys.symbols.get(*source));
                    (true, pairs(&keys, &counts), String::new(), String::new())
                }
                SourceSet::Sketch { smallest, heaviest } => {
                    let hashes: Vec<String> = smallest.iter().map(|hash| format!("{hash:016x}")).collect();
                    (false, String::new(), hashes.join(";"), pairs(&keys, &heaviest))
                }
            };
            let values = vec![row.requests.to_string(), exact.to_string(), addresses, sketch, heaviest];
            sources.rows.push([vec![tile.to_string()], texts, values].concat());
        }
    }
    let mut objects = Table::new("objects", 7, "cluster group resource namespace name user agent reads writes conflicts first last");
    let (rows, dropped) = part.objects.finish(&keys);
    rollup.objects_dropped = dropped;
    for (key, name, object) in rows {
        let [cluster, user, agent, group, resource] = keys.subject_text(key.subject);
        let (first, last) = object.span.unwrap_or_default();
        let texts = [cluster, group, resource, keys.symbols.get(key.namespace), &name, user, agent].map(str::to_owned);
        let numbers = [object.reads.to_string(), object.writes.to_string(), object.conflicts.to_string(), first.to_string(), last.to_string()];
        objects.rows.push([texts.to_vec(), numbers.to_vec()].concat());
    }
    let mut notable = Table::new(
        "notable",
        19,
        "at cluster instance kind user agent impersonated source verb group resource subresource namespace name code uri audit_id level detail",
    );
    for n in part.notable {
        let code = n.code.map_or(String::new(), |code| code.to_string());
        notable.rows.push(vec![
            n.at.to_string(), n.cluster, n.instance, n.kind.to_owned(), n.user, n.agent, n.impersonated, n.source, n.verb, n.group,
            n.resource, n.subresource, n.namespace, n.name, code, n.uri, n.audit_id, n.level.to_owned(), n.detail,
        ]);
    }
    let mut clients = Table::new("clients", 3, "cluster user agent requests first last service_account versions groups nodes pods instances fleet heaviest");
    for (key, client) in part.clients.into_rows() {
        let [cluster, user, agent] = key.map(|symbol| keys.symbols.get(symbol).to_owned());
        let (first, last) = client.span.unwrap_or_default();
        let mut nodes: Vec<(Symbol, u64)> = client.nodes.into_iter().collect();
        nodes.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| keys.symbols.get(a.0).cmp(keys.symbols.get(b.0))));
        let heaviest: Vec<String> = nodes.iter().take(16).map(|(node, n)| format!("{}={n}", keys.symbols.get(*node))).collect();
        let members = sample(nodes.iter().map(|(node, _)| keys.symbols.get(*node)));
        clients.rows.push(vec![
            cluster, user, agent, client.requests.to_string(), first.to_string(), last.to_string(), client.service_account,
            client.versions.members().join(";"), client.groups.members().join(";"), members.join(";"),
            client.pods.members().join(";"), client.instances.members().join(";"), nodes.len().to_string(), heaviest.join(";"),
        ]);
    }
    rollup.tables = vec![traffic, pulse, sequences, sources, objects, notable, clients];
    rollup.tables.iter_mut().for_each(Table::sort);
    rollup
}

/// The 64 members with the smallest MD5, by text.
fn sample<'t>(members: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut members: Vec<&str> = members.collect();
    if members.len() > 64 {
        members.sort_by_cached_key(|text| super::rows::md5_128(text));
        members.truncate(64);
    }
    members.sort_unstable();
    members
}

fn traffic_key(keys: &Keys, key: u32) -> Vec<String> {
    let k = keys.traffic.get(key);
    let [cluster, user, agent, group, resource] = keys.subject_text(k.subject);
    let s = |symbol| keys.symbols.get(symbol);
    let scope = if key == 0 { OTHER } else { k.scope.name() };
    let mut fields: Vec<String> =
        [cluster, s(k.instance), user, agent, s(k.verb), group, resource, s(k.subresource), scope, s(k.namespace)].map(str::to_owned).to_vec();
    let other = || if key == 0 { OTHER.to_owned() } else { String::new() };
    fields.push(k.code.map_or_else(other, |code| code.to_string()));
    fields.push(k.shape.map_or_else(other, |shape| shape.encode()));
    fields
}

/// `text=count` joined by `;`.
fn pairs(keys: &Keys, counts: &[(Symbol, u32)]) -> String {
    let pairs: Vec<String> = counts.iter().map(|(source, count)| format!("{}={count}", keys.symbols.get(*source))).collect();
    pairs.join(";")
}
