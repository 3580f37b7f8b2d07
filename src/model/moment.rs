//! A moment in time, and the captures that show it: of each kind the newest taken at or before it.

use crate::model::time::{self, Micros};
use crate::model::units::duration;

/// A capture that stands for a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Where it was read.
    pub path: String,
    /// When it was taken.
    pub taken: Micros,
    pub moment: Micros,
}

impl Capture {
    /// Its path, its time, and its age at the moment.
    pub fn in_words(&self) -> String {
        let Self { path, taken, moment } = self;
        let age = if taken == moment { String::new() } else { format!(", {} before", duration(moment - taken)) };
        format!("Capture at {}: {path} of {}{age}.", time::format(*moment), time::format(*taken))
    }
}

/// What was taken at or before a moment, the oldest first. Where nothing was, the earliest of what came later.
pub fn up_to<T>(moment: Micros, mut all: Vec<T>, taken: impl Fn(&T) -> Micros) -> Result<Vec<T>, Option<T>> {
    all.sort_by_key(&taken);
    let later = all.split_off(all.partition_point(|one| taken(one) <= moment));
    if all.is_empty() { Err(later.into_iter().next()) } else { Ok(all) }
}

/// Why a moment can't be shown: `what` names the kind of capture, `earliest` the first there is.
pub fn too_early(moment: Micros, what: &str, earliest: Option<(&str, Micros)>) -> String {
    let at = time::format(moment);
    match earliest {
        Some((path, taken)) => {
            format!("--at {at}: no {what} from then or before; the earliest is {path} of {}", time::format(taken))
        }
        None => format!("--at {at}: no {what} with a time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_captures_those_at_or_before_the_moment_are_taken() {
        let all = vec![("c", 30), ("a", 10), ("b", 20)];
        let at = |moment| up_to(moment, all.clone(), |one| one.1);
        assert_eq!(at(20), Ok(vec![("a", 10), ("b", 20)]), "at the moment counts");
        assert_eq!(at(19), Ok(vec![("a", 10)]));
        assert_eq!(at(99).map(|all| all.len()), Ok(3));
        assert_eq!(at(9), Err(Some(("a", 10))), "the earliest says from when on there is something");
        assert_eq!(up_to(9, Vec::<i64>::new(), |one| *one), Err(None));
    }

    #[test]
    fn a_capture_tells_its_age() {
        let second = time::SECOND;
        let capture = Capture { path: "a.db".to_owned(), taken: 1_000 * second, moment: 1_090 * second };
        let words = "Capture at 1970-01-01T00:18:10Z: a.db of 1970-01-01T00:16:40Z, 1m 30s before.";
        assert_eq!(capture.in_words(), words);
    }
}
