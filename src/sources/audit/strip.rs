//! Takes out of audit events what clients sent and what they were answered, but for the few fields that say what kind
//! of change it was.
//!
//! A bundle is passed on to people who may not read the cluster's objects. How large bodies were, and how many items a
//! list had, is kept in annotations, so that everything is counted as before. (What is kept: docs/commands/collect.md.)

use super::general::{Members, elements, string_of};
use crate::model::event::{BODY_SIZES, Event};
use crate::model::walk::items;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::{self, BufRead, Write};

/// Wrappers around one another that are looked into.
const MAX_DEPTH: u8 = 6;

/// Lines longer than this are left out: nobody reads them.
const MAX_LINE: u64 = 32 << 20;

/// Fields of a body that are short; longer ones hold something else.
const MAX_FIELD_BYTES: usize = 256;

/// What was taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stripped {
    /// Events whose bodies were taken out.
    pub events: u64,
    /// Bytes of these bodies.
    pub bytes: u64,
    /// Lines that could not be read, and so were left out: nobody knows what is in them.
    pub dropped: u64,
}

impl std::ops::AddAssign for Stripped {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
    }
}

/// Copies a log, bodies left out.
pub fn log(mut from: impl BufRead, to: &mut impl Write) -> io::Result<Stripped> {
    let mut all = Stripped::default();
    let (mut line, mut out) = (Vec::new(), String::new());
    loop {
        line.clear();
        let length = io::Read::take(&mut from, MAX_LINE).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(all);
        }
        if length as u64 == MAX_LINE && !line.ends_with(b"\n") {
            all.dropped += 1;
            skip_line(&mut from)?;
            continue;
        }
        out.clear();
        if let Some(done) = self::line(&line, &mut out) {
            all += done;
            to.write_all(out.as_bytes())?;
            to.write_all(b"\n")?;
        } else {
            all.dropped += 1;
        }
    }
}

fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let (used, done) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        from.consume(used);
        if done {
            return Ok(());
        }
    }
}

/// Writes a line without bodies; `None` if it can't be read: half a line may be the inside of a body.
pub fn line(line: &[u8], out: &mut String) -> Option<Stripped> {
    let text = std::str::from_utf8(line.trim_ascii()).ok()?;
    let mut done = Stripped::default();
    if text.is_empty() {
        return Some(done);
    }
    // A host or a time may stand before the event.
    let start = text.find(['{', '[']).filter(|start| *start <= 512)?;
    out.push_str(&text[..start]);
    let json: &RawValue = serde_json::from_str(&text[start..]).ok()?;
    value(json.get(), 0, out, &mut done)?;
    Some(done)
}

/// What is kept of the bodies of an event's request and response; empty where that is nothing.
pub fn kept(event: &Event<'_>) -> [String; 2] {
    [event.request_body, event.response_body].map(|body| {
        let text = std::str::from_utf8(body).ok().filter(|text| !text.is_empty());
        let kept = text.and_then(|text| reduced(text, Of::new(&event.group.decode(), &event.resource.decode())));
        kept.filter(|kept| kept != "{}").unwrap_or_default()
    })
}

/// Any JSON: events in it, also within texts, lose their bodies. `None` where something that may hold a body can't be
/// read.
fn value(json: &str, depth: u8, out: &mut String, done: &mut Stripped) -> Option<()> {
    match json.as_bytes().first()? {
        _ if depth > MAX_DEPTH => None,
        b'{' => {
            let members = Members::parse(json.as_bytes()).ok()?;
            if members.get("stage").is_some()
                && (members.get("auditID").is_some() || members.get("requestURI").is_some())
            {
                return event(&members, out, done);
            }
            if members.get("protoPayload").is_some() {
                return entry(&members, out, done);
            }
            object(&members, out, |_, json, out| value(json, depth + 1, out, done))
        }
        b'[' => {
            out.push('[');
            for (number, element) in elements(json)?.into_iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                value(element, depth + 1, out, done)?;
            }
            out.push(']');
            Some(())
        }
        b'"' if ["Object", "auditID"].iter().any(|word| json.contains(word)) => {
            let inner = string_of(json)?.decode().into_owned();
            let mut stripped = String::new();
            *done += line(inner.as_bytes(), &mut stripped)?;
            out.push_str(&serde_json::to_string(&stripped).ok()?);
            Some(())
        }
        _ => {
            out.push_str(json);
            Some(())
        }
    }
}

/// Writes an object, each value as `write` has it.
fn object(
    members: &Members<'_>,
    out: &mut String,
    mut write: impl FnMut(&str, &str, &mut String) -> Option<()>,
) -> Option<()> {
    out.push('{');
    for (number, (name, json)) in members.iter().enumerate() {
        out.push_str(if number > 0 { "," } else { "" });
        out.push_str(&serde_json::to_string(name).ok()?);
        out.push(':');
        write(name, json, out)?;
    }
    out.push('}');
    Some(())
}

/// What kind of object a body is of.
#[derive(Clone, Copy)]
struct Of {
    is_lease: bool,
    is_rbac: bool,
}

impl Of {
    fn new(group: &str, resource: &str) -> Self {
        Self { is_lease: resource == "leases", is_rbac: group == "rbac.authorization.k8s.io" }
    }
}

fn event(members: &Members<'_>, out: &mut String, done: &mut Stripped) -> Option<()> {
    let of = members.object("objectRef");
    let text = |key: &str| of.as_ref().and_then(|of| of.text(key)).unwrap_or_default();
    let of = Of::new(&text("apiGroup"), &text("resource"));
    let sizes = sizes(members, ["requestObject", "responseObject"], done);
    sized(members, ("annotations", &sizes), out, |name, json, out| {
        body(matches!(name, "requestObject" | "responseObject"), json, of, out)
    })
}

/// An entry of Cloud Logging: what is an event's annotations are its labels.
fn entry(members: &Members<'_>, out: &mut String, done: &mut Stripped) -> Option<()> {
    let payload = members.object("protoPayload")?;
    let name = payload.text("resourceName").unwrap_or_default();
    let group = name.split('/').next().unwrap_or_default().to_owned();
    let of = Of::new(&group, if name.contains("/leases/") { "leases" } else { "" });
    let sizes = sizes(&payload, ["request", "response"], done);
    sized(members, ("labels", &sizes), out, |name, json, out| match name {
        "protoPayload" => {
            object(&payload, out, |name, json, out| body(matches!(name, "request" | "response"), json, of, out))
        }
        _ => body(false, json, of, out),
    })
}

/// Writes a member: what is kept of it if it is a body, else as it is.
fn body(is_body: bool, json: &str, of: Of, out: &mut String) -> Option<()> {
    out.push_str(&if is_body && json != "null" { Cow::Owned(reduced(json, of)?) } else { Cow::Borrowed(json) });
    Some(())
}

/// Sizes of the bodies of request and response, with the names under which they are kept; counts them in `done`.
fn sizes(members: &Members<'_>, [request, response]: [&str; 2], done: &mut Stripped) -> Vec<(&'static str, u64)> {
    let [request, response] = [request, response].map(|key| members.get(key).filter(|body| *body != "null"));
    done.events += u64::from(request.is_some() || response.is_some());
    done.bytes += request.into_iter().chain(response).map(|body| body.len() as u64).sum::<u64>();
    let request = request.map(|body| (BODY_SIZES[0], body.len() as u64));
    let response = response.map(|body| [(BODY_SIZES[1], body.len() as u64), (BODY_SIZES[2], items(body.as_bytes()))]);
    request.into_iter().chain(response.into_iter().flatten()).collect()
}

/// Writes an object whose member `into`, an object of texts, gets these sizes; each other value as `write` has it.
fn sized(
    members: &Members<'_>,
    (into, sizes): (&str, &[(&'static str, u64)]),
    out: &mut String,
    mut write: impl FnMut(&str, &str, &mut String) -> Option<()>,
) -> Option<()> {
    let mut is_missing = !sizes.is_empty();
    object(members, out, |name, json, out| {
        if name == into && is_missing && json.starts_with('{') {
            is_missing = false;
            return with(json, sizes, out);
        }
        write(name, json, out)
    })?;
    if is_missing {
        out.pop();
        out.push_str(&format!(",\"{into}\":"));
        with("{}", sizes, out)?;
        out.push('}');
    }
    Some(())
}

/// An object of texts with these numbers behind it. One that was there before is left as it is: it was stripped
/// already.
fn with(json: &str, sizes: &[(&'static str, u64)], out: &mut String) -> Option<()> {
    let members = Members::parse(json.as_bytes()).ok()?;
    object(&members, out, |_, json, out| {
        out.push_str(json);
        Some(())
    })?;
    out.pop();
    for (name, size) in sizes.iter().filter(|(name, _)| members.get(name).is_none()) {
        out.push_str(if out.ends_with('{') { "" } else { "," });
        out.push_str(&format!("\"{name}\":\"{size}\""));
    }
    out.push('}');
    Some(())
}

/// What is kept of a body: an object, or the steps of a JSON patch.
fn reduced(body: &str, of: Of) -> Option<String> {
    if body.starts_with('[') {
        let steps: Option<Vec<String>> = elements(body)?.into_iter().map(|step| reduced_step(step, of)).collect();
        return Some(format!("[{}]", steps?.join(",")));
    }
    if !body.starts_with('{') {
        return Some("{}".to_owned());
    }
    let members = Members::parse(body.as_bytes()).ok()?;
    keep(&members, |name, json| match name {
        "kind" | "apiVersion" | "dryRun" | "gracePeriodSeconds" | "code" if json.len() <= MAX_FIELD_BYTES => {
            Some(json.to_owned())
        }
        // Of a Status it is a word, of an object everything about it.
        "status" if json.starts_with('"') && json.len() <= MAX_FIELD_BYTES => Some(json.to_owned()),
        "metadata" => reduced_metadata(json),
        "spec" => reduced_spec(json, of),
        "rules" | "subjects" | "roleRef" if of.is_rbac => Some(json.to_owned()),
        _ => None,
    })
}

/// The members of which `what` keeps something.
fn keep(members: &Members<'_>, what: impl Fn(&str, &str) -> Option<String>) -> Option<String> {
    let kept = members
        .iter()
        .filter_map(|(name, json)| Some(format!("{}:{}", serde_json::to_string(name).ok()?, what(name, json)?)));
    Some(format!("{{{}}}", kept.collect::<Vec<_>>().join(",")))
}

fn reduced_metadata(json: &str) -> Option<String> {
    keep(&Members::parse(json.as_bytes()).ok()?, |name, json| match name {
        "name" | "resourceVersion" if json.len() <= MAX_FIELD_BYTES => Some(json.to_owned()),
        "finalizers" | "$deleteFromPrimitiveList/finalizers" => Some(json.to_owned()),
        "annotations" => {
            keep(&Members::parse(json.as_bytes()).ok()?, |_, json| is_number(json).then(|| json.to_owned()))
        }
        _ => None,
    })
}

/// Whether an annotation's value is taken away, or a small number: with one a change may be confirmed.
fn is_number(json: &str) -> bool {
    let digits = json.trim_matches('"');
    json == "null" || (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn reduced_spec(json: &str, of: Of) -> Option<String> {
    keep(&Members::parse(json.as_bytes()).ok()?, |name, json| match name {
        "replicas" | "unschedulable" if json.len() <= MAX_FIELD_BYTES => Some(json.to_owned()),
        "template" => Some("{}".to_owned()),
        "holderIdentity" | "renewTime" | "leaseDurationSeconds" if of.is_lease && json.len() <= MAX_FIELD_BYTES => {
            Some(json.to_owned())
        }
        _ => None,
    })
}

fn reduced_step(step: &str, of: Of) -> Option<String> {
    let members = Members::parse(step.as_bytes()).ok()?;
    let path = members.text("path").unwrap_or_default().into_owned();
    let is_below = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    keep(&members, |name, json| match name {
        "op" | "path" | "from" if json.len() <= MAX_FIELD_BYTES => Some(json.to_owned()),
        "value" if path.is_empty() => reduced(json, of),
        "value" if path == "/spec" => reduced_spec(json, of),
        "value" if path == "/metadata" => reduced_metadata(json),
        "value" if is_below(&["/spec/replicas", "/spec/unschedulable", "/metadata/finalizers"]) => {
            Some(json.to_owned())
        }
        "value" if is_below(&["/metadata/annotations/"]) && is_number(json) => Some(json.to_owned()),
        "value" if of.is_rbac && is_below(&["/rules", "/subjects", "/roleRef"]) => Some(json.to_owned()),
        "value" if of.is_lease && is_below(&["/spec/"]) => Some(json.to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> (String, Stripped) {
        let mut out = String::new();
        let done = line(text.as_bytes(), &mut out).unwrap();
        (out, done)
    }

    const SECRET: &str = r#"{"kind":"Secret","metadata":{"name":"db","resourceVersion":"7","labels":{"a":"b"}},"data":{"password":"c2VzYW1l"}}"#;

    fn event_with(body: &str) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"x","stage":"ResponseComplete","requestURI":"/","verb":"create","responseObject":{body},"requestReceivedTimestamp":"2026-11-20T09:17:29.739946Z","stageTimestamp":"2026-11-20T09:17:29.839946Z"}}"#
        )
    }

    #[test]
    fn bodies_are_taken_out_in_whatever_form_events_come() {
        let event = event_with(SECRET);
        let in_text = serde_json::to_string(&event).unwrap();
        for form in [
            event.clone(),
            format!("host-1 {event}"),
            format!(r#"{{"kind":"EventList","items":[{event}]}}"#),
            format!(r#"{{"logStream":"a","message":{in_text}}}"#),
            format!(r#"{{"records":[{{"properties":{{"log":{in_text}}}}}]}}"#),
            format!(
                r#"{{"protoPayload":{{"methodName":"io.k8s.core.v1.secrets.create","resourceName":"core/v1/x","response":{SECRET}}}}}"#
            ),
        ] {
            let (out, done) = stripped(&form);
            assert!(!out.contains("c2VzYW1l") && out.contains("response-bytes"), "{out}");
            assert_eq!((done.events, done.bytes, done.dropped), (1, SECRET.len() as u64, 0), "{form}");
            serde_json::from_str::<serde_json::Value>(&out[out.find('{').unwrap()..]).unwrap();
        }
    }

    #[test]
    fn what_says_what_kind_of_change_it_was_is_kept() {
        let (out, _) = stripped(&event_with(SECRET));
        assert!(
            out.contains(r#""responseObject":{"kind":"Secret","metadata":{"name":"db","resourceVersion":"7"}}"#),
            "{out}"
        );
        let (out, _) = stripped(&event_with(
            r#"{"spec":{"replicas":0,"template":{"a":1}},"metadata":{"annotations":{"n":"3","s":"x"}}}"#,
        ));
        assert!(out.contains(r#"{"spec":{"replicas":0,"template":{}},"metadata":{"annotations":{"n":"3"}}}"#), "{out}");
        let (out, _) = stripped(&event_with(
            r#"[{"op":"replace","path":"/spec/replicas","value":0},{"op":"add","path":"/data/p","value":"c2VzYW1l"}]"#,
        ));
        assert!(
            out.contains(r#"[{"op":"replace","path":"/spec/replicas","value":0},{"op":"add","path":"/data/p"}]"#),
            "{out}"
        );
        let (out, _) = stripped(&event_with(r#"{"items":[{"a":1},{"b":[2]}]}"#));
        assert!(out.contains(r#""plimsoll.io/response-items":"2""#) && out.contains(r#""responseObject":{}"#), "{out}");
        // Stripped once more, sizes stay those of the bodies.
        assert_eq!(stripped(&out).0.matches("response-items").count(), 1);
        assert!(stripped(&out).0.contains(r#""plimsoll.io/response-items":"2""#));
    }

    #[test]
    fn what_can_not_be_read_is_left_out() {
        let event = event_with(SECRET);
        for half in [&event[..event.len() / 2], &event[event.len() / 2..], "password: c2VzYW1l"] {
            assert_eq!(line(half.as_bytes(), &mut String::new()), None, "{half}");
        }
        let mut out = Vec::new();
        let text = format!("{event}\n{}\n\n{event}", &event[..300]);
        let done = log(text.as_bytes(), &mut out).unwrap();
        assert_eq!(
            (done.events, done.dropped, String::from_utf8(out).unwrap().matches("response-bytes").count()),
            (2, 1, 2)
        );
    }
}
