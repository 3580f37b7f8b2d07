//! The general reader: any JSON object with an event's fields, in any order and spacing.
//!
//! It parses the whole line with serde_json, so it also decides whether a line is well-formed. Of a
//! key that is given twice the last one counts, as in Go.

use crate::model::event::{Event, Level, Stage};
use crate::model::json::JsonStr;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The members of a JSON object in their order, values unparsed.
#[derive(Debug)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Parses `text` as a JSON object.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Names and raw JSON of all members, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Whether a name occurs twice.
    #[cfg(test)]
    pub fn has_duplicates(&self) -> bool {
        let names: std::collections::BTreeSet<&str> = self.0.iter().map(|(name, _)| name.as_ref()).collect();
        names.len() < self.0.len()
    }

    /// The raw JSON of the last member named `key`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The same, if it is a string.
    pub fn string(&self, key: &str) -> Option<JsonStr<'a>> {
        string_of(self.get(key)?)
    }

    /// The same, decoded.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        Some(self.string(key)?.decode())
    }

    /// The same, if it is an object.
    pub fn object(&self, key: &str) -> Option<Members<'a>> {
        Self::parse(self.get(key)?.as_bytes()).ok()
    }

    /// The elements of the member `key`, if it is an array.
    pub fn array(&self, key: &str) -> Option<Vec<&'a str>> {
        elements(self.get(key)?)
    }
}

/// The elements of a JSON array, unparsed.
pub fn elements(array: &str) -> Option<Vec<&str>> {
    let raw: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    Some(raw.into_iter().map(RawValue::get).collect())
}

/// The string in `raw` JSON, if that is what it is.
pub fn string_of(raw: &str) -> Option<JsonStr<'_>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some(JsonStr::new(inner.as_bytes(), inner.contains('\\')))
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(Cow<'de, str>, &'de str)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value::<&'de RawValue>()?.get()));
                }
                Ok(members)
            }
        }
        Ok(Members(deserializer.deserialize_map(Collect)?))
    }
}

/// An object key, borrowed where it holds no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Cow<'de, str>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(key))
            }
            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(key.to_owned()))
            }
        }
        Ok(Key(deserializer.deserialize_str(Borrow)?))
    }
}

/// The event in `members`; `None` if it has no known stage and so is none.
pub fn event<'a>(members: &Members<'a>) -> Option<Event<'a>> {
    let string = |key| members.string(key).unwrap_or_default();
    let raw = |key| members.get(key).filter(|v| *v != "null").unwrap_or_default().as_bytes();
    let mut event = Event {
        level: Level::parse(&string("level").bytes()),
        stage: Some(Stage::parse(&string("stage").bytes())?),
        audit_id: string("auditID"),
        uri: string("requestURI"),
        verb: string("verb"),
        agent: string("userAgent"),
        impersonated: raw("impersonatedUser"),
        request_body: raw("requestObject"),
        response_body: raw("responseObject"),
        received: string("requestReceivedTimestamp"),
        // Before Kubernetes 1.8 there was only this, the time of arrival.
        at: members
            .string("stageTimestamp")
            .filter(|at| !at.is_empty())
            .or_else(|| members.string("timestamp"))
            .unwrap_or_default(),
        annotations: raw("annotations"),
        ..Event::default()
    };
    if let Some(user) = members.object("user") {
        event.user = user.string("username").unwrap_or_default();
        event.groups = user.get("groups").unwrap_or_default().as_bytes();
        event.extra = user.get("extra").unwrap_or_default().as_bytes();
    }
    if let Some(last) = members.array("sourceIPs").and_then(|ips| ips.last().copied()) {
        event.source = string_of(last).unwrap_or_default();
    }
    if let Some(object) = members.object("objectRef") {
        let string = |key| object.string(key).unwrap_or_default();
        event.resource = string("resource");
        event.namespace = string("namespace");
        event.name = string("name");
        event.group = string("apiGroup");
        event.subresource = string("subresource");
    }
    if let Some(status) = members.object("responseStatus") {
        event.code = status.get("code").and_then(|code| code.parse().ok());
        event.message = status.string("message").unwrap_or_default();
    }
    Some(event)
}
