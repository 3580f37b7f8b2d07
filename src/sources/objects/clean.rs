//! Pages of lists as they may be kept: without what may be a secret, and without what shows nothing here and is long.

use super::read::not;
use crate::model::problem::Problem;
use serde_json::{Map, Value};

/// Where containers stand.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// What of a container may hold passwords and tokens.
const OF_CONTAINERS: [&str; 7] =
    ["env", "command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
/// The whole object once more, as `kubectl apply` keeps it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its JSON, cleaned.
    pub text: Vec<u8>,
    pub objects: u64,
    /// The token of the next page.
    pub next: Option<String>,
}

impl Page {
    /// Its JSON, with the token of the next page, which is not there: whoever reads it knows that the list goes on.
    pub fn in_part(&self) -> Vec<u8> {
        let document = serde_json::from_slice::<Value>(&self.text).ok();
        let with_token = document.and_then(|mut document| {
            let metadata = document.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            metadata.as_object_mut()?.insert("continue".to_owned(), self.next.clone()?.into());
            serde_json::to_vec(&document).ok()
        });
        with_token.unwrap_or_else(|| self.text.clone())
    }
}

/// Cleans a page as an apiserver answers it.
///
/// Left out are variables, commands, arguments and probes of containers, what `kubectl apply` wrote last, the fields
/// that `managedFields` lists (who manages them stays), and CA bundles.
pub fn page(bytes: &[u8]) -> Result<Page, Problem> {
    let mut document: Value = serde_json::from_slice(bytes).map_err(|error| not("JSON", &error))?;
    let objects = match document.get("items") {
        Some(Value::Array(items)) => items.len() as u64,
        // An empty list is `null` in what the apiserver writes.
        Some(Value::Null) => 0,
        _ => return Err(Problem::malformed("not a list of objects")),
    };
    let next = document
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.shift_remove("continue"));
    let next = next.and_then(|next| next.as_str().map(str::to_owned)).filter(|next| !next.is_empty());
    clean(&mut document);
    let text = serde_json::to_vec(&document)?;
    Ok(Page { text, objects, next })
}

fn clean(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(members) => {
            if let Some(annotations) = members.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.shift_remove(LAST_APPLIED);
            }
            for manager in members.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
                manager.as_object_mut().and_then(|manager| manager.shift_remove("fieldsV1"));
            }
            members.shift_remove("caBundle");
            for name in CONTAINERS {
                for container in members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(container) = container.as_object_mut() {
                        OF_CONTAINERS.iter().for_each(|part| drop(container.shift_remove(*part)));
                    }
                }
            }
            members.values_mut().for_each(clean);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_behind() {
        let pod = r#"{"metadata":{"name":"p","annotations":{"team":"a","kubectl.kubernetes.io/last-applied-configuration":"hush"},
            "managedFields":[{"manager":"kubectl","fieldsV1":{"f:hush":{}}}]},
            "spec":{"containers":[{"name":"c","image":"i","env":[{"name":"P","value":"hush"}],"args":["--token=hush"],"command":["hush"],
              "livenessProbe":{"exec":{"command":["hush"]}},"lifecycle":{"preStop":{"exec":{"command":["hush"]}}},"resources":{"requests":{"cpu":"1"}}}],
             "initContainers":[{"name":"d","env":[{"value":"hush"}]}],"ephemeralContainers":[{"name":"e","args":["hush"]}]}}"#;
        let deployment = format!(r#"{{"spec":{{"template":{pod}}}}}"#);
        let list = format!(
            r#"{{"kind":"List","metadata":{{"resourceVersion":"7","continue":"abc"}},"items":[{pod},{deployment},{{"webhooks":[{{"clientConfig":{{"caBundle":"hush"}}}}]}}]}}"#
        );
        let page = page(list.as_bytes()).unwrap();
        let text = String::from_utf8(page.text).unwrap();
        assert!(!text.contains("hush"), "{text}");
        assert_eq!((page.objects, page.next.as_deref()), (3, Some("abc")));
        for kept in [
            r#""team":"a""#,
            r#""manager":"kubectl""#,
            r#""requests":{"cpu":"1"}"#,
            r#""image":"i""#,
            r#""resourceVersion":"7""#,
        ] {
            assert_eq!(
                text.matches(kept).count(),
                if kept.contains("resourceVersion") { 1 } else { 2 },
                "{kept}: {text}"
            );
        }
    }

    #[test]
    fn what_is_no_list_is_told() {
        assert_eq!(page(br#"{"kind":"PodList","items":null}"#).unwrap().objects, 0);
        assert!(page(br#"{"kind":"Status"}"#).unwrap_err().to_string().contains("not a list"));
        assert!(page(b"<html>").unwrap_err().to_string().contains("not JSON"));
    }
}
