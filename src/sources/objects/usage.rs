//! What pods use, as metrics.k8s.io shows it: PodMetrics in files, or from a live cluster.

use super::read::not;
use crate::model::objects::Amounts;
use crate::model::problem::Problem;
use crate::model::quantity::{Quantity, QuantityError};
use crate::model::time::{Micros, parse_any};
use crate::sources::arguments::expand;
use crate::sources::content::Content;
use crate::sources::open::{Place, recognise};
use crate::sources::pages::time_in;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Where a live cluster has it.
pub const PATH: &str = "/apis/metrics.k8s.io/v1beta1/pods";
/// Bytes of a file that are read.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// How much of a file is looked at.
const HEAD: u64 = 4 << 10;

/// Usage by namespace and resource at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodUsage {
    /// When: the latest time that a pod's usage was taken.
    pub at: Micros,
    pub by_namespace: BTreeMap<String, Amounts>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Option<Vec<Pod>>,
}

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    kind: String,
    metadata: Meta,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

/// The usage in a list of PodMetrics; `None` if it holds none. What is not taken at a time of its own is taken `at`.
pub fn read(bytes: &[u8], at: Micros) -> Result<Option<PodUsage>, Problem> {
    let list: List = serde_json::from_slice(bytes).map_err(|error| not("a PodMetricsList", &error))?;
    let mut usage = PodUsage::default();
    let mut pods = 0;
    for pod in list.items.unwrap_or_default() {
        // A list of mixed kinds names each.
        if !matches!(pod.kind.as_str(), "" | "PodMetrics") {
            continue;
        }
        pods += 1;
        let own = pod.timestamp.as_deref().and_then(parse_any).unwrap_or(at);
        usage.at = usage.at.max(own);
        let amounts = usage.by_namespace.entry(pod.metadata.namespace).or_default();
        for (resource, amount) in pod.containers.into_iter().flat_map(|container| container.usage) {
            let wrong =
                |error: QuantityError| Problem::malformed(error.to_string()).at(format!("{resource}: {amount}"));
            let amount: Quantity = amount.parse().map_err(wrong)?;
            let sum = amounts.entry(resource).or_default();
            *sum = sum.plus(amount);
        }
    }
    Ok((pods > 0).then_some(usage))
}

/// Finds PodMetrics in JSON files among `arguments`, and in folders; with what could not be read.
pub fn find(arguments: &[String]) -> (Vec<PodUsage>, Vec<Problem>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for argument in arguments.iter().filter(|argument| *argument != "-" && !argument.contains("://")) {
        let Ok((files, _)) = expand(argument) else { continue };
        for place in files {
            let Place::File(path) = &place else { continue };
            let Ok(mut source) = recognise(&place) else { continue };
            if !matches!(source.content, Content::Other(_)) {
                continue;
            }
            let mut bytes = Vec::new();
            let head = source.reader().map(|reader| reader.take(HEAD).read_to_end(&mut bytes));
            let has = |bytes: &[u8], words: &[u8]| memchr::memmem::find(bytes, words).is_some();
            if head.is_err() {
                continue;
            }
            // Some write the items of a list before they say what it is.
            if !has(&bytes, b"PodMetrics") && has(&bytes, b"\"items\"") && !has(&bytes, b"apiVersion") {
                bytes.clear();
                let read = source.reader().map(|reader| reader.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
                if read.is_err() {
                    continue;
                }
            }
            if !has(&bytes, b"PodMetrics") {
                continue;
            }
            bytes.clear();
            let at = when(path);
            let taken = source.reader().map_err(Problem::from).and_then(|reader| {
                reader.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
                read(&bytes, at)
            });
            match taken {
                Ok(usage) => found.extend(usage),
                Err(problem) => errors.push(problem.at(&source.path)),
            }
        }
    }
    found.sort_by_key(|usage| usage.at);
    (found, errors)
}

/// When a file was taken: by its name, its folder's, else when it was written.
fn when(path: &Path) -> Micros {
    let names = [path.file_name(), path.parent().and_then(Path::file_name)];
    let named = names.into_iter().flatten().find_map(|name| time_in(&name.to_string_lossy()));
    let written = || {
        let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Micros::try_from(since.as_micros()).ok()
    };
    named.or_else(written).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_added_by_namespace() {
        let text = br#"{"kind":"PodMetricsList","items":[
            {"metadata":{"name":"a","namespace":"web"},"timestamp":"2026-11-20T09:00:00Z",
             "containers":[{"name":"x","usage":{"cpu":"1500000000n","memory":"1024Ki"}},{"name":"y","usage":{"cpu":"250m","memory":"1Mi"}}]},
            {"metadata":{"name":"b","namespace":"web"},"timestamp":"2026-11-20T09:00:05Z","containers":[{"usage":{"cpu":"1"}}]},
            {"metadata":{"name":"c","namespace":"ads"},"containers":[]}]}"#;
        let usage = read(text, 7).unwrap().unwrap();
        assert_eq!(usage.at, parse_any("2026-11-20T09:00:05Z").unwrap());
        let value =
            |namespace: &str, resource: &str| usage.by_namespace[namespace].get(resource).map(|amount| amount.value());
        assert_eq!(
            (value("web", "cpu"), value("web", "memory"), value("ads", "cpu")),
            (Some(2.75), Some(2097152.0), None)
        );
        assert_eq!(read(br#"{"kind":"PodMetricsList","items":[]}"#, 7), Ok(None));
        assert!(
            read(br#"{"items":[{"metadata":{},"containers":[{"usage":{"cpu":"x"}}]}]}"#, 7)
                .unwrap_err()
                .to_string()
                .contains("cpu: x")
        );
    }
}
