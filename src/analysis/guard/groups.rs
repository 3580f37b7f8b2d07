//! Operations of one kind by one actor, close together in time, are one row.

use super::drains;
use super::group::{Around, Group};
use crate::analysis::rollup::notable::Notable;
use crate::model::report::Severity;
use crate::model::time::Micros;
use std::collections::HashMap;

/// Operations alike in all of these form one row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    cluster: String,
    kind: &'static str,
    user: String,
    impersonated: String,
    agent: String,
    group: String,
    /// With its subresource.
    resource: String,
}

pub(super) fn key(one: &Notable) -> Key {
    Key {
        cluster: one.cluster.clone(),
        kind: one.kind,
        user: one.user.clone(),
        impersonated: one.impersonated.clone(),
        agent: one.agent.clone(),
        group: one.group.clone(),
        resource: format!("{}/{}", one.resource, one.subresource),
    }
}

/// Puts operations together as they come.
#[derive(Debug, Default)]
pub struct Grouping {
    window: Micros,
    open: HashMap<Key, Group>,
    closed: Vec<Group>,
}

impl Grouping {
    /// Rows end where a pause is longer than `window`.
    pub fn new(window: Micros) -> Self {
        Self { window, ..Self::default() }
    }

    /// Takes an operation; they come in the order of time.
    pub fn add(&mut self, one: &Notable) {
        let key = key(one);
        if let Some(group) = self.open.get_mut(&key) {
            if one.at - group.last <= self.window {
                group.add(one, self.window);
                return;
            }
            self.closed.extend(self.open.remove(&key));
        }
        self.open.insert(key, Group::new(one, self.window));
    }

    /// How grave the row is that goes on; info where there is none.
    pub(super) fn severity(&self, key: &Key) -> Severity {
        self.open.get(key).map_or(Severity::Info, Group::severity)
    }

    /// Ends rows to which nothing can be added from `at` on.
    pub fn close(&mut self, at: Micros) {
        let window = self.window;
        self.closed
            .extend(self.open.extract_if(|_, group| at.saturating_sub(group.last) > window).map(|(_, group)| group));
    }

    /// All rows that have not been forgotten, in no order.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Group> {
        self.closed.iter_mut().chain(self.open.values_mut())
    }

    /// Forgets rows that have ended.
    pub fn forget(&mut self) {
        self.closed.clear();
    }
}

/// Rows by time.
pub fn groups(mut operations: Vec<Notable>, around: Around<'_>, window: Micros) -> Vec<Group> {
    operations.sort_by(|a, b| (a.at, &a.instance, &a.audit_id).cmp(&(b.at, &b.instance, &b.audit_id)));
    // A log that is read twice, or lies there twice, shows nothing twice: same id, same time, same object.
    operations.dedup_by(|a, b| {
        (a.at, &a.audit_id, a.kind, &a.namespace, &a.name, &a.cluster)
            == (b.at, &b.audit_id, b.kind, &b.namespace, &b.name, &b.cluster)
    });
    let mut grouping = Grouping::new(window);
    operations.iter().for_each(|one| grouping.add(one));
    grouping.close(Micros::MAX);
    let mut all = grouping.closed;
    sort(&mut all);
    let mut all = drains::fold(all, window);
    all.iter_mut().for_each(|group| group.finish(around));
    all.retain(Group::counts);
    sort(&mut all);
    all
}

/// By time.
pub fn sort(groups: &mut [Group]) {
    groups.sort_by(|a, b| {
        (a.first.at, &a.first.instance, &a.first.audit_id).cmp(&(b.first.at, &b.first.instance, &b.first.audit_id))
    });
}

#[cfg(test)]
mod tests {
    use super::super::classify::{Created, Seen};
    use super::*;
    use crate::model::time::{MINUTE, SECOND};

    fn operation(kind: &'static str, user: &str, second: i64, name: &str, code: u16) -> Notable {
        Notable {
            at: second * SECOND,
            kind,
            user: user.into(),
            name: name.into(),
            namespace: "n".into(),
            code: Some(code),
            resource: "pods".into(),
            ..Notable::default()
        }
    }

    fn of(operations: Vec<Notable>, created: u64) -> Vec<(String, &'static str, u64, u64, u64, u64)> {
        let made = Created { unnamed: created, ..Created::default() };
        let seen = Seen {
            created: HashMap::from([((String::new(), "bot".to_owned(), "n".to_owned()), made)]),
            ..Seen::default()
        };
        let around = Around { gone: &HashMap::new(), removed: None, seen: &seen, owners: &HashMap::new() };
        let found = groups(operations, around, MINUTE);
        found
            .into_iter()
            .map(|one| (one.first.user, one.first.kind, one.count, one.done, one.refused, one.failed))
            .collect()
    }

    #[test]
    fn one_row_for_what_comes_together() {
        // Two of bob's, then a pause; eve's are hers.
        let all = vec![
            operation("exec", "bob", 0, "a", 101),
            operation("exec", "bob", 59, "b", 200),
            operation("exec", "eve", 30, "a", 403),
            operation("exec", "bob", 200, "c", 404),
        ];
        assert_eq!(
            of(all, 0),
            [
                ("bob".into(), "exec", 2, 2, 0, 0),
                ("eve".into(), "exec", 1, 0, 1, 0),
                ("bob".into(), "exec", 1, 0, 0, 1)
            ]
        );
    }

    #[test]
    fn pods_count_from_ten_a_minute_and_not_one_s_own() {
        let deletes = |count: i64, every: i64| {
            (0..count).map(|n| operation("delete-pod", "bot", n * every, &format!("p-{n}"), 200)).collect::<Vec<_>>()
        };
        assert!(of(deletes(9, 1), 0).is_empty());
        assert_eq!(of(deletes(10, 1), 0).len(), 1);
        // One in seven seconds: nine in any minute, however long it goes on.
        assert!(of(deletes(500, 7), 0).is_empty());
        assert_eq!(of(deletes(500, 6), 0), [("bot".into(), "delete-pod", 500, 500, 0, 0)]);
        // Who made as many cleans up.
        assert!(of(deletes(500, 6), 500).is_empty());
        assert_eq!(of(deletes(500, 6), 499).len(), 1);
        // One pod again and again is one, and a log that is there twice shows nothing twice.
        assert!(of((0..50).map(|n| operation("delete-pod", "bot", n, "p", 200)).collect(), 0).is_empty());
        assert!(of([deletes(9, 1), deletes(9, 1)].concat(), 0).is_empty());
    }
}
