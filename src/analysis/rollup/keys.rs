//! Row keys as numbers: who asked for what, interned once, so that the tables work on small integers.

use crate::analysis::dims::code_class;
use crate::analysis::failure::Fault;
use crate::model::rollup::Field;
use crate::model::symbols::{Symbol, Symbols};
use crate::model::uri::{ReadShape, Scope};
use hashbrown::HashMap;

/// Rows beyond a limit, folded together: the same word in every table.
pub use crate::analysis::traffic::OTHER;

/// Keys held at most; what is beyond is `(other)`. 60 bytes each.
const MAX_KEYS: usize = 2 << 20;

/// Bytes of strings held at most.
const MAX_TEXT_BYTES: usize = 96 << 20;

/// The symbol of `(other)` in every set of keys.
pub const OTHER_SYMBOL: Symbol = Symbol(1);

/// A class of operations, as pulse counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Get,
    List,
    Watch,
    /// `create`, `update`, `patch`.
    Write,
    /// `delete`, `deletecollection`.
    Delete,
    /// Anything else.
    Other,
}

impl Op {
    /// All classes.
    pub const ALL: [Self; 6] = [Self::Get, Self::List, Self::Watch, Self::Write, Self::Delete, Self::Other];

    /// The class of a verb.
    pub fn of(verb: &str) -> Self {
        match verb {
            "get" => Self::Get,
            "list" => Self::List,
            "watch" => Self::Watch,
            "create" | "update" | "patch" => Self::Write,
            "delete" | "deletecollection" => Self::Delete,
            _ => Self::Other,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// Who, on which resource: the key of sequences and sources, and the heart of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject {
    pub cluster: Symbol,
    /// User; all kubelets are `system:node:*`.
    pub user: Symbol,
    /// Agent product.
    pub agent: Symbol,
    /// API group.
    pub group: Symbol,
    pub resource: Symbol,
}

/// Key of a pulse row within its second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PulseKey {
    /// Number of the subject.
    pub subject: u32,
    /// Apiserver.
    pub instance: Symbol,
    /// Class of operation.
    pub op: Op,
}

/// Key of a traffic row within its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrafficKey {
    /// Number of the subject.
    pub subject: u32,
    /// Apiserver.
    pub instance: Symbol,
    pub verb: Symbol,
    pub subresource: Symbol,
    pub scope: Scope,
    pub namespace: Symbol,
    /// Response code; `None` where the event has none.
    pub code: Option<u16>,
    /// How a read asks to be served; `None` for what is no read of a resource.
    pub shape: Option<ReadShape>,
}

/// All keys met, numbered; number 0 is `(other)` in each table.
#[derive(Debug)]
pub struct Keys {
    /// The strings.
    pub symbols: Symbols,
    pub subjects: Numbered<Subject>,
    pub pulses: Numbered<PulseKey>,
    pub traffic: Numbered<TrafficKey>,
    pub failures: Numbered<FailureKey>,
    /// Keys of the tables that few events are in.
    pub extra: ExtraKeys,
    /// For each traffic key its pulse key and class of operation.
    classes: Vec<(u32, Op)>,
}

/// Things with numbers.
#[derive(Debug)]
pub struct Numbered<K> {
    numbers: HashMap<K, u32, foldhash::fast::FixedState>,
    keys: Vec<K>,
}

impl<K: Copy + Eq + std::hash::Hash> Numbered<K> {
    /// None but `other`, whose number is 0.
    pub fn new(other: K) -> Self {
        let mut numbered = Self { numbers: HashMap::default(), keys: Vec::new() };
        numbered.number(other);
        numbered
    }

    /// The number of `key`; 0 where there is no room for another.
    #[inline]
    pub fn number(&mut self, key: K) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        if self.keys.len() >= MAX_KEYS {
            return 0;
        }
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.numbers.insert(key, number);
        number
    }

    /// The number of a key that has one.
    pub fn find(&self, key: &K) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// The key with a number.
    #[inline]
    pub fn get(&self, number: u32) -> &K {
        &self.keys[number as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// All keys in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.keys.iter()
    }
}

impl Default for Keys {
    fn default() -> Self {
        let mut symbols = Symbols::default();
        let other = symbols.intern(OTHER);
        let subject = Subject { cluster: other, user: other, agent: other, group: other, resource: other };
        Self {
            symbols,
            subjects: Numbered::new(subject),
            pulses: Numbered::new(PulseKey { subject: 0, instance: other, op: Op::Other }),
            traffic: Numbered::new(TrafficKey {
                subject: 0,
                instance: other,
                verb: other,
                subresource: other,
                scope: Scope::NonResource,
                namespace: other,
                code: None,
                shape: None,
            }),
            failures: Numbered::new(FailureKey::OTHER),
            extra: ExtraKeys::default(),
            classes: vec![(0, Op::Other)],
        }
    }
}

/// How the keys of one set are numbered in another.
#[derive(Debug)]
pub struct Renumbering {
    pub symbols: Vec<Symbol>,
    /// Traffic keys.
    pub traffic: Vec<u32>,
}

impl Keys {
    /// The symbol of `text`; that of `(other)` where there is no room for another string.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if self.symbols.bytes() > MAX_TEXT_BYTES { OTHER_SYMBOL } else { self.symbols.intern(text) }
    }

    /// The number of a traffic key.
    pub fn number(&mut self, key: TrafficKey) -> u32 {
        let number = self.traffic.number(key);
        if self.classes.len() <= number as usize {
            let op = Op::of(self.symbols.get(key.verb));
            let pulse = self.pulses.number(PulseKey { subject: key.subject, instance: key.instance, op });
            self.classes.push((pulse, op));
        }
        number
    }

    /// The pulse key of a traffic key, and its class of operation.
    #[inline]
    pub fn class(&self, traffic: u32) -> (u32, Op) {
        self.classes[traffic as usize]
    }

    /// Takes in all keys of another set.
    pub fn renumber(&mut self, other: &Self) -> Renumbering {
        let symbols: Vec<Symbol> =
            (0..other.symbols.len() as u32).map(|s| self.intern(other.symbols.get(Symbol(s)))).collect();
        let s = |symbol: Symbol| symbols[symbol.0 as usize];
        let subjects: Vec<u32> = other
            .subjects
            .iter()
            .map(|k| {
                self.subjects.number(Subject {
                    cluster: s(k.cluster),
                    user: s(k.user),
                    agent: s(k.agent),
                    group: s(k.group),
                    resource: s(k.resource),
                })
            })
            .collect();
        let traffic = other
            .traffic
            .iter()
            .map(|k| {
                self.number(TrafficKey {
                    subject: subjects[k.subject as usize],
                    instance: s(k.instance),
                    verb: s(k.verb),
                    subresource: s(k.subresource),
                    namespace: s(k.namespace),
                    ..*k
                })
            })
            .collect();
        Renumbering { symbols, traffic }
    }

    /// The text columns of a traffic key.
    pub fn traffic_fields(&self, number: u32) -> [Field<'_>; 12] {
        let k = self.traffic.get(number);
        let [cluster, user, agent, group, resource] = self.subject_text(k.subject);
        let s = |symbol| self.symbols.get(symbol);
        let is_other = number == 0;
        let scope = if is_other { OTHER } else { k.scope.name() };
        let other = || Field::from(if is_other { OTHER } else { "" });
        let [cluster, instance, user, agent, verb, group, resource, subresource, scope, namespace] =
            [cluster, s(k.instance), user, agent, s(k.verb), group, resource, s(k.subresource), scope, s(k.namespace)]
                .map(Field::from);
        let code = k.code.map_or_else(other, |code| code.to_string().into());
        let shape = k.shape.map_or_else(other, |shape| shape.encode().into());
        [cluster, instance, user, agent, verb, group, resource, subresource, scope, namespace, code, shape]
    }

    /// The text columns of a subject: cluster, user, agent, group, resource.
    pub fn subject_text(&self, number: u32) -> [&str; 5] {
        let k = self.subjects.get(number);
        [k.cluster, k.user, k.agent, k.group, k.resource].map(|symbol| self.symbols.get(symbol))
    }
}

/// Verbs that `load` distinguishes; a client may send any word for a method.
pub const VERBS: [&str; 14] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
    "connect",
    "proxy",
];

/// Key of a row of `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoadKey {
    pub cluster: Symbol,
    /// Apiserver.
    pub instance: Symbol,
    /// One of [`VERBS`], else `(other)`.
    pub verb: Symbol,
    /// Class of the code: `2xx`.
    pub class: &'static str,
}

/// What an operation that is left out of a timeline was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Omitted {
    /// A dangerous operation that was a dry run.
    DryRun,
    /// A write that may be dangerous, whose body the audit level hides.
    Hidden,
    /// Folded rows.
    Other,
}

impl Omitted {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DryRun, Self::Hidden, Self::Other];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::DryRun => "dry-run",
            Self::Hidden => "hidden",
            Self::Other => OTHER,
        }
    }
}

/// Key of a row of `omitted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OmittedKey {
    /// Number of client and resource.
    pub subject: u32,
    /// Apiserver.
    pub instance: Symbol,
    pub verb: Symbol,
    pub subresource: Symbol,
    pub namespace: Symbol,
    pub fact: Omitted,
}

/// Key of a row of `cascades`: cluster, namespace, group, resource; and of `refusals`: cluster, namespace, quota,
/// resource.
pub type FourKey = [Symbol; 4];

/// Key of a row of `failures`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FailureKey {
    /// Number of client and resource.
    pub subject: u32,
    /// Apiserver.
    pub instance: Symbol,
    /// `None` of folded rows.
    pub fault: Option<Fault>,
    /// The webhook, API group, policy or quota that the message names.
    pub name: Symbol,
}

impl FailureKey {
    /// That of folded rows.
    pub const OTHER: Self = Self { subject: 0, instance: OTHER_SYMBOL, fault: None, name: OTHER_SYMBOL };

    /// Its fault in words of the table.
    pub fn fault(self) -> &'static str {
        self.fault.map_or(OTHER, Fault::name)
    }
}

/// Keys by number; number 0 is `(other)` in each table.
#[derive(Debug)]
pub struct ExtraKeys {
    pub loads: Numbered<LoadKey>,
    pub omitted: Numbered<OmittedKey>,
    pub cascades: Numbered<FourKey>,
    pub refusals: Numbered<FourKey>,
}

impl Default for ExtraKeys {
    fn default() -> Self {
        let other = OTHER_SYMBOL;
        Self {
            loads: Numbered::new(LoadKey { cluster: other, instance: other, verb: other, class: OTHER }),
            omitted: Numbered::new(OmittedKey {
                subject: 0,
                instance: other,
                verb: other,
                subresource: other,
                namespace: other,
                fact: Omitted::Other,
            }),
            cascades: Numbered::new([other; 4]),
            refusals: Numbered::new([other; 4]),
        }
    }
}

impl LoadKey {
    /// Where a traffic key counts.
    pub fn of(key: &TrafficKey, keys: &Keys) -> Self {
        let verb = keys.symbols.get(key.verb);
        let verb = if VERBS.contains(&verb) { key.verb } else { OTHER_SYMBOL };
        let cluster = keys.subjects.get(key.subject).cluster;
        Self { cluster, instance: key.instance, verb, class: code_class(key.code) }
    }
}
