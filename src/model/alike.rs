//! What somebody may have meant who misspelt a name.

/// Names that are less alike, of 0 to 1, are others.
const ALIKE: f64 = 0.8;

/// The name that is most like the one that was wanted, if any is like it (Jaro and Winkler).
pub fn most_alike<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Option<&'n str> {
    let scored = names.map(|name| (strsim::jaro_winkler(name, wanted), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > ALIKE).then_some(best.1)
}
