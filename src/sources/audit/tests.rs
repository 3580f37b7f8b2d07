//! The fast scanner against the general reader: on samples, on mutations of them, on bodies made to
//! deceive. Where the scanner gives an answer, it must be the parser's.

use super::general::{self, Members};
use super::scan::{Memory, scan};
use crate::model::event::Event;
use proptest::prelude::*;
use std::sync::LazyLock;

static SAMPLE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut lines = Vec::new();
    for path in ["list-storm/audit/apiserver-1/audit.log.zst", "quiet/audit/apiserver-0/audit.log.zst"] {
        let packed = std::fs::read(format!("{}/samples/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let text = zstd::decode_all(packed.as_slice()).unwrap();
        lines.extend(text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
    }
    lines
});

/// Compares what the two readers make of `line`; whether the scanner gave an answer.
#[track_caller]
fn compare(line: &[u8], memory: &mut Memory) -> bool {
    let mut fast = Event::default();
    let Some(end) = scan(line, 0, memory, &mut fast) else { return false };
    let text = String::from_utf8_lossy(line);
    assert_eq!(end, line.iter().position(|&b| b == b'\n').unwrap_or(line.len()), "{text}");
    (fast.caller, fast.target, fast.only_reason) = (None, None, false);
    let members = match Members::parse(&line[..end]) {
        Ok(members) => members,
        // The scanner does not look into strings and bodies that it passes over; everything it reports is read all the
        // same.
        Err(_) => return true,
    };
    // The encoder writes each key of an event once, and callers choose no keys at this depth.
    if members.has_duplicates() {
        return true;
    }
    let slow = general::event(&members).unwrap();
    // Nor does it write other keys: one between a body and the times counts as a part of the body, which is not walked.
    if members.iter().any(|(name, _)| !KEYS.contains(&name)) {
        let bodies = |event: &mut Event<'_>| (event.request_body, event.response_body) = (&[], &[]);
        let mut slow = slow;
        bodies(&mut fast);
        bodies(&mut slow);
        assert_eq!(fast, slow, "{text}");
        return true;
    }
    assert_eq!(fast, slow, "{text}");
    true
}

/// The keys of an event, as `audit/v1` has them.
const KEYS: [&str; 19] = [
    "kind",
    "apiVersion",
    "level",
    "auditID",
    "stage",
    "requestURI",
    "verb",
    "user",
    "impersonatedUser",
    "sourceIPs",
    "userAgent",
    "objectRef",
    "responseStatus",
    "requestObject",
    "responseObject",
    "requestReceivedTimestamp",
    "stageTimestamp",
    "annotations",
    "authenticationMetadata",
];

#[test]
fn samples_are_read_alike_and_all_by_the_scanner() {
    let mut memory = Memory::default();
    for line in SAMPLE.iter() {
        assert!(compare(line, &mut memory), "{}", String::from_utf8_lossy(line));
        assert!(compare(line, &mut Memory::default()), "whether or not the caller is known");
    }
}

fn mutate(line: &[u8], at: prop::sample::Index, kind: u8, byte: u8, other: prop::sample::Index) -> Vec<u8> {
    let mut line = line.to_vec();
    let at = at.index(line.len());
    match kind {
        0 => line[at] = byte,
        1 => drop(line.remove(at)),
        2 => line.insert(at, byte),
        3 => line.truncate(at),
        // Two lines run into one.
        4 => {
            let next = &SAMPLE[other.index(SAMPLE.len())];
            line.truncate(at);
            line.extend_from_slice(&next[at.min(next.len())..]);
        }
        5 => {
            let to = other.index(line.len());
            line.swap(at, to);
        }
        // A part is written twice, or moved.
        _ => {
            let to = other.index(line.len());
            let part = line[at.min(to)..at.max(to)].to_vec();
            line.splice(at..at, part);
        }
    }
    line
}

/// Whether serde_json takes the line as one JSON object.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|value| value.is_object())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn mutations_never_make_them_differ(
        which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), kind in 0u8..7,
        byte in prop::sample::select(b"\"\\{}[],:0aZ \n\x00\xff".to_vec()), other in any::<prop::sample::Index>(),
    ) {
        let line = mutate(&SAMPLE[which.index(SAMPLE.len())], at, kind, byte, other);
        // With callers remembered from the line before it was changed.
        let mut memory = Memory::default();
        let mut event = Event::default();
        scan(&SAMPLE[which.index(SAMPLE.len())], 0, &mut memory, &mut event);
        compare(&line, &mut memory);
        compare(&line, &mut Memory::default());
    }

    #[test]
    fn hostile_bodies_do_not_deceive(body in body(4), with_response in any::<bool>(),
        with_annotations in any::<bool>()) {
        let body = body.to_string();
        let response = if with_response { format!(r#","responseObject":{body}"#) } else { String::new() };
        let annotations = if with_annotations { r#","annotations":{"authorization.k8s.io/decision":"allow","a\"}":"b"}"# } else { "" };
        let line = format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/x?a=1\u0026b=2","verb":"create","user":{{"username":"u","groups":["g"],"extra":{{"sourceIPs":["9.9.9.9"],"userAgent":["x"]}}}},"sourceIPs":["1.1.1.1","2.2.2.2"],"userAgent":"a/1","objectRef":{{"resource":"x","apiVersion":"v1"}},"responseStatus":{{"metadata":{{}},"code":201}},"requestObject":{body}{response},"requestReceivedTimestamp":"2026-11-20T09:17:29.000001Z","stageTimestamp":"2026-11-20T09:17:29.000002Z"{annotations}}}"#
        );
        prop_assert!(is_json(line.as_bytes()));
        let mut event = Event::default();
        // The scanner may give up on a body (one that holds an audit id), but must not be deceived.
        if scan(line.as_bytes(), 0, &mut Memory::default(), &mut event).is_some() {
            prop_assert_eq!(event.verb.raw(), b"create");
            prop_assert_eq!(event.at.raw(), b"2026-11-20T09:17:29.000002Z");
            prop_assert_eq!(event.source.raw(), b"2.2.2.2");
            prop_assert_eq!(event.request_body, if body == "null" { b"" } else { body.as_bytes() });
        }
        compare(line.as_bytes(), &mut Memory::default());
    }
}

/// Bodies whose keys and strings imitate an event's own.
fn body(depth: u32) -> impl Strategy<Value = serde_json::Value> {
    let key = prop::sample::select(vec![
        "verb",
        "code",
        "stage",
        "stageTimestamp",
        "requestReceivedTimestamp",
        "annotations",
        "requestObject",
        "responseObject",
        "auditID",
        "user",
        "objectRef",
        "items",
        "a\"b",
        "\\",
    ]);
    let string = prop::sample::select(vec![
        "delete",
        "2026-01-01T00:00:00.000000Z",
        r#"","verb":"delete","user":{"#,
        r#"},"annotations":{"x":"y"}}"#,
        r#","requestReceivedTimestamp":"2026-01-01T00:00:00.000000Z","stageTimestamp":"2026-01-01T00:00:00.000000Z""#,
        r#"],"responseObject":{"#,
        "\\",
        "\"",
        "ümlaut",
    ]);
    let leaf = prop_oneof![
        string.prop_map(|s| serde_json::json!(s)),
        any::<i32>().prop_map(|n| serde_json::json!(n)),
        Just(serde_json::Value::Null)
    ];
    leaf.prop_recursive(depth, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| serde_json::json!(items)),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|members| serde_json::Value::Object(
                members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}
