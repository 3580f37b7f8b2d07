//! CustomResourceDefinitions: apiservers still store them as v1beta1, and no longer take that.
//! (Source: apiextensions-apiserver pkg/apis/apiextensions/v1/conversion.go and v1beta1/conversion.go.)

use super::{Object, text};
use serde_json::{Value, json};

/// Makes a v1 definition of a v1beta1 one; says what was changed beyond that.
pub(super) fn to_v1(object: &mut Object, comments: &mut Vec<String>) {
    if text(object, &["apiVersion"]) != Some("apiextensions.k8s.io/v1beta1") {
        return;
    }
    object.insert("apiVersion".to_owned(), json!("apiextensions.k8s.io/v1"));
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let name = spec.shift_remove("version");
    // What is the same for all versions stands once in v1beta1, and in each in v1.
    let common = ["validation", "subresources", "additionalPrinterColumns", "selectableFields"]
        .map(|part| (part, spec.shift_remove(part)));
    let preserves = spec.shift_remove("preserveUnknownFields") != Some(json!(false));
    if let (None | Some(Value::Null), Some(name)) = (spec.get("versions"), name) {
        spec.insert("versions".to_owned(), json!([{"name": name, "served": true, "storage": true}]));
    }
    let mut opened = false;
    for version in
        spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
    {
        for (part, value) in &common {
            let part = if *part == "validation" { "schema" } else { part };
            if let Some(value) = value
                && !version.contains_key(part)
            {
                version.insert(part.to_owned(), value.clone());
            }
        }
        for column in version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(column) = column.as_object_mut()
                && let Some(path) = column.shift_remove("JSONPath")
            {
                column.insert("jsonPath".to_owned(), path);
            }
        }
        let has_schema = version.get("schema").is_some_and(|schema| schema.get("openAPIV3Schema").is_some());
        if !has_schema {
            version.insert("schema".to_owned(), json!({"openAPIV3Schema": {"type": "object"}}));
        }
        if (preserves || !has_schema)
            && let Some(root) = version
                .get_mut("schema")
                .and_then(|schema| schema.get_mut("openAPIV3Schema"))
                .and_then(Value::as_object_mut)
        {
            root.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
            root.entry("type").or_insert(json!("object"));
            opened = true;
        }
    }
    if opened {
        comments.push(
            "Its schema preserves unknown fields, as the stored definition did: v1 requires a schema.".to_owned(),
        );
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let client = conversion.shift_remove("webhookClientConfig");
        let versions = conversion.shift_remove("conversionReviewVersions");
        if let Some(client) = client {
            conversion
                .insert("webhook".to_owned(), json!({"clientConfig": client, "conversionReviewVersions": versions}));
        }
    }
}
