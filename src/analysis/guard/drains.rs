//! Nodes that are drained: cordons, and the evictions by the same actor that follow them, are one row.

use super::group::{Evictions, Group};
use crate::model::time::Micros;
use std::collections::HashMap;

/// Who drains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Actor {
    cluster: String,
    user: String,
    impersonated: String,
    agent: String,
}

fn actor(group: &Group) -> Actor {
    let first = &group.first;
    Actor {
        cluster: first.cluster.clone(),
        user: first.user.clone(),
        impersonated: first.impersonated.clone(),
        agent: first.agent.clone(),
    }
}

/// Makes one row of each drain; `groups` are in the order of time. Cordons that no eviction follows stay as they are.
pub(super) fn fold(groups: Vec<Group>, window: Micros) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    // Of each actor: the rows of the drain that goes on, and its end.
    let mut open: HashMap<Actor, (Vec<Group>, Micros)> = HashMap::new();
    for group in groups {
        let is_cordon = group.first.kind == "cordon" && group.done + group.unsure > 0;
        if !is_cordon && group.first.kind != "evict" {
            all.push(group);
            continue;
        }
        let actor = actor(&group);
        match open.get_mut(&actor) {
            Some((rows, end)) if group.first.at - *end <= window => {
                *end = (*end).max(group.last);
                rows.push(group);
            }
            _ => {
                if let Some((rows, _)) = open.remove(&actor) {
                    all.extend(one(rows));
                }
                if is_cordon {
                    let end = group.last;
                    open.insert(actor, (vec![group], end));
                } else {
                    all.push(group);
                }
            }
        }
    }
    all.extend(open.into_values().flat_map(|(rows, _)| one(rows)));
    all
}

/// The rows of one drain as one. What was cordoned after the last eviction was not drained.
fn one(mut rows: Vec<Group>) -> Vec<Group> {
    let Some(end) = rows.iter().filter(|row| row.first.kind == "evict").map(|row| row.last).max() else { return rows };
    let mut all: Vec<Group> = rows.extract_if(.., |row| row.first.at > end).collect();
    let mut evictions = Evictions::default();
    let mut drain: Option<Group> = None;
    for row in rows {
        if row.first.kind == "evict" {
            evictions.requests += row.count;
            evictions.pods += row.objects();
            evictions.failed += row.refused + row.failed;
            evictions.namespaces.extend(row.namespaces.iter().cloned());
            if let Some(drain) = &mut drain {
                drain.last = drain.last.max(row.last);
                drain.instances.extend(row.instances);
            }
        } else {
            match &mut drain {
                Some(drain) => drain.absorb(row),
                None => drain = Some(row),
            }
        }
    }
    let mut drain = drain.unwrap_or_default();
    drain.first.kind = "drain";
    drain.evictions = Some(Box::new(evictions));
    all.push(drain);
    all
}

#[cfg(test)]
mod tests {
    use super::super::classify::Seen;
    use super::super::group::Around;
    use super::super::groups::groups;
    use crate::analysis::rollup::notable::Notable;
    use crate::model::time::{MINUTE, SECOND};
    use std::collections::HashMap;

    fn operation(kind: &'static str, user: &str, second: i64, name: &str, code: u16) -> Notable {
        let resource = if kind == "cordon" { "nodes" } else { "pods" };
        let namespace = if kind == "cordon" { "" } else { "shop" };
        Notable {
            at: second * SECOND,
            kind,
            user: user.into(),
            name: name.into(),
            namespace: namespace.into(),
            code: Some(code),
            resource: resource.into(),
            ..Notable::default()
        }
    }

    fn of(operations: Vec<Notable>) -> Vec<(&'static str, u64, u64, u64, u64)> {
        let around = Around { gone: &HashMap::new(), removed: None, seen: &Seen::default(), owners: &HashMap::new() };
        let reported = groups(operations, around, MINUTE).into_iter().map(|group| {
            let evictions = group.evictions.as_deref().cloned().unwrap_or_default();
            (group.first.kind, group.objects(), evictions.requests, evictions.pods, evictions.failed)
        });
        reported.collect()
    }

    #[test]
    fn a_drain_is_one_row_however_few_pods_it_moves_and_however_long_it_takes() {
        // Two nodes, the second cordoned two minutes after the first, evictions in between; one is refused by a budget
        // first.
        let mut all = vec![operation("cordon", "ops", 0, "n1", 200), operation("cordon", "ops", 120, "n2", 200)];
        all.extend((0..13).map(|n| operation("evict", "ops", 10 + n * 10, &format!("p{n}"), 201)));
        all.push(operation("evict", "ops", 12, "p0", 429));
        assert_eq!(of(all.clone()), [("drain", 2, 14, 13, 1)]);
        // A node that is cordoned after the last of them is not drained.
        all.push(operation("cordon", "ops", 200, "n3", 200));
        assert_eq!(of(all.clone()), [("drain", 2, 14, 13, 1), ("cordon", 1, 0, 0, 0)]);
        all.pop();
        // Somebody else's evictions are no part of it, nor are those long after.
        all.extend((0..10).map(|n| operation("evict", "eve", 20 + n, &format!("e{n}"), 201)));
        all.extend((0..12).map(|n| operation("evict", "ops", 400 + n, &format!("l{n}"), 201)));
        assert_eq!(of(all), [("drain", 2, 14, 13, 1), ("evict", 10, 0, 0, 0), ("evict", 12, 0, 0, 0)]);
    }

    #[test]
    fn a_cordon_alone_stays_one_and_one_that_was_refused_begins_nothing() {
        assert_eq!(of(vec![operation("cordon", "ops", 0, "n1", 200)]), [("cordon", 1, 0, 0, 0)]);
        let mut refused = vec![operation("cordon", "ops", 0, "n1", 403)];
        refused.extend((0..10).map(|n| operation("evict", "ops", 1 + n, &format!("p{n}"), 201)));
        assert_eq!(of(refused).iter().map(|row| row.0).collect::<Vec<_>>(), ["cordon", "evict"]);
    }
}
