//! Kubernetes' values in etcd: what can be determined of an object cheaply. (Source: apimachinery
//! runtime/serializer/protobuf, apiserver storage/value; meta/v1 and coordination/v1 generated.proto.)

use super::cbor;
use super::mvcc::{Field, Fields};
use super::written::{later, parse_time};
use crate::model::keyspace::{Encoding, Object, OwnerRef, Want};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// The annotation in which `kubectl apply` leaves what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Looks at a value.
pub fn look<'v>(value: &'v [u8], want: &Want) -> Object<'v> {
    let object = match Encoding::of(value) {
        Encoding::Protobuf => protobuf(&value[4..], want),
        Encoding::Json => json(value, want),
        Encoding::Cbor => cbor::look(value, want),
        Encoding::Encrypted | Encoding::Other => Some(Object::default()),
    };
    object.unwrap_or(Object { undecodable: true, ..Object::default() })
}

/// `runtime.Unknown`: field 1 is the type, field 2 the object's own message, whose field 1 is the metadata.
fn protobuf<'v>(envelope: &'v [u8], want: &Want) -> Option<Object<'v>> {
    let mut object = Object::default();
    let mut raw = None;
    each(envelope, |field| match field {
        (1, Field::Bytes(kind)) => {
            each(kind, |field| match field {
                (1, Field::Bytes(text)) => object.api_version = String::from_utf8_lossy(text),
                (2, Field::Bytes(text)) => object.kind = String::from_utf8_lossy(text),
                _ => {}
            });
        }
        (2, Field::Bytes(bytes)) => raw = Some(bytes),
        _ => {}
    })?;
    let is_lease = want.time && object.kind == "Lease";
    let mut is_whole = true;
    each(raw?, |field| match field {
        (1, Field::Bytes(bytes)) => is_whole &= metadata(bytes, want, &mut object).is_some(),
        // LeaseSpec, whose field 4 is the renewal.
        (2, Field::Bytes(spec)) if is_lease => {
            each(spec, |field| {
                if let (4, Field::Bytes(time)) = field {
                    later(&mut object.written, seconds(time));
                }
            });
        }
        _ => {}
    })?;
    is_whole.then_some(object)
}

fn metadata<'v>(message: &'v [u8], want: &Want, object: &mut Object<'v>) -> Option<()> {
    each(message, |field| match field {
        (5, Field::Bytes(uid)) => object.uid = String::from_utf8_lossy(uid),
        (8, Field::Bytes(time)) if want.time => later(&mut object.written, seconds(time)),
        (11, Field::Bytes(entry)) => {
            if let Some(label) = &want.label
                && let (key, value) = pair(entry)
                && key == label.as_bytes()
            {
                object.label = Some(String::from_utf8_lossy(value));
            }
        }
        (12, Field::Bytes(entry)) => {
            object.annotations += encoded(entry, 1);
            let (key, value) = pair(entry);
            if key == LAST_APPLIED.as_bytes() {
                object.last_applied = value.len() as u64;
            }
        }
        (13, Field::Bytes(owner)) if want.owners => object.owners.push(owner_ref(owner)),
        (17, Field::Bytes(entry)) => {
            let bytes = encoded(entry, 2);
            object.managed_fields += bytes;
            if want.managers || want.time {
                let mut manager = Cow::Borrowed("");
                each(entry, |field| match field {
                    (1, Field::Bytes(name)) => manager = String::from_utf8_lossy(name),
                    (4, Field::Bytes(time)) if want.time => later(&mut object.written, seconds(time)),
                    _ => {}
                });
                if want.managers {
                    object.managers.push((manager, bytes));
                }
            }
        }
        _ => {}
    })
}

/// The fields of a message; `None` where it is damaged.
fn each<'v>(message: &'v [u8], take: impl FnMut((u64, Field<'v>))) -> Option<()> {
    let mut fields = Fields::new(message);
    fields.by_ref().for_each(take);
    (!fields.damaged).then_some(())
}

/// Bytes of a field that holds `entry`: those of its tag, its length, and itself.
fn encoded(entry: &[u8], tag: u64) -> u64 {
    let length_bytes = (64 - (entry.len() as u64 | 1).leading_zeros()).div_ceil(7);
    tag + u64::from(length_bytes) + entry.len() as u64
}

/// An entry of a map of strings.
fn pair(entry: &[u8]) -> (&[u8], &[u8]) {
    let mut pair: (&[u8], &[u8]) = (b"", b"");
    each(entry, |field| match field {
        (1, Field::Bytes(key)) => pair.0 = key,
        (2, Field::Bytes(value)) => pair.1 = value,
        _ => {}
    });
    pair
}

fn owner_ref(message: &[u8]) -> OwnerRef<'_> {
    let mut owner = OwnerRef::default();
    each(message, |field| match field {
        (1, Field::Bytes(kind)) => owner.kind = String::from_utf8_lossy(kind),
        (3, Field::Bytes(name)) => owner.name = String::from_utf8_lossy(name),
        (4, Field::Bytes(uid)) => owner.uid = String::from_utf8_lossy(uid),
        (6, Field::Number(controller)) => owner.controller = controller != 0,
        _ => {}
    });
    owner
}

/// Whole seconds of a `Time` or `MicroTime`.
fn seconds(time: &[u8]) -> Option<i64> {
    Fields::new(time).find_map(|field| match field {
        // A time before 1970 is no time of writing: Go's zero time is one.
        (1, Field::Number(seconds)) => i64::try_from(seconds).ok().filter(|seconds| *seconds > 0),
        _ => None,
    })
}

/// A string, borrowed where it has no escapes.
type Text<'v> = Cow<'v, str>;

#[derive(serde::Deserialize)]
struct Outer<'v> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Option<Text<'v>>,
    #[serde(borrow)]
    kind: Option<Text<'v>>,
    #[serde(borrow)]
    metadata: Option<Metadata<'v>>,
    #[serde(borrow)]
    spec: Option<&'v RawValue>,
}

#[derive(serde::Deserialize)]
struct LeaseSpec<'v> {
    #[serde(borrow, rename = "renewTime")]
    renewed: Option<Text<'v>>,
}

#[derive(serde::Deserialize)]
struct Metadata<'v> {
    #[serde(borrow)]
    uid: Option<Text<'v>>,
    #[serde(borrow, rename = "creationTimestamp")]
    created: Option<Text<'v>>,
    #[serde(borrow)]
    labels: Option<&'v RawValue>,
    #[serde(borrow)]
    annotations: Option<&'v RawValue>,
    #[serde(borrow, rename = "ownerReferences")]
    owners: Option<&'v RawValue>,
    #[serde(borrow, rename = "managedFields")]
    managed_fields: Option<&'v RawValue>,
}

#[derive(serde::Deserialize)]
struct Owner<'v> {
    #[serde(borrow)]
    kind: Option<Text<'v>>,
    #[serde(borrow)]
    name: Option<Text<'v>>,
    #[serde(borrow)]
    uid: Option<Text<'v>>,
    controller: Option<bool>,
}

#[derive(serde::Deserialize)]
struct Manager<'v> {
    #[serde(borrow)]
    manager: Option<Text<'v>>,
    #[serde(borrow)]
    time: Option<Text<'v>>,
}

/// A map of strings.
fn strings<'v>(raw: &'v RawValue) -> Option<HashMap<Text<'v>, Text<'v>>> {
    let map: Option<HashMap<Text<'v>, Option<Text<'v>>>> = serde_json::from_str(raw.get()).ok()?;
    Some(map.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

fn json<'v>(value: &'v [u8], want: &Want) -> Option<Object<'v>> {
    let outer: Outer<'v> = serde_json::from_slice(value).ok()?;
    // null is absent, as it is for the apiserver.
    let (api_version, kind) = (outer.api_version.unwrap_or_default(), outer.kind.unwrap_or_default());
    let mut object = Object { api_version, kind, ..Object::default() };
    let Some(metadata) = outer.metadata else { return Some(object) };
    object.uid = metadata.uid.unwrap_or_default();
    if want.time {
        object.written = metadata.created.as_deref().and_then(parse_time);
        if let Some(spec) = outer.spec.filter(|_| object.kind == "Lease") {
            let spec: LeaseSpec<'v> = serde_json::from_str(spec.get()).ok()?;
            later(&mut object.written, spec.renewed.as_deref().and_then(parse_time));
        }
    }
    if let (Some(label), Some(raw)) = (&want.label, metadata.labels) {
        object.label = strings(raw)?.remove(label.as_str());
    }
    if let Some(raw) = metadata.annotations.filter(|raw| raw.get() != "null") {
        object.annotations = raw.get().len() as u64;
        if memchr::memmem::find(raw.get().as_bytes(), LAST_APPLIED.as_bytes()).is_some() {
            object.last_applied = strings(raw)?.get(LAST_APPLIED).map_or(0, |text| text.len() as u64);
        }
    }
    if let (true, Some(raw)) = (want.owners, metadata.owners) {
        let owners: Option<Vec<Owner<'v>>> = serde_json::from_str(raw.get()).ok()?;
        let owners = owners.unwrap_or_default().into_iter();
        let owner = |o: Owner<'v>| OwnerRef {
            kind: o.kind.unwrap_or_default(),
            name: o.name.unwrap_or_default(),
            uid: o.uid.unwrap_or_default(),
            controller: o.controller.unwrap_or_default(),
        };
        object.owners = owners.map(owner).collect();
    }
    if let Some(raw) = metadata.managed_fields.filter(|raw| raw.get() != "null") {
        object.managed_fields = raw.get().len() as u64;
        if want.managers || want.time {
            let entries: Vec<&'v RawValue> = serde_json::from_str(raw.get()).ok()?;
            for entry in entries {
                let manager: Manager<'v> = serde_json::from_str(entry.get()).ok()?;
                if want.time {
                    later(&mut object.written, manager.time.as_deref().and_then(parse_time));
                }
                if want.managers {
                    object.managers.push((manager.manager.unwrap_or_default(), entry.get().len() as u64));
                }
            }
        }
    }
    Some(object)
}
