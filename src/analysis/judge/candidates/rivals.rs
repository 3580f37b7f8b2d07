//! What likelier candidates leave of the others. The odds of each are its own, as if it were alone; but an episode has
//! one cause, unless two say the same of it.

use super::Candidate;

/// Kinds that say what was asked for more: who sent it, and what it was.
const LOADS: [&str; 5] = ["client-surge", "write-burst", "request-surge", "expensive-lists", "cascade-delete"];

/// Lowers the confidence of all that the first, the likeliest, speaks against: what the first lacks of certainty is
/// shared among them. Of other clients that asked for more it leaves as much as they added of what it added itself:
/// nothing up to half of it, since the episode would be there without them, and all of who added as much.
pub(super) fn lower(all: &mut [Candidate]) {
    let Some((first, others)) = all.split_first_mut() else { return };
    let left: Vec<f64> = others.iter().map(|own| left_by(first, own)).collect();
    let rivals: f64 = others.iter().zip(&left).map(|(own, left)| own.confidence * (1.0 - left)).sum();
    let rest = if rivals > 0.0 { ((1.0 - first.confidence) / rivals).min(1.0) } else { 1.0 };
    for (own, left) in others.iter_mut().zip(left) {
        own.left = left + (1.0 - left) * rest;
        own.confidence *= own.left;
    }
}

/// Which part of another candidate's odds holds though the first is the cause.
fn left_by(first: &Candidate, other: &Candidate) -> f64 {
    let are_loads = LOADS.contains(&first.kind) && LOADS.contains(&other.kind);
    // Who filled the database is why it is full.
    let fills =
        |store: &Candidate, writes: &Candidate| store.feature("store_full") > 0.0 && writes.kind == "write-burst";
    match (&first.caller, &other.caller) {
        _ if fills(first, other) || fills(other, first) => 1.0,
        (Some(one), Some(another)) if are_loads && one != another => {
            let added = |own: &Candidate| own.feature("share").max(own.feature("share_rps"));
            (2.0 * added(other) / added(first).max(1e-9) - 1.0).clamp(0.0, 1.0)
        }
        _ if are_loads => 1.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cause::Source;

    fn candidate(kind: &'static str, who: &str, share: f64, confidence: f64) -> Candidate {
        let caller = (!who.is_empty()).then(|| [who.to_owned(), String::new()]);
        Candidate { caller, confidence, ..Candidate::new(kind).with("share", Source::Audit, share) }
    }

    fn lowered(mut all: Vec<Candidate>) -> Vec<f64> {
        lower(&mut all);
        all.iter().map(|own| (own.confidence * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn what_the_first_speaks_against_shares_what_it_lacks() {
        let first = || candidate("client-surge", "a", 0.8, 0.9);
        let store = |confidence| candidate("slow-etcd", "", 0.0, confidence);
        let hook = candidate("webhook-drag", "", 0.0, 0.2);
        assert_eq!(lowered(vec![first(), store(0.6), hook.clone()]), [0.9, 0.075, 0.025]);
        // What is less likely anyway stays.
        assert_eq!(lowered(vec![first(), store(0.05), hook]), [0.9, 0.02, 0.08]);
        assert_eq!(lowered(vec![first(), store(0.05)]), [0.9, 0.05]);
        assert_eq!(lowered(vec![]), [0.0; 0]);
    }

    #[test]
    fn who_added_as_much_is_as_likely_and_who_added_little_is_not() {
        let of =
            |share| lowered(vec![candidate("client-surge", "a", 0.4, 0.9), candidate("client-surge", "b", share, 0.8)]);
        assert_eq!(of(0.4), [0.9, 0.8]);
        assert_eq!(of(0.2), [0.9, 0.1]);
        assert_eq!(of(0.3), [0.9, 0.5]);
        // The same said twice.
        let lists = candidate("expensive-lists", "", 0.9, 0.7);
        assert_eq!(lowered(vec![candidate("client-surge", "a", 0.8, 0.9), lists.clone()]), [0.9, 0.7]);
        assert_eq!(lowered(vec![candidate("load-surge", "", 0.0, 0.9), lists]), [0.9, 0.1]);
    }

    #[test]
    fn who_filled_the_database_stays_with_it() {
        let full = candidate("slow-etcd", "", 0.0, 0.95).with("store_full", Source::Metrics, 1.0);
        assert_eq!(lowered(vec![full, candidate("write-burst", "a", 0.9, 0.6)]), [0.95, 0.6]);
    }
}
