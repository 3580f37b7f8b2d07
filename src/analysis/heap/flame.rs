//! From stacks to the tree of a flame graph.

use super::select::Selection;
use crate::model::flame::{Call, Tree};
use std::borrow::Cow;
use std::collections::HashMap;

/// Calls below this are not distinguished: no program that can be read by people calls so deep, but a file can.
const DEEPEST: usize = 512;

/// More calls than this are not distinguished either; what they hold is their callers'.
const MAX_FRAMES: usize = 2_000_000;

/// What stacks are called that have no call.
const NO_STACK: &str = "(no stack)";

/// A tree that grows.
#[derive(Debug)]
pub struct Growing<'s> {
    tree: Tree,
    names: HashMap<Cow<'s, str>, u32>,
    calls: HashMap<(u32, u32), u32>,
}

impl<'s> Default for Growing<'s> {
    fn default() -> Self {
        let root = Call { caller: 0, name: 0, own: [0; 2] };
        Self {
            tree: Tree { names: vec![String::new()], calls: vec![root], ..Tree::default() },
            names: HashMap::new(),
            calls: HashMap::new(),
        }
    }
}

impl<'s> Growing<'s> {
    fn name(&mut self, name: Cow<'s, str>) -> u32 {
        if let Some(known) = self.names.get(&name) {
            return *known;
        }
        let number = self.tree.names.len() as u32;
        self.tree.names.push(name.clone().into_owned());
        self.names.insert(name, number);
        number
    }

    /// The call of `name` by `caller`; the caller itself where there are too many.
    fn call(&mut self, caller: u32, name: u32) -> u32 {
        if let Some(known) = self.calls.get(&(caller, name)) {
            return *known;
        }
        if self.tree.calls.len() >= MAX_FRAMES {
            return caller;
        }
        let number = self.tree.calls.len() as u32;
        self.tree.calls.push(Call { caller, name, own: [0; 2] });
        self.calls.insert((caller, name), number);
        number
    }

    /// Adds what a profile holds by the sample type `kind`, as it was before (0) or is now (1).
    pub fn add(&mut self, selection: &Selection<'s>, kind: usize, when: usize) {
        let stacks = selection.stacks;
        let functions: Vec<u32> =
            stacks.functions.iter().map(|f| self.name(Cow::Borrowed(stacks.text(f.name)))).collect();
        for selected in &selection.samples {
            let weight = stacks.value(selected.sample as usize, kind);
            if weight == 0 {
                continue;
            }
            let (mut at, mut depth) = (0, 0);
            'stack: for location in selection.locations(*selected).iter().rev() {
                let frames = selection.frames(*location);
                for frame in frames.iter().rev() {
                    let name = functions.get(frame.function as usize).copied().unwrap_or(0);
                    at = self.call(at, name);
                    depth += 1;
                    if depth == DEEPEST {
                        break 'stack;
                    }
                }
                if frames.is_empty() {
                    let address = stacks.locations.get(*location as usize).map_or(0, |location| location.address);
                    let name =
                        self.name(if address == 0 { Cow::Borrowed("") } else { Cow::Owned(format!("{address:#x}")) });
                    at = self.call(at, name);
                    depth += 1;
                    if depth == DEEPEST {
                        break;
                    }
                }
            }
            if depth == 0 {
                let name = self.name(Cow::Borrowed(NO_STACK));
                at = self.call(0, name);
            }
            if let Some(call) = self.tree.calls.get_mut(at as usize) {
                call.own[when] = call.own[when].saturating_add(weight);
            }
        }
    }

    /// The tree.
    pub fn finish(self) -> Tree {
        self.tree
    }
}
