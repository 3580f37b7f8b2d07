//! FlowSchemas and PriorityLevelConfigurations: found in bundles by what files hold, read from files that are named, or
//! those that kube-apiserver makes itself. All versions of the API group are read: v1, and v1beta1 to v1beta3 with
//! their older names.

use super::read::not;
use crate::model::flowcontrol::{
    Distinguisher, FlowConfig, FlowSchema, Limit, PathRule, PriorityLevel, ResourceRule, Rule, Subject,
};
use crate::model::problem::{Problem, ProblemKind};
use crate::model::time::Micros;
use crate::sources::archive::place;
use crate::sources::arguments::expand;
use crate::sources::belonging::{Belonging, Bundles};
use crate::sources::content::Content;
use crate::sources::objects::{TEMPLATE, head, is_template, whole};
use crate::sources::open::{Place, Source, SourceError, recognise};
use crate::sources::pages::time_in;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read: the objects of a large cluster are some hundred kilobytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// How much of a file is looked at to see whether it holds such objects.
const HEAD: u64 = 256 << 10;

/// The API group, as it stands in `apiVersion`.
const GROUP: &str = "flowcontrol.apiserver.k8s.io/";

/// What Kubernetes takes for `nominalConcurrencyShares` that are not given.
const DEFAULT_SHARES: u32 = 30;

/// A file that does not hold what it should.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// It could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is not JSON or YAML, or an object in it is not as it should be.
    #[error("{path}: {what}; take them with kubectl get flowschemas,prioritylevelconfigurations -o json")]
    Malformed {
        /// The file.
        path: String,
        /// Where and what.
        what: Problem,
    },
    /// Nothing of the kind in what was named.
    #[error(
        "{0}: no FlowSchema and no PriorityLevelConfiguration here; take them with kubectl get \
         flowschemas,prioritylevelconfigurations -o json"
    )]
    Nothing(String),
}

/// What was found for one cluster.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// The cluster, as a bundle names it; else empty.
    pub cluster: String,
    /// The files that the objects come from.
    pub paths: Vec<String>,
    /// The objects.
    pub config: FlowConfig,
}

/// The objects that kube-apiserver 1.36 makes itself.
pub fn built_in() -> Result<FlowConfig, ObjectsError> {
    parse("built-in objects", include_bytes!("flowcontrol.yaml"))
}

/// Finds such objects below the folders among `arguments`: of each cluster those of the latest capture. What can't be
/// read is reported beside.
pub fn find(arguments: &[String]) -> (Vec<Captured>, Vec<ObjectsError>) {
    let mut errors = Vec::new();
    // (cluster, time, folder) → files: a capture is what lies in one folder.
    let mut captures: BTreeMap<(String, Option<Micros>, PathBuf), Captured> = BTreeMap::new();
    let mut bundles = Bundles::default();
    for argument in arguments.iter().filter(|argument| place(Path::new(argument)).is_dir()) {
        // What is wrong with a folder is taken from whoever looks for logs in it.
        let Ok((files, _)) = expand(argument) else { continue };
        for place in files {
            let Ok(mut source) = recognise(&place) else { continue };
            if !matches!(source.content, Content::Other(_)) || !mentions(&mut source) {
                continue;
            }
            match bytes(&mut source).and_then(|bytes| parse(&source.path, &bytes)) {
                Ok(config) if config.is_empty() => {}
                Ok(config) => {
                    let Belonging { cluster, folder, .. } = bundles.belongs(&place, argument, true);
                    let names =
                        folder.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy().into_owned());
                    let file = Path::new(&source.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let at = std::iter::once(file).chain(names).find_map(|name| time_in(&name));
                    let capture = captures.entry((cluster, at, folder)).or_default();
                    add(capture, config, source.path);
                }
                Err(error) => errors.push(error),
            }
        }
    }
    // In the order of time: what comes later takes the place of what came before.
    let mut found: BTreeMap<String, Captured> = BTreeMap::new();
    for ((cluster, ..), capture) in captures {
        let latest = found.entry(cluster.clone()).or_insert_with(|| Captured { cluster, ..Captured::default() });
        let Captured { paths, config: FlowConfig { schemas, levels }, .. } = capture;
        if !schemas.is_empty() && !levels.is_empty() {
            latest.paths.clear();
        }
        latest.paths.extend(paths);
        if !schemas.is_empty() {
            latest.config.schemas = schemas;
        }
        if !levels.is_empty() {
            latest.config.levels = levels;
        }
    }
    (found.into_values().collect(), errors)
}

/// Reads the files and folders that a person names; of several objects with one name the one read last counts.
pub fn read(arguments: &[String]) -> Result<Captured, ObjectsError> {
    let mut all = Captured::default();
    for argument in arguments {
        let (files, from_folder) = expand(argument)?;
        if from_folder {
            let (found, errors) = find(std::slice::from_ref(argument));
            if let Some(error) = errors.into_iter().next() {
                return Err(error);
            }
            if found.is_empty() {
                return Err(ObjectsError::Nothing(argument.clone()));
            }
            for captured in found {
                let Captured { paths, config, .. } = captured;
                merge(&mut all.config, config);
                all.paths.extend(paths);
            }
            continue;
        }
        for place in files {
            let mut source = recognise(&place)?;
            let bytes = bytes(&mut source)?;
            let config = parse(&source.path, &bytes)?;
            if config.is_empty() {
                return Err(ObjectsError::Nothing(source.path));
            }
            add(&mut all, config, source.path);
        }
    }
    Ok(all)
}

fn add(capture: &mut Captured, config: FlowConfig, path: String) {
    merge(&mut capture.config, config);
    capture.paths.push(path);
}

/// Takes in objects; one that has a name which is there already takes its place.
fn merge(into: &mut FlowConfig, from: FlowConfig) {
    for schema in from.schemas {
        into.schemas.retain(|other| other.name != schema.name);
        into.schemas.push(schema);
    }
    for level in from.levels {
        into.levels.retain(|other| other.name != level.name);
        into.levels.push(level);
    }
}

/// Whether the start of a file names the API group.
fn mentions(source: &mut Source) -> bool {
    if !matches!(source.place, Place::File(_)) {
        return false;
    }
    head(source, HEAD).is_some_and(|head| memchr::memmem::find(&head, GROUP.as_bytes()).is_some())
}

fn bytes(source: &mut Source) -> Result<Vec<u8>, ObjectsError> {
    whole(source, MAX_FILE_BYTES)?.ok_or_else(|| ObjectsError::Malformed {
        path: source.path.clone(),
        what: Problem::new(ProblemKind::TooLarge, "longer than 64 MiB"),
    })
}

/// The objects in a file: JSON or YAML, single ones, lists of them, several documents.
fn parse(path: &str, bytes: &[u8]) -> Result<FlowConfig, ObjectsError> {
    let malformed = |what: Problem| ObjectsError::Malformed {
        path: path.to_owned(),
        what: if is_template(bytes, &what.to_string()) { Problem::malformed(TEMPLATE) } else { what },
    };
    let mut config = FlowConfig::default();
    let is_json = bytes.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
    if is_json {
        for (at, document) in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>().enumerate() {
            let document =
                document.map_err(|error| malformed(not("JSON", &error).at(format!("document {}", at + 1))))?;
            take(&document, None, &mut config)
                .map_err(|problem| malformed(problem.at(format!("document {}", at + 1))))?;
        }
    } else {
        for (at, document) in serde_yaml_ng::Deserializer::from_slice(bytes).enumerate() {
            let document = Value::deserialize(document)
                .map_err(|error| malformed(not("YAML", &error).at(format!("document {}", at + 1))))?;
            take(&document, None, &mut config)
                .map_err(|problem| malformed(problem.at(format!("document {}", at + 1))))?;
        }
    }
    Ok(config)
}

/// Takes an object, or the items of a list; others are left alone. Items of a typed list don't say what they are:
/// `kind` does.
fn take(object: &Value, kind: Option<&str>, config: &mut FlowConfig) -> Result<(), Problem> {
    let own = object.get("kind").and_then(Value::as_str);
    let version = object.get("apiVersion").and_then(Value::as_str);
    let kind = own.or(kind).unwrap_or_default();
    if let Some(items) = object.get("items").and_then(Value::as_array) {
        let of = kind.strip_suffix("List").filter(|of| !of.is_empty());
        return items
            .iter()
            .enumerate()
            .try_for_each(|(at, item)| take(item, of, config).map_err(|problem| problem.at(format!("item {at}"))));
    }
    if version.is_some_and(|version| !version.starts_with(GROUP)) {
        return Ok(());
    }
    let named = |problem: Problem| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name");
        problem.at(format!("{kind} {name}"))
    };
    let one = match kind {
        "FlowSchema" => FlowConfig { schemas: vec![schema(object).map_err(named)?], levels: Vec::new() },
        "PriorityLevelConfiguration" => FlowConfig { schemas: Vec::new(), levels: vec![level(object).map_err(named)?] },
        _ => return Ok(()),
    };
    merge(config, one);
    Ok(())
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Object<S> {
    metadata: Meta,
    spec: S,
}

#[derive(Deserialize)]
struct Name {
    name: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaSpec {
    priority_level_configuration: Name,
    matching_precedence: Option<i32>,
    distinguisher_method: Option<Kind>,
    rules: Option<Vec<RawRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    subjects: Option<Vec<RawSubject>>,
    resource_rules: Option<Vec<RawResourceRule>>,
    non_resource_rules: Option<Vec<RawPathRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSubject {
    kind: String,
    user: Option<Name>,
    group: Option<Name>,
    service_account: Option<Name>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawResourceRule {
    verbs: List,
    api_groups: List,
    resources: List,
    cluster_scope: Option<bool>,
    namespaces: List,
}

#[derive(Deserialize)]
struct RawPathRule {
    verbs: List,
    #[serde(rename = "nonResourceURLs")]
    paths: List,
}

/// A list that may be `null`: the apiserver writes those so that were not given.
type List = Option<Vec<String>>;

fn schema(object: &Value) -> Result<FlowSchema, Problem> {
    let Object { metadata, spec } = Object::<SchemaSpec>::deserialize(object)?;
    let distinguisher = match spec.distinguisher_method.as_ref().map(|method| method.kind.as_str()) {
        None | Some("") => None,
        Some("ByUser") => Some(Distinguisher::User),
        Some("ByNamespace") => Some(Distinguisher::Namespace),
        Some(other) => {
            return Err(Problem::malformed(format!(
                "spec.distinguisherMethod.type is '{other}', not ByUser or ByNamespace"
            )));
        }
    };
    let rules = spec.rules.unwrap_or_default().into_iter().map(rule).collect::<Result<_, _>>()?;
    // What the apiserver takes where it is not given.
    let precedence = spec.matching_precedence.unwrap_or(1000);
    Ok(FlowSchema {
        name: metadata.name,
        precedence,
        level: spec.priority_level_configuration.name,
        distinguisher,
        rules,
    })
}

fn rule(raw: RawRule) -> Result<Rule, Problem> {
    let subject = |raw: RawSubject| {
        let lacks = |field: &str| Problem::malformed(format!("a subject of kind {} has no {field}", raw.kind));
        Ok(match raw.kind.as_str() {
            "User" => Subject::User(raw.user.ok_or_else(|| lacks("user"))?.name),
            "Group" => Subject::Group(raw.group.ok_or_else(|| lacks("group"))?.name),
            "ServiceAccount" => {
                let Name { name, namespace } = raw.service_account.ok_or_else(|| lacks("serviceAccount"))?;
                Subject::ServiceAccount { namespace: namespace.unwrap_or_default(), name }
            }
            other => {
                return Err(Problem::malformed(format!(
                    "a subject is of kind '{other}', not User, Group or ServiceAccount"
                )));
            }
        })
    };
    let subjects = raw.subjects.unwrap_or_default().into_iter().map(subject).collect::<Result<_, _>>()?;
    let resource = |raw: RawResourceRule| {
        let RawResourceRule { verbs, api_groups, resources, cluster_scope, namespaces } = raw;
        let [verbs, groups, resources, namespaces] =
            [verbs, api_groups, resources, namespaces].map(Option::unwrap_or_default);
        ResourceRule { verbs, groups, resources, cluster_scope: cluster_scope.unwrap_or(false), namespaces }
    };
    let path =
        |RawPathRule { verbs, paths }| PathRule { verbs: verbs.unwrap_or_default(), paths: paths.unwrap_or_default() };
    Ok(Rule {
        subjects,
        resources: raw.resource_rules.unwrap_or_default().into_iter().map(resource).collect(),
        paths: raw.non_resource_rules.unwrap_or_default().into_iter().map(path).collect(),
    })
}

#[derive(Deserialize)]
struct LevelSpec {
    #[serde(rename = "type")]
    kind: String,
    limited: Option<RawLimited>,
    exempt: Option<RawLimited>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawLimited {
    nominal_concurrency_shares: Option<u32>,
    /// Its name up to v1beta2.
    assured_concurrency_shares: Option<u32>,
    lendable_percent: Option<u32>,
    borrowing_limit_percent: Option<u32>,
    limit_response: Option<RawResponse>,
}

#[derive(Deserialize)]
struct RawResponse {
    #[serde(rename = "type")]
    kind: String,
    queuing: Option<RawQueuing>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawQueuing {
    queues: Option<u32>,
    hand_size: Option<u32>,
    queue_length_limit: Option<u32>,
}

fn level(object: &Value) -> Result<PriorityLevel, Problem> {
    let Object { metadata, spec } = Object::<LevelSpec>::deserialize(object)?;
    let (limited, is_exempt) = match spec.kind.as_str() {
        "Exempt" => (spec.exempt.unwrap_or_default(), true),
        "Limited" => (spec.limited.unwrap_or_default(), false),
        other => return Err(Problem::malformed(format!("spec.type is '{other}', not Limited or Exempt"))),
    };
    let limit = match limited.limit_response.as_ref().map(|response| response.kind.as_str()) {
        _ if is_exempt => Limit::Exempt,
        Some("Queue") => {
            // The apiserver's defaults for what is not given.
            let RawQueuing { queues, hand_size, queue_length_limit } =
                limited.limit_response.and_then(|response| response.queuing).unwrap_or_default();
            let (queues, hand_size) = (queues.unwrap_or(64), hand_size.unwrap_or(8));
            if queues == 0 || hand_size == 0 || hand_size > queues || queues > 1 << 20 {
                return Err(Problem::malformed(format!("{queues} queues and handSize {hand_size} are not possible")));
            }
            Limit::Queue { queues, hand_size, queue_length_limit: queue_length_limit.unwrap_or(50) }
        }
        Some("Reject") | None => Limit::Reject,
        Some(other) => return Err(Problem::malformed(format!("limitResponse.type is '{other}', not Queue or Reject"))),
    };
    // v1beta3 can't distinguish 0 from nothing but by this annotation.
    let zero = metadata
        .annotations
        .is_some_and(|all| all.contains_key("flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"));
    let default = if is_exempt || zero { 0 } else { DEFAULT_SHARES };
    Ok(PriorityLevel {
        name: metadata.name,
        shares: limited.nominal_concurrency_shares.or(limited.assured_concurrency_shares).unwrap_or(default),
        lendable_percent: limited.lendable_percent.unwrap_or(0).min(100),
        borrowing_limit_percent: limited.borrowing_limit_percent,
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_objects_are_whole() {
        let config = built_in().unwrap();
        assert_eq!((config.schemas.len(), config.levels.len()), (11, 8));
        assert_eq!(config.levels.iter().map(|level| level.shares).sum::<u32>(), 245);
    }

    #[test]
    fn older_versions_and_defaults() {
        let text = "
apiVersion: v1
kind: List
items:
  - apiVersion: flowcontrol.apiserver.k8s.io/v1beta1
    kind: PriorityLevelConfiguration
    metadata: { name: old }
    spec: { type: Limited, limited: { assuredConcurrencyShares: 7, limitResponse: { type: Queue, queuing: { queues: \
    3, handSize: 2 } } } }
  - { apiVersion: v1, kind: Pod, metadata: { name: x } }
---
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: PriorityLevelConfiguration
metadata: { name: zero, annotations: { flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: '' } }
spec: { type: Limited, limited: { limitResponse: { type: Reject } } }
---
kind: FlowSchemaList
apiVersion: flowcontrol.apiserver.k8s.io/v1
items:
  - metadata: { name: a, annotations: null }
    spec:
      priorityLevelConfiguration: { name: old }
      distinguisherMethod: null
      rules: [{ subjects: null, resourceRules: [{ verbs: [get], apiGroups: null, namespaces: null }], \
      nonResourceRules: null }]
";
        let config = parse("x", text.as_bytes()).unwrap();
        let queue = Limit::Queue { queues: 3, hand_size: 2, queue_length_limit: 50 };
        let levels: Vec<_> =
            config.levels.iter().map(|level| (level.name.as_str(), level.shares, level.limit)).collect();
        assert_eq!(levels, [("old", 7, queue), ("zero", 0, Limit::Reject)]);
        assert_eq!((config.schemas[0].precedence, config.schemas[0].level.as_str()), (1000, "old"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, message) in [
            (r#"{"kind":"FlowSchema""#, "document 1: not JSON"),
            ("a: [", "document 1: not YAML"),
            (
                r#"{"items":[{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"x"},"spec":{"priorityLevelConfiguration":{"name":"y"},"rules":[{"subjects":[{"kind":"Robot"}]}]}}]}"#,
                "item 0: FlowSchema x: a subject is of kind 'Robot'",
            ),
            (
                r#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":"x"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":2,"handSize":3}}}}}"#,
                "2 queues and handSize 3",
            ),
        ] {
            let error = parse("file", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("file: ") && error.contains(message), "{error}");
        }
    }
}
