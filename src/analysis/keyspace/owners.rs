//! Who stands on top of an object's owner references: the Deployment of a ReplicaSet's Pod.

use super::arena::{Keyspace, Links};
use hashbrown::HashMap;

/// Owners above this are not followed: a file can hold a circle.
const STEPS: usize = 16;

/// An object that something may refer to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnerEntry {
    /// Its owner's uid; 0 for none.
    owner: u64,
    /// The name of its own prefix; 0 where no key in the file has this uid.
    place: u32,
    /// The name of its kind and name, as what refers to it gives it; 0 where nothing does.
    label: u32,
}

/// All objects by the hash of their uid.
pub(super) fn tops(space: &Keyspace) -> HashMap<u64, OwnerEntry> {
    let mut known: HashMap<u64, OwnerEntry> = HashMap::new();
    space.each(|key, links| {
        if let Links::Owner(uid, owner, label) = links {
            if *uid != 0 {
                let own = known.entry(*uid).or_default();
                // Should two keys claim one uid, it does not matter which comes first.
                if own.place == 0 || (*owner, key.place) > (own.owner, own.place) {
                    (own.owner, own.place) = (*owner, key.place);
                }
            }
            if *owner != 0 {
                let theirs = known.entry(*owner).or_default();
                theirs.label = theirs.label.max(*label);
            }
        }
    });
    known
}

/// The place and the label of the row of an object.
pub(super) fn top(known: &HashMap<u64, OwnerEntry>, uid: u64, owner: u64, place: u32) -> (u32, u32) {
    let mut at = if owner != 0 { owner } else { uid };
    let mut found = known.get(&at).copied().unwrap_or_default();
    for _ in 0..STEPS {
        if found.owner == 0 {
            break;
        }
        at = found.owner;
        found = known.get(&at).copied().unwrap_or_default();
    }
    // What nothing refers to, and has no owner, is in the row of what has none.
    if found.label == 0 { (place, 0) } else { (if found.place == 0 { place } else { found.place }, found.label) }
}
