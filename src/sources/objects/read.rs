//! Kubernetes objects in files: JSON or YAML, single ones, lists of them, several documents.

use crate::model::objects::Objects;
use crate::model::problem::Problem;
use crate::model::units::counted;
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

/// What came of a file or a page.
#[derive(Debug, Default)]
pub struct Taken {
    /// Objects.
    pub objects: u64,
    /// Items of lists, and documents, that could not be taken, as one whose amount is not a quantity; the others were.
    pub skipped: Vec<Problem>,
    /// Why the file was not read to its end.
    pub broken: Option<Problem>,
    /// Whether it is a page, behind which the next one is asked for.
    is_page: bool,
}

impl Taken {
    /// Takes a document.
    fn document(&mut self, document: &RawValue, objects: &mut Objects, place: String) {
        if let Err(problem) = take(document, ("", ""), objects, self) {
            self.skipped.push(problem.at(place));
        }
    }

    /// Nothing where all was taken.
    pub fn whole(mut self) -> Result<(), Problem> {
        self.broken.take().or_else(|| self.problem()).map_or(Ok(()), Err)
    }

    /// What is wrong with those that were not taken, if any: the first, and how many more there are.
    pub fn problem(mut self) -> Option<Problem> {
        let more = self.skipped.len().checked_sub(1)?;
        let mut first = self.skipped.swap_remove(0);
        if more > 0 {
            first.what = format!("{}; and {} more like it", first.what, counted(more as u64, "item")).into();
        }
        Some(first)
    }
}

/// Takes all objects of a file into `objects`. Items of a typed list don't say what they are: the list does.
pub fn objects(bytes: &[u8], objects: &mut Objects) -> Taken {
    let mut taken = Taken::default();
    taken.broken = documents(bytes, objects, &mut taken).err();
    taken
}

fn documents(bytes: &[u8], objects: &mut Objects, taken: &mut Taken) -> Result<(), Problem> {
    let is_json = bytes.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
    if is_json {
        for (at, document) in serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>().enumerate() {
            let document = document.map_err(|error| not("JSON", &error).at(format!("document {}", at + 1)))?;
            let place = format!("document {}", at + 1);
            taken.document(document, objects, place);
        }
        return Ok(());
    }
    for (at, document) in serde_yaml_ng::Deserializer::from_slice(bytes).enumerate() {
        let wrong = |error: &dyn Display| not("YAML", error).at(format!("document {}", at + 1));
        let document = serde_json::Value::deserialize(document).map_err(|error| wrong(&error))?;
        if document.is_null() {
            continue;
        }
        let document = serde_json::value::to_raw_value(&document).map_err(|error| wrong(&error))?;
        let place = format!("document {}", at + 1);
        taken.document(&document, objects, place);
    }
    Ok(())
}

/// Whether it is a list of objects as an apiserver answers it, in whatever order its fields stand.
pub fn is_list(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Document<'_>>(bytes).is_ok_and(|document| {
        let is_named = document.kind.is_some_and(|kind| kind.ends_with("List")) && document.api_version.is_some();
        is_named && document.items.is_some()
    })
}

/// A page of a list as an apiserver answers it: takes its objects, and gives the token of the next page.
pub fn page(bytes: &[u8], objects: &mut Objects) -> Result<(Option<String>, Taken), Problem> {
    let document: &RawValue = serde_json::from_slice(bytes).map_err(|error| not("JSON", &error))?;
    let mut taken = Taken { is_page: true, ..Taken::default() };
    let of: Document<'_> =
        serde_json::from_str(document.get()).map_err(|error| not("a list of Kubernetes objects", &error))?;
    let kind = of.kind.as_deref().unwrap_or_default();
    if of.items.is_none() && !kind.ends_with("List") {
        // Gateways answer so where the login has ended; an empty list may have `null`.
        return Err(Problem::malformed(format!("not a list of objects, but of kind {kind}")));
    }
    take(document, ("", ""), objects, &mut taken)?;
    let document = of;
    Ok((document.metadata.next.filter(|next| !next.is_empty()), taken))
}

fn take(json: &RawValue, of: (&str, &str), objects: &mut Objects, taken: &mut Taken) -> Result<(), Problem> {
    if json.get().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json.get())?;
        each(&items, of, objects, taken);
        return Ok(());
    }
    let document: Document<'_> =
        serde_json::from_str(json.get()).map_err(|error| not("a Kubernetes object", &error))?;
    let kind = document.kind.as_deref().unwrap_or(of.0);
    let version = document.api_version.as_deref().unwrap_or(of.1);
    if let Some(items) = document.items {
        if !taken.is_page && document.metadata.next.is_some_and(|next| !next.is_empty()) {
            let what = "a part of a list: it goes on with a page that is not in this file (metadata.continue)";
            taken.skipped.push(Problem::malformed(what));
        }
        // An empty list is `null` in what the apiserver writes.
        let items: Option<Vec<&RawValue>> = serde_json::from_str(items.get())?;
        let kind = kind.strip_suffix("List").unwrap_or_default();
        if !kind.is_empty() {
            objects.kinds.insert(kind.to_owned());
        }
        each(&items.unwrap_or_default(), (kind, version), objects, taken);
        return Ok(());
    }
    if kind.is_empty() {
        return Err(Problem::malformed("not a Kubernetes object: it has no kind"));
    }
    old::note(kind, version, json, objects);
    kinds::take(kind, version, json, objects)?;
    taken.objects += 1;
    Ok(())
}

fn each(items: &[&RawValue], of: (&str, &str), objects: &mut Objects, taken: &mut Taken) {
    for (at, item) in items.iter().enumerate() {
        if let Err(problem) = take(item, of, objects, taken) {
            taken.skipped.push(problem.at(format!("item {}", at + 1)));
        }
    }
}
