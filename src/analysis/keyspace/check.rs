//! Whether a database is whole: what its values say of themselves and of each other.

use super::{Keyspace, findings, hash};
use crate::analysis::keyspace::file::File;
use crate::model::keyspace::{Object, Seen};
use crate::model::report::{Report, Severity, Table, Value};
use crate::model::units::counted;
use hashbrown::{HashMap, HashSet};
use serde_json::json;

/// What is reported one check; more is counted.
const MAX_SHOWN: usize = 20;

/// How a check went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// How much was looked at; `None` where it could not be done.
    pub checked: Option<u64>,
    /// How much of that is not as it must be.
    pub failed: u64,
    /// What, in words; the first of it.
    pub what: Vec<String>,
}

impl Check {
    /// A check with this name that has looked at nothing yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, checked: Some(0), ..Self::default() }
    }

    /// A check that could not be done, and why.
    pub fn unknown(name: &'static str, why: &str) -> Self {
        Self { name, checked: None, failed: 0, what: vec![why.to_owned()] }
    }

    /// Counts one that was looked at.
    pub fn count(&mut self) {
        *self.checked.get_or_insert(0) += 1;
    }

    /// Counts one that is not as it must be.
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        self.failed += 1;
        self.what.push(what());
        // The first by name, whichever thread met it when.
        if self.what.len() >= 4 * MAX_SHOWN {
            self.tidy();
        }
    }

    fn tidy(&mut self) {
        self.what.sort_unstable();
        self.what.truncate(MAX_SHOWN);
    }

    /// Takes in what another thread found.
    pub fn merge(&mut self, other: Self) {
        *self.checked.get_or_insert(0) += other.checked.unwrap_or(0);
        self.failed += other.failed;
        self.what.extend(other.what);
        self.tidy();
    }

    fn status(&self) -> &'static str {
        match (self.checked, self.failed) {
            (None, _) => "unknown",
            (_, 0) => "ok",
            _ => "failed",
        }
    }
}

/// What single revisions are looked at for, on one thread.
#[derive(Debug, Clone)]
pub struct Revisions {
    /// Values that can be read.
    pub values: Check,
    /// What entries say of their revision.
    pub revisions: Check,
}

impl Default for Revisions {
    fn default() -> Self {
        Self { values: Check::new("values"), revisions: Check::new("revisions") }
    }
}

impl Revisions {
    /// Takes a revision and what its value shows.
    /// `is_no_object` says whether that should be an object of Kubernetes, and is none.
    pub fn take(&mut self, seen: &Seen<'_>, object: &Object<'_>, is_no_object: impl FnOnce() -> bool) {
        let name = || format!("{} at revision {}", String::from_utf8_lossy(seen.key), seen.revision);
        self.revisions.count();
        if seen.is_tombstone {
            if !seen.value.is_empty() || seen.created != 0 || seen.modified != 0 {
                self.revisions.fail(|| format!("{}: a tombstone with more than its key", name()));
            }
            return;
        }
        self.values.count();
        if object.undecodable {
            self.values.fail(|| format!("{}: its value does not match its declared type", name()));
        } else if is_no_object() {
            self.values.fail(|| format!("{}: its value is no object of Kubernetes", name()));
        }
        if seen.modified != seen.revision {
            self.revisions.fail(|| format!("{}: its record has mod_revision {}", name(), seen.modified));
        } else if seen.created > seen.modified || seen.created == 0 {
            self.revisions.fail(|| format!("{}: its record has create_revision {}", name(), seen.created));
        } else if seen.version == 0 || seen.version > seen.modified - seen.created + 1 {
            self.revisions
                .fail(|| format!("{}: its record has version {} since {}", name(), seen.version, seen.created));
        }
    }

    /// Takes in what another thread found.
    pub fn merge(&mut self, other: Self) {
        self.values.merge(other.values);
        self.revisions.merge(other.revisions);
    }
}

/// What keys refer to that is not there; keys by their hashes.
#[derive(Debug, Clone, Default)]
pub struct Dangling {
    /// Keys on a lease, how many there are, and those that reference a missing lease.
    leases: (u64, Vec<u64>),
    /// Leases, and how many of them no key hangs on.
    idle: (u64, u64),
    /// Objects in namespaces, and those whose namespace does not exist; `None` without any namespace.
    namespaces: Option<(u64, Vec<u64>)>,
    /// Owner references, and the objects whose owner does not exist.
    owners: (u64, Vec<u64>),
}

/// Looks for references to objects that do not exist. `leases` are the ids of those that there are.
pub fn dangling(space: &Keyspace, leases: &HashSet<u64>) -> Dangling {
    let mut found = Dangling::default();
    // Owners that something refers to, and whether they live.
    let mut owners: HashMap<u64, bool> = HashMap::new();
    let mut used: HashSet<u64> = HashSet::new();
    space.each(|key, links| {
        if let (true, Some((_, lease, of))) = (key.lives(), links.all()) {
            owners.extend(of.iter().map(|owner| (*owner, false)));
            if lease != 0 {
                used.insert(lease);
            }
        }
    });
    space.each(|key, links| {
        if let (true, Some((uid, ..))) = (key.lives(), links.all())
            && let Some(lives) = owners.get_mut(&uid)
        {
            *lives = true;
        }
    });
    found.idle = (leases.len() as u64, leases.difference(&used).count() as u64);
    // By place: whether it is in a namespace, and whether that lives.
    let mut places: HashMap<u32, Option<bool>> = HashMap::new();
    let mut list: Vec<u32> = Vec::new();
    space.each(|key, _| {
        if key.lives() && places.insert(key.place, None).is_none() {
            list.push(key.place);
        }
    });
    let mut any = false;
    for place in list {
        let text = space.name(place);
        let parsed = space.parse(&text);
        any |= parsed.group.is_empty() && parsed.resource == "namespaces";
        let lives = |namespace: &str| {
            let name = |root: &str| hash(format!("{root}namespaces/{namespace}").as_bytes());
            space.roots().iter().any(|root| space.get(name(root)).is_some_and(|(key, _)| key.lives()))
        };
        let is_in = !parsed.namespace.is_empty() && !parsed.resource.is_empty();
        places.insert(place, is_in.then(|| lives(parsed.namespace)));
    }
    let mut namespaces = (0, Vec::new());
    space.each(|key, links| {
        if !key.lives() {
            return;
        }
        if let Some(lives) = places.get(&key.place).copied().flatten() {
            namespaces.0 += 1;
            if !lives {
                namespaces.1.push(key.hash);
            }
        }
        if let Some((_, lease, of)) = links.all() {
            if lease != 0 {
                found.leases.0 += 1;
                if !leases.contains(&lease) {
                    found.leases.1.push(key.hash);
                }
            }
            for owner in of {
                found.owners.0 += 1;
                if owners.get(owner) != Some(&true) {
                    found.owners.1.push(key.hash);
                }
            }
        }
    });
    // In the same order whichever thread met what first.
    for keys in [&mut found.leases.1, &mut namespaces.1, &mut found.owners.1] {
        keys.sort_unstable();
    }
    found.namespaces = any.then_some(namespaces);
    found
}

impl Dangling {
    /// The keys that will be taken from name.
    pub fn wanted(&self) -> Vec<u64> {
        let namespaces = self.namespaces.iter().flat_map(|(_, keys)| keys.iter().take(MAX_SHOWN));
        self.leases
            .1
            .iter()
            .take(MAX_SHOWN)
            .chain(namespaces)
            .chain(self.owners.1.iter().take(MAX_SHOWN))
            .copied()
            .collect()
    }

    /// The checks; `names` are the texts of the keys that were wanted.
    pub fn checks(&self, names: &std::collections::HashMap<u64, String>) -> Vec<Check> {
        let check = |name, checked: u64, keys: &[u64], what: &str| {
            let reported =
                keys.iter().take(MAX_SHOWN).filter_map(|key| names.get(key)).map(|key| format!("{key}: {what}"));
            let mut what: Vec<String> = reported.collect();
            what.sort_unstable();
            Check { name, checked: Some(checked), failed: keys.len() as u64, what }
        };
        let mut leases =
            check("leases", self.leases.0, &self.leases.1, "references a missing lease and will never expire");
        if leases.failed == 0 {
            leases.what.push(format!("{}, of them {} without a key", counted(self.idle.0, "lease"), self.idle.1));
        }
        vec![
            leases,
            match &self.namespaces {
                Some((checked, keys)) => check("namespaces", *checked, keys, "its namespace does not exist"),
                None => Check::unknown(
                    "namespaces",
                    "no namespaces: not a Kubernetes store, incomplete, or of another --prefix",
                ),
            },
            check("owners", self.owners.0, &self.owners.1, "its owner does not exist"),
        ]
    }

    /// Leases without a key.
    pub fn idle_leases(&self) -> u64 {
        self.idle.1
    }
}

/// The report of `etcd check`. `kv_hash` is as `etcdutl hashkv` gives it.
pub fn report(checks: Vec<Check>, idle_leases: u64, kv_hash: Option<u32>, file: File) -> Report {
    let columns = ["check", "status", "checked", "failed", "what"].map(str::to_owned).into();
    let row = |check: &Check| {
        let mut what = check.what.first().cloned().unwrap_or_default();
        if check.failed > 1 {
            what += &format!(" (and {} more)", check.failed - 1);
        }
        vec![check.name.into(), check.status().into(), check.checked.into(), check.failed.into(), what.as_str().into()]
    };
    let rows: Vec<Vec<Value>> = checks.iter().map(row).collect();
    let details = Table {
        name: "failures".to_owned(),
        title: "What failed".to_owned(),
        columns: ["check", "what"].map(str::to_owned).into(),
        rows: checks
            .iter()
            .filter(|c| c.failed > 0)
            .flat_map(|c| c.what.iter().map(|what| vec![c.name.into(), what.as_str().into()]))
            .collect(),
        headings: vec![("what", "WHAT FAILED")],
        ..Table::default()
    };
    let failed: Vec<&str> = checks.iter().filter(|check| check.failed > 0).map(|check| check.name).collect();
    let is_damaged = checks.iter().any(|check| check.failed > 0 && is_damage(check.name));
    let lead = match (failed.is_empty(), is_damaged) {
        (true, _) => "The database is intact.".to_owned(),
        (false, true) => format!("The database is damaged: {}.", failed.join(", ")),
        (false, false) => format!("The file is intact, but its contents are not: {}.", failed.join(", ")),
    };
    let mut totals = file.totals();
    totals.extend([
        ("kv_hash".to_owned(), kv_hash.filter(|_| !file.is_damaged()).map(u64::from).into()),
        ("failed".to_owned(), (failed.len() as u64).into()),
        ("idle_leases".to_owned(), idle_leases.into()),
    ]);
    let hashes = match (file.hash, kv_hash.filter(|_| !file.is_damaged())) {
        (Some(hash), Some(kv)) => {
            format!("Hash {hash:x} (etcdctl snapshot status), of the keys alone {kv} (etcdctl endpoint hashkv).")
        }
        (Some(hash), None) => format!("Hash {hash:x} (etcdctl snapshot status)."),
        _ => "No hash: parts could not be read.".to_owned(),
    };
    let mut notes = file.notes();
    notes.retain(|note| !note.contains("damaged"));
    let findings = of_checks(&checks, idle_leases, &file);
    let table = Table { columns, rows, name: "checks".to_owned(), ..Table::default() };
    let mut people = vec![table.clone()];
    if !details.rows.is_empty() {
        people.push(details.clone());
    }
    Report {
        schema: "plimsoll.etcd-check/v1".to_owned(),
        coverage: file.coverage(),
        lead: vec![lead, hashes],
        totals,
        table,
        people: Some(people),
        tables: vec![details],
        notes,
        findings,
        inputs: file.inputs,
        ..Report::default()
    }
}

/// Whether a failure means that bytes are not what etcd wrote.
fn is_damage(check: &str) -> bool {
    ["meta", "trailer", "pages", "key-order", "entries", "free-list", "revisions"].contains(&check)
}

fn of_checks(checks: &[Check], idle_leases: u64, file: &File) -> Vec<crate::model::report::Finding> {
    let mut found = findings::FileFindings::new(file);
    for check in checks.iter().filter(|check| check.failed > 0) {
        let what = check.what.first().map_or("", String::as_str);
        let evidence = json!({"checked": check.checked, "failed": check.failed});
        let about = [("check", check.name)];
        match check.name {
            "values" => found.add(
                "etcd-undecodable",
                Severity::Warning,
                &[],
                format!("{} can't be read: {what}", counted(check.failed, "value")),
                &evidence,
                "an apiserver can't serve such objects, nor lists of their resource: compare with another member's \
                 snapshot, then delete them by key",
            ),
            "leases" => found.add(
                "etcd-orphan-lease",
                Severity::Warning,
                &[],
                format!("{} reference missing leases: {what}", counted(check.failed, "key")),
                &evidence,
                "such keys never expire: delete them manually (Events, masterleases)",
            ),
            "namespaces" => found.add(
                "etcd-dangling-namespace",
                Severity::Warning,
                &[],
                format!("{} in missing namespaces: {what}", counted(check.failed, "object")),
                &evidence,
                "the namespace controller no longer deletes them: delete them with kubectl; for objects with \
                 finalizers, recreate the namespace, then delete it",
            ),
            "owners" => found.add(
                "etcd-dangling-owner",
                if check.failed >= 100 { Severity::Warning } else { Severity::Info },
                &[],
                format!("{} with missing owners: {what}", counted(check.failed, "reference")),
                &evidence,
                "the garbage collector deletes these within minutes; if it does not, check its log in \
                 kube-controller-manager (before Kubernetes 1.32 one broken APIService stops it)",
            ),
            _ => found.add(
                "etcd-damaged",
                Severity::Critical,
                &about,
                format!("{}: {} failed: {what}", check.name, check.failed),
                &evidence,
                "do not restore from this file; take and check a snapshot of each member, and replace a damaged \
                 member",
            ),
        }
    }
    if idle_leases >= 1000 {
        found.add(
            "etcd-lease-leak",
            Severity::Warning,
            &[],
            format!("{} that no key references", counted(idle_leases, "lease")),
            &json!({"idle_leases": idle_leases}),
            "find the client that grants leases and neither uses nor revokes them; each costs memory and is part of \
             every checkpoint",
        );
    }
    found.list
}
