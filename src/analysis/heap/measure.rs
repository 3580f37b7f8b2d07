//! Profiles, counted: rows, groups, sums.

use super::groups::{self, GroupHeap, LISTS};
use super::select::Selection;
use super::top::{By, Node, Top};
use crate::model::stacks::SampleType;
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// A profile that was counted.
#[derive(Debug, Clone)]
pub struct Counted {
    /// Its file.
    pub path: String,
    /// The process that it is of, if that is known.
    pub instance: String,
    /// When it was taken.
    pub at: Option<Micros>,
    /// How many samples it has.
    pub samples: usize,
    /// Whether it is of before (0) or of now (1).
    pub when: usize,
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Measured<'s> {
    pub kind: SampleType,
    /// All that there are.
    pub kinds: Vec<String>,
    pub profiles: Vec<Counted>,
    /// All that they hold, before and now.
    pub total: [u64; 2],
    /// What was selected of it.
    pub selected: [u64; 2],
    /// The rows.
    pub nodes: Vec<Node<'s>>,
    /// What the groups hold; empty where it is no apiserver.
    pub groups: Vec<GroupHeap>,
    /// Filters that met nothing.
    pub idle: Vec<&'static str>,
    /// What LIST responses hold and had allocated, whatever was asked for.
    pub lists: BTreeMap<&'static str, Lists>,
}

/// What LIST responses hold, or had allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lists {
    /// They: before and now.
    pub held: [u64; 2],
    /// All groups together: before and now.
    pub all: [u64; 2],
    /// Samples of them, now.
    pub samples: u64,
    /// Whether no group holds more, now.
    pub largest: bool,
}

/// Adds up profiles.
#[derive(Debug, Default)]
pub struct Measuring<'s> {
    by: By,
    top: Top<'s>,
    groups: Vec<GroupHeap>,
    /// By sample types in bytes, of all stacks.
    unfiltered: BTreeMap<&'static str, Vec<GroupHeap>>,
    is_apiserver: bool,
    measured: Measured<'s>,
}

impl<'s> Measuring<'s> {
    /// Nothing yet.
    pub fn new(by: By) -> Self {
        Self { by, ..Self::default() }
    }

    /// Adds what is selected of a profile, by its sample type `kind`.
    pub fn add(&mut self, profile: Counted, selection: &Selection<'s>, kind: usize) {
        let (stacks, when) = (selection.stacks, profile.when);
        // Each looks at all stacks: rows on this thread, groups on another.
        let of = std::thread::scope(|scope| {
            let of = scope.spawn(|| groups::of_samples(stacks));
            self.top.add(selection, kind, self.by, when);
            of.join().unwrap_or_else(|_| groups::of_samples(stacks))
        });
        self.is_apiserver |= groups::is_apiserver(stacks);
        groups::add(
            &mut self.groups,
            stacks,
            &of,
            selection.samples.iter().map(|selected| selected.sample),
            kind,
            when,
        );
        for name in ["inuse_space", "alloc_space"] {
            if let Some(kind) = stacks.type_named(name) {
                groups::add(
                    self.unfiltered.entry(name).or_default(),
                    stacks,
                    &of,
                    0..stacks.samples() as u32,
                    kind,
                    when,
                );
            }
        }
        let measured = &mut self.measured;
        measured.total[when] = measured.total[when].saturating_add(stacks.total(kind));
        measured.selected[when] = measured.selected[when].saturating_add(selection.total(kind));
        measured.kind = stacks.types.get(kind).cloned().unwrap_or_default();
        measured.kinds = stacks.types.iter().map(|kind| kind.name.clone()).collect();
        // A filter is idle if it is so in all profiles.
        if measured.profiles.is_empty() {
            measured.idle.clone_from(&selection.idle);
        } else {
            measured.idle.retain(|filter| selection.idle.contains(filter));
        }
        measured.profiles.push(profile);
    }

    /// What it comes to.
    pub fn finish(self) -> Measured<'s> {
        let lists = |groups: &Vec<GroupHeap>| {
            let GroupHeap { weight: held, samples } = groups.get(LISTS).cloned().unwrap_or_default();
            let all = groups.iter().fold([0u64; 2], |[before, now], group| {
                [before.saturating_add(group.weight[0]), now.saturating_add(group.weight[1])]
            });
            Lists { held, all, samples, largest: groups.iter().all(|group| group.weight[1] <= held[1]) }
        };
        let (groups, lists) = match self.is_apiserver {
            true => (self.groups, self.unfiltered.iter().map(|(name, groups)| (*name, lists(groups))).collect()),
            false => (Vec::new(), BTreeMap::new()),
        };
        Measured { nodes: self.top.finish(), groups, lists, ..self.measured }
    }
}
