//! Operations that are reported as they come. Of kinds of which each counts, each operation is reported, those that
//! come together in one row. Of kinds of which many count (pods, refusals), a row is reported when it is many, and once
//! more if it gets worse.

use super::classify::{Batch, Seen};
use super::groups::{Grouping, Key, key, sort};
use super::rules::Rule;
use crate::analysis::guard::group::{Around, Group};
use crate::analysis::rollup::notable::Notable;
use crate::model::alert::{GuardEvent, Message};
use crate::model::report::Severity;
use crate::model::time::Micros;
use std::collections::{HashMap, HashSet, VecDeque};

/// Watches logs that grow.
#[derive(Debug, Default)]
pub struct Tripwire {
    window: Micros,
    /// All of what is going on: how grave it is together.
    grouping: Grouping,
    /// What was not reported yet, of kinds of which each counts.
    fresh: HashMap<Key, Group>,
    seen: Seen,
    /// The latest time of an operation.
    reached: Micros,
    /// Long-running requests whose start was taken: their ends say nothing new. The oldest go first.
    started: HashSet<u128>,
    by_age: VecDeque<u128>,
}

/// Long-running requests that are remembered until they end.
const STARTED: usize = 100_000;

impl Tripwire {
    /// Operations of one kind by one actor belong together where no pause is longer than `window`.
    pub fn new(window: Micros) -> Self {
        Self { window, grouping: Grouping::new(window), ..Self::default() }
    }

    /// Takes what was read.
    pub fn take(&mut self, batch: Batch, is_wanted: impl Fn(&Notable) -> bool) {
        let Batch { mut operations, seen, .. } = batch;
        self.seen.events += seen.events;
        seen.created.into_iter().for_each(|(who, pods)| self.seen.created.entry(who).or_default().merge(pods));
        operations.sort_by_key(|one| one.at);
        operations.retain(|one| {
            let is_new = self.is_new(one);
            self.seen.events -= u64::from(!is_new);
            is_new
        });
        for one in operations.iter().filter(|one| is_wanted(one)) {
            self.reached = self.reached.max(one.at);
            self.grouping.add(one);
            if Rule::of(one.kind).is_some_and(|rule| rule.least == 1) {
                let window = self.window;
                self.fresh
                    .entry(key(one))
                    .and_modify(|group| group.add(one, window))
                    .or_insert_with(|| Group::new(one, window));
            }
        }
    }

    /// Whether it is not the end of a request whose start was taken.
    fn is_new(&mut self, one: &Notable) -> bool {
        let Some(identity) = one.identity else { return true };
        if !one.starts {
            return !self.started.remove(&identity);
        }
        if self.started.insert(identity) {
            self.by_age.push_back(identity);
        }
        while self.by_age.len() > STARTED {
            self.by_age.pop_front().map(|oldest| self.started.remove(&oldest));
        }
        true
    }

    /// How many requests were looked at.
    pub fn events(&self) -> u64 {
        self.seen.events
    }

    /// What has come up since the last time and is as grave as `least`; by time.
    pub fn news(&mut self, least: Severity) -> Vec<Group> {
        let around = Around { gone: &HashMap::new(), removed: None, seen: &self.seen, owners: &HashMap::new() };
        let mut news = Vec::new();
        for (key, mut group) in std::mem::take(&mut self.fresh) {
            group.finish(around);
            // Of these it matters how many they are, together with those that were reported.
            if matches!(group.first.kind, "delete-node" | "cordon") && group.done + group.unsure > 0 {
                group.floor = self.grouping.severity(&key);
            }
            if group.severity() >= least {
                news.push(group);
            }
        }
        let many = |group: &&mut Group| Rule::of(group.first.kind).is_some_and(|rule| rule.least > 1) && group.counts();
        for group in self.grouping.all().filter(many).filter(|group| group.reported != Some(Severity::Critical)) {
            let mut now = group.clone();
            now.finish(around);
            let severity = now.severity();
            if now.counts() && severity >= least && group.reported.is_none_or(|reported| severity > reported) {
                group.reported = Some(severity);
                news.push(now);
            }
        }
        self.grouping.forget();
        self.grouping.close(self.reached);
        sort(&mut news);
        news
    }
}

/// The message that shows these; nothing where none of them is more than info. The same operations make the same id.
pub fn message(deeds: Vec<GuardEvent>, cluster: &str, owner: &str, now: Micros) -> Option<Message> {
    let level = deeds.iter().map(|deed| deed.level).max()?;
    let keys: Vec<String> = deeds.iter().map(GuardEvent::id).collect();
    Some(Message { deeds, ..Message::news(cluster, owner, now, level, &keys) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{MINUTE, SECOND};

    fn pods(from: i64, count: i64) -> Batch {
        operations("delete-pod", from, count)
    }

    fn operations(kind: &'static str, from: i64, count: i64) -> Batch {
        let one = |n: i64| Notable {
            at: (from + n) * SECOND / 10,
            kind,
            user: "bot".into(),
            name: format!("p-{}", from + n),
            code: Some(200),
            resource: "pods".into(),
            ..Notable::default()
        };
        Batch { operations: (0..count).map(one).collect(), ..Batch::default() }
    }

    #[test]
    fn each_is_told_once_and_many_once_more_when_they_get_worse() {
        let mut wire = Tripwire::new(MINUTE);
        let mut reported = |from: i64, count: i64| {
            wire.take(pods(from, count), |_| true);
            wire.news(Severity::Warning).iter().map(|group| (group.count, group.severity())).collect::<Vec<_>>()
        };
        assert_eq!(reported(0, 9), []);
        assert_eq!(reported(9, 1), [(10, Severity::Warning)]);
        assert_eq!(reported(10, 80), []);
        assert_eq!(reported(90, 20), [(110, Severity::Critical)]);
        assert_eq!(reported(110, 300), []);
        // Ten minutes later it begins again.
        assert_eq!(reported(6_500, 10), [(10, Severity::Warning)]);
        // Of nodes each is reported, and the third is critical, as they are three.
        let mut wire = Tripwire::new(MINUTE);
        let mut reported = |from: i64, count: i64| {
            wire.take(operations("delete-node", from, count), |_| true);
            wire.news(Severity::Warning)
                .iter()
                .map(|group| (group.names.join(" "), group.severity()))
                .collect::<Vec<_>>()
        };
        assert_eq!(reported(0, 1), [("p-0".to_owned(), Severity::Warning)]);
        assert_eq!(reported(10, 2), [("p-10 p-11".to_owned(), Severity::Critical)]);
        assert_eq!(reported(20, 1), [("p-20".to_owned(), Severity::Critical)]);
        assert_eq!(reported(21, 0), []);
        let deeds = |kind| {
            let group = Group { first: Notable { kind, ..Notable::default() }, done: 1, ..Group::default() };
            group.guard_event().into_iter().collect::<Vec<GuardEvent>>()
        };
        assert_eq!(message(deeds("exec"), "c", "o", 5), None);
        let one = message(deeds("delete-crd"), "c", "o", 5).unwrap();
        assert_eq!((one.id.len(), one.id), (32, message(deeds("delete-crd"), "c", "o", 9).unwrap().id));
    }
}
