//! Flow schemas of many events: what the reader knows of callers and targets by number is matched once.

use super::matching::{RequestTarget, Set, caller, is_classified};
use crate::model::event::{Event, Timed};
use crate::model::uri::decoded_path;
use hashbrown::HashTable;

/// Matches that a thread remembers; beyond, all are forgotten.
const MAX_KNOWN: usize = 1 << 18;

/// The FlowSchemas of all clusters in a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sets {
    /// Cluster (`None`: every other one) and its set; the first that fits counts.
    sets: Vec<(Option<String>, Set)>,
}

/// A FlowSchema and its level, as the value of dimensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow<'s> {
    /// Its name; empty where the request is not classified.
    pub schema: &'s str,
    /// Its priority level's name.
    pub level: &'s str,
    /// A number that distinguishes it from all others of these sets; 0 where the request is not classified.
    pub number: u32,
}

impl Sets {
    /// Sets by cluster; `None` stands for every cluster that is not named.
    pub fn new(sets: Vec<(Option<String>, Set)>) -> Self {
        Self { sets }
    }

    /// The set of a cluster, and the number of its first schema.
    pub fn of(&self, cluster: &str) -> Option<(&Set, u32)> {
        let mut first = 1;
        for (name, set) in &self.sets {
            if name.as_deref().is_none_or(|name| name == cluster) {
                return Some((set, first));
            }
            first += set.schemas.len() as u32;
        }
        None
    }

    /// What makes flows of one thread's events.
    pub fn classifier(&self) -> Classifier<'_> {
        Classifier {
            sets: self,
            generations: (0, 0),
            callers: Vec::new(),
            known: HashTable::new(),
            by_cluster: self.sets.len() > 1,
        }
    }
}

/// Notifies the flow schemas of a thread's events.
#[derive(Debug)]
pub struct Classifier<'s> {
    sets: &'s Sets,
    /// Of the reader's callers and targets.
    generations: (u32, u32),
    /// The rules about a caller, by the reader's number.
    callers: Vec<Option<Rules>>,
    known: HashTable<(Key, u16)>,
    /// Whether events have to be asked for their cluster: then nothing is remembered.
    by_cluster: bool,
}

/// Numbers of schemas and of rules in them.
type Rules = Box<[(u16, u16)]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    caller: u32,
    target: u32,
    namespace: u32,
}

impl Key {
    #[inline]
    fn hash(self) -> u64 {
        let product = u128::from(u64::from(self.caller) << 32 | u64::from(self.target)).wrapping_add(1)
            * (u128::from(self.namespace).wrapping_mul(2) + 0x9e37_79b9_7f4a_7c15);
        product as u64 ^ (product >> 64) as u64
    }
}

impl<'s> Classifier<'s> {
    /// The flow of an event.
    #[inline]
    pub fn flow(&mut self, event: &Timed<'_, '_>) -> Flow<'s> {
        let e = event.event;
        if !is_classified(e) {
            return Flow::default();
        }
        let sets = self.sets;
        let cluster = if self.by_cluster { event.cluster() } else { "" };
        let found = if self.by_cluster { sets.of(cluster) } else { sets.sets.first().map(|(_, set)| (set, 1)) };
        let Some((set, first)) = found else { return Flow::default() };
        let at = match (e.caller, e.target) {
            (Some(caller), Some(target)) if !self.by_cluster && !e.resource.is_empty() => {
                let generations = (caller.generation, target.generation);
                if self.generations != generations || self.known.len() > MAX_KNOWN {
                    self.forget(generations);
                }
                let namespace = if e.namespace.is_empty() { 0 } else { set.namespace_class(&e.namespace.decode()) };
                let key = Key { caller: caller.index, target: target.index, namespace };
                match self.known.find(key.hash(), |known| known.0 == key) {
                    Some(known) => usize::from(known.1),
                    None => {
                        let at = self.look_up(set, Some(caller.index), e);
                        self.known.insert_unique(key.hash(), (key, at as u16), |known| known.0.hash());
                        at
                    }
                }
            }
            (Some(caller), _) if !self.by_cluster => {
                if self.generations.0 != caller.generation {
                    self.forget((caller.generation, self.generations.1));
                }
                self.look_up(set, Some(caller.index), e)
            }
            _ => self.look_up(set, None, e),
        };
        let Some(schema) = set.schemas.get(at) else { return Flow::default() };
        Flow { schema: &schema.name, level: &schema.level, number: first + at as u32 }
    }

    #[cold]
    fn forget(&mut self, generations: (u32, u32)) {
        self.generations = generations;
        self.callers.clear();
        self.known.clear();
    }

    /// Matches again; the rules about a caller that the reader knows are remembered.
    fn look_up(&mut self, set: &Set, known: Option<u32>, event: &Event<'_>) -> usize {
        let Some(index) = known else { return matching(set, &set.rules_for(&caller(event)), event) };
        let index = index as usize;
        if self.callers.len() <= index {
            self.callers.resize(index + 1, None);
        }
        let rules = self.callers[index].get_or_insert_with(|| set.rules_for(&caller(event)).into_boxed_slice());
        matching(set, rules, event)
    }
}

/// The schema that an event matches, given the rules about its caller.
fn matching(set: &Set, rules: &[(u16, u16)], event: &Event<'_>) -> usize {
    let verb = event.verb.decode();
    if event.resource.is_empty() {
        let uri = event.uri.decode();
        return set.matching(rules, RequestTarget::Path { verb: &verb, path: &decoded_path(&uri) });
    }
    let [group, resource, subresource, namespace] =
        [event.group, event.resource, event.subresource, event.namespace].map(|text| text.decode());
    set.matching(
        rules,
        RequestTarget::Resource {
            verb: &verb,
            group: &group,
            resource: &resource,
            subresource: &subresource,
            namespace: &namespace,
        },
    )
}
