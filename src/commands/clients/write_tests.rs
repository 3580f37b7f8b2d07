//! Findings about who writes, from the text of a log on: each threshold, and what stays just below it.

use crate::analysis::clients::cost::SizeContext;
use crate::analysis::clients::{Clients, detect, gateway};
use crate::analysis::flow::fence;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::{Loader, Tables, Wanted};
use crate::inputs::manifest::manifest;
use crate::inputs::rolled::{take_in, take_table};
use crate::inputs::selection::Selection;
use crate::inputs::{log_question, rollup};
use crate::model::report::{Finding, Severity};
use crate::model::time;
use crate::sources::audit::pass::Outcome;
use crate::sources::find::audit_logs;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;

/// The start of a minute, in seconds.
const START: i64 = 1_795_166_400;

type Caller = (&'static str, &'static str);

const APP: Caller = ("system:serviceaccount:team:app", "app");
const OTHER: Caller = ("system:serviceaccount:team:other", "other");
const MANAGER: Caller = ("system:kube-controller-manager", "kube-controller-manager");

const CONFIG: &str = "/api/v1/namespaces/a/configmaps/c";
const SECRETS: &str = "/api/v1/namespaces/a/secrets";

/// A log that is made event by event.
#[derive(Default)]
struct Log(Vec<(i64, String)>);

impl Log {
    /// A request that ended at `ms` with a code; objects of its path are named as the API does.
    fn add(&mut self, (user, agent): Caller, verb: &str, path: &str, ms: i64, code: u16) -> &mut Self {
        let plain = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = plain.trim_start_matches('/').split('/').collect();
        let (group, rest) = if parts[0] == "apis" { (parts[1], &parts[3..]) } else { ("", &parts[2..]) };
        let (namespace, rest) = if rest[0] == "namespaces" { (rest[1], &rest[2..]) } else { ("", rest) };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        let at = time::format(START * 1_000_000 + ms * 1000);
        let event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": format!("id-{}", self.0.len()), "stage": "ResponseComplete", "requestURI": path, "verb": verb,
            "user": {"username": user, "groups": ["system:authenticated"]}, "sourceIPs": ["10.0.0.7"],
            "userAgent": format!("{agent}/v1"),
            "objectRef": {"resource": part(0), "apiGroup": group, "namespace": namespace, "name": part(1),
                          "subresource": part(2), "apiVersion": "v1"},
            "responseStatus": {"code": code}, "requestReceivedTimestamp": at, "stageTimestamp": at,
        });
        self.0.push((ms, event.to_string()));
        self
    }

    /// So many requests from `from` on, each `every` ms after the one before.
    fn every(&mut self, who: Caller, verb: &str, path: &str, (from, every): (i64, i64), times: i64) -> &mut Self {
        (0..times).for_each(|n| _ = self.add(who, verb, path, from + n * every, 200));
        self
    }

    /// Gives the response of the request that was added last a body of so many bytes.
    fn with_body(&mut self, bytes: usize) -> &mut Self {
        if let Some((_, line)) = self.0.last_mut() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            event["level"] = "RequestResponse".into();
            event["responseObject"] = json!({"data": "x".repeat(bytes)});
            *line = event.to_string();
        }
        self
    }

    fn roll_up(&self, selection: &Selection) -> (Rollup, Outcome) {
        let mut lines = self.0.clone();
        lines.sort();
        let mut file = tempfile::Builder::new().suffix(".log").tempfile().unwrap();
        lines.iter().for_each(|(_, line)| writeln!(file, "{line}").unwrap());
        let streams = audit_logs(&[file.path().display().to_string()]).streams;
        log_question::answer(streams, selection, 1_usize, &())
    }

    fn found(&self) -> Vec<(Option<String>, Finding)> {
        findings(&self.roll_up(&Selection::default()).0)
    }

    /// The finding of this name, if it is there.
    fn finding(&self, id: &str) -> Option<Finding> {
        self.found().into_iter().map(|(_, finding)| finding).find(|finding| finding.id == id)
    }

    /// How grave the finding about a client is.
    fn severity(&self, id: &str, who: Caller) -> Option<Severity> {
        let mut found = self.found().into_iter();
        let is = |(own, finding): &(Option<String>, Finding)| finding.id == id && own.as_deref() == Some(who.0);
        found.find(is).map(|(_, finding)| finding.severity)
    }

    #[track_caller]
    fn finds(&self, id: &str, wanted: Option<Severity>) {
        let found = self.found();
        let ids: Vec<&String> = found.iter().map(|(_, finding)| &finding.id).collect();
        let severity = found.iter().find(|(_, finding)| finding.id == id).map(|(_, finding)| finding.severity);
        assert_eq!(severity, wanted, "{id} of {ids:?}");
    }
}

fn findings(rollup: &Rollup) -> Vec<(Option<String>, Finding)> {
    let known = SizeContext::default();
    let clients = Clients::new(rollup, None, &known);
    let found = detect::all(&clients, 2);
    found.into_iter().map(|(who, finding)| (who.map(|who| who.user.to_owned()), finding)).collect()
}

/// What a stored roll-up of the same gives, all of it or without tables.
fn stored(log: &Log, lacks: &[&str]) -> Rollup {
    let (rollup, outcome) = log.roll_up(&Selection { with_seams: true, ..Selection::default() });
    let mut loader = Loader::new(Wanted { tables: Tables::Clients, ..Wanted::default() });
    loader.begin(&manifest(&rollup, &[], &outcome), true);
    for spec in Tables::Clients.specs() {
        match lacks.contains(&spec.name) {
            true => loader.lacks(spec.name),
            false => take_table(&mut loader, spec, &rollup).unwrap(),
        }
    }
    loader.finish()
}

const STORM: &str = "client-write-storm";
const HOT: &str = "client-hot-object";
const TURNS: &str = "client-alternating-writers";
const WARNING: Option<Severity> = Some(Severity::Warning);
const CRITICAL: Option<Severity> = Some(Severity::Critical);

/// `rate` creates a second for 70 s by one, so many by another.
fn storm(who: Caller, rate: i64, others: i64) -> Log {
    let mut log = Log::default();
    log.every(who, "create", SECRETS, (0, 1000 / rate), rate * 70);
    if others > 0 {
        log.every(OTHER, "create", SECRETS, (0, 1000 / others), others * 70);
    }
    log
}

#[test]
fn a_storm_of_writes() {
    storm(APP, 10, 0).finds(STORM, WARNING);
    // One in 103 ms is 9.7 a second.
    Log::default().every(APP, "create", SECRETS, (0, 103), 1000).finds(STORM, None);
    storm(APP, 40, 20).finds(STORM, CRITICAL);
    // Less than 30 a second; less than half.
    storm(APP, 25, 0).finds(STORM, WARNING);
    assert_eq!(storm(APP, 40, 50).severity(STORM, APP), WARNING);
    // 10 of 35 is more than a quarter, 10 of 50 less.
    assert_eq!(storm(APP, 10, 25).severity(STORM, APP), WARNING);
    assert_eq!(storm(APP, 10, 40).severity(STORM, APP), None);
}

#[test]
fn what_is_no_storm_of_writes() {
    // A thousand objects in ten seconds, and done; the same for 45 s goes on.
    Log::default().every(APP, "create", SECRETS, (3000, 10), 1000).finds(STORM, None);
    Log::default().every(APP, "create", SECRETS, (3000, 15), 3000).finds(STORM, CRITICAL);
    let flood = |verb: &str, path: &str, code: u16| {
        let mut log = Log::default();
        (0..1400).for_each(|n| _ = log.add(APP, verb, path, n * 50, code));
        log
    };
    flood("update", CONFIG, 200).finds(STORM, WARNING);
    // Refused, or not stored; Events have a finding of their own.
    for code in [401, 403, 429] {
        flood("create", SECRETS, code).finds(STORM, None);
    }
    flood("create", SECRETS, 409).finds(STORM, WARNING);
    flood("get", CONFIG, 200).finds(STORM, None);
    flood("create", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 201).finds(STORM, None);
    flood("create", "/apis/authentication.k8s.io/v1/tokenreviews", 201).finds(STORM, None);
    flood("create", "/api/v1/namespaces/a/serviceaccounts/s/token", 201).finds(STORM, None);
    flood("create", "/api/v1/namespaces/a/events", 201).finds(STORM, None);
}

#[test]
fn the_control_plane_storms_only_where_nobody_else_does() {
    storm(MANAGER, 40, 0).finds(STORM, Some(Severity::Info));
    let both = storm(MANAGER, 40, 20);
    let who: Vec<_> = both.found().into_iter().filter(|(_, f)| f.id == STORM).map(|(who, _)| who).collect();
    assert_eq!(who, [Some(OTHER.0.to_owned())]);
    // Kubelets say that they live.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
    let kubelet = ("system:node:n", "kubelet");
    Log::default().every(kubelet, "update", lease, (0, 50), 1400).finds(STORM, None);
    Log::default().every(kubelet, "patch", "/api/v1/nodes/n/status", (0, 50), 1400).finds(STORM, Some(Severity::Info));
}

#[test]
fn a_storm_says_how_much_and_leads_to_limits() {
    let mut log = Log::default();
    for n in 0..60 * 70 {
        log.add(APP, "update", &format!("{SECRETS}/s-{n}"), n * 1000 / 60, 200).with_body(10_000);
    }
    log.every(OTHER, "update", CONFIG, (0, 2000), 35);
    let (rollup, _) = log.roll_up(&Selection::default());
    let known = SizeContext::default();
    let clients = Clients::new(&rollup, None, &known);
    let found = detect::all(&clients, 1);
    let (_, finding) = found.iter().find(|(_, finding)| finding.id == STORM).unwrap();
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!((&finding.evidence["writes"], &finding.evidence["writes_per_s"]), (&json!(3600), &json!(60.0)));
    assert_eq!((&finding.evidence["others_per_s"], &finding.evidence["seconds"]), (&json!(0.5), &json!(70)));
    let rate = finding.evidence["bytes_per_s"].as_f64().unwrap();
    assert!((600_000.0..610_000.0).contains(&rate), "{rate}");
    let summary = "app (system:serviceaccount:team:app) sends 60.0 writes/s in its busiest minute (all other clients \
                   together 0.50/s), 99.2% of the cluster's writes, mostly update secrets, 587 KiB/s of objects; high \
                   for 1m 10s in total";
    assert_eq!(finding.summary, summary);
    assert!(finding.remedy.contains("--emit fence --client system:serviceaccount:team:app"), "{}", finding.remedy);
    assert_eq!(fence::culprits(&clients, &found, ""), [APP.0]);
    let (limits, _) = gateway::limits(&clients, &found, gateway::GatewayOptions { users: &[] });
    let whom: BTreeSet<&str> = limits.iter().map(|limit| limit.whom).collect();
    assert_eq!(whom.into_iter().collect::<Vec<_>>(), ["app", APP.0]);
}

#[test]
fn one_object_that_is_written_all_the_time() {
    // 61 in a minute; 60 are not more than 60.
    Log::default().every(APP, "update", CONFIG, (0, 980), 150).finds(HOT, WARNING);
    Log::default().every(APP, "update", CONFIG, (0, 1000), 300).finds(HOT, None);
    // However minutes of the clock lie.
    Log::default().every(APP, "update", CONFIG, (30_000, 900), 150).finds(HOT, WARNING);
    // For more than one minute: 120 are two minutes' worth, 121 more.
    Log::default().every(APP, "patch", CONFIG, (0, 400), 121).finds(HOT, WARNING);
    Log::default().every(APP, "patch", CONFIG, (0, 400), 120).finds(HOT, None);
    // Objects one by one, and by client.
    let mut log = Log::default();
    log.every(APP, "update", CONFIG, (0, 1200), 200).every(APP, "update", &format!("{CONFIG}2"), (0, 1200), 200);
    log.every(OTHER, "update", CONFIG, (7, 1200), 200).finds(HOT, None);
    // Whatever it is: leader election by Endpoints, a custom object, its status.
    let paths = ["/api/v1/namespaces/a/endpoints/l", "/apis/a.io/v1/namespaces/a/things/t", "/apis/a.io/v1/things/t"];
    for path in paths {
        Log::default().every(APP, "update", path, (0, 500), 300).finds(HOT, WARNING);
    }
    let status = format!("{CONFIG}/status");
    let mut log = Log::default();
    log.every(APP, "update", CONFIG, (0, 1500), 200).every(APP, "patch", &status, (3, 1500), 200).finds(HOT, WARNING);
    // Leases have a finding of their own; failed writes and dry runs change nothing; the control plane's are a note.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";
    Log::default().every(APP, "update", lease, (0, 500), 300).finds(HOT, None);
    Log::default().every(APP, "update", &format!("{CONFIG}?dryRun=All"), (0, 500), 300).finds(HOT, None);
    let mut log = Log::default();
    (0..300).for_each(|n| _ = log.add(APP, "update", CONFIG, n * 500, 409));
    log.finds(HOT, None);
    Log::default().every(MANAGER, "update", CONFIG, (0, 500), 300).finds(HOT, Some(Severity::Info));
}

/// Two clients that write in turns, one each `every` ms.
fn turns(other: Caller, every: i64, writes: i64) -> Log {
    let mut log = Log::default();
    (0..writes).for_each(|n| _ = log.add(if n % 2 == 0 { APP } else { other }, "update", CONFIG, n * every, 200));
    log
}

#[test]
fn two_that_overwrite_one_another() {
    // The first two writes are no turns yet.
    turns(OTHER, 10_000, 12).finds(TURNS, WARNING);
    turns(OTHER, 10_000, 11).finds(TURNS, None);
    // Two a minute, and fewer.
    turns(OTHER, 30_000, 30).finds(TURNS, WARNING);
    turns(OTHER, 31_200, 30).finds(TURNS, None);
    let finding = turns(OTHER, 10_000, 30).finding(TURNS).unwrap();
    let fields = ["user", "agent", "other_user", "other_agent", "resource", "namespace", "object"];
    let subject = fields.map(|field| &*finding.subject[field]);
    assert_eq!(subject, [APP.0, "app", OTHER.0, "other", "configmaps", "a", "c"]);
    assert_eq!(finding.evidence["turns"], 28);
    assert!(finding.remedy.contains("kubectl get configmaps -n a c --show-managed-fields"), "{}", finding.remedy);
    // One client alone; one that writes now and then between many of another.
    turns(APP, 10_000, 30).finds(TURNS, None);
    let mut log = Log::default();
    log.every(APP, "update", CONFIG, (0, 10_000), 60).every(OTHER, "update", CONFIG, (5, 100_000), 6);
    log.finds(TURNS, None);
    // Objects and subresources are not the same.
    let mut log = Log::default();
    log.every(APP, "update", CONFIG, (0, 10_000), 30);
    log.every(OTHER, "update", &format!("{CONFIG}/status"), (5000, 10_000), 30).finds(TURNS, None);
    // The control plane's own part in it is a note; kube-apiserver's own writes are left out.
    turns(MANAGER, 10_000, 30).finds(TURNS, Some(Severity::Info));
    turns(("system:apiserver", "kube-apiserver"), 10_000, 30).finds(TURNS, None);
}

#[test]
fn conflicts_tell_those_who_know_of_one_another() {
    // 28 turns with so many conflicts beside them.
    let with = |conflicts: i64| {
        let mut log = turns(OTHER, 10_000, 30);
        (0..conflicts).for_each(|n| _ = log.add(OTHER, "update", CONFIG, 3 + n * 10_000, 409));
        log
    };
    with(27).finds(TURNS, WARNING);
    with(28).finds(TURNS, None);
}

#[test]
fn both_of_two_have_the_finding_and_neither_is_throttled() {
    let (rollup, _) = turns(OTHER, 10_000, 30).roll_up(&Selection::default());
    let known = SizeContext::default();
    let clients = Clients::new(&rollup, None, &known);
    let found = detect::all(&clients, 1);
    let of = |client: Caller| {
        let profile = clients.list.iter().find(|profile| profile.who.user == client.0).unwrap();
        found.iter().filter(|one| detect::is_about(one, profile.who)).count()
    };
    assert_eq!((found.len(), of(APP), of(OTHER)), (1, 1, 1));
    assert!(fence::culprits(&clients, &found, "").is_empty());
}

#[test]
fn stored_roll_ups_say_the_same_or_that_they_cannot() {
    let mut log = turns(OTHER, 10_000, 30);
    log.every(APP, "update", &format!("{CONFIG}2"), (1, 700), 300);
    log.every(OTHER, "create", SECRETS, (2, 50), 1400);
    let all = |rollup: &Rollup| -> Vec<String> { findings(rollup).iter().map(|found| format!("{found:?}")).collect() };
    let of_log = all(&log.roll_up(&Selection::default()).0);
    assert!(of_log.len() >= 3, "{of_log:?}");
    assert_eq!(all(&stored(&log, &[])), of_log);
    // An older one has only the objects.
    let old = stored(&log, &["writes", "alternations"]);
    let known = SizeContext::default();
    assert!(!Clients::new(&old, None, &known).has_writers);
    let found = findings(&old);
    let hot = found.iter().find(|(_, finding)| finding.id == HOT).unwrap();
    assert_eq!(hot.1.evidence["table"], "objects");
    assert!(!found.iter().any(|(_, finding)| finding.id == TURNS));
    // Of clients of which only one is wanted there are no turns, as in a log of these alone.
    let (whole, outcome) = log.roll_up(&Selection { with_seams: true, ..Selection::default() });
    let filters = rollup::conditions(&["agent=app".to_owned()]).unwrap();
    let mut loader = Loader::new(Wanted { tables: Tables::Clients, filters: filters.clone(), ..Wanted::default() });
    take_in(&mut loader, Tables::Clients, &whole, &outcome).unwrap();
    let some = log.roll_up(&Selection { filters, ..Selection::default() }).0;
    assert_eq!(all(&loader.finish()), all(&some));
}

/// The roll-up of parts of a log that follow one another, cut at these times in ms.
fn joined(log: &Log, cuts: &[i64]) -> Rollup {
    let mut loader = Loader::new(Wanted { tables: Tables::All, with_seams: true, ..Wanted::default() });
    let bounds: Vec<i64> = std::iter::once(i64::MIN).chain(cuts.iter().copied()).chain([i64::MAX]).collect();
    for bounds in bounds.windows(2) {
        let part = log.0.iter().filter(|(ms, _)| (bounds[0]..bounds[1]).contains(ms)).cloned().collect();
        let (rollup, outcome) = Log(part).roll_up(&Selection { with_seams: true, ..Selection::default() });
        take_in(&mut loader, Tables::All, &rollup, &outcome).unwrap();
    }
    loader.finish()
}

#[test]
fn turns_between_parts_of_a_log_are_found() {
    let rows = |rollup: &Rollup| {
        let mut all = Vec::new();
        rollup.rows("alternations", |row| all.push(row));
        rollup.rows("seams", |row| all.extend(row[0].ends_with("-write").then_some(row)));
        all
    };
    let mut log = turns(OTHER, 10_000, 60);
    // Others beside it: one that writes thrice, one that takes turns with itself, and two that are slow.
    log.every(APP, "update", &format!("{CONFIG}2"), (1, 200_000), 3).every(OTHER, "get", CONFIG, (2, 1000), 600);
    log.every(APP, "patch", &format!("{CONFIG}3"), (3, 55_000), 10);
    log.every(OTHER, "patch", &format!("{CONFIG}3"), (27_000, 55_000), 10);
    let whole = log.roll_up(&Selection { with_seams: true, ..Selection::default() }).0;
    let wanted = rows(&whole);
    assert_eq!(whole.alternations().map(|row| row.turns).collect::<Vec<_>>(), [58, 18]);
    let cuts: [&[i64]; 7] = [
        &[55_000],
        &[300_000],
        &[295_000, 305_000],
        &[251_000, 253_000, 255_000],
        &[60_500, 70_500, 80_500, 90_500, 200_100],
        &[5000],
        &[10_001, 590_001],
    ];
    for cuts in cuts {
        assert_eq!(rows(&joined(&log, cuts)), wanted, "{cuts:?}");
    }
    // Parts that share their time have nothing to do with one another.
    let mut loader = Loader::new(Wanted { tables: Tables::Clients, with_seams: true, ..Wanted::default() });
    for who in [APP, OTHER] {
        let mut own = Log::default();
        own.every(who, "update", CONFIG, (if who == APP { 0 } else { 7 }, 10_000), 30);
        let (rollup, outcome) = own.roll_up(&Selection { with_seams: true, ..Selection::default() });
        take_in(&mut loader, Tables::Clients, &rollup, &outcome).unwrap();
    }
    assert_eq!(loader.finish().alternations().count(), 0);
}

/// What tests/oracle/writers.py counts in the sample.
#[test]
fn the_sample_has_the_numbers_of_the_independent_count() {
    let streams = audit_logs(&["samples/list-storm".to_owned()]).streams;
    let (rollup, _) = log_question::answer(streams, &Selection::default(), 2_usize, &());
    let writes: Vec<_> = rollup.writes().collect();
    assert_eq!((writes.len(), writes.iter().map(|row| row.writes).max()), (52, Some(59)));
    let turns: Vec<u64> = rollup.alternations().map(|row| row.turns).collect();
    assert_eq!(turns, [569, 111]);
    let found = findings(&rollup);
    let fight: Vec<&Finding> = found.iter().map(|(_, f)| f).filter(|f| f.id == TURNS).collect();
    let [fight] = fight[..] else { panic!("{found:?}") };
    let writer = "system:serviceaccount:apps:config-writer-";
    assert_eq!((&fight.subject["user"], &fight.subject["other_user"]), (&format!("{writer}a"), &format!("{writer}b")));
    let evidence = ["turns", "conflicts", "seconds"].map(|field| fight.evidence[field].clone());
    assert_eq!(evidence, [json!(569), json!(187), json!(474.616)]);
    // 59 writes in a minute are not 60; the mass creation by kubectl was over in ten seconds; Events are no storm.
    assert!(found.iter().all(|(_, finding)| finding.id != HOT && finding.id != STORM));
}
