//! Kubernetes objects in files: JSON or YAML, single ones, lists of them, several documents.

use crate::model::objects::Objects;
use crate::model::problem::Problem;
use crate::sources::objects::{kinds, old};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Display;

/// A document: an object, or a list of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// That something is not what it should be.
pub(super) fn not(form: &str, error: &dyn Display) -> Problem {
    Problem::malformed(format!("not {form}: {error}"))
}

/// Takes all objects of a file into `objects`; how many there were. Items of a typed list don't say what they are: the
/// list does.
pub fn objects(bytes: &[u8], objects: &mut Objects) -> Result<u64, Problem> {
    let is_json = bytes.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
    let mut taken = 0;
    if is_json {
        for (at, document) in serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>().enumerate() {
            let document = document.map_err(|error| not("JSON", &error).at(format!("document {}", at + 1)))?;
            taken += take(document, ("", ""), objects).map_err(|problem| problem.at(format!("document {}", at + 1)))?;
        }
        return Ok(taken);
    }
    for (at, document) in serde_yaml_ng::Deserializer::from_slice(bytes).enumerate() {
        let wrong = |error: &dyn Display| not("YAML", error).at(format!("document {}", at + 1));
        let document = serde_json::Value::deserialize(document).map_err(|error| wrong(&error))?;
        if document.is_null() {
            continue;
        }
        let document = serde_json::value::to_raw_value(&document).map_err(|error| wrong(&error))?;
        taken += take(&document, ("", ""), objects).map_err(|problem| problem.at(format!("document {}", at + 1)))?;
    }
    Ok(taken)
}

/// Whether it is a list of objects as an apiserver answers it, in whatever order its fields stand.
pub fn is_list(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Document<'_>>(bytes).is_ok_and(|document| {
        let is_named = document.kind.is_some_and(|kind| kind.ends_with("List")) && document.api_version.is_some();
        is_named && document.items.is_some()
    })
}

/// A page of a list as an apiserver answers it: takes its objects, and gives the token of the next page.
pub fn page(bytes: &[u8], objects: &mut Objects) -> Result<Option<String>, Problem> {
    let document: &RawValue = serde_json::from_slice(bytes).map_err(|error| not("JSON", &error))?;
    take(document, ("", ""), objects)?;
    let document: Document<'_> = serde_json::from_str(document.get())?;
    Ok(document.metadata.next.filter(|next| !next.is_empty()))
}

fn take(json: &RawValue, of: (&str, &str), objects: &mut Objects) -> Result<u64, Problem> {
    if json.get().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json.get())?;
        return each(&items, of, objects);
    }
    let document: Document<'_> =
        serde_json::from_str(json.get()).map_err(|error| not("a Kubernetes object", &error))?;
    let kind = document.kind.as_deref().unwrap_or(of.0);
    let version = document.api_version.as_deref().unwrap_or(of.1);
    if let Some(items) = document.items {
        // An empty list is `null` in what the apiserver writes.
        let items: Option<Vec<&RawValue>> = serde_json::from_str(items.get())?;
        let kind = kind.strip_suffix("List").unwrap_or_default();
        if !kind.is_empty() {
            objects.kinds.insert(kind.to_owned());
        }
        return each(&items.unwrap_or_default(), (kind, version), objects);
    }
    if kind.is_empty() {
        return Err(Problem::malformed("not a Kubernetes object: it has no kind"));
    }
    old::note(kind, version, json, objects);
    kinds::take(kind, version, json, objects)?;
    Ok(1)
}

fn each(items: &[&RawValue], of: (&str, &str), objects: &mut Objects) -> Result<u64, Problem> {
    let mut taken = 0;
    for (at, item) in items.iter().enumerate() {
        taken += take(item, of, objects).map_err(|problem| problem.at(format!("item {}", at + 1)))?;
    }
    Ok(taken)
}
