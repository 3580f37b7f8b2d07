//! From the objects of a snapshot to documents that can be applied: selection, clean-up and order. (Source: Kubernetes'
//! garbage collector, controllers, and the validation of each kind.)

mod clean;
mod definition;
mod living;
mod order;

pub use living::Living;

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// An object as JSON.
pub type Object = Map<String, Value>;

/// An object that may be extracted.
#[derive(Debug)]
pub struct Candidate {
    /// Its key in etcd.
    pub key: String,
    /// How much of the key stands before the resource: `/registry/`.
    pub root: usize,
    /// Its API group, by its key.
    pub group: String,
    /// Its resource, in the plural.
    pub resource: String,
    pub object: Object,
}

/// What to extract of the candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Also what controllers and the control plane make again.
    pub all: bool,
    /// Also Secrets.
    pub secrets: bool,
}

/// Why an object is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Its controller is in the output too, or lives.
    Controlled,
    /// A Job or Pod that has ended: to apply it would run it again.
    Finished,
    /// The control plane makes it.
    ControlPlane,
    /// Not an object of the API.
    Internal,
    /// A Secret, and those are not wanted.
    Secret,
}

impl Reason {
    /// In words, behind a count of objects.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Controlled => {
                "created by a controller that is extracted or still exists, and that creates them again (--all \
                 includes them)"
            }
            Self::Finished => "completed Jobs and Pods, which would run again (--all includes them)",
            Self::ControlPlane => "created by the control plane or by kubelets (--all includes them)",
            Self::Internal => "the apiserver's internal records, which can't be applied",
            Self::Secret => "Secrets (--include-secrets includes them)",
        }
    }
}

/// A document of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What whoever applies it should know, a line each.
    pub comments: Vec<String>,
    pub object: Object,
}

/// What came of the candidates.
#[derive(Debug, Default, PartialEq)]
pub struct Extracted {
    /// The documents, in the order in which they can be applied.
    pub documents: Vec<Document>,
    /// What is left out: `KIND NAMESPACE/NAME`.
    pub left_out: BTreeMap<Reason, Vec<String>>,
    /// What must be there before the documents can be applied.
    pub needed: BTreeSet<String>,
}

/// Makes documents of candidates. `now` is the cluster as it is since then; without it nothing is known of it.
pub fn select(candidates: Vec<Candidate>, options: Options, now: Option<&Living>) -> Extracted {
    let uids: HashSet<String> =
        candidates.iter().filter_map(|one| text(&one.object, &["metadata", "uid"])).map(str::to_owned).collect();
    let mut done = Extracted::default();
    let mut taken = Vec::new();
    for candidate in candidates {
        match reason(&candidate, options, &uids, now) {
            Some(reason) => done.left_out.entry(reason).or_default().push(name_of(&candidate.object)),
            None => taken.push(candidate),
        }
    }
    for names in done.left_out.values_mut() {
        names.sort();
    }
    let keys: HashSet<String> = taken.iter().map(|one| one.key.clone()).collect();
    let around = Around { keys: &keys, now };
    for candidate in &taken {
        needs(candidate, &around, &mut done.needed);
    }
    taken.sort_by_cached_key(|one| (order::rank(&one.group, &one.resource), one.key.clone()));
    done.documents = taken.into_iter().map(|candidate| clean::document(candidate, &around)).collect();
    done
}

/// What else there is: in the output, and in the cluster now.
struct Around<'a> {
    keys: &'a HashSet<String>,
    now: Option<&'a Living>,
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    InOutput,
    Lives,
    Gone,
    Unknown,
}

impl Around<'_> {
    /// Whether the object with this key, below the root of `of`, is there.
    fn has(&self, of: &Candidate, below: &str) -> There {
        let key = format!("{}{below}", of.key.get(..of.root).unwrap_or_default());
        if self.keys.contains(&key) {
            return There::InOutput;
        }
        match self.now {
            Some(now) if now.has_key(&key) => There::Lives,
            Some(_) => There::Gone,
            None => There::Unknown,
        }
    }

    fn lives(&self, uid: &str) -> bool {
        self.now.is_some_and(|now| now.has_uid(uid))
    }
}

/// Why a candidate is left out; `None` to take it.
fn reason(candidate: &Candidate, options: Options, uids: &HashSet<String>, now: Option<&Living>) -> Option<Reason> {
    let object = &candidate.object;
    let kind = text(object, &["kind"]).unwrap_or_default();
    if candidate.resource == "masterleases" || candidate.resource == "peerserverleases" || kind == "RangeAllocation" {
        return Some(Reason::Internal);
    }
    let is_secret = candidate.group.is_empty() && candidate.resource == "secrets" || kind == "Secret";
    if is_secret && !options.secrets {
        return Some(Reason::Secret);
    }
    if options.all {
        return None;
    }
    let controlled =
        controller(object).is_some_and(|uid| uids.contains(uid) || now.is_some_and(|now| now.has_uid(uid)));
    if controlled {
        return Some(Reason::Controlled);
    }
    if is_finished(candidate) {
        return Some(Reason::Finished);
    }
    is_made_by_the_control_plane(candidate).then_some(Reason::ControlPlane)
}

fn controller(object: &Object) -> Option<&str> {
    let owners = at(object, &["metadata", "ownerReferences"])?.as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).and_then(|owner| owner["uid"].as_str())
}

fn is_finished(candidate: &Candidate) -> bool {
    let object = &candidate.object;
    match (candidate.group.as_str(), candidate.resource.as_str()) {
        ("", "pods") => matches!(text(object, &["status", "phase"]), Some("Succeeded" | "Failed")),
        ("batch", "jobs") => is_finished_job(object),
        _ => false,
    }
}

fn is_finished_job(object: &Object) -> bool {
    let ended = |one: &Value| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True";
    at(object, &["status", "conditions"])
        .and_then(Value::as_array)
        .is_some_and(|conditions| conditions.iter().any(ended))
}

fn is_made_by_the_control_plane(candidate: &Candidate) -> bool {
    let object = &candidate.object;
    let name = text(object, &["metadata", "name"]).unwrap_or_default();
    let annotated = |name: &str| at(object, &["metadata", "annotations", name]).is_some();
    match (candidate.group.as_str(), candidate.resource.as_str()) {
        ("", "events") | ("events.k8s.io", "events") => true,
        ("coordination.k8s.io", "leases" | "leasecandidates") => true,
        ("storage.k8s.io", "volumeattachments" | "csinodes" | "csistoragecapacities") => true,
        ("networking.k8s.io", "ipaddresses") => true,
        ("internal.apiserver.k8s.io", _) | ("", "componentstatuses") => true,
        ("apiregistration.k8s.io", "apiservices") => {
            at(object, &["metadata", "labels", "kube-aggregator.kubernetes.io/automanaged"]).is_some()
        }
        ("", "endpoints") => annotated("endpoints.kubernetes.io/last-change-trigger-time"),
        ("discovery.k8s.io", "endpointslices") => {
            at(object, &["metadata", "labels", "endpointslice.kubernetes.io/managed-by"])
                .and_then(Value::as_str)
                .is_some_and(|by| by.ends_with(".k8s.io"))
        }
        ("", "configmaps") => name == "kube-root-ca.crt",
        ("", "serviceaccounts") => {
            name == "default" && at(object, &["imagePullSecrets"]).is_none() && !has_own_marks(object)
        }
        ("", "pods") => annotated("kubernetes.io/config.mirror"),
        _ => false,
    }
}

fn has_own_marks(object: &Object) -> bool {
    at(object, &["metadata", "labels"]).is_some() || at(object, &["metadata", "annotations"]).is_some()
}

/// What an object needs that is neither in the output nor known to be there.
fn needs(candidate: &Candidate, around: &Around<'_>, needed: &mut BTreeSet<String>) {
    if let Some(namespace) = text(&candidate.object, &["metadata", "namespace"])
        && around.has(candidate, &format!("namespaces/{namespace}")) == There::Gone
    {
        needed.insert(format!("the Namespace {namespace}"));
    }
    let is_custom = order::rank(&candidate.group, &candidate.resource) == order::CUSTOM;
    let definition = format!("{}.{}", candidate.resource, candidate.group);
    if is_custom
        && around.has(candidate, &format!("apiextensions.k8s.io/customresourcedefinitions/{definition}")) == There::Gone
    {
        needed.insert(format!("the CustomResourceDefinition {definition}"));
    }
}

/// `KIND NAMESPACE/NAME`.
fn name_of(object: &Object) -> String {
    let part = |path: &[&str]| text(object, path).unwrap_or_default();
    match part(&["metadata", "namespace"]) {
        "" => format!("{} {}", part(&["kind"]), part(&["metadata", "name"])),
        namespace => format!("{} {namespace}/{}", part(&["kind"]), part(&["metadata", "name"])),
    }
}

/// What stands at a path.
fn at<'o>(object: &'o Object, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(*name))
}

/// The text at a path.
fn text<'o>(object: &'o Object, path: &[&str]) -> Option<&'o str> {
    at(object, path)?.as_str()
}

#[cfg(test)]
mod tests;
