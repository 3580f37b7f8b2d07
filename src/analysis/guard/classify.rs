//! From events to operations: which of them are dangerous, and what the log says of each.

use super::bodies::{UNSEEN, is_dry_run, is_forced, rights, scales_to_zero, strips_finalizers};
use super::consequences::{Gone, Place};
use crate::analysis::rollup::notable::{Notable, is_control_plane, kind, starts};
use crate::model::event::{Event, Level, Timed};
use crate::model::json::cut;
use std::collections::{HashMap, HashSet};

/// Operations that are held of a log; beyond, they are only counted.
pub const MOST: usize = 1_000_000;

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
    /// Operations beyond `MOST`.
    pub beyond: u64,
}

/// Names that are held of pods that somebody created in a namespace; beyond, they are only counted.
const NAMES: usize = 100_000;

/// Pods that somebody created in a namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Created {
    /// Their names.
    pub names: HashSet<String>,
    /// Those whose name the server made, which the request does not hold; and those beyond what is held.
    pub unnamed: u64,
}

impl Created {
    fn add(&mut self, name: String) {
        if name.is_empty() || self.names.len() >= NAMES && !self.names.contains(&name) {
            self.unnamed += 1;
        } else {
            self.names.insert(name);
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: Self) {
        self.unnamed += other.unnamed;
        other.names.into_iter().for_each(|name| self.add(name));
    }
}

/// What a block of a log gave.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Operations.
    pub operations: Vec<Notable>,
    /// Deletions by the control plane and by kubelets.
    pub gone: HashMap<Place, Gone>,
    /// What else it shows.
    pub seen: Seen,
}

impl Batch {
    /// Adds what another block gave.
    pub fn take(&mut self, other: Self) {
        let room = MOST.saturating_sub(self.operations.len());
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
            // A command in a container runs from here on; its end may be hours away.
            if starts(event)
                && let Some((kind, detail)) = dangerous(event, is_control_plane(&e.user.decode()))
            {
                self.batch.seen.events += 1;
                self.batch.operations.push(operation(event, kind, detail));
            }
            return;
        }
        self.batch.seen.events += 1;
        // Nine in ten events end here.
        let is_read =
            matches!(e.verb.raw(), b"list" | b"watch") || (e.verb.raw() == b"get" && e.subresource.is_empty());
        if is_read && !(e.code == Some(403) && e.resource.is("secrets")) {
            return;
        }
        let user = e.user.decode();
        let of_control_plane = is_control_plane(&user);
        let verb = e.verb.raw();
        if (of_control_plane || user.starts_with("system:node:")) && matches!(verb, b"delete" | b"deletecollection") {
            self.consequence(event);
        }
        let Some((kind, detail)) = dangerous(event, of_control_plane) else {
            self.hidden(e, of_control_plane);
            self.creation(event, &user);
            return;
        };
        if kind == "rbac-write" && detail == UNSEEN {
            self.unseen(e);
        }
        if is_dry_run(e) {
            self.batch.seen.dry_runs += 1;
            return;
        }
        self.batch.operations.push(operation(event, kind, detail));
    }

    /// Takes an event that is not asked about: what was made before, or by others, shows what deletions mean.
    pub fn beside(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        if !event.stage.is_terminal() || !matches!(e.verb.raw(), b"create" | b"delete" | b"deletecollection") {
            return;
        }
        let user = e.user.decode();
        if e.verb.is("create") {
            self.creation(event, &user);
        } else if is_control_plane(&user) || user.starts_with("system:node:") {
            self.consequence(event);
        }
    }

    /// Remembers who made a pod: whoever deletes it again cleans up.
    fn creation(&mut self, event: &Timed<'_, '_>, user: &str) {
        let e = event.event;
        if e.verb.is("create") && e.resource.is("pods") && e.subresource.is_empty() && is_done(e.code) && !is_dry_run(e)
        {
            let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
            let place = (event.cluster().to_owned(), cut(user).into_owned(), text(e.namespace));
            self.batch.seen.created.entry(place).or_default().add(text(e.name));
        }
    }

    /// Ends a block.
    pub fn flush(&mut self) -> Batch {
        std::mem::take(&mut self.batch)
    }

    /// What the control plane and kubelets delete follows from what others do.
    fn consequence(&mut self, event: &Timed<'_, '_>) {
        let e = event.event;
        if !is_done(e.code) {
            return;
        }
        let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
        let place = Place {
            cluster: event.cluster().to_owned(),
            namespace: text(e.namespace),
            group: text(e.group),
            resource: text(e.resource),
            slot: Place::slot_of(event.at),
        };
        if self.batch.gone.len() < PLACES || self.batch.gone.contains_key(&place) {
            self.batch.gone.entry(place).or_default().add(event.at, e.verb.is("deletecollection"));
        }
    }

    /// Writes that may be dangerous, of which the log does not hold what they say.
    fn hidden(&mut self, e: &Event<'_>, of_control_plane: bool) {
        let is_write = matches!(e.verb.raw(), b"update" | b"patch");
        let can = matches!(e.resource.raw(), b"deployments" | b"statefulsets" | b"replicasets" | b"nodes")
            && e.subresource.is_empty()
            || e.subresource.is("scale");
        if is_write && can && !of_control_plane && e.request_body.is_empty() && matches!(e.level, Level::Metadata) {
            self.unseen(e);
        }
    }

    fn unseen(&mut self, e: &Event<'_>) {
        let slash = if e.subresource.is_empty() { "" } else { "/" };
        let what = format!("{} of {}{slash}{}", e.verb.decode(), e.resource.decode(), e.subresource.decode());
        *self.batch.seen.hidden.entry(what).or_default() += 1;
    }
}

pub(super) fn is_done(code: Option<u16>) -> bool {
    code.is_some_and(|code| (200..300).contains(&code))
}

/// The kind of a dangerous operation, and what is known of it.
fn dangerous(event: &Timed<'_, '_>, of_control_plane: bool) -> Option<(&'static str, String)> {
    let e = event.event;
    let found = kind(event).and_then(|(kind, detail)| match kind {
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
    if e.code == Some(403) && (is_write || e.resource.is("secrets")) {
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

fn can_scale(e: &Event<'_>) -> bool {
    let workloads: [&[u8]; 4] = [b"deployments", b"statefulsets", b"replicasets", b"replicationcontrollers"];
    e.subresource.is("scale") || e.subresource.is_empty() && workloads.contains(&e.resource.raw())
}

fn operation(event: &Timed<'_, '_>, kind: &'static str, detail: String) -> Notable {
    let mut one = Notable::of(event, kind, cut(&detail).into_owned());
    one.impersonated = cut(&one.impersonated).into_owned();
    one
}
