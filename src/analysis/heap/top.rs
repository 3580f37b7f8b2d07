//! What each function, file, package or line holds: *flat*, itself, and *cum*, with all that it calls.
//!
//! As in pprof: a stack counts once for each that is anywhere in it, however often (recursion); calls that were inlined
//! count like others; and what is called the same is the same.

use super::select::Selection;
use crate::model::flame::package_of;
use crate::model::stacks::{Frame, Location, Stacks};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;

pub use crate::model::question::StacksBy as By;

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

/// What distinguishs rows. What a row is not about is empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<'s> {
    /// Function or package.
    pub name: Cow<'s, str>,
    pub file: Cow<'s, str>,
    /// Line; 0 where it is not known.
    pub line: i64,
}

/// The profile that a row was met in first, and the function there, if there is one.
type FirstSeen<'s> = Option<(&'s Stacks, u32)>;

/// A row.
#[derive(Debug, Clone)]
pub struct Node<'s> {
    /// What it is about.
    pub key: Key<'s>,
    met: FirstSeen<'s>,
    /// What it holds itself: before and now.
    pub flat: [u64; 2],
    /// With all that it calls: before and now.
    pub cum: [u64; 2],
}

impl<'s> Node<'s> {
    /// Of a function, where it is: file, and first line or 0.
    pub fn place(&self) -> (Cow<'s, str>, i64) {
        let function = self.met.and_then(|(stacks, function)| Some((stacks, stacks.functions.get(function as usize)?)));
        function.map_or((Cow::Borrowed(""), 0), |(stacks, function)| {
            (clean(stacks.text(function.file)), function.start_line)
        })
    }
}

/// What a row is about, and where to look for its place.
#[derive(Debug)]
struct About<'s> {
    key: Key<'s>,
    met: FirstSeen<'s>,
}

/// All rows. A large profile has hundreds of thousands, of which few are shown: what is looked at for each frame of
/// each stack lies close together, and nothing is made before it is known that a row holds anything.
#[derive(Debug, Default)]
pub struct Top<'s> {
    about: Vec<About<'s>>,
    known: HashTable<u32>,
    hasher: RandomState,
    /// Of each row, before and now.
    flat: [Vec<u64>; 2],
    cum: [Vec<u64>; 2],
}

impl<'s> Top<'s> {
    /// The number of a row.
    fn row(&mut self, key: Key<'s>, met: FirstSeen<'s>) -> u32 {
        let Self { about, known, hasher, .. } = self;
        let hash = hasher.hash_one(&key);
        let is_same = |row: &u32| about.get(*row as usize).is_some_and(|about| about.key == key);
        if let Some(row) = known.find(hash, is_same) {
            return *row;
        }
        let row = about.len() as u32;
        known.insert_unique(hash, row, |row| about.get(*row as usize).map_or(0, |about| hasher.hash_one(&about.key)));
        about.push(About { key, met });
        row
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
        if self.about.is_empty() && by == By::Function {
            let Self { about, known, .. } = self;
            about.reserve(stacks.functions.len());
            known.reserve(stacks.functions.len(), |_| 0);
        }
        for (number, location) in stacks.locations.iter().enumerate() {
            starts.push(rows.len() as u32);
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
                    let (key, met) = of(selection, *frame, location, by);
                    *slot = self.row(key, met);
                }
                rows.push(*slot);
            }
            if frames.is_empty() {
                rows.push(self.row(nameless(selection, location, by), None));
            }
        }
        starts.push(rows.len() as u32);
        for sums in self.flat.iter_mut().chain(&mut self.cum) {
            match sums.is_empty() {
                // Memory that is 0 to begin with costs nothing until it is used.
                true => *sums = vec![0; self.about.len()],
                false => sums.resize(self.about.len(), 0),
            }
        }
        let (flat, cum) = (&mut self.flat[when], &mut self.cum[when]);
        // The last stack that each row was met in.
        let mut seen = vec![u32::MAX; cum.len()];
        for (number, selected) in selection.samples.iter().enumerate() {
            let weight = stacks.value(selected.sample as usize, kind);
            if weight == 0 {
                continue;
            }
            let mut leaf = None;
            for location in selection.locations(*selected) {
                let location = *location as usize;
                let Some([start, end]) = starts.get(location..location + 2) else { continue };
                for row in rows.get(*start as usize..*end as usize).unwrap_or_default() {
                    leaf = leaf.or(Some(*row));
                    let (Some(seen), Some(cum)) = (seen.get_mut(*row as usize), cum.get_mut(*row as usize)) else {
                        continue;
                    };
                    if *seen != number as u32 {
                        *seen = number as u32;
                        *cum = cum.saturating_add(weight);
                    }
                }
            }
            if let Some(flat) = leaf.and_then(|leaf| flat.get_mut(leaf as usize)) {
                *flat = flat.saturating_add(weight);
            }
        }
    }

    /// The rows that hold anything.
    pub fn finish(self) -> Vec<Node<'s>> {
        let Self { about, flat: [flat_before, flat], cum: [cum_before, cum], .. } = self;
        let flat = flat_before.into_iter().zip(flat).map(|(before, now)| [before, now]);
        let cum = cum_before.into_iter().zip(cum).map(|(before, now)| [before, now]);
        let all = about.into_iter().zip(flat.zip(cum)).filter(|(_, (_, cum))| *cum != [0; 2]);
        all.map(|(About { key, met }, (flat, cum))| Node { key, met, flat, cum }).collect()
    }
}

/// What row a frame counts for, and where it was met.
fn of<'s>(selection: &Selection<'s>, frame: Frame, location: &Location, by: By) -> (Key<'s>, FirstSeen<'s>) {
    let stacks = selection.stacks;
    let name = stacks.name(frame);
    let file = || clean(stacks.file(frame));
    let nothing = Cow::Borrowed("");
    let key = match by {
        By::Function => Key { name: name.into(), file: nothing, line: 0 },
        By::File => Key { name: nothing, file: file(), line: 0 },
        By::Package => Key { name: package_of(name).into(), file: nothing, line: 0 },
        By::Line => Key { name: name.into(), file: file(), line: frame.line },
    };
    if key.name.is_empty() && key.file.is_empty() {
        return (nameless(selection, location, by), None);
    }
    (key, Some((stacks, frame.function)))
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
    if !path.starts_with('.')
        && (path.is_empty() || !path.ends_with('/'))
        && !path.contains("//")
        && !path.contains("/.")
    {
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
