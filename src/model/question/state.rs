//! Questions about what is held: etcd's key space, memory of cgroups, the Go heap.

use super::Line;
use super::requests::value_name;
use crate::model::problem::Problem;
use crate::model::time::{Bounds, Micros};
use std::time::Duration;

/// What rows of `etcd usage` are made by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeysBy {
    /// Resource and namespace.
    #[default]
    Prefix,
    /// Resource.
    Resource,
    /// Namespace.
    Namespace,
    /// Resource, namespace, and what names have in common.
    NamePrefix,
    /// API version and kind.
    Kind,
    /// The top of the owner references.
    Owner,
    /// Field managers. A key counts with each of its managers.
    Manager,
    /// The value of this label.
    Label(String),
}

impl KeysBy {
    const NAMED: [(&'static str, Self); 7] = [
        ("prefix", Self::Prefix),
        ("resource", Self::Resource),
        ("namespace", Self::Namespace),
        ("name-prefix", Self::NamePrefix),
        ("kind", Self::Kind),
        ("owner", Self::Owner),
        ("manager", Self::Manager),
    ];
}

impl std::str::FromStr for KeysBy {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        let named = Self::NAMED.iter().find(|(name, _)| *name == text).map(|(_, by)| by.clone());
        let label = || text.strip_prefix("label:").filter(|key| !key.is_empty()).map(|key| Self::Label(key.to_owned()));
        named.or_else(label).ok_or_else(|| {
            Problem::setting("one of prefix, resource, namespace, name-prefix, kind, owner, manager, label:KEY")
        })
    }
}

impl std::fmt::Display for KeysBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label:{key}"),
            _ => f.write_str(Self::NAMED.iter().find(|(_, by)| by == self).map_or("", |(name, _)| name)),
        }
    }
}

/// What the width of a frame of the key space is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Bytes of the values that live.
    #[default]
    Live,
    /// Bytes that compaction would free.
    History,
    /// Live and history.
    All,
    /// Live keys.
    Keys,
    /// Revisions.
    Revisions,
}

/// What rows of `etcd history` are made by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HistoryBy {
    /// Keys.
    #[default]
    Key,
    /// Resource and namespace.
    Prefix,
    /// Resource.
    Resource,
}

/// What a row of `heap top` is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StacksBy {
    /// A function.
    #[default]
    Function,
    /// A source file.
    File,
    /// A Go package.
    Package,
    /// A line of a function.
    Line,
}

fn unless_default<T: Default + PartialEq>(value: &T) -> Option<&T> {
    (*value != T::default()).then_some(value)
}

/// `plimsoll etcd usage`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdUsage {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
    /// What rows are grouped by.
    pub by: KeysBy,
    /// Whether values are not looked into.
    pub keys_only: bool,
    /// The member's quota in bytes.
    pub quota_bytes: Option<u64>,
}

impl EtcdUsage {
    pub(super) fn line(&self) -> Line {
        of_database("usage", &self.source, self.at, self.prefix.as_ref())
            .text("--by", unless_default(&self.by))
            .switch("--keys-only", self.keys_only)
            .text("--quota-bytes", self.quota_bytes)
    }
}

fn of_database(command: &str, source: &String, at: Option<Micros>, prefix: Option<&String>) -> Line {
    Line::new(&["etcd", command]).sources(std::slice::from_ref(source)).time("--at", at).text("--prefix", prefix)
}

/// `plimsoll etcd flame`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdFlame {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
    /// What widths show.
    pub weight: Weight,
    /// The database that it is compared with.
    pub diff: Option<String>,
}

impl EtcdFlame {
    pub(super) fn line(&self) -> Line {
        of_database("flame", &self.source, self.at, self.prefix.as_ref())
            .text("--weight", unless_default(&self.weight).copied().map(value_name))
            .text("--diff", self.diff.as_ref())
    }
}

/// `plimsoll etcd top`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdTop {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
}

impl EtcdTop {
    pub(super) fn line(&self) -> Line {
        of_database("top", &self.source, self.at, self.prefix.as_ref())
    }
}

/// `plimsoll etcd history`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdHistory {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
    /// What rows are grouped by.
    pub by: HistoryBy,
}

impl EtcdHistory {
    pub(super) fn line(&self) -> Line {
        of_database("history", &self.source, self.at, self.prefix.as_ref())
            .text("--by", unless_default(&self.by).copied().map(value_name))
    }
}

/// `plimsoll etcd pages`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdPages {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
}

impl EtcdPages {
    pub(super) fn line(&self) -> Line {
        of_database("pages", &self.source, self.at, self.prefix.as_ref())
    }
}

/// `plimsoll etcd check`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdCheck {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
    /// Whether the SHA-256 at a snapshot's end is not checked.
    pub no_trailer: bool,
}

impl EtcdCheck {
    pub(super) fn line(&self) -> Line {
        of_database("check", &self.source, self.at, self.prefix.as_ref()).switch("--no-trailer", self.no_trailer)
    }
}

/// `plimsoll etcd split`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdSplit {
    /// A database, or a folder that holds one.
    pub source: String,
    /// Of several the newest at or before this time.
    pub at: Option<Micros>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
}

impl EtcdSplit {
    pub(super) fn line(&self) -> Line {
        of_database("split", &self.source, self.at, self.prefix.as_ref())
    }
}

/// `plimsoll etcd diff`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdDiff {
    /// The older database, or a bundle with several.
    pub before: String,
    /// The newer one; `None`: the last of the bundle.
    pub after: Option<String>,
    /// Where the apiserver keeps its objects.
    pub prefix: Option<String>,
    /// Whether each object has a row.
    pub objects: bool,
}

impl EtcdDiff {
    pub(super) fn line(&self) -> Line {
        let sources: Vec<String> = std::iter::once(&self.before).chain(&self.after).cloned().collect();
        Line::new(&["etcd", "diff"])
            .sources(&sources)
            .text("--prefix", self.prefix.as_ref())
            .switch("--objects", self.objects)
    }
}

/// `plimsoll etcd health`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EtcdHealth {
    /// Metrics pages of etcd members and of apiservers.
    pub sources: Vec<String>,
    /// Which time.
    pub bounds: Bounds,
}

impl EtcdHealth {
    pub(super) fn line(&self) -> Line {
        Line::new(&["etcd", "health"]).sources(&self.sources).bounds(self.bounds)
    }
}

/// `plimsoll memory show`.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryShow {
    /// Cgroups of this machine, or copies.
    pub sources: Vec<String>,
    /// Of copies the samples up to this time.
    pub at: Option<Micros>,
    /// Whether the cgroups below are shown too.
    pub recursive: bool,
    /// How far apart two looks at a live cgroup are.
    pub over: Duration,
    /// Metrics pages of the program in the cgroup.
    pub metrics: Vec<String>,
    /// Heap profiles of it.
    pub heap: Vec<String>,
    /// Where the machine's root file system is.
    pub root: String,
    /// Processes whose cgroups are meant.
    pub pids: Vec<u32>,
    /// Units whose cgroups are meant.
    pub units: Vec<String>,
    /// Components whose cgroups are meant.
    pub components: Vec<String>,
    /// The machine's memory in bytes.
    pub host_memory: Option<u64>,
}

impl Default for MemoryShow {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            at: None,
            recursive: false,
            over: Self::OVER,
            metrics: Vec::new(),
            heap: Vec::new(),
            root: Self::ROOT.to_owned(),
            pids: Vec::new(),
            units: Vec::new(),
            components: Vec::new(),
            host_memory: None,
        }
    }
}

impl MemoryShow {
    /// The default of `--over`.
    pub const OVER: Duration = Duration::from_secs(1);
    /// The default of `--root`.
    pub const ROOT: &'static str = "/";

    pub(super) fn line(&self) -> Line {
        let texts = |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let over = Micros::try_from(self.over.as_micros()).unwrap_or(Micros::MAX);
        Line::new(&["memory", "show"])
            .sources(&self.sources)
            .time("--at", self.at)
            .switch("--recursive", self.recursive)
            .length("--over", (self.over != Self::OVER).then_some(over))
            .each("--metrics", &self.metrics)
            .each("--heap", &self.heap)
            .text("--root", (self.root != Self::ROOT).then_some(&self.root))
            .each("--pid", &texts(&self.pids))
            .each("--unit", &self.units)
            .each("--component", &self.components)
            .text("--host-memory", self.host_memory)
    }
}

/// What is counted in heap profiles, and what is left out. Patterns are regular expressions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapWhat {
    /// The sample type.
    pub sample_type: Option<String>,
    /// Stacks with a match.
    pub focus: Option<String>,
    /// Stacks without a match.
    pub ignore: Option<String>,
    /// Only what the outermost match calls, and itself.
    pub show_from: Option<String>,
    /// Of several processes this one.
    pub instance: Option<String>,
}

impl HeapWhat {
    fn add(&self, line: Line) -> Line {
        line.text("--sample-type", self.sample_type.as_ref())
            .text("--focus", self.focus.as_ref())
            .text("--ignore", self.ignore.as_ref())
            .text("--show-from", self.show_from.as_ref())
            .text("--instance", self.instance.as_ref())
    }
}

/// `plimsoll heap top`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapTop {
    /// Profiles, or folders that hold some.
    pub sources: Vec<String>,
    /// Of several profiles of a process the newest at or before this time.
    pub at: Option<Micros>,
    /// What a row shows.
    pub by: StacksBy,
    /// What is counted.
    pub what: HeapWhat,
}

impl HeapTop {
    pub(super) fn line(&self) -> Line {
        let by = unless_default(&self.by).copied().map(value_name);
        self.what.add(Line::new(&["heap", "top"]).sources(&self.sources).time("--at", self.at).text("--by", by))
    }
}

/// `plimsoll heap flame`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapFlame {
    /// Profiles, or folders that hold some.
    pub sources: Vec<String>,
    /// Of several profiles of a process the newest at or before this time.
    pub at: Option<Micros>,
    /// The profile that it is compared with.
    pub diff: Option<String>,
    /// What is counted.
    pub what: HeapWhat,
}

impl HeapFlame {
    pub(super) fn line(&self) -> Line {
        let line = Line::new(&["heap", "flame"]).sources(&self.sources).time("--at", self.at);
        self.what.add(line.text("--diff", self.diff.as_ref()))
    }
}

/// `plimsoll heap diff`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapDiff {
    /// Two profiles, or one folder with several.
    pub sources: Vec<String>,
    /// What a row shows.
    pub by: StacksBy,
    /// What is counted.
    pub what: HeapWhat,
}

impl HeapDiff {
    pub(super) fn line(&self) -> Line {
        let by = unless_default(&self.by).copied().map(value_name);
        self.what.add(Line::new(&["heap", "diff"]).sources(&self.sources).text("--by", by))
    }
}
