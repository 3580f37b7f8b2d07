//! Which stacks are counted, and how much of each: `--focus`, `--ignore`, `--show-from`, and what the profile's maker
//! wants left out. The rules are those of pprof (`profile/filter.go`, `profile/prune.go`).

use crate::model::problem::Problem;
use crate::model::stacks::{Frame, Stacks};
use regex::Regex;

/// What to count.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// Only stacks with a match in them.
    pub focus: Option<Regex>,
    /// No stack with a match in it; stronger than `focus`.
    pub ignore: Option<Regex>,
    /// Only what the outermost match called, itself included.
    pub show_from: Option<Regex>,
}

/// A stack that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    pub sample: u32,
    /// Its locations: from here
    start: u32,
    /// to here.
    end: u32,
}

/// What is counted of a profile.
#[derive(Debug)]
pub struct Selection<'s> {
    /// The profile.
    pub stacks: &'s Stacks,
    /// The stacks that are counted.
    pub samples: Vec<Selected>,
    /// Filters that met nothing.
    pub idle: Vec<&'static str>,
    /// Of each location the frames that are counted.
    frames: Vec<(u32, u32)>,
}

impl<'s> Selection<'s> {
    /// Applies the filters; the error says what is wrong with the profile's own.
    pub fn new(stacks: &'s Stacks, filters: &Filters) -> Result<Self, Problem> {
        let samples = (0..stacks.samples() as u32).map(|sample| Selected {
            sample,
            start: 0,
            end: stacks.stack(sample as usize).len() as u32,
        });
        let frames = stacks.locations.iter().map(|location| (location.first, location.end)).collect();
        let mut selection = Self { stacks, samples: samples.collect(), idle: Vec::new(), frames };
        selection.prune()?;
        selection.focus(filters);
        if let Some(from) = &filters.show_from
            && !selection.show_from(from)
        {
            selection.idle.push("--show-from");
        }
        Ok(selection)
    }

    /// The frames of a location that are counted, innermost first.
    pub fn frames(&self, location: u32) -> &'s [Frame] {
        let (start, end) = self.frames.get(location as usize).copied().unwrap_or_default();
        self.stacks.frames.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The locations of a stack that are counted, leaf first.
    pub fn locations(&self, selected: Selected) -> &'s [u32] {
        self.stacks
            .stack(selected.sample as usize)
            .get(selected.start as usize..selected.end as usize)
            .unwrap_or_default()
    }

    /// What the stacks weigh together.
    pub fn total(&self, kind: usize) -> u64 {
        self.samples
            .iter()
            .fold(0, |sum, selected| sum.saturating_add(self.stacks.value(selected.sample as usize, kind)))
    }

    /// Of each function, whether its name or its file matches.
    fn matching(&self, what: &Regex) -> Vec<bool> {
        let stacks = self.stacks;
        stacks
            .functions
            .iter()
            .map(|function| what.is_match(stacks.text(function.name)) || what.is_match(stacks.text(function.file)))
            .collect()
    }

    /// Whether the program's file matches; a file that is not known matches nothing.
    fn object_matches(&self, location: u32, what: &Regex) -> bool {
        let object = self.stacks.locations.get(location as usize).map_or(0, |location| location.object);
        object != 0 && what.is_match(self.stacks.text(object))
    }

    /// Removes what the profile's maker says is of no interest, with all that it calls. Such frames stay where there
    /// is no other caller.
    fn prune(&mut self) -> Result<(), Problem> {
        if self.stacks.drop_frames.is_empty() {
            return Ok(());
        }
        let whole = |name: &str, pattern: &str| {
            Regex::new(&format!("^({pattern})$"))
                .map_err(|_| Problem::setting(format!("its {name} is not a valid regular expression")))
        };
        let drop = whole("drop_frames", &self.stacks.drop_frames)?;
        let keep = (!self.stacks.keep_frames.is_empty())
            .then(|| whole("keep_frames", &self.stacks.keep_frames))
            .transpose()?;
        let is_dropped: Vec<bool> = (self.stacks.functions.iter())
            .map(|function| {
                let name = simple(self.stacks.text(function.name));
                !name.is_empty() && drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
            })
            .collect();
        // Of each location: nothing to do, cut off what is below, or cut it off as well.
        let mut cut = vec![0u8; self.frames.len()];
        for (location, cut) in cut.iter_mut().enumerate() {
            let frames = self.frames(location as u32);
            if let Some(at) = frames.iter().rposition(|frame| is_dropped.get(frame.function as usize) == Some(&true)) {
                *cut = if at + 1 == frames.len() { 2 } else { 1 };
                if *cut == 1 {
                    self.frames[location].0 += at as u32 + 1;
                }
            }
        }
        for index in 0..self.samples.len() {
            let locations = self.locations(self.samples[index]);
            let mut has_caller = false;
            for at in (0..locations.len()).rev() {
                let cut = cut.get(locations[at] as usize).copied().unwrap_or(0);
                has_caller |= cut == 0;
                if cut != 0 && has_caller {
                    self.samples[index].start = at as u32 + u32::from(cut == 2);
                    break;
                }
            }
        }
        Ok(())
    }

    fn focus(&mut self, filters: &Filters) {
        if filters.focus.is_none() && filters.ignore.is_none() {
            return;
        }
        let of = |what: &Option<Regex>| {
            what.as_ref().map(|what| {
                let functions = self.matching(what);
                let matches = |location: u32| {
                    self.frames(location).iter().any(|frame| functions.get(frame.function as usize) == Some(&true))
                        || self.object_matches(location, what)
                };
                (0..self.frames.len() as u32).map(matches).collect::<Vec<bool>>()
            })
        };
        let (focus, ignore) = (of(&filters.focus), of(&filters.ignore));
        for (name, matches) in [("--focus", &focus), ("--ignore", &ignore)] {
            if matches.as_ref().is_some_and(|matches| !matches.contains(&true)) {
                self.idle.push(name);
            }
        }
        let meets = |matches: &Option<Vec<bool>>, location: u32| {
            matches.as_ref().is_some_and(|m| m.get(location as usize) == Some(&true))
        };
        let mut samples = std::mem::take(&mut self.samples);
        samples.retain(|selected| {
            let locations = self.locations(*selected);
            // A stack without a location is not in focus, even where nothing is asked for but what to ignore.
            !locations.is_empty()
                && !locations.iter().any(|location| meets(&ignore, *location))
                && (focus.is_none() || locations.iter().any(|location| meets(&focus, *location)))
        });
        self.samples = samples;
    }

    fn show_from(&mut self, what: &Regex) -> bool {
        let functions = self.matching(what);
        let mut matches = vec![false; self.frames.len()];
        for (location, matches) in matches.iter_mut().enumerate() {
            if self.object_matches(location as u32, what) {
                *matches = true;
            } else if let Some(at) = self
                .frames(location as u32)
                .iter()
                .rposition(|frame| functions.get(frame.function as usize) == Some(&true))
            {
                *matches = true;
                self.frames[location].1 = self.frames[location].0 + at as u32 + 1;
            }
        }
        let mut samples = std::mem::take(&mut self.samples);
        samples.retain_mut(|selected| {
            let outermost =
                self.locations(*selected).iter().rposition(|location| matches.get(*location as usize) == Some(&true));
            if let Some(at) = outermost {
                selected.end = selected.start + at as u32 + 1;
            }
            outermost.is_some()
        });
        self.samples = samples;
        matches.contains(&true)
    }
}

/// A function's name without arguments, as pprof compares it with `drop_frames`.
fn simple(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut from = 0;
    while let Some(open) = name[from..].find('(').map(|at| from + at) {
        let reserved = ["(anonymous namespace)", "()"].iter().find(|reserved| {
            name[open..].starts_with(**reserved) && (**reserved != "()" || name[..open].ends_with("operator"))
        });
        match reserved {
            Some(reserved) => from = open + reserved.len(),
            None => return &name[..open],
        }
    }
    name
}
