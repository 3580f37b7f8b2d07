//! From events to operations: which of them are dangerous, and what the log says of each.

use super::bodies::{UNSEEN, is_dry_run, is_forced, rights, scales_to_zero, strips_finalizers};
use super::consequences::{Deletions, Place};
use crate::analysis::rollup::notable::{Notable, is_control_plane, kind, starts};
use crate::model::event::{Event, Level, Timed};
use crate::model::json::cut;
use crate::model::time::Micros;
use std::collections::HashMap;

/// Operations that are held of a log; beyond, they are only counted.
pub const MAX_OPERATIONS: usize = 1_000_000;

/// Places of consequences that are held.
const PLACES: usize = 1_000_000;

/// What a log shows beside operations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// Events that were looked at.
    pub events: u64,
    /// Dangerous operations that were dry runs, and left out.
    pub dry_runs: u64,
    /// Writes whose bodies the audit level hides, by verb and resource, that may have scaled to zero, cordoned, or
    /// removed finalizers.
    pub hidden: HashMap<String, u64>,
    /// Pods that were created, by cluster, user and namespace: who deletes what he made himself cleans up.
    pub created: HashMap<(String, String, String), Created>,
    /// Operations beyond `MAX_OPERATIONS`.
    pub beyond: u64,
}

/// Names that are held of pods that somebody created in a namespace; beyond, they are only counted.
const NAMES: usize = 100_000;

/// Pods that somebody created in a namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Created {
    /// When the first of each name was.
    pub names: HashMap<String, Micros>,
    /// Those whose name the server made, which the request does not hold; and those beyond what is held.
    pub unnamed: u64,
}

impl Created {
    fn add(&mut self, name: String, at: Micros) {
        if name.is_empty() || self.names.len() >= NAMES && !self.names.contains_key(&name) {
            self.unnamed += 1;
        } else {
            let first = self.names.entry(name).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: Self) {
        self.unnamed += other.unnamed;
        other.names.into_iter().for_each(|(name, at)| self.add(name, at));
    }
}

/// What a block of a log gave.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub operations: Vec<Notable>,
    /// Deletions by the control plane and by kubelets.
    pub gone: HashMap<Place, Deletions>,
    /// What else it shows.
    pub seen: Seen,
}

impl Batch {
    /// Adds what another block gave.
    pub fn take(&mut self, other: Self) {
        let room = MAX_OPERATIONS.saturating_sub(self.operations.len());
        self.seen.beyond += other.operations.len().saturating_sub(room) as u64;
        self.operations.extend(other.operations.into_iter().take(room));
        for (place, gone) in other.gone {
            if self.gone.len() < PLACES || self.gone.contains_key(&place) {
                self.gone.entry(place).or_default().merge(&gone);
            }
        }
        self.seen.events += other.seen.events;
        self.seen.dry_runs += other.seen.dry_runs;
        self.seen.beyond += other.seen.beyond;
        other.seen.hidden.into_iter().for_each(|(what, count)| *self.seen.hidden.entry(what).or_default() += count);
        other.seen.created.into_iter().for_each(|(who, pods)| self.seen.created.entry(who).or_default().merge(pods));
    }
}

/// Looks at events, one block at a time.
#[derive(Debug, Default)]
pub struct Watch {
    batch: Batch,
}

impl Watch {
    /// Takes an event.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        if !event.stage.is_terminal() {
            if starts(event)
                && let Some(one) = Meaning::of_start(event, || kind(event))
            {
                self.batch.seen.events += 1;
                self.batch.operations.push(*one);
            }
            return;
        }
        self.batch.seen.events += 1;
        let meaning = Meaning::of(event, || kind(event));
        if let Some(is_collection) = meaning.follows {
            self.consequence(event, is_collection);
        }
        if meaning.is_hidden {
            self.unseen(e);
        }
        if meaning.creates {
            self.creation(event, &e.user.decode());
        }
        self.batch.seen.dry_runs += u64::from(meaning.is_dry_run);
        self.batch.operations.extend(meaning.operation.map(|one| *one));
    }

    /// Takes an event that is not asked about: what was made before, or by others, shows what deletions mean.
    pub fn beside(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        if !event.stage.is_terminal() || !matches!(e.verb.raw(), b"create" | b"delete" | b"deletecollection") {
            return;
        }
        let user = e.user.decode();
        if e.verb.is("create") {
            if creates_pod(e) {
                self.creation(event, &user);
            }
        } else if let Some(is_collection) = follows(e, &user, is_control_plane(&user)) {
            self.consequence(event, is_collection);
        }
    }

    /// Remembers who made a pod: whoever deletes it again cleans up.
    fn creation(&mut self, event: &Timed<'_, '_>, user: &str) {
        let e = event.event;
        let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
        let place = (event.cluster().to_owned(), cut(user).into_owned(), text(e.namespace));
        self.batch.seen.created.entry(place).or_default().add(text(e.name), event.at);
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// What the control plane and kubelets delete follows from what others do.
    fn consequence(&mut self, event: &Timed<'_, '_>, is_collection: bool) {
        let e = event.event;
        let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
        let place = Place {
            cluster: event.cluster().to_owned(),
            namespace: text(e.namespace),
            group: text(e.group),
            resource: text(e.resource),
            slot: Place::slot_of(event.at),
        };
        if self.batch.gone.len() < PLACES || self.batch.gone.contains_key(&place) {
            self.batch.gone.entry(place).or_default().add(event.at, is_collection);
        }
    }

    fn unseen(&mut self, e: &Event<'_>) {
        let what = hidden_write(&e.verb.decode(), &e.resource.decode(), &e.subresource.decode());
        *self.batch.seen.hidden.entry(what).or_default() += 1;
    }
}

/// What kind of write the log does not hold the body of.
pub(super) fn hidden_write(verb: &str, resource: &str, subresource: &str) -> String {
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} of {resource}{slash}{subresource}")
}

/// What the end of a request means for a timeline of dangerous operations.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// The operation, if it is a dangerous one and no dry run.
    pub operation: Option<Box<Notable>>,
    /// Whether it is a dangerous one and a dry run.
    pub is_dry_run: bool,
    /// Whether it may be dangerous, and the audit level hides what it set.
    pub is_hidden: bool,
    /// Whether the control plane or a kubelet deleted something, as follows from what others do; and whether that was a
    /// collection.
    pub follows: Option<bool>,
    /// Whether a pod was created.
    pub creates: bool,
}

impl Meaning {
    /// Of a terminal event; `found` gives its kind by the rules of the roll-up ([`kind`]).
    #[inline]
    pub fn of(event: &Timed<'_, '_>, found: impl FnOnce() -> Option<(&'static str, String)>) -> Self {
        let e = event.event;
        // Nine in ten events end here.
        let is_read =
            matches!(e.verb.raw(), b"list" | b"watch") || (e.verb.raw() == b"get" && e.subresource.is_empty());
        if is_read && !(e.code == Some(403) && e.resource.is("secrets")) {
            return Self::default();
        }
        let user = e.user.decode();
        let of_control_plane = is_control_plane(&user);
        let mut meaning = Self { follows: follows(e, &user, of_control_plane), ..Self::default() };
        let Some((kind, detail)) = dangerous(event, of_control_plane, found()) else {
            meaning.is_hidden = is_hidden(e, of_control_plane);
            meaning.creates = e.verb.is("create") && creates_pod(e);
            return meaning;
        };
        meaning.is_hidden = kind == "rbac-write" && detail == UNSEEN;
        meaning.is_dry_run = is_dry_run(e);
        if !meaning.is_dry_run {
            meaning.operation = Some(Box::new(operation(event, kind, detail)));
        }
        meaning
    }

    /// The operation that begins with a long-running request that was let in: a command in a container runs from here
    /// on, and its end may be hours away.
    pub fn of_start(
        event: &Timed<'_, '_>,
        found: impl FnOnce() -> Option<(&'static str, String)>,
    ) -> Option<Box<Notable>> {
        let of_control_plane = is_control_plane(&event.event.user.decode());
        let (kind, detail) = dangerous(event, of_control_plane, found())?;
        Some(Box::new(operation(event, kind, detail)))
    }
}

/// Whether the control plane or a kubelet deleted something, and whether that was a collection.
fn follows(e: &Event<'_>, user: &str, of_control_plane: bool) -> Option<bool> {
    let verb = e.verb.raw();
    let deletes = matches!(verb, b"delete" | b"deletecollection");
    (deletes && is_done(e.code) && (of_control_plane || user.starts_with("system:node:")))
        .then_some(verb == b"deletecollection")
}

/// Whether a create made a pod.
fn creates_pod(e: &Event<'_>) -> bool {
    e.resource.is("pods") && e.subresource.is_empty() && is_done(e.code) && !is_dry_run(e)
}

/// Whether a write may be dangerous, and the log does not hold what it says.
fn is_hidden(e: &Event<'_>, of_control_plane: bool) -> bool {
    let is_write = matches!(e.verb.raw(), b"update" | b"patch");
    let can = matches!(e.resource.raw(), b"deployments" | b"statefulsets" | b"replicasets" | b"nodes")
        && e.subresource.is_empty()
        || e.subresource.is("scale");
    is_write && can && !of_control_plane && e.request_body.is_empty() && matches!(e.level, Level::Metadata)
}

pub(super) fn is_done(code: Option<u16>) -> bool {
    code.is_some_and(|code| (200..300).contains(&code))
}

/// The kind of a dangerous operation, and what is known of it.
fn dangerous(
    event: &Timed<'_, '_>,
    of_control_plane: bool,
    found: Option<(&'static str, String)>,
) -> Option<(&'static str, String)> {
    let e = event.event;
    let found = found.and_then(|(kind, detail)| match kind {
        "rbac-write" => Some((kind, rights(e))),
        "delete-pod" if is_forced(e) => Some(("force-delete", "gracePeriodSeconds=0".to_owned())),
        // The roll-up takes a step that only tests for one that sets.
        "scale-to-zero" if !scales_to_zero(e) => None,
        _ => Some((kind, detail)),
    });
    if found.is_some() || of_control_plane {
        return found;
    }
    let is_write = matches!(e.verb.raw(), b"create" | b"update" | b"patch" | b"delete" | b"deletecollection");
    if e.code == Some(403) && (is_write || e.resource.is("secrets")) && !is_authorized(e) {
        return Some(("forbidden", format!("{} {}", e.verb.decode(), e.resource.decode())));
    }
    if !matches!(e.verb.raw(), b"update" | b"patch") {
        return None;
    }
    if can_scale(e) && scales_to_zero(e) {
        return Some(("scale-to-zero", "replicas=0".to_owned()));
    }
    strips_finalizers(e).then(|| ("strip-finalizers", "metadata.finalizers".to_owned()))
}

/// Whether the authorizer allowed the request: a 403 after that comes from admission, such as a quota that is exceeded,
/// and says nothing about rights.
fn is_authorized(e: &Event<'_>) -> bool {
    e.decision().is_some_and(|decision| decision.is("allow"))
}

fn can_scale(e: &Event<'_>) -> bool {
    let workloads: [&[u8]; 4] = [b"deployments", b"statefulsets", b"replicasets", b"replicationcontrollers"];
    e.subresource.is("scale") || e.subresource.is_empty() && workloads.contains(&e.resource.raw())
}

fn operation(event: &Timed<'_, '_>, kind: &'static str, detail: String) -> Notable {
    let mut one = Notable::of(event, kind, cut(&detail).into_owned());
    one.impersonated = cut(&one.impersonated).into_owned();
    one
}
