//! What was added, removed and changed between two databases.

use super::report::{hidden, sort};
use super::{Key, Keyspace, Links, findings};
use crate::analysis::keyspace::file::File;
use crate::model::report::{Report, Severity, Table, Value};
use crate::model::units::{bytes, counted};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It lives only in the newer.
    Added,
    /// It lives only in the older.
    Removed,
    /// Its value differs.
    Changed,
    /// It was written again with the same value.
    Rewritten,
}

/// A key that is not as it was.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// What became of it.
    pub change: Change,
    pub hash: u64,
    /// Where it is: the name of its place in [`Compared::places`].
    place: u32,
    /// Bytes of its value in the older.
    before: u64,
    /// Bytes in the newer.
    after: u64,
}

/// Prefix, group, resource and namespace.
type Place = [String; 4];

/// Two databases beside each other.
#[derive(Debug)]
pub struct Compared {
    /// All keys that are not as they were.
    pub changes: Vec<Changed>,
    places: Vec<Place>,
    rows: BTreeMap<Place, Sum>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    counts: [u64; 4],
    before: u64,
    after: u64,
}

/// Compares what lives.
pub fn compare(before: &Keyspace, after: &Keyspace) -> Compared {
    let mut compared = Compared { changes: Vec::new(), places: Vec::new(), rows: BTreeMap::new() };
    let mut known: HashMap<(bool, u32), (u32, Place)> = HashMap::new();
    let mut take = |space: &Keyspace, is_after: bool, key: &Key, change: Option<Change>, sizes: (u64, u64)| {
        let places = &mut compared.places;
        let (place, names) = known.entry((is_after, key.place)).or_insert_with(|| {
            let text = space.name(key.place);
            let parsed = space.parse(&text);
            let names = [parsed.prefix, parsed.group, parsed.resource, parsed.namespace].map(str::to_owned);
            places.push(names.clone());
            ((places.len() - 1) as u32, names)
        });
        let sum = compared.rows.entry(names.clone()).or_default();
        (sum.before, sum.after) = (sum.before + sizes.0, sum.after + sizes.1);
        if let Some(change) = change {
            sum.counts[change as usize] += 1;
            compared.changes.push(Changed { change, hash: key.hash, place: *place, before: sizes.0, after: sizes.1 });
        }
    };
    before.each(|key, links| {
        if !key.lives() {
            return;
        }
        match after.get(key.hash).filter(|(now, _)| now.lives()) {
            None => take(before, false, key, Some(Change::Removed), (key.live_bytes(), 0)),
            Some((now, new)) => {
                let change = match (links, &new) {
                    (Links::Value(old), Links::Value(new)) if old != new => Some(Change::Changed),
                    _ if key.latest != now.latest => Some(Change::Rewritten),
                    _ => None,
                };
                take(before, false, key, change, (key.live_bytes(), now.live_bytes()));
            }
        }
    });
    after.each(|key, _| {
        if key.lives() && before.get(key.hash).is_none_or(|(old, _)| !old.lives()) {
            take(after, true, key, Some(Change::Added), (0, key.live_bytes()));
        }
    });
    compared
}

/// Objects that are in the older and not in the newer: by group, resource and namespace.
pub type Removed = BTreeMap<[String; 3], u64>;

/// Resources whose removal stops what people run. Jobs end and are removed all the time.
const WORKLOADS: [&str; 4] = ["deployments", "statefulsets", "daemonsets", "cronjobs"];

impl Compared {
    /// How many objects were removed, by what and where.
    pub fn removed(&self) -> Removed {
        let mut removed = Removed::new();
        for ([_, group, resource, namespace], sum) in &self.rows {
            let count = sum.counts[Change::Removed as usize];
            if count > 0 {
                *removed.entry([group.clone(), resource.clone(), namespace.clone()]).or_default() += count;
            }
        }
        removed
    }

    /// The keys whose names the report needs: all that changed if `objects` are listed, else those whose removal is a
    /// finding.
    pub fn wanted(&self, objects: bool) -> Vec<u64> {
        let is_wanted = |change: &&Changed| {
            let [_, group, resource, _] = &self.places[change.place as usize];
            let is_grave = is_crd(group, resource) || group.is_empty() && resource == "namespaces";
            objects && change.change != Change::Rewritten || change.change == Change::Removed && is_grave
        };
        self.changes.iter().filter(is_wanted).map(|change| change.hash).collect()
    }

    /// The report of `etcd diff`. `names` are the texts of the keys that were wanted.
    pub fn report(
        &self,
        names: &HashMap<u64, String>,
        space: &Keyspace,
        files: [File; 2],
        shape: &Shape<'_>,
    ) -> Report {
        let [before, after] = files;
        let mut total = Sum::default();
        let mut rows = Vec::new();
        for (place, sum) in &self.rows {
            total.counts.iter_mut().zip(sum.counts).for_each(|(all, own)| *all += own);
            (total.before, total.after) = (total.before + sum.before, total.after + sum.after);
            if sum.counts != [0; 4] {
                let mut row: Vec<Value> = place.iter().map(|name| Value::from(name.as_str())).collect();
                row.extend(sum.values());
                rows.push(row);
            }
        }
        let columns: Vec<String> =
            ["prefix", "group", "resource", "namespace"].into_iter().chain(FIELDS).map(str::to_owned).collect();
        rows.sort_by_key(|row| {
            let count = |at: usize| if let Value::Count(n) = row[at] { n } else { 0 };
            std::cmp::Reverse((count(5), count(4) + count(6)))
        });
        let mut table = Table { columns, rows, ..Table::default() };
        if shape.objects {
            table = self.objects(names, space);
        }
        if let Some(field) = shape.sort_by {
            sort(&table.columns, &mut table.rows, field);
        }
        let mut totals: Vec<(String, Value)> = FIELDS.iter().map(|f| (*f).to_owned()).zip(total.values()).collect();
        totals.extend([
            ("revision_before".to_owned(), before.revision.into()),
            ("revision_after".to_owned(), after.revision.into()),
            ("db_bytes_before".to_owned(), before.db_bytes.into()),
            ("db_bytes_after".to_owned(), after.db_bytes.into()),
        ]);
        let [added, removed, changed, rewritten] = total.counts;
        let mut lead = vec![
            format!(
                "{} added, {} removed, {} changed, {} rewritten unchanged; from revision {} to {}.",
                counted(added, "object"),
                counted(removed, "object"),
                counted(changed, "object"),
                counted(rewritten, "object"),
                before.revision,
                after.revision
            ),
            format!("Live data went from {} to {}.", bytes(total.before as f64), bytes(total.after as f64)),
        ];
        if after.revision < before.revision {
            lead.push("The first is the later one: give the earlier first to see what was done since.".to_owned());
        }
        if after.is_damaged() {
            lead.insert(0, "AFTER is damaged: an object in a page that can't be read looks removed.".to_owned());
        }
        if before.is_damaged() {
            lead.insert(0, "BEFORE is damaged: an object in a page that can't be read looks added.".to_owned());
        }
        let mut notes = hidden(table.rows.len(), shape.top);
        notes.extend(before.notes());
        notes.extend(after.notes());
        let findings = self.findings(names, space, &after);
        Report {
            schema: "plimsoll.etcd-diff/v1".to_owned(),
            coverage: after.coverage(),
            lead,
            totals,
            shown: shape.top,
            table,
            notes,
            findings,
            inputs: before.inputs.into_iter().chain(after.inputs).collect(),
            ..Report::default()
        }
    }

    fn objects(&self, names: &HashMap<u64, String>, space: &Keyspace) -> Table {
        let columns = ["change", "key", "group", "resource", "namespace", "name", "bytes_before", "bytes_after"];
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for changed in &self.changes {
            let change = match changed.change {
                Change::Added => "added",
                Change::Removed => "removed",
                Change::Changed => "changed",
                Change::Rewritten => continue,
            };
            let Some(key) = names.get(&changed.hash) else { continue };
            let parsed = space.parse(key);
            let mut row: Vec<Value> =
                [change, key, parsed.group, parsed.resource, parsed.namespace, parsed.name].map(Value::from).into();
            let lives = |bytes: u64, not: Change| (changed.change != not).then_some(bytes);
            row.extend([
                Value::from(lives(changed.before, Change::Added)),
                Value::from(lives(changed.after, Change::Removed)),
            ]);
            rows.push(row);
        }
        let columns: Vec<String> = columns.map(str::to_owned).into();
        sort(&columns, &mut rows, "key");
        rows.sort_by_key(|row| ["removed", "added", "changed"].iter().position(|change| row[0] == (*change).into()));
        Table { columns, rows, ..Table::default() }
    }

    fn findings(
        &self,
        names: &HashMap<u64, String>,
        space: &Keyspace,
        file: &File,
    ) -> Vec<crate::model::report::Finding> {
        let mut found = findings::FileFindings::new(file);
        // What is missing may be in pages that can't be read.
        if file.is_damaged() {
            return found.list;
        }
        let removed = |is: &dyn Fn(&str, &str) -> bool| -> Vec<&Changed> {
            let is_it = |change: &&Changed| {
                let [_, group, resource, _] = &self.places[change.place as usize];
                change.change == Change::Removed && is(group, resource)
            };
            self.changes.iter().filter(is_it).collect()
        };
        let listed = |changes: &[&Changed]| {
            let mut list: Vec<&str> =
                changes.iter().filter_map(|c| names.get(&c.hash)).map(|key| space.parse(key).name).collect();
            list.sort_unstable();
            let more = list.len().saturating_sub(findings::MAX_NAMED);
            list.truncate(findings::MAX_NAMED);
            list.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
        };
        let namespaces = removed(&|group, resource| group.is_empty() && resource == "namespaces");
        if !namespaces.is_empty() {
            found.add(
                "etcd-removed-namespaces",
                Severity::Critical,
                &[],
                format!("{} deleted: {}", counted(namespaces.len() as u64, "namespace"), listed(&namespaces)),
                &json!({"removed": namespaces.len()}),
                "if that was unintended, restore them from the older database: plimsoll etcd extract OLD.db \
                 --deleted-since NEW.db writes their objects as manifests",
            );
        }
        let crds = removed(&is_crd);
        if !crds.is_empty() {
            found.add(
                "etcd-removed-crds",
                Severity::Critical,
                &[],
                format!(
                    "{} and all its objects deleted: {}",
                    counted(crds.len() as u64, "CustomResourceDefinition"),
                    listed(&crds)
                ),
                &json!({"removed": crds.len()}),
                "if that was unintended, restore them from the older database: plimsoll etcd extract OLD.db \
                 --deleted-since NEW.db writes manifests, CRDs first; objects that go with their CRD leave no audit \
                 events",
            );
        }
        let workloads = removed(&|group, resource| ["apps", "batch"].contains(&group) && WORKLOADS.contains(&resource));
        if !workloads.is_empty() {
            found.add(
                "etcd-removed-workloads",
                Severity::Warning,
                &[],
                format!(
                    "{} deleted (Deployments, StatefulSets, DaemonSets, CronJobs)",
                    counted(workloads.len() as u64, "workload")
                ),
                &json!({"removed": workloads.len()}),
                "plimsoll etcd diff --objects lists them; an audit log shows who deleted them (plimsoll traffic \
                 --where verb=delete --by user,resource,name)",
            );
        }
        found.list
    }
}

fn is_crd(group: &str, resource: &str) -> bool {
    (group, resource) == ("apiextensions.k8s.io", "customresourcedefinitions")
}

/// How rows are made and shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape<'s> {
    /// Whether each object is a row.
    pub objects: bool,
    /// Field to sort by.
    pub sort_by: Option<&'s str>,
    /// Rows that people are shown.
    pub top: Option<usize>,
}

const FIELDS: [&str; 7] = ["added", "removed", "changed", "rewritten", "bytes_before", "bytes_after", "bytes_change"];

impl Sum {
    fn values(&self) -> [Value; 7] {
        let [added, removed, changed, rewritten] = self.counts.map(Value::from);
        let change = self.after as f64 - self.before as f64;
        [added, removed, changed, rewritten, self.before.into(), self.after.into(), change.into()]
    }
}
