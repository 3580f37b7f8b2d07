//! Writes near the ends of a roll-up: by them turns between writes of different parts of one log are found.

use super::writers::{EdgeWrite, LONGEST_TURN, Writers};
use crate::analysis::rollup::keys::Keys;
use crate::model::time::Micros;
use hashbrown::HashMap;

/// The edges of parts that follow one another, as those of the whole.
#[derive(Debug, Default)]
pub struct EdgeWrites {
    firsts: HashMap<u64, Vec<EdgeWrite>>,
    /// The last two writes to each object, the later first.
    lasts: HashMap<u64, Vec<EdgeWrite>>,
}

impl EdgeWrites {
    /// Goes on with a part: turns between its writes and those of parts that end before it begins are counted.
    pub fn follow(&mut self, mut first: Vec<EdgeWrite>, mut last: Vec<EdgeWrite>, writers: &mut Writers, keys: &Keys) {
        EdgeWrite::sort(&mut first);
        EdgeWrite::sort(&mut last);
        for write in first {
            let two = self.lasts.entry(write.object).or_default();
            if let [later, earlier] = &two[..]
                && earlier.key.subject == write.key.subject
                && later.key.subject != write.key.subject
                && earlier.at <= later.at
                && later.at <= write.at
                && write.at - earlier.at <= LONGEST_TURN
            {
                writers.turn(write.at, write.key.clone(), later.key.subject, keys);
            }
            two.insert(0, write.clone());
            two.truncate(2);
            let firsts = self.firsts.entry(write.object).or_default();
            if firsts.len() < 2 {
                firsts.push(write);
            }
        }
        for own in last.chunk_by(|a, b| a.object == b.object) {
            let Some(latest) = own.first() else { continue };
            let two = self.lasts.entry(latest.object).or_default();
            let is_there =
                two.first().is_some_and(|first| (first.at, first.key.subject) == (latest.at, latest.key.subject));
            match own.len() {
                1 if is_there => {}
                1 => two.insert(0, latest.clone()),
                _ => *two = own.to_vec(),
            }
            two.truncate(2);
        }
    }

    /// The first writes and the last of the whole, which lasts from one moment to another.
    pub fn finish(self, (first, last): (Micros, Micros)) -> [Vec<EdgeWrite>; 2] {
        [(self.firsts, (first, first + LONGEST_TURN)), (self.lasts, (last - LONGEST_TURN, last))].map(
            |(objects, (from, to))| {
                let place = |(place, write): (u8, EdgeWrite)| EdgeWrite { place, ..write };
                let all = objects.into_values().flat_map(|writes| (0..).zip(writes).map(place));
                all.filter(|write| (from..=to).contains(&write.at)).collect()
            },
        )
    }
}
