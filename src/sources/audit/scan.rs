//! The fast field scanner: finds an event's fields in the order in which kube-apiserver's encoder
//! writes them, and gives up (`None`) whenever a line is not exactly of that form. Then
//! [`super::general`] reads the line with a JSON parser; the two are tested against each other.
//!
//! Fields before the bodies are matched forwards, skipping strings properly; a line without bodies is
//! passed over once, its end included. Body keys are chosen by callers (an object may hold keys named
//! `verb` or `stageTimestamp` at any depth), so where a line holds bodies, the timestamps and
//! annotations behind them are found backwards from the line's end.

use super::callers::{CallerMatch, Callers};
use super::targets::{self, Targets, Variable};
use crate::model::event::{Event, Level, Stage};
use crate::model::json::JsonStr;
use crate::model::walk::{Cursor, skip_value};

const HEAD: &[u8; 56] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":""#;
/// How an element of an `EventList` starts: the list's encoder leaves out kind and apiVersion.
const ITEM_HEAD: &[u8; 10] = br#"{"level":""#;

/// What a thread remembers of lines that it has read.
#[derive(Debug, Default)]
pub struct Memory {
    callers: Callers,
    targets: Targets,
}

/// Reads the event that starts at `start` into `event`; returns where its line ends (at the newline,
/// or at the end of the text). `None` where an assumption fails; `event` is then of no meaning.
#[inline]
pub fn scan<'a>(text: &'a [u8], start: usize, memory: &mut Memory, event: &mut Event<'a>) -> Option<usize> {
    *event = Event::default();
    let mut at = Cursor::at(text, start);
    if !at.eat(HEAD) {
        at.need(ITEM_HEAD)?;
    }
    // What nearly all events have is compared in one go, here and below.
    if at.eat(br#"Metadata","auditID":""#) {
        event.level = Level::Metadata;
    } else {
        event.level = Level::parse(at.plain_string()?);
        at.need(br#","auditID":""#)?;
    }
    event.audit_id = at.uuid()?;
    if at.eat(br#","stage":"ResponseComplete","requestURI":""#) {
        event.stage = Some(Stage::ResponseComplete);
    } else {
        at.need(br#","stage":""#)?;
        event.stage = Some(Stage::parse(at.plain_string()?)?);
        at.need(br#","requestURI":""#)?;
    }
    event.uri = at.string()?;
    at.need(br#","verb":""#)?;
    let verb;
    (event.verb, verb) = at.short_string()?;
    at.need(br#","user":{"#)?;
    let callers = &mut memory.callers;
    caller(text, &mut at, callers, event)?;
    target(text, &mut at, verb, &mut memory.targets, event)?;
    if at.eat(br#","responseStatus":{"#) {
        response_status(&mut at, event)?;
    }
    let end = if at.eat(br#","requestReceivedTimestamp":""#) {
        event.received = at.timestamp()?;
        at.need(br#","stageTimestamp":""#)?;
        event.at = at.timestamp()?;
        if at.eat(br#","annotations":"#) {
            match callers.same_annotations(event.caller, &text[at.position()..]) {
                Some((length, only_reason)) => {
                    event.annotations = at.pass(length);
                    event.only_reason = only_reason;
                }
                None => {
                    event.annotations = at.value()?;
                    callers.keep_annotations(event.caller, event.annotations);
                }
            }
        }
        at.need(b"}")?;
        line_end(&mut at)?
    } else {
        let from = at.position();
        let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |newline| from + newline);
        let line = text[start..end].trim_ascii_end();
        bodies(line, from - start, event)?;
        let region = &line[from - start..];
        // Bodies are not looked at byte by byte: ask for what a string may not hold.
        if !region.is_ascii() {
            at.non_ascii = true;
        }
        if memchr::memchr(0, region).is_some() {
            return None;
        }
        end
    };
    if at.non_ascii && std::str::from_utf8(&text[start..end]).is_err() {
        return None;
    }
    Some(end)
}

/// From behind `"user":{` to the end of the agent.
#[inline]
fn caller<'a>(text: &'a [u8], at: &mut Cursor<'a>, callers: &mut Callers, event: &mut Event<'a>) -> Option<()> {
    let start = at.position();
    let found = callers.find(text, start, event);
    if let Some(found) = found {
        at.pass(found.end - start);
        at.non_ascii |= found.non_ascii;
        if found.whole {
            return Some(());
        }
    }
    new_caller(text, start, at, callers, event, found)
}

/// The same where it is not what the user's last event had; `found` is the user, if known.
#[inline(never)]
fn new_caller<'a>(
    text: &'a [u8],
    start: usize,
    at: &mut Cursor<'a>,
    callers: &mut Callers,
    event: &mut Event<'a>,
    mut found: Option<CallerMatch>,
) -> Option<()> {
    let before = std::mem::take(&mut at.non_ascii);
    if found.is_none() {
        name_and_groups(at, event)?;
        // Only with groups does the text end where it must end, whatever follows.
        if !event.groups.is_empty() {
            found = callers.remember_user(text, start, at.position(), at.non_ascii, event);
        }
    }
    let before = before | std::mem::take(&mut at.non_ascii);
    if at.eat(br#","extra":"#) {
        event.extra = at.value()?;
    }
    at.need(b"}")?;
    if at.eat(br#","impersonatedUser":"#) {
        event.impersonated = at.value()?;
    }
    if at.eat(br#","authenticationMetadata":"#) {
        at.value()?;
    }
    if at.eat(br#","sourceIPs":[""#) {
        sources(at, event)?;
    }
    if at.eat(br#","userAgent":""#) {
        event.agent = at.string()?;
        // Nor does the rest of it without an agent.
        if let Some(user) = found {
            callers.remember(user, text, start..at.position(), at.non_ascii, event);
        }
    }
    at.non_ascii |= before;
    Some(())
}

/// Each may be missing; a request that was not authenticated has an empty user.
#[inline]
fn name_and_groups<'a>(at: &mut Cursor<'a>, event: &mut Event<'a>) -> Option<()> {
    if at.eat(br#""username":""#) {
        event.user = at.string()?;
        if at.eat(br#","uid":""#) {
            at.string()?;
        }
        if at.eat(br#","groups":"#) {
            event.groups = at.value()?;
        }
    }
    Some(())
}

/// Passes to the end of a line on which nothing more stands.
#[inline]
fn line_end(at: &mut Cursor<'_>) -> Option<usize> {
    if at.is_done() || at.peek() == Some(b'\n') {
        return Some(at.position());
    }
    at.eat(b"\r");
    (at.is_done() || at.peek() == Some(b'\n')).then_some(at.position())
}

#[inline]
fn sources<'a>(at: &mut Cursor<'a>, event: &mut Event<'a>) -> Option<()> {
    event.source = at.string()?;
    while at.eat(br#",""#) {
        event.source = at.string()?;
    }
    at.need(b"]")
}

/// The object reference, where there is one.
#[inline]
fn target<'a>(
    text: &'a [u8],
    at: &mut Cursor<'a>,
    verb: u128,
    targets: &mut Targets,
    event: &mut Event<'a>,
) -> Option<()> {
    let start = at.position();
    if verb != 0
        && let Some((end, non_ascii)) = targets.find(text, start, verb, event)
    {
        at.pass(end - start);
        at.non_ascii |= non_ascii;
        return Some(());
    }
    new_target(text, at, verb, targets, event)
}

/// The same where it is not what was met before.
#[inline(never)]
fn new_target<'a>(
    text: &'a [u8],
    at: &mut Cursor<'a>,
    verb: u128,
    targets: &mut Targets,
    event: &mut Event<'a>,
) -> Option<()> {
    let start = at.position();
    if at.eat(br#","objectRef":{"#) {
        let variable = object_ref(at, event)?;
        if verb != 0 && text[start..].starts_with(targets::HEAD) {
            targets.remember(text, start..at.position(), verb, variable, event);
        }
    }
    Some(())
}

/// In the encoder's order, each optional: resource namespace name uid apiGroup apiVersion resourceVersion subresource.
#[inline]
fn object_ref<'a>(at: &mut Cursor<'a>, event: &mut Event<'a>) -> Option<Variable<'a>> {
    let mut variable = Variable::default();
    if at.eat(br#""resource":""#) {
        event.resource = at.string()?;
        at.comma();
    }
    if at.eat(br#""namespace":""#) {
        event.namespace = at.string()?;
        at.comma();
    }
    if at.eat(br#""name":""#) {
        event.name = at.string()?;
        at.comma();
    }
    if at.eat(br#""uid":""#) {
        variable.uid = Some(at.string()?);
        at.comma();
    }
    if at.eat(br#""apiGroup":""#) {
        event.group = at.string()?;
        at.comma();
    }
    if at.eat(br#""apiVersion":""#) {
        at.string()?;
        at.comma();
    }
    if at.eat(br#""resourceVersion":""#) {
        variable.version = Some(at.string()?);
        at.comma();
    }
    if at.eat(br#""subresource":""#) {
        event.subresource = at.string()?;
    }
    at.need(b"}")?;
    Some(variable)
}

#[inline]
fn response_status<'a>(at: &mut Cursor<'a>, event: &mut Event<'a>) -> Option<()> {
    if at.eat(br#""metadata":{},"code":"#) {
        event.code = Some(at.code()?);
        return at.need(b"}");
    }
    if at.eat(b"}") {
        return Some(());
    }
    // An error as most are written; if it is not, it is read again.
    let before = at.clone();
    if failure(at, event).is_some() {
        return Some(());
    }
    *at = before;
    (event.code, event.message) = (None, JsonStr::default());
    loop {
        at.need(b"\"")?;
        match at.plain_string()? {
            b"code" => {
                at.need(b":")?;
                event.code = Some(at.number()?);
            }
            b"message" => {
                at.need(b":\"")?;
                event.message = at.string()?;
            }
            _ => {
                at.need(b":")?;
                at.value()?;
            }
        }
        if !at.eat(b",") {
            return at.need(b"}");
        }
    }
}

/// `"metadata":{},"status":"Failure","message":"…"[,"reason":"…"][,"details":{…}],"code":…}`
#[inline]
fn failure<'a>(at: &mut Cursor<'a>, event: &mut Event<'a>) -> Option<()> {
    at.need(br#""metadata":{},"status":"Failure","message":""#)?;
    event.message = at.string()?;
    if at.eat(br#","reason":""#) {
        at.string()?;
    }
    if at.eat(br#","details":{"#) {
        if at.eat(br#""name":""#) {
            at.string()?;
            at.comma();
        }
        if at.eat(br#""group":""#) {
            at.string()?;
            at.comma();
        }
        at.need(br#""kind":""#)?;
        at.string()?;
        at.need(b"}")?;
    }
    at.need(br#","code":"#)?;
    event.code = Some(at.code()?);
    at.need(b"}")
}

/// Reads the rest of a line that goes on with bodies at `start`: the tail backwards, then the bodies.
fn bodies<'a>(line: &'a [u8], start: usize, event: &mut Event<'a>) -> Option<()> {
    let body_end = tail(line, start, event)?;
    let region = &line[start..body_end];
    // Two lines run into one by a crash would lend the first event the second one's times.
    if memchr::memmem::find(region, br#""auditID":""#).is_some() {
        return None;
    }
    let mut at = Cursor::new(region);
    if at.eat(br#","requestObject":"#) {
        // With one body, it is all there is up to the tail; with two, the first has to be walked.
        let rest = &region[at.position()..];
        if memchr::memmem::find(rest, br#","responseObject":"#).is_some() {
            event.request_body = body(at.value()?)?;
        } else {
            event.request_body = body(rest)?;
            return Some(());
        }
    }
    if at.eat(br#","responseObject":"#) {
        event.response_body = body(&region[at.position()..])?;
        return Some(());
    }
    at.is_done().then_some(())
}

/// A body that at least ends like a JSON value; `null` is none.
fn body(body: &[u8]) -> Option<&[u8]> {
    match body {
        b"null" => Some(&[]),
        [.., b'}' | b']' | b'"' | b'0'..=b'9' | b'e'] => Some(body),
        _ => None,
    }
}

/// Reads `,"requestReceivedTimestamp":"…","stageTimestamp":"…"[,"annotations":{…}]}` from the end of
/// the line; returns where it starts.
fn tail<'a>(line: &'a [u8], start: usize, event: &mut Event<'a>) -> Option<usize> {
    const ANNOTATIONS: &[u8] = br#","annotations":{"#;
    let mut end = line.len().checked_sub(1)?;
    if line.ends_with(b"}}") {
        // Annotations hold only strings, so the last structural `,"annotations":{` opens them, if
        // the object that it opens is the one that ends the line.
        let from = memchr::memmem::rfind(&line[start..], ANNOTATIONS)? + start;
        let object = from + ANNOTATIONS.len() - 1;
        if skip_value(line, object)?.0 != end {
            return None;
        }
        event.annotations = &line[object..end];
        end = from;
    } else if !line.ends_with(b"\"}") {
        return None;
    }
    let (value, before) = string_before(line, start, end, br#","stageTimestamp":""#)?;
    event.at = JsonStr::new(value, false);
    let (value, before) = string_before(line, start, before, br#","requestReceivedTimestamp":""#)?;
    event.received = JsonStr::new(value, false);
    Some(before)
}

/// The string that ends at `end` (its closing quote is the byte before) behind `key`; and where `key` starts.
fn string_before<'a>(line: &'a [u8], start: usize, end: usize, key: &[u8]) -> Option<(&'a [u8], usize)> {
    let close = end.checked_sub(1).filter(|&c| c > start && line[c] == b'"')?;
    let open = memchr::memrchr(b'"', &line[start..close])? + start;
    let value = &line[open + 1..close];
    let from = (open + 1).checked_sub(key.len()).filter(|&f| f >= start)?;
    (&line[from..=open] == key && !value.contains(&b'\\')).then_some((value, from))
}
