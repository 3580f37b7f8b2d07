//! Kubernetes' values in etcd as the JSON that an apiserver would serve for them. (Source: apimachinery
//! runtime/serializer, and the rules of Go's encoding/json for the struct tags that `schema` has.)
//!
//! No error shows anything of what a value holds: it may be a Secret.

use super::cbor_json;
use super::mvcc::{self, Fields};
use super::schema::{Field, Form, Message, Rule, Schema, Shape, Type};
use super::special;
use crate::model::keyspace::Encoding;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The largest value that is decoded. etcd takes requests of 1.5 MiB unless configured otherwise.
pub const LARGEST: usize = 64 << 20;
/// Values and members that an object may have: more than fit in [`LARGEST`] bytes of honest ones.
const MAX_VALUES: usize = 4_000_000;
/// Messages within one another. A schema in a CustomResourceDefinition may nest; serde_json stops at 128 as well.
const DEEPEST: usize = 128;

/// An object.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Its JSON.
    pub object: Map<String, Value>,
    /// Fields that the table does not know, as `MESSAGE field NUMBER`: it was written by a newer Kubernetes. The object
    /// lacks them.
    pub unknown: BTreeSet<String>,
}

/// Why a value is not decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// Encrypted at rest.
    #[error("is encrypted at rest; only an apiserver with its key can read it")]
    Encrypted,
    /// A built-in kind that the table does not have.
    #[error("is of the kind {0} {1}, which this version of plimsoll cannot decode")]
    Kind(String, String),
    /// Not what it claims to be.
    #[error("can't be read: {0}")]
    Damaged(String),
    /// Larger than anything that etcd takes.
    #[error("is too large to be an object")]
    TooLarge,
    /// Something else than an object.
    #[error("is not a Kubernetes object")]
    Other,
}

/// Decodes a value.
pub fn decode(value: &[u8]) -> Result<Decoded, Undecodable> {
    if value.len() > LARGEST {
        return Err(Undecodable::TooLarge);
    }
    let whole = |json: Value| match json {
        Value::Object(object) => Ok(Decoded { object, unknown: BTreeSet::new() }),
        _ => Err(Undecodable::Other),
    };
    match Encoding::of(value) {
        Encoding::Protobuf => protobuf(&value[4..]),
        // What serde_json says of an error has its place, and nothing of the text.
        Encoding::Json => whole(serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?),
        Encoding::Cbor => whole(cbor_json::json(value).ok_or_else(|| damaged("it is not valid CBOR"))?),
        Encoding::Encrypted => Err(Undecodable::Encrypted),
        Encoding::Other => Err(Undecodable::Other),
    }
}

/// The `metadata.uid` of a value, without decoding the rest of it where that can be.
pub fn uid(value: &[u8]) -> Option<String> {
    let bytes_of = |message, number| {
        Fields::new(message).find_map(|(n, field)| match field {
            mvcc::Field::Bytes(bytes) if n == number => Some(bytes),
            _ => None,
        })
    };
    match Encoding::of(value) {
        Encoding::Protobuf => {
            let uid = bytes_of(bytes_of(bytes_of(&value[4..], 2)?, 1)?, 5)?;
            Some(String::from_utf8_lossy(uid).into_owned())
        }
        Encoding::Json => {
            #[derive(serde::Deserialize)]
            struct Outer {
                metadata: Metadata,
            }
            #[derive(serde::Deserialize)]
            struct Metadata {
                uid: String,
            }
            serde_json::from_slice::<Outer>(value).ok().map(|outer| outer.metadata.uid)
        }
        Encoding::Cbor => Some(cbor_json::json(value)?.get("metadata")?.get("uid")?.as_str()?.to_owned()),
        Encoding::Encrypted | Encoding::Other => None,
    }
}

fn damaged(what: impl Into<String>) -> Undecodable {
    Undecodable::Damaged(what.into())
}

/// `runtime.Unknown`: 1 the type, 2 the object's message, 3 how that is packed, 4 its content type.
fn protobuf(envelope: &[u8]) -> Result<Decoded, Undecodable> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut fields = Fields::new(envelope);
    for field in fields.by_ref() {
        match field {
            (1, mvcc::Field::Bytes(meta)) => {
                for field in Fields::new(meta) {
                    match field {
                        (1, mvcc::Field::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, mvcc::Field::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, mvcc::Field::Bytes(bytes)) => raw = bytes,
            (3, mvcc::Field::Bytes(packing)) if !packing.is_empty() => {
                return Err(damaged("it is compressed in an unknown form"));
            }
            _ => {}
        }
    }
    if fields.damaged {
        return Err(damaged("its protobuf envelope is incomplete"));
    }
    let message =
        Schema::get().kind(&api_version, &kind).ok_or_else(|| Undecodable::Kind(api_version.clone(), kind.clone()))?;
    let mut decoder = Decoder { schema: Schema::get(), unknown: BTreeSet::new(), values: 0 };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    decoder.object(message, raw, &mut object, 0)?;
    Ok(Decoded { object, unknown: decoder.unknown })
}

/// What a message has of one field.
type FieldValues<'v> = Vec<mvcc::Field<'v>>;

struct Decoder {
    schema: &'static Schema,
    unknown: BTreeSet<String>,
    values: usize,
}

impl Decoder {
    /// Adds the fields of `bytes` to `into`.
    fn object(
        &mut self,
        message: &Message,
        bytes: &[u8],
        into: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Undecodable> {
        let mut found = self.fields(message, bytes, depth)?;
        for field in &message.fields {
            let mine = found.remove(&field.number).unwrap_or_default();
            if field.json.is_empty() {
                let Type::Message(at) = field.kind else { continue };
                let embedded = self.message(at)?;
                if !mine.is_empty() || field.rule == Rule::Always {
                    self.object(embedded, &joined(&mine)?, into, depth + 1)?;
                }
            } else if let Some(value) = self.field(field, &mine, depth)? {
                into.insert(field.json.to_owned(), value);
            }
        }
        Ok(())
    }

    /// The fields of a message by number; those that the table lacks are noted.
    fn fields<'v>(
        &mut self,
        message: &Message,
        bytes: &'v [u8],
        depth: usize,
    ) -> Result<BTreeMap<u64, FieldValues<'v>>, Undecodable> {
        if depth > DEEPEST {
            return Err(damaged(format!("{} is nested more than {DEEPEST} deep", message.name)));
        }
        let mut found: BTreeMap<u64, FieldValues<'v>> = BTreeMap::new();
        let mut fields = Fields::new(bytes);
        for (number, value) in fields.by_ref() {
            if message.fields.iter().any(|field| field.number == number) {
                found.entry(number).or_default().push(value);
            } else {
                self.unknown.insert(format!("{} field {number}", message.name));
            }
        }
        if fields.damaged { Err(damaged(format!("its {} is incomplete", message.name))) } else { Ok(found) }
    }

    fn message(&self, at: usize) -> Result<&'static Message, Undecodable> {
        self.schema.message(at).ok_or_else(|| damaged("a message is missing in the table"))
    }

    /// The JSON of a field; `None` to leave it out.
    fn field(&mut self, field: &Field, found: &[mvcc::Field<'_>], depth: usize) -> Result<Option<Value>, Undecodable> {
        self.values += 1 + found.len();
        if self.values > MAX_VALUES {
            return Err(Undecodable::TooLarge);
        }
        let empty = || (field.rule == Rule::Null).then_some(Value::Null);
        match field.shape {
            Shape::List if found.is_empty() => Ok(empty()),
            Shape::List => {
                let items: Result<Vec<Value>, _> =
                    found.iter().map(|one| self.one(field, std::slice::from_ref(one), depth)).collect();
                Ok(Some(Value::Array(items?)))
            }
            Shape::Map if found.is_empty() => Ok(empty()),
            Shape::Map => Ok(Some(Value::Object(self.map(field, found, depth)?))),
            Shape::One => self.single(field, found, depth),
        }
    }

    fn single(&mut self, field: &Field, found: &[mvcc::Field<'_>], depth: usize) -> Result<Option<Value>, Undecodable> {
        let is_there = !found.is_empty();
        if field.kind == Type::Strings || field.kind == Type::Bytes {
            let value = if is_there { self.one(field, found, depth)? } else { Value::Null };
            let is_empty = value.is_null() || value.as_str() == Some("");
            return Ok(match field.rule {
                Rule::Null | Rule::Always => Some(value),
                _ => (!is_empty).then_some(value),
            });
        }
        let value = match field.rule {
            Rule::Always | Rule::OmitZero => self.one(field, found, depth)?,
            Rule::Null if !is_there => return Ok(Some(Value::Null)),
            _ if !is_there => return Ok(None),
            _ => self.one(field, found, depth)?,
        };
        let is_zero = match &value {
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            other => other.is_null(),
        };
        let is_scalar = matches!(field.kind, Type::Text | Type::Integer | Type::Bool | Type::Double);
        Ok(match field.rule {
            Rule::Omit if is_scalar && is_zero => None,
            Rule::OmitZero if is_zero => None,
            _ => Some(value),
        })
    }

    /// A value; of what is not there, zero.
    fn one(&mut self, field: &Field, found: &[mvcc::Field<'_>], depth: usize) -> Result<Value, Undecodable> {
        let wrong = || damaged(format!("its field {} is of another type", field.json));
        let number = || match found.last() {
            Some(mvcc::Field::Number(number)) => Ok(*number),
            Some(mvcc::Field::Bytes(_)) => Err(wrong()),
            None => Ok(0),
        };
        Ok(match field.kind {
            Type::Integer => Value::from(number()? as i64),
            Type::Bool => Value::from(number()? != 0),
            Type::Double => special::double(f64::from_bits(number()?)).ok_or_else(wrong)?,
            Type::Text => Value::from(String::from_utf8_lossy(last(found).ok_or_else(wrong)?).into_owned()),
            Type::Bytes => Value::from(BASE64_STANDARD.encode(last(found).ok_or_else(wrong)?)),
            kind => {
                let bytes = joined(found).map_err(|_| wrong())?;
                match kind {
                    Type::Message(at) => self.nested(at, &bytes, depth + 1)?,
                    // Texts that hold JSON or times say for themselves where they are wrong.
                    kind => special::value(kind, &bytes).ok_or_else(wrong)?,
                }
            }
        })
    }

    fn nested(&mut self, at: usize, bytes: &[u8], depth: usize) -> Result<Value, Undecodable> {
        let message = self.message(at)?;
        if message.form == Form::Object {
            let mut object = Map::new();
            self.object(message, bytes, &mut object, depth)?;
            return Ok(Value::Object(object));
        }
        let mut found = self.fields(message, bytes, depth)?;
        let mut values = Vec::new();
        for field in &message.fields {
            values.push(self.field(field, &found.remove(&field.number).unwrap_or_default(), depth)?);
        }
        // The list before the schema, the schema before the truth value.
        let list = values.iter_mut().find(|value| matches!(value, Some(Value::Array(_)))).and_then(Option::take);
        let schema = || values.iter_mut().find(|value| matches!(value, Some(Value::Object(_)))).and_then(Option::take);
        let either = list.or_else(schema);
        let is_or_bool = message.fields.iter().any(|field| field.kind == Type::Bool);
        let or_else = || {
            if is_or_bool {
                Value::from(values.iter().flatten().any(|value| *value == Value::Bool(true)))
            } else {
                Value::Null
            }
        };
        Ok(match either {
            Some(value) => value,
            None => or_else(),
        })
    }

    /// A map: its entries are messages of key and value. Sorted, as Go does it.
    fn map(
        &mut self,
        field: &Field,
        found: &[mvcc::Field<'_>],
        depth: usize,
    ) -> Result<Map<String, Value>, Undecodable> {
        let mut sorted = BTreeMap::new();
        for entry in found {
            let mvcc::Field::Bytes(entry) = entry else {
                return Err(damaged(format!("its field {} is of another type", field.json)));
            };
            let (mut key, mut value) = (String::new(), FieldValues::new());
            let mut parts = Fields::new(entry);
            for part in parts.by_ref() {
                match part {
                    (1, mvcc::Field::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
                    (2, part) => value.push(part),
                    _ => {}
                }
            }
            if parts.damaged {
                return Err(damaged(format!("its field {} is incomplete", field.json)));
            }
            sorted.insert(key, self.one(field, &value, depth)?);
        }
        Ok(sorted.into_iter().collect())
    }
}

/// The last of them as bytes: of a scalar that is there twice, the last holds. `None` if it is a number.
fn last<'v>(found: &[mvcc::Field<'v>]) -> Option<&'v [u8]> {
    match found.last() {
        Some(mvcc::Field::Bytes(bytes)) => Some(bytes),
        Some(mvcc::Field::Number(_)) => None,
        None => Some(&[]),
    }
}

/// All of them as one message: of a message that is there twice, the parts are merged.
fn joined<'v>(found: &[mvcc::Field<'v>]) -> Result<Cow<'v, [u8]>, Undecodable> {
    let bytes = |field: &mvcc::Field<'v>| match field {
        mvcc::Field::Bytes(bytes) => Ok(*bytes),
        mvcc::Field::Number(_) => Err(damaged("a number where a message is expected")),
    };
    match found {
        [] => Ok(Cow::Borrowed(&[])),
        [one] => Ok(Cow::Borrowed(bytes(one)?)),
        more => {
            let mut all = Vec::new();
            for one in more {
                all.extend_from_slice(bytes(one)?);
            }
            Ok(Cow::Owned(all))
        }
    }
}
