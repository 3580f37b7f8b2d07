//! What the writes of a log leave of the objects that policies look at.

use super::Terms;
use super::replay::{Old, Target, is_marked};
use crate::analysis::guard::bodies::body;
use crate::model::event::Event;
use crate::model::time::Micros;
use serde_json::Value;
use std::collections::HashMap;

/// What an object is like from a write on.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When the write was done.
    pub at: Micros,
    pub target: Target,
    /// What it is like, and whether it is marked as critical by a label; `None` where the log does not hold that.
    pub after: Option<(Old, bool)>,
}

/// What a create, update or patch that was done leaves of its object; `None` where what policies look at is as before.
pub(super) fn change(e: &Event<'_>, at: Micros, mut target: Target, terms: &Terms) -> Option<Change> {
    let answer: Option<Value> = serde_json::from_slice(e.response_body).ok();
    let asked = body(e);
    let is_patch = e.verb.is("patch");
    let whole = answer.as_ref().filter(|own| own["metadata"].is_object()).or(asked.as_ref().filter(|_| !is_patch));
    if whole.is_none() && asked.as_ref().is_some_and(|patch| is_patch && !is_about(patch)) {
        return None;
    }
    if target.name.is_empty() {
        target.name = whole.and_then(|own| own["metadata"]["name"].as_str()).unwrap_or_default().to_owned();
    }
    if target.is_namespace() {
        target = Target::of_namespace(&target.name);
    }
    let after = whole.map(|own| (Old::of(own, terms), is_marked(own, &terms.critical, false)));
    (!target.name.is_empty()).then_some(Change { at, target, after })
}

/// Whether a patch changes labels, annotations, replicas, or all of what they are in.
fn is_about(patch: &Value) -> bool {
    const PATHS: [&str; 3] = ["/metadata/labels", "/metadata/annotations", "/spec/replicas"];
    match patch {
        Value::Array(steps) => steps.iter().any(|step| {
            let path = step["path"].as_str().unwrap_or_default();
            PATHS.iter().any(|own| path.starts_with(own) || own.starts_with(path))
        }),
        object => PATHS.iter().any(|own| object.pointer(own).is_some()),
    }
}

/// What the changes up to a moment leave, over what is known beside the log.
#[derive(Debug)]
pub(super) struct Later<'c> {
    /// Those that lie ahead, in the order of time.
    ahead: std::iter::Peekable<std::slice::Iter<'c, Change>>,
    latest: HashMap<&'c Target, &'c Change>,
}

impl<'c> Later<'c> {
    /// Before the first of the changes, which are in the order of time.
    pub(super) fn new(changes: &'c [Change]) -> Self {
        Self { ahead: changes.iter().peekable(), latest: HashMap::new() }
    }

    /// Goes on to a moment.
    pub(super) fn until(&mut self, at: Micros) {
        while let Some(change) = self.ahead.next_if(|change| change.at <= at) {
            self.latest.insert(&change.target, change);
        }
    }

    /// What an object is like: as the last change has it, else as it was known.
    pub(super) fn object<'k>(&self, target: &Target, known: &'k HashMap<Target, Old>) -> Option<&'k Old>
    where
        'c: 'k,
    {
        match self.latest.get(target) {
            Some(change) => change.after.as_ref().map(|(old, _)| old),
            None => known.get(target),
        }
    }

    /// Whether a namespace is marked as critical, where a change says so; `Some(None)` where it hides that.
    pub(super) fn is_critical(&self, namespace: &str) -> Option<Option<bool>> {
        self.latest
            .get(&Target::of_namespace(namespace))
            .map(|change| change.after.as_ref().map(|(_, is_marked)| *is_marked))
    }

    /// All objects that changed.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.latest.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::json::JsonStr;

    fn of(verb: &'static str, asked: &'static str, answer: &'static str) -> Option<Change> {
        let event = Event {
            verb: JsonStr::plain(verb),
            request_body: asked.as_bytes(),
            response_body: answer.as_bytes(),
            ..Event::default()
        };
        let target = Target { resource: "namespaces".to_owned(), name: "n".to_owned(), ..Target::default() };
        change(&event, 7, target, &Terms::default())
    }

    #[test]
    fn a_write_leaves_what_its_answer_or_body_holds() {
        let confirmed = r#"{"metadata":{"name":"n","annotations":{"plimsoll.io/confirm-delete":"n"}}}"#;
        let patch = r#"{"metadata":{"annotations":{"plimsoll.io/confirm-delete":"n"}}}"#;
        let name = |change: Option<Change>| change.unwrap().after.and_then(|(old, _)| old.confirmed_name);
        assert_eq!(name(of("patch", patch, confirmed)).as_deref(), Some("n"));
        assert_eq!(name(of("update", confirmed, "")).as_deref(), Some("n"));
        assert_eq!(name(of("create", r#"{"metadata":{"name":"n"}}"#, "")), None);
        // A patch alone, or a write without bodies, hides it; what is about neither labels nor annotations leaves it.
        assert!(of("patch", patch, "").is_some_and(|change| change.after.is_none()));
        assert!(of("patch", "", "").is_some_and(|change| change.after.is_none()));
        for patch in [r#"{"spec":{"finalizers":[]}}"#, r#"[{"op":"add","path":"/spec/x","value":1}]"#] {
            assert_eq!(of("patch", patch, ""), None, "{patch}");
        }
        assert!(of("patch", r#"[{"op":"remove","path":"/metadata/labels/a"}]"#, "").is_some());
        // In requests a namespace is within itself.
        assert_eq!(of("create", confirmed, "").unwrap().target.namespace, "n");
    }
}
