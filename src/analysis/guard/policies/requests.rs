//! From events to the requests that policies are asked about.

use super::changes::{Change, Later, change};
use super::replay::{AdmissionRequest, Decision, New, Old, Target};
use super::{Policy, Terms};
use crate::analysis::guard::bodies::{body, is_dry_run};
use crate::analysis::guard::classify::is_done;
use crate::analysis::rollup::notable::is_control_plane;
use crate::model::event::{Event, Timed};
use crate::model::json::{JsonStr, cut};
use crate::model::time::Micros;
use crate::model::walk::member;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Requests that are held of a log; beyond, they are only counted.
pub const MAX_REQUESTS: usize = 1_000_000;

/// A request that was done, about which a policy is asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// When it came: what a deletion of a collection deletes begins to go before that is answered.
    pub at: Micros,
    pub cluster: String,
    /// Who really asked.
    pub user: String,
    /// The product of the user agent.
    pub agent: String,
    pub verb: String,
    /// The object.
    pub target: Target,
    /// What admission sees.
    pub asked: AdmissionRequest,
    /// To find it again.
    pub audit_id: String,
}

/// What a block of a log gave.
#[derive(Debug, Default)]
pub struct Batch {
    pub requests: Vec<Request>,
    /// What writes leave of objects that policies look at.
    pub changes: Vec<Change>,
    /// Events that were looked at.
    pub events: u64,
    /// Requests and changes beyond [`MAX_REQUESTS`].
    pub beyond: u64,
}

impl Batch {
    /// Adds what another block gave.
    pub fn take(&mut self, other: Self) {
        let room = MAX_REQUESTS.saturating_sub(self.requests.len());
        self.beyond += other.beyond + other.requests.len().saturating_sub(room) as u64;
        self.requests.extend(other.requests.into_iter().take(room));
        let room = MAX_REQUESTS.saturating_sub(self.changes.len());
        self.beyond += other.changes.len().saturating_sub(room) as u64;
        self.changes.extend(other.changes.into_iter().take(room));
        self.events += other.events;
    }
}

/// Looks at events, one block at a time.
#[derive(Debug)]
pub struct Watch<'t> {
    policies: &'t [&'static Policy],
    terms: &'t Terms,
    batch: Batch,
}

impl<'t> Watch<'t> {
    /// For these policies.
    pub fn new(policies: &'t [&'static Policy], terms: &'t Terms) -> Self {
        Self { policies, terms, batch: Batch::default() }
    }

    /// Takes an event. What was refused never came to admission, and what failed or was a dry run changed nothing.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        if !event.stage.is_terminal() {
            return;
        }
        self.batch.events += 1;
        let e = event.event;
        let operation = match e.verb.raw() {
            b"delete" | b"deletecollection" => "DELETE",
            // A patch that makes an object is a creation.
            b"update" | b"patch" if e.code != Some(201) => "UPDATE",
            b"create" | b"update" | b"patch" => "CREATE",
            _ => return,
        };
        if !is_done(e.code) {
            return;
        }
        let text = |text: JsonStr<'_>| cut(&text.decode()).into_owned();
        let asked = AdmissionRequest {
            operation,
            group: text(e.group),
            resource: text(e.resource),
            subresource: text(e.subresource),
            ..AdmissionRequest::default()
        };
        let target = Target {
            group: asked.group.clone(),
            resource: asked.resource.clone(),
            namespace: text(e.namespace),
            name: text(e.name),
        };
        if operation != "DELETE" {
            self.change(event, &asked, &target);
        }
        if !self.is_asked(&asked) || is_dry_run(e) {
            return;
        }
        let (user, groups) = seen_by_admission(e);
        let new = if operation == "UPDATE" { new(e, self.terms) } else { New::default() };
        self.batch.requests.push(Request {
            at: event.received_or_at(),
            cluster: event.cluster().to_owned(),
            user: text(e.user),
            agent: cut(&e.agent_product()).into_owned(),
            verb: text(e.verb),
            target,
            asked: AdmissionRequest { user, groups, new, ..asked },
            audit_id: text(e.audit_id),
        });
    }

    /// Whether some policy is asked about such requests.
    fn is_asked(&self, asked: &AdmissionRequest) -> bool {
        self.policies.iter().any(|policy| policy.is_asked(asked))
    }

    /// Keeps what a write leaves of an object that some policy looks at. The control plane keeps its own annotations,
    /// and those that policies look at as they are.
    fn change(&mut self, event: &Timed<'_, '_>, asked: &AdmissionRequest, target: &Target) {
        let e = event.event;
        let is_asked = |operation| self.is_asked(&AdmissionRequest { operation, ..asked.clone() });
        if !e.subresource.is_empty() || !(target.is_namespace() || is_asked("DELETE") || is_asked("UPDATE")) {
            return;
        }
        let user = e.user.decode();
        if !is_control_plane(&user) && !user.starts_with("system:node:") && !is_dry_run(e) {
            self.batch.changes.extend(change(e, event.at, target.clone(), self.terms));
        }
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }
}

/// User and groups: the impersonated ones, where there are.
fn seen_by_admission(e: &Event<'_>) -> (String, Vec<String>) {
    let list = |text: &[u8]| serde_json::from_slice::<Vec<String>>(text).unwrap_or_default();
    match member(e.impersonated, "username").and_then(|name| serde_json::from_slice::<String>(name).ok()) {
        Some(user) => (user, member(e.impersonated, "groups").map(list).unwrap_or_default()),
        None => (e.user.decode().into_owned(), list(e.groups)),
    }
}

/// What becomes of the object, by the body.
fn new(e: &Event<'_>, terms: &Terms) -> New {
    match body(e) {
        None => New::default(),
        Some(body) if e.verb.is("patch") => New::of_patch(&body, terms),
        Some(body) => New::of_update(&body, terms),
    }
}

/// What is known beside the log.
#[derive(Debug, Default)]
pub struct ClusterContext {
    /// Objects, as they were before.
    pub objects: HashMap<Target, Old>,
    /// Whether all objects are among them that there were: then what is not was made later.
    pub is_whole: bool,
    /// Namespaces that are known, and whether they are marked as critical.
    pub namespaces: BTreeMap<String, bool>,
    /// What the log's own writes leave of objects, in the order of time.
    pub changes: Vec<Change>,
}

impl ClusterContext {
    /// What a policy says to each request, in the order of time. What began to be deleted before, as the log shows, is
    /// going.
    pub fn decide_all(&self, policy: &Policy, terms: &Terms, requests: &[Request]) -> Vec<Decision> {
        let mut going: HashSet<&Target> = HashSet::new();
        let mut collections: HashSet<(&str, &str, &str)> = HashSet::new();
        let mut later = Later::new(&self.changes);
        let decide = |request| {
            let Request { at, target, asked, verb, .. }: &Request = request;
            // What a write leaves is there once it is answered; its own request came before.
            later.until(at.saturating_sub(1));
            if asked.operation != "DELETE" || !policy.lets_go || !policy.is_asked(asked) {
                return self.decide(policy, terms, request, &later);
            }
            if verb == "deletecollection" {
                // Of one namespace, or of all.
                collections.insert((&target.group, &target.resource, &target.namespace));
                return self.decide(policy, terms, request, &later);
            }
            let is_of = |namespace| collections.contains(&(target.group.as_str(), target.resource.as_str(), namespace));
            // Whoever deletes it again ends it: one of the same name is another.
            if going.remove(target) || is_of(target.namespace.as_str()) || is_of("") {
                return Decision::Allow;
            }
            going.insert(target);
            self.decide(policy, terms, request, &later)
        };
        requests.iter().map(decide).collect()
    }

    fn decide(&self, policy: &Policy, terms: &Terms, request: &Request, later: &Later<'_>) -> Decision {
        let space = request.target.namespace.as_str();
        let in_critical = later.is_critical(space).unwrap_or_else(|| self.namespaces.get(space).copied());
        let decide = |old: Option<&Old>| policy.decide(terms, &request.asked, old, in_critical, None);
        if request.verb != "deletecollection" || !self.is_whole {
            return decide(later.object(&request.target, &self.objects));
        }
        // Admission is asked about each object of a collection.
        let of = &request.target;
        let is_in = |one: &Target| {
            (&one.group, &one.resource) == (&of.group, &of.resource)
                && (of.namespace.is_empty() || of.namespace == one.namespace)
        };
        let mut decided = decide(Some(&Old::default()));
        let new = later.targets().filter(|target| !self.objects.contains_key(*target));
        for target in self.objects.keys().chain(new).filter(|target| is_in(target)) {
            match decide(later.object(target, &self.objects)) {
                Decision::Deny => return Decision::Deny,
                Decision::Unknown(why) => decided = Decision::Unknown(why),
                other => decided = other,
            }
        }
        decided
    }
}
