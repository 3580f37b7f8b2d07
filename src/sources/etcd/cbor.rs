//! Kubernetes' objects in CBOR (RFC 8949), as the apiserver writes custom resources where that is turned on.
//! (Source: apimachinery runtime/serializer/cbor: a self-described map, whose strings are byte strings or text.)

use super::written::{later, parse_time};
use crate::model::keyspace::{Object, OwnerRef, Want};
use std::borrow::Cow;

/// Items are not nested deeper.
const DEEPEST: usize = 256;

/// Looks at a value; `None` where it is damaged.
pub(super) fn look<'v>(value: &'v [u8], want: &Want) -> Option<Object<'v>> {
    let mut object = Object::default();
    let (root, rest) = item(value)?;
    if !rest.is_empty() {
        return None;
    }
    each(root, |key, value| match key {
        b"apiVersion" => object.api_version = text(value),
        b"kind" => object.kind = text(value),
        b"metadata" => metadata(value, want, &mut object),
        _ => {}
    })?;
    Some(object)
}

fn metadata<'v>(map: &'v [u8], want: &Want, object: &mut Object<'v>) {
    each(map, |key, value| match key {
        b"uid" => object.uid = text(value),
        b"creationTimestamp" if want.time => later(&mut object.written, parse_time(&text(value))),
        b"labels" => {
            if let Some(label) = &want.label {
                each(value, |key, value| {
                    if key == label.as_bytes() {
                        object.label = Some(text(value));
                    }
                });
            }
        }
        b"annotations" => {
            object.annotations = value.len() as u64;
            each(value, |key, value| {
                if key == b"kubectl.kubernetes.io/last-applied-configuration" {
                    object.last_applied = text(value).len() as u64;
                }
            });
        }
        b"ownerReferences" if want.owners => {
            for entry in items(value) {
                let mut owner = OwnerRef::default();
                each(entry, |key, value| match key {
                    b"kind" => owner.kind = text(value),
                    b"name" => owner.name = text(value),
                    b"uid" => owner.uid = text(value),
                    // The simple value 21 is true.
                    b"controller" => owner.controller = value == [0xf5],
                    _ => {}
                });
                object.owners.push(owner);
            }
        }
        b"managedFields" => {
            object.managed_fields = value.len() as u64;
            for entry in items(value).into_iter().filter(|_| want.managers || want.time) {
                let mut manager = Cow::Borrowed("");
                each(entry, |key, value| match key {
                    b"manager" => manager = text(value),
                    b"time" if want.time => later(&mut object.written, parse_time(&text(value))),
                    _ => {}
                });
                if want.managers {
                    object.managers.push((manager, entry.len() as u64));
                }
            }
        }
        _ => {}
    });
}

/// The head of an item: its major type, its argument (0 where its length is open), and how that is written (31: open).
pub(super) struct Head {
    pub major: u8,
    pub argument: u64,
    pub info: u8,
}

/// The head of the first item, and what follows.
pub(super) fn read_head(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let info = first & 31;
    let (argument, rest) = match info {
        0..24 => (u64::from(info), rest),
        24..28 => {
            let (number, rest) = rest.split_at_checked(1 << (info - 24))?;
            (number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest)
        }
        31 => (0, rest),
        _ => return None,
    };
    Some((Head { major: first >> 5, argument, info }, rest))
}

/// The same as kind and number (`None` where the length is open).
fn head(bytes: &[u8]) -> Option<(u8, Option<u64>, &[u8])> {
    let (Head { major, argument, info }, rest) = read_head(bytes)?;
    Some((major, (info != 31).then_some(argument), rest))
}

/// The first item of `bytes`, and what follows.
fn item(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = skip(bytes, 0)?;
    Some((&bytes[..bytes.len() - rest.len()], rest))
}

/// What follows the first item.
fn skip(bytes: &[u8], depth: usize) -> Option<&[u8]> {
    if depth > DEEPEST {
        return None;
    }
    let (kind, number, mut rest) = head(bytes)?;
    match (kind, number) {
        (0 | 1 | 7, Some(_)) => Some(rest),
        (2 | 3, Some(length)) => rest.get(usize::try_from(length).ok()?..),
        (6, Some(_)) => skip(rest, depth + 1),
        (4 | 5, Some(count)) => {
            // A count that the bytes can't hold ends at their end.
            for _ in 0..count.checked_mul(u64::from(kind - 3))? {
                rest = skip(rest, depth + 1)?;
            }
            Some(rest)
        }
        (2..=5, None) => {
            while *rest.first()? != 0xff {
                rest = skip(rest, depth + 1)?;
            }
            rest.get(1..)
        }
        _ => None,
    }
}

/// An item without its tags.
fn untagged(mut bytes: &[u8]) -> &[u8] {
    while let Some((6, Some(_), rest)) = head(bytes) {
        bytes = rest;
    }
    bytes
}

/// The entries of a map, each with its key's bytes; `None` where it is damaged or no map.
fn each<'v>(map: &'v [u8], mut take: impl FnMut(&'v [u8], &'v [u8])) -> Option<()> {
    let (5, count, mut rest) = head(untagged(map))? else { return None };
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 && !rest.is_empty() && (count.is_some() || rest[0] != 0xff) {
        let (key, behind) = item(rest)?;
        let (value, behind) = item(behind)?;
        take(string(key).unwrap_or_default(), value);
        (rest, left) = (behind, left - 1);
    }
    (count.is_none() || left == 0).then_some(())
}

/// The entries of an array.
fn items(array: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let Some((4, count, mut rest)) = head(untagged(array)) else { return found };
    while count.is_none_or(|count| (found.len() as u64) < count)
        && let Some((entry, behind)) = item(rest)
    {
        found.push(entry);
        rest = behind;
    }
    found
}

/// The bytes of a string of known length.
fn string(item: &[u8]) -> Option<&[u8]> {
    match head(untagged(item))? {
        (2 | 3, Some(length), rest) => rest.get(..usize::try_from(length).ok()?),
        _ => None,
    }
}

fn text(item: &[u8]) -> Cow<'_, str> {
    string(item).map_or(Cow::Borrowed(""), String::from_utf8_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(text: &str) -> Vec<u8> {
        let mut bytes = vec![0x58, text.len() as u8];
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0xa0 + entries.len() as u8];
        entries.iter().for_each(|(key, value)| bytes.extend([s(key), value.clone()].concat()));
        bytes
    }

    #[test]
    fn an_object_is_read_and_a_cut_one_is_damaged() {
        let owner = map(&[("kind", s("App")), ("name", s("web")), ("uid", s("u-1")), ("controller", vec![0xf5])]);
        let field = map(&[("manager", s("kubectl")), ("time", s("2026-01-02T03:04:05Z"))]);
        let metadata = map(&[
            ("uid", s("u-2")),
            ("labels", map(&[("app", s("web"))])),
            ("ownerReferences", [vec![0x81], owner].concat()),
            ("managedFields", [vec![0x9f], field.clone(), vec![0xff]].concat()),
        ]);
        let value = [
            vec![0xd9, 0xd9, 0xf7],
            map(&[("kind", s("Widget")), ("metadata", metadata), ("spec", vec![0x1b, 1, 2, 3, 4, 5, 6, 7, 8])]),
        ]
        .concat();
        let want = Want { owners: true, managers: true, label: Some("app".to_owned()), time: true };
        let object = look(&value, &want).unwrap();
        assert_eq!((&*object.kind, &*object.uid, object.label.as_deref()), ("Widget", "u-2", Some("web")));
        assert_eq!((&*object.owners[0].name, object.owners[0].controller), ("web", true));
        assert_eq!(object.managers, [(Cow::Borrowed("kubectl"), field.len() as u64)]);
        assert_eq!((object.managed_fields, object.written), (field.len() as u64 + 2, Some(1_767_323_045)));
        for cut in 3..value.len() {
            assert_eq!(look(&value[..cut], &want), None, "{cut}");
        }
        assert_eq!(look(&[0xd9, 0xd9, 0xf7, 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &want), None);
        assert_eq!(look(&[0x9f; 10_000], &want), None);
    }
}
