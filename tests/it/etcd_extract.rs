//! `etcd extract`: decoding beside Kubernetes' own, and what comes out beside what the apiserver served.

use crate::support::{Ran, folder, plimsoll, root, sample, sample_bytes, write};
use plimsoll::sources::etcd::bolt::Bolt;
use plimsoll::sources::etcd::decode::{self, Undecodable};
use plimsoll::sources::etcd::map::Data;
use plimsoll::sources::etcd::mvcc::{Field, Fields, KeyValue, Revision};
use plimsoll::sources::etcd::schema::{Message, Schema, Shape, Type};
use plimsoll::sources::etcd::{Database, KeyWorker};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Says where two JSON values differ. Go writes whole floating-point numbers as it likes: numbers are compared as such.
fn differ(path: &str, own: &Value, theirs: &Value, faults: &mut Vec<String>) {
    match (own, theirs) {
        (Value::Object(own), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = own.keys().chain(theirs.keys()).collect();
            for name in names {
                match (own.get(name), theirs.get(name)) {
                    (Some(own), Some(theirs)) => differ(&format!("{path}.{name}"), own, theirs, faults),
                    (own, theirs) => faults.push(format!("{path}.{name}: {own:?}, not {theirs:?}")),
                }
            }
        }
        (Value::Array(own), Value::Array(theirs)) if own.len() == theirs.len() => {
            own.iter()
                .zip(theirs)
                .enumerate()
                .for_each(|(at, (own, theirs))| differ(&format!("{path}[{at}]"), own, theirs, faults));
        }
        (Value::Number(own), Value::Number(theirs)) if own.as_i64().is_none() || theirs.as_i64().is_none() => {
            if own.as_f64() != theirs.as_f64() {
                faults.push(format!("{path}: {own}, not {theirs}"));
            }
        }
        (own, theirs) => {
            if own != theirs {
                faults.push(format!("{path}: {own}, not {theirs}"));
            }
        }
    }
}

#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// Notes which fields of which messages a value has.
fn met(message: &Message, bytes: &[u8], found: &mut BTreeSet<(&'static str, u64)>) {
    for (number, value) in Fields::new(bytes) {
        let field = message.fields.iter().find(|field| field.number == number).unwrap();
        found.insert((message.name, number));
        let (Type::Message(at), Field::Bytes(bytes)) = (field.kind, value) else { continue };
        let inner = Schema::get().message(at).unwrap();
        match field.shape {
            Shape::Map => Fields::new(bytes).for_each(|entry| {
                if let (2, Field::Bytes(bytes)) = entry {
                    met(inner, bytes, found);
                }
            }),
            _ => met(inner, bytes, found),
        }
    }
}

/// What can be reached from a kind.
fn reachable(message: &'static Message, found: &mut BTreeSet<(&'static str, u64)>) {
    for field in &message.fields {
        if found.insert((message.name, field.number))
            && let Type::Message(at) = field.kind
        {
            reachable(Schema::get().message(at).unwrap(), found);
        }
    }
}

#[test]
fn every_kind_is_decoded_as_kubernetes_does() {
    let packed = std::fs::read(root().join("tests/data/etcd-objects/kinds.jsonl.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let (mut faults, mut kinds, mut seen, mut all) = (Vec::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let pair: Value = serde_json::from_str(line).unwrap();
        let bytes = hex(pair["pb"].as_str().unwrap());
        let (version, kind) = (pair["json"]["apiVersion"].as_str().unwrap(), pair["json"]["kind"].as_str().unwrap());
        let name = format!("{version} {kind}");
        let decoded = decode::decode(&bytes).unwrap_or_else(|error| panic!("{name} {error}"));
        assert!(decoded.unknown.is_empty(), "{name}: {:?}", decoded.unknown);
        differ(&name, &Value::Object(decoded.object), &pair["json"], &mut faults);
        let message = Schema::get().kind(version, kind).unwrap();
        let (_, raw) = Fields::new(&bytes[4..]).find(|(number, _)| *number == 2).unwrap();
        if let Field::Bytes(raw) = raw {
            met(message, raw, &mut seen);
        }
        reachable(message, &mut all);
        kinds.insert((version.to_owned(), kind.to_owned()));
    }
    none(&faults);
    assert_eq!(text.lines().count(), 2 * kinds.len());
    // What Kubernetes 1.36 no longer has is not in the data.
    let old: Vec<String> = Schema::get()
        .kinds()
        .filter(|(version, kind)| !kinds.contains(&((*version).to_owned(), (*kind).to_owned())))
        .map(|(version, kind)| format!("{version} {kind}"))
        .collect();
    assert!(old.iter().all(|kind| kind.contains("alpha") || kind.contains("beta")), "{old:?}");
    assert!(old.len() <= 31 && kinds.len() >= 150, "{} old, {} kinds: {old:?}", old.len(), kinds.len());
    // Every field of every message that these kinds can hold was there, but for those that Kubernetes has given up.
    let missing: Vec<_> = all.difference(&seen).collect();
    let given_up: [(&str, &[u64]); 10] = [
        ("ObjectMeta", &[15]),
        ("ClaimSource", &[1, 2]),
        ("DeviceTaintSelector", &[1, 5]),
        ("NetworkPolicy", &[3]),
        ("NetworkPolicyStatus", &[1]),
        ("PersistentVolumeClaimStatus", &[6]),
        ("PodResourceClaim", &[2]),
        ("PodSpec", &[42]),
        ("VolumeResourceRequirements", &[3]),
        ("WorkloadReference", &[1, 2, 3]),
    ];
    let unexpected: Vec<_> = missing
        .iter()
        .filter(|one| !given_up.iter().any(|(name, numbers)| *name == one.0 && numbers.contains(&one.1)))
        .collect();
    assert!(unexpected.is_empty(), "{} of {} fields were not met: {unexpected:?}", missing.len(), all.len());
}

/// The newest revision and value of every key.
#[derive(Default)]
struct Newest(BTreeMap<String, (Revision, Option<Vec<u8>>)>);

impl KeyWorker for Newest {
    fn revision(&mut self, at: Revision, is_tombstone: bool, kv: &KeyValue<'_>, _: usize) {
        let entry = self.0.entry(String::from_utf8(kv.key.to_vec()).unwrap()).or_default();
        if at >= entry.0 {
            *entry = (at, (!is_tombstone).then(|| kv.value.to_vec()));
        }
    }
}

fn living(name: &str) -> BTreeMap<String, (u64, Vec<u8>)> {
    let bolt = Bolt::open(Data::Memory(sample_bytes(name))).unwrap();
    let (workers, walk) = Database::read(bolt).unwrap().walk(1, false, Newest::default);
    assert_eq!(walk.damages.count(), 0);
    workers
        .into_iter()
        .flat_map(|worker| worker.0)
        .filter_map(|(key, (at, value))| Some((key, (at.main, value?))))
        .collect()
}

const SNAPSHOTS: [&str; 6] = [
    "list-storm/etcd/before.db.zst",
    "list-storm/etcd/after.db.zst",
    "overload-restart/etcd/before.db.zst",
    "overload-restart/etcd/after.db.zst",
    "quiet/etcd/before.db.zst",
    "quiet/etcd/after.db.zst",
];

/// What `kubectl get -o json` gave, by resource version: without managedFields, which it hides.
fn served(bundle: &str) -> BTreeMap<(String, String, u64), Value> {
    let mut found = BTreeMap::new();
    for moment in std::fs::read_dir(sample(&format!("{bundle}/objects"))).unwrap() {
        for file in std::fs::read_dir(moment.unwrap().path()).unwrap() {
            let list: Value =
                serde_json::from_slice(&zstd::decode_all(std::fs::File::open(file.unwrap().path()).unwrap()).unwrap())
                    .unwrap();
            for item in list["items"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let revision = text(&item["metadata"]["resourceVersion"]).parse().unwrap();
                found.insert((text(&item["kind"]), text(&item["metadata"]["uid"]), revision), item.clone());
            }
        }
    }
    found
}

#[test]
fn samples_are_decoded_as_they_were_served() {
    let (mut faults, mut compared, mut decoded) = (Vec::new(), BTreeMap::<String, u64>::new(), 0);
    for name in SNAPSHOTS {
        let served = served(name.split('/').next().unwrap());
        for (key, (revision, value)) in living(name) {
            if matches!(key.as_str(), "compact_rev_key") || key.contains("peerserverleases") {
                continue;
            }
            let mut object = match decode::decode(&value) {
                Ok(decoded) => decoded,
                Err(error) => panic!("{name}: {key} {error}"),
            };
            decoded += 1;
            assert!(object.unknown.is_empty(), "{key}: {:?}", object.unknown);
            let Some(metadata) = object.object.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
            metadata.remove("managedFields");
            metadata.insert("resourceVersion".to_owned(), json!(revision.to_string()));
            let uid = metadata.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
            let kind = object.object["kind"].as_str().unwrap().to_owned();
            let Some(truth) = served.get(&(kind.clone(), uid, revision)) else { continue };
            if kind == "CustomResourceDefinition" {
                continue; // stored as v1beta1, served as v1: see below
            }
            differ(&key, &Value::Object(object.object), truth, &mut faults);
            *compared.entry(kind).or_default() += 1;
        }
    }
    none(&faults);
    assert!(
        decoded > 1000 && compared.values().sum::<u64>() > 400 && compared.len() >= 6,
        "{decoded} decoded, compared {compared:?}"
    );
}

fn documents(ran: &Ran) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(&ran.stdout)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(|one| !one.is_null())
        .collect()
}

fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"])
    )
}

#[test]
fn what_was_deleted_is_extracted_in_order() {
    let paths = ["before", "after"].map(|name| sample(&format!("list-storm/etcd/{name}.db.zst")));
    let args = ["etcd", "extract", &paths[0], "--deleted-since", &paths[1]];
    let ran = plimsoll(&args);
    ran.exits(0);
    let found = documents(&ran);
    // NOTES.md: what people did in between.
    let names: Vec<String> = found.iter().map(name_of).collect();
    assert_eq!(names[..2], ["Namespace /legacy-team", "CustomResourceDefinition /jobsets.batch.example.com"]);
    let count = |kind: &str, namespace: &str| {
        names.iter().filter(|name| name.starts_with(&format!("{kind} {namespace}/"))).count()
    };
    assert_eq!(count("Pod", "legacy-team"), 30, "bare pods");
    // All of it, by a count of keys, less what is left out.
    let [before, after] = ["list-storm/etcd/before.db.zst", "list-storm/etcd/after.db.zst"].map(living);
    let gone: Vec<&String> = before.keys().filter(|key| !after.contains_key(*key)).collect();
    let left_out: u64 = ran
        .stderr
        .lines()
        .filter_map(|line| line.split("left out: ").nth(1)?.split(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(found.len() as u64 + left_out, gone.len() as u64, "{}", ran.stderr);
    assert!(
        !names
            .iter()
            .any(|name| name.starts_with("Lease ") || name.starts_with("Event ") || name.contains("kube-root-ca.crt"))
    );
    for object in &found {
        assert!(object.get("status").is_none(), "{}", name_of(object));
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
            "ownerReferences",
            "deletionTimestamp",
        ] {
            assert!(object["metadata"].get(field).is_none(), "{} has {field}", name_of(object));
        }
    }
    // The definition as the apiserver served it.
    let served = served("list-storm")
        .into_values()
        .find(|object| object["metadata"]["name"] == "jobsets.batch.example.com")
        .unwrap();
    assert_eq!((&found[1]["apiVersion"], &found[1]["spec"]), (&served["apiVersion"], &served["spec"]));
    // JSON has the same objects, and --all also the rest.
    let list = plimsoll(&[&args[..], &["-o", "json"]].concat()).json(0);
    assert_eq!(list["items"].as_array().unwrap(), &found);
    let all = documents(&plimsoll(&[&args[..], &["--all", "--include-secrets"]].concat()));
    assert_eq!(all.len(), gone.len());
}

#[test]
fn secrets_are_named_and_never_shown_unless_asked_for() {
    let path = sample("list-storm/etcd/before.db.zst");
    let args = ["etcd", "extract", &path, "-n", "helm", "--resource", "secrets"];
    let without = plimsoll(&args);
    without.exits(0);
    assert!(
        without.stdout.is_empty()
            && without.stderr.contains("Secret helm/")
            && without.stderr.contains("--include-secrets"),
        "{}",
        without.stderr
    );
    let folder = folder();
    let file = folder.path().join("secrets.yaml");
    plimsoll(&[&args[..], &["--include-secrets", "--output-file", file.to_str().unwrap()]].concat()).exits(0);
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions()) & 0o777,
        0o600
    );
    let written = Ran { stdout: std::fs::read_to_string(&file).unwrap(), stderr: String::new(), code: Some(0) };
    let secrets = documents(&written);
    assert!(!secrets.is_empty());
    for secret in &secrets {
        for value in secret["data"].as_object().unwrap().values() {
            let value = value.as_str().unwrap();
            assert!(value.len() > 8 && !without.stderr.contains(value) && !without.stdout.contains(value));
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn selectors_select_and_mistakes_are_said() {
    let path = sample("list-storm/etcd/before.db.zst");
    let names = |more: &[&str]| {
        documents(&plimsoll(&[&["etcd", "extract", &path], more].concat())).iter().map(name_of).collect::<Vec<_>>()
    };
    assert_eq!(names(&["--resource", "deployments.apps", "-n", "web", "--name", "app-0"]), ["Deployment web/app-0"]);
    assert_eq!(names(&["--key-prefix", "/registry/namespaces/web"]), ["Namespace /web"]);
    let in_web = names(&["-n", "web"]);
    assert_eq!(in_web[0], "Namespace /web");
    // Pods and ReplicaSets come from the Deployments.
    assert!(
        in_web.contains(&"Deployment web/app-0".to_owned())
            && !in_web.iter().any(|name| name.starts_with("ReplicaSet"))
    );
    let after = sample("list-storm/etcd/after.db.zst");
    let pods: Vec<String> = documents(&plimsoll(&["etcd", "extract", &after, "-n", "web", "--resource", "pods"]))
        .iter()
        .map(name_of)
        .collect();
    assert!(pods.len() == 3 && pods.iter().all(|name| name.starts_with("Pod web/")), "{pods:?}");
    assert!(plimsoll(&["etcd", "extract", &path]).exits(2).stderr.contains("--deleted-since"));
    assert!(plimsoll(&["etcd", "extract", &path, "-n", "web", "-o", "csv"]).exits(2).stderr.contains("-o yaml"));
    assert!(
        plimsoll(&["etcd", "extract", &path, "--name", "none-such"]).exits(3).stderr.contains("no live object matches")
    );
}

#[test]
fn values_that_break_off_or_are_not_known_are_told_without_what_they_hold() {
    let message = |fields: &[(u8, &[u8])]| {
        let mut out = Vec::new();
        for (number, bytes) in fields {
            out.extend([number << 3 | 2, bytes.len() as u8]);
            out.extend_from_slice(bytes);
        }
        out
    };
    let value = |version: &[u8], kind: &[u8], raw: &[u8]| {
        [b"k8s\0".as_slice(), &message(&[(1, &message(&[(1, version), (2, kind)])), (2, raw)])].concat()
    };
    let secret = message(&[(1, &message(&[(1, b"s")])), (2, &message(&[(1, b"key"), (2, b"hunter2")]))]);
    let whole = value(b"v1", b"Secret", &secret);
    assert_eq!(decode::decode(&whole).unwrap().object["data"], json!({"key": "aHVudGVyMg=="}));
    for cut in 4..whole.len() {
        if let Err(error) = decode::decode(&whole[..cut]) {
            assert!(!error.to_string().contains("hunter"), "{error}");
        }
        // One bit wrong: an object or an error, never a panic.
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[cut] ^= 1 << bit;
            let _ = decode::decode(&bytes).map_err(|error| assert!(!error.to_string().contains("hunter"), "{error}"));
        }
    }
    let newer = value(b"v1", b"Secret", &[secret.as_slice(), &[15 << 3, 1]].concat());
    assert_eq!(decode::decode(&newer).unwrap().unknown.into_iter().collect::<Vec<_>>(), ["Secret field 15"]);
    assert_eq!(
        decode::decode(&value(b"v9", b"Thing", b"")),
        Err(Undecodable::Kind("v9".to_owned(), "Thing".to_owned()))
    );
    assert_eq!(decode::decode(b"k8s:enc:aescbc:v1:key1:xxxx"), Err(Undecodable::Encrypted));
    assert_eq!(decode::decode(b"42"), Err(Undecodable::Other));
    let json = decode::decode(br#"{"kind":"Secret","data":{"a":"hunter2"#).unwrap_err().to_string();
    assert!(json.contains("line 1") && !json.contains("hunter"), "{json}");
    // A definition whose schema nests without end: not (28) in not in not.
    let wrap = |number: u64, inner: &[u8]| {
        let mut out = Vec::new();
        for mut rest in [number << 3 | 2, inner.len() as u64] {
            while rest >= 0x80 {
                out.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
        out.extend_from_slice(inner);
        out
    };
    let schema = (0..5_000).fold(Vec::new(), |schema, _| wrap(28, &schema));
    let types = wrap(1, &message(&[(1, b"apiextensions.k8s.io/v1"), (2, b"CustomResourceDefinition")]));
    let deep = [b"k8s\0".as_slice(), &types, &wrap(2, &wrap(2, &wrap(7, &wrap(4, &wrap(1, &schema)))))].concat();
    assert!(decode::decode(&deep).unwrap_err().to_string().contains("deep"));
}

#[test]
fn damaged_values_are_objects_or_errors() {
    let packed = std::fs::read(root().join("tests/data/etcd-objects/kinds.jsonl.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let (mut chance, mut errors, mut tries) = (1_u64, 0, 0);
    for line in text.lines() {
        let pair: Value = serde_json::from_str(line).unwrap();
        let whole = hex(pair["pb"].as_str().unwrap());
        for _ in 0..60 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = 4 + (chance >> 33) as usize % (whole.len() - 4);
            let mut bytes = whole.clone();
            if chance & 0x100 == 0 {
                bytes.truncate(at);
            } else {
                bytes[at] ^= (chance >> 16) as u8 | 1;
            }
            tries += 1;
            errors += u64::from(decode::decode(&bytes).is_err());
            let _ = decode::uid(&bytes);
        }
    }
    assert!(errors > tries / 4 && errors < tries, "{errors} of {tries}");
}

#[test]
fn damage_is_told_and_the_rest_extracted() {
    let folder = folder();
    let mut bytes = sample_bytes("quiet/etcd/after.db.zst");
    let whole =
        documents(&plimsoll(&["etcd", "extract", &sample("quiet/etcd/after.db.zst"), "--resource", "namespaces"]))
            .len();
    let page = (40..bytes.len() / 4096).find(|page| bytes[page * 4096 + 8] == 2).unwrap();
    bytes[page * 4096 + 10] ^= 0x41;
    let path = write(folder.path(), "damaged.db", &bytes);
    let ran = plimsoll(&["etcd", "extract", &path, "--resource", "namespaces"]);
    ran.did_not_panic();
    assert!(matches!(ran.code, Some(0 | 3)), "{}", ran.stderr);
    assert!(documents(&ran).len() <= whole);
}
