//! What each function, file, package or line holds: *flat*, itself, and *cum*, with all that it calls.
//!
//! As in pprof: a stack counts once for each that is anywhere in it, however often (recursion); calls that were inlined
//! count like others; and what is called the same is the same.

use super::select::Selection;
use crate::model::flame::package_of;
use crate::model::stacks::{Frame, Location};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;

/// What a row is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
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

impl By {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::File => "file",
            Self::Package => "package",
            Self::Line => "line",
        }
    }
}

/// What tells rows apart. What a row is not about is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<'s> {
    /// Function or package.
    pub name: Cow<'s, str>,
    /// File.
    pub file: Cow<'s, str>,
    /// Line; 0 where it is not known.
    pub line: i64,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node<'s> {
    /// What it is about.
    pub key: Key<'s>,
    /// Of a function, where it is: file, and first line or 0.
    pub place: (Cow<'s, str>, i64),
    /// What it holds itself: before and now.
    pub flat: [u64; 2],
    /// With all that it calls: before and now.
    pub cum: [u64; 2],
}

/// All rows.
#[derive(Debug, Default)]
pub struct Top<'s> {
    nodes: Vec<Node<'s>>,
    known: HashMap<Key<'s>, u32, RandomState>,
}

impl<'s> Top<'s> {
    fn node(&mut self, key: Key<'s>, place: (Cow<'s, str>, i64)) -> u32 {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node { key: key.clone(), place, flat: [0; 2], cum: [0; 2] });
        self.known.insert(key, number);
        number
    }

    /// Adds what a profile holds by the sample type `kind`, as it was before (0) or is now (1).
    pub fn add(&mut self, selection: &Selection<'s>, kind: usize, by: By, when: usize) {
        let stacks = selection.stacks;
        // The rows of each location's frames, from `starts[location]` on.
        let mut rows = Vec::with_capacity(stacks.frames.len());
        let mut starts = Vec::with_capacity(stacks.locations.len() + 1);
        // Without lines a function is enough to know the row.
        let mut of_function = vec![u32::MAX; stacks.functions.len()];
        let mut of_frame: HashMap<(u32, i64), u32, RandomState> = HashMap::default();
        if self.nodes.is_empty() && by == By::Function {
            self.nodes.reserve(stacks.functions.len());
            self.known.reserve(stacks.functions.len());
        }
        for (number, location) in stacks.locations.iter().enumerate() {
            starts.push(rows.len());
            let frames = selection.frames(number as u32);
            for frame in frames {
                let slot = match by {
                    By::Line => of_frame.entry((frame.function, frame.line)).or_insert(u32::MAX),
                    _ => match of_function.get_mut(frame.function as usize) {
                        Some(slot) => slot,
                        None => continue,
                    },
                };
                if *slot == u32::MAX {
                    let (key, place) = of(selection, *frame, location, by);
                    *slot = self.node(key, place);
                }
                rows.push(*slot);
            }
            if frames.is_empty() {
                let key = nameless(selection, location, by);
                rows.push(self.node(key, (Cow::Borrowed(""), 0)));
            }
        }
        starts.push(rows.len());
        let mut seen = vec![u32::MAX; self.nodes.len()];
        for (number, selected) in selection.samples.iter().enumerate() {
            let weight = stacks.value(selected.sample as usize, kind);
            if weight == 0 {
                continue;
            }
            let mut leaf = None;
            for location in selection.locations(*selected) {
                let location = *location as usize;
                let (Some(start), Some(end)) = (starts.get(location), starts.get(location + 1)) else { continue };
                for row in rows.get(*start..*end).unwrap_or_default() {
                    leaf = leaf.or(Some(*row));
                    let (Some(seen), Some(node)) = (seen.get_mut(*row as usize), self.nodes.get_mut(*row as usize)) else { continue };
                    if *seen != number as u32 {
                        *seen = number as u32;
                        node.cum[when] = node.cum[when].saturating_add(weight);
                    }
                }
            }
            if let Some(node) = leaf.and_then(|leaf| self.nodes.get_mut(leaf as usize)) {
                node.flat[when] = node.flat[when].saturating_add(weight);
            }
        }
    }

    /// The rows that hold anything.
    pub fn finish(self) -> Vec<Node<'s>> {
        let mut nodes = self.nodes;
        nodes.retain(|node| node.cum != [0; 2]);
        nodes
    }
}

/// What row a frame counts for, and where its function is.
fn of<'s>(selection: &Selection<'s>, frame: Frame, location: &Location, by: By) -> (Key<'s>, (Cow<'s, str>, i64)) {
    let stacks = selection.stacks;
    let (name, file) = (stacks.name(frame), clean(stacks.file(frame)));
    let start_line = stacks.functions.get(frame.function as usize).map_or(0, |function| function.start_line);
    let nothing = Cow::Borrowed("");
    let key = match by {
        By::Function => Key { name: name.into(), file: nothing, line: 0 },
        By::File => Key { name: nothing, file: file.clone(), line: 0 },
        By::Package => Key { name: package_of(name).into(), file: nothing, line: 0 },
        By::Line => Key { name: name.into(), file: file.clone(), line: frame.line },
    };
    if key.name.is_empty() && key.file.is_empty() {
        return (nameless(selection, location, by), (Cow::Borrowed(""), 0));
    }
    (key, (file, start_line))
}

/// The row of a place whose function is not known: its program, else its address, else nothing at all.
fn nameless<'s>(selection: &Selection<'s>, location: &Location, by: By) -> Key<'s> {
    let object = selection.stacks.text(location.object);
    let base = object.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    let name: Cow<'s, str> = match (base, location.address) {
        ("", 0) => "<unknown>".into(),
        ("", _) if by == By::Package || by == By::File => "<unknown>".into(),
        ("", address) => format!("{address:#x}").into(),
        (base, _) => format!("[{base}]").into(),
    };
    match by {
        By::File => Key { name: "".into(), file: name, line: 0 },
        _ => Key { name, file: "".into(), line: 0 },
    }
}

/// A path without `.`, `..` and doubled slashes, so that one file has one name.
fn clean(path: &str) -> Cow<'_, str> {
    // Nearly all are: a profile has a path for each of its functions.
    if !path.starts_with('.') && (path.is_empty() || !path.ends_with('/')) && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    Cow::Owned(match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (path, expected) in [
            ("", ""),
            ("/a/b.go", "/a/b.go"),
            ("a//b.go", "a/b.go"),
            ("/a/./b/../c.go", "/a/c.go"),
            ("../a/../../b", "../../b"),
            ("/../a", "/a"),
            ("a/..", "."),
            ("/", "/"),
            ("a/", "a"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }
}
