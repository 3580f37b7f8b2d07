//! From events to the requests that policies are asked about.

use super::replay::{AdmissionRequest, Decision, New, Old};
use super::{Policy, Terms};
use crate::analysis::guard::bodies::{body, is_dry_run};
use crate::analysis::guard::classify::is_done;
use crate::model::event::{Event, Timed};
use crate::model::json::{JsonStr, cut};
use crate::model::time::Micros;
use crate::model::walk::member;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Requests that are held of a log; beyond, they are only counted.
pub const MAX_REQUESTS: usize = 1_000_000;

/// Which object, or which collection where it has no name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Group of the resource.
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

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
    /// Events that were looked at.
    pub events: u64,
    /// Requests beyond [`MAX_REQUESTS`].
    pub beyond: u64,
}

impl Batch {
    /// Adds what another block gave.
    pub fn take(&mut self, other: Self) {
        let room = MAX_REQUESTS.saturating_sub(self.requests.len());
        self.beyond += other.beyond + other.requests.len().saturating_sub(room) as u64;
        self.requests.extend(other.requests.into_iter().take(room));
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
        if !self.policies.iter().any(|policy| policy.is_asked(&asked)) || is_dry_run(e) {
            return;
        }
        let (user, groups) = seen_by_admission(e);
        let new = if operation == "UPDATE" { new(e, self.terms) } else { New::default() };
        let target = Target {
            group: asked.group.clone(),
            resource: asked.resource.clone(),
            namespace: text(e.namespace),
            name: text(e.name),
        };
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
}

impl ClusterContext {
    /// What a policy says to each request, in the order of time. What began to be deleted before, as the log shows, is
    /// going.
    pub fn decide_all(&self, policy: &Policy, terms: &Terms, requests: &[Request]) -> Vec<Decision> {
        let mut going: HashSet<&Target> = HashSet::new();
        let mut collections: HashSet<(&str, &str, &str)> = HashSet::new();
        let decide = |request| {
            let Request { target, asked, verb, .. }: &Request = request;
            if asked.operation != "DELETE" || !policy.lets_go || !policy.is_asked(asked) {
                return self.decide(policy, terms, request);
            }
            if verb == "deletecollection" {
                // Of one namespace, or of all.
                collections.insert((&target.group, &target.resource, &target.namespace));
                return self.decide(policy, terms, request);
            }
            let is_of = |namespace| collections.contains(&(target.group.as_str(), target.resource.as_str(), namespace));
            // Whoever deletes it again ends it: one of the same name is another.
            if going.remove(target) || is_of(target.namespace.as_str()) || is_of("") {
                return Decision::Allow;
            }
            going.insert(target);
            self.decide(policy, terms, request)
        };
        requests.iter().map(decide).collect()
    }

    fn decide(&self, policy: &Policy, terms: &Terms, request: &Request) -> Decision {
        let in_critical = self.namespaces.get(&request.target.namespace).copied();
        let decide = |old: Option<&Old>| policy.decide(terms, &request.asked, old, in_critical, None);
        if request.verb != "deletecollection" || !self.is_whole {
            return decide(self.objects.get(&request.target));
        }
        // Admission is asked about each object of a collection.
        let of = &request.target;
        let is_in = |one: &Target| {
            (&one.group, &one.resource) == (&of.group, &of.resource)
                && (of.namespace.is_empty() || of.namespace == one.namespace)
        };
        let mut decided = decide(Some(&Old::default()));
        for (_, old) in self.objects.iter().filter(|(target, _)| is_in(target)) {
            match decide(Some(old)) {
                Decision::Deny => return Decision::Deny,
                Decision::Unknown(why) => decided = Decision::Unknown(why),
                other => decided = other,
            }
        }
        decided
    }
}
