//! A tree of calls with weights, as a flame graph shows it, and what functions are called where room is short.

use std::borrow::Cow;

/// A function under its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its caller, which comes before it; itself at the root.
    pub caller: u32,
    /// Its name, one of [`Tree::names`].
    pub name: u32,
    /// What stacks that end in it weigh: before and now. Without a comparison, before is 0.
    pub own: [u64; 2],
}

/// All stacks of a profile, or of two that are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// What functions are called.
    pub names: Vec<String>,
    /// The calls, callers first; the first is the root, which is no function.
    pub calls: Vec<Call>,
    /// Whether names are those of functions, which may be shortened.
    pub is_code: bool,
    /// Whether two profiles are compared.
    pub compares: bool,
    /// What is counted.
    pub unit: String,
    /// A heading.
    pub title: String,
    /// A second line.
    pub subtitle: String,
}

impl Tree {
    /// What each call weighs with all that it calls.
    pub fn weights(&self) -> Vec<[u64; 2]> {
        let mut weights: Vec<[u64; 2]> = self.calls.iter().map(|call| call.own).collect();
        for number in (1..self.calls.len()).rev() {
            let (caller, weight) = (self.calls[number].caller as usize, weights[number]);
            for (sum, part) in weights[caller].iter_mut().zip(weight) {
                *sum = sum.saturating_add(part);
            }
        }
        weights
    }

    /// Calls that can be seen in a picture, callers first, with what they hold themselves; what is narrower than `1 /
    /// narrowest` of the whole on both sides, or deeper than `deepest`, is its caller's.
    pub fn seen(&self, narrowest: u64, deepest: usize) -> Vec<(usize, [u64; 2])> {
        let weights = self.weights();
        let total = weights.first().copied().unwrap_or_default();
        // Where what each call holds itself is shown: at itself, or at the nearest caller that can be seen.
        let mut shown_at: Vec<usize> = Vec::with_capacity(self.calls.len());
        let mut depths: Vec<usize> = Vec::with_capacity(self.calls.len());
        let mut own = vec![[0u64; 2]; self.calls.len()];
        for (number, call) in self.calls.iter().enumerate() {
            let caller = call.caller as usize;
            let depth = if number == 0 { 0 } else { depths[caller] + 1 };
            let is_wide = (0..2).any(|side| weights[number][side] > total[side] / narrowest);
            let is_shown = number == 0 || depth <= 1 || is_wide && depth <= deepest && shown_at[caller] == caller;
            shown_at.push(if is_shown { number } else { shown_at[caller] });
            depths.push(depth);
            for (sum, part) in own[shown_at[number]].iter_mut().zip(call.own) {
                *sum = sum.saturating_add(part);
            }
        }
        (0..self.calls.len())
            .filter(|number| shown_at[*number] == *number)
            .map(|number| (number, own[number]))
            .collect()
    }

    /// The same no deeper than `deepest`: what lies deeper is its caller's.
    pub fn pruned(&self, deepest: usize) -> Self {
        let mut depths: Vec<usize> = Vec::with_capacity(self.calls.len());
        let mut new: Vec<u32> = Vec::with_capacity(self.calls.len());
        let mut pruned = Self { names: Vec::new(), calls: Vec::new(), ..self.clone() };
        for (number, call) in self.calls.iter().enumerate() {
            let caller = call.caller as usize;
            let depth = if number == 0 { 0 } else { depths[caller] + 1 };
            depths.push(depth);
            if depth > deepest {
                let at = new[caller];
                new.push(at);
                for (sum, part) in pruned.calls[at as usize].own.iter_mut().zip(call.own) {
                    *sum = sum.saturating_add(part);
                }
                continue;
            }
            let own = pruned.calls.len() as u32;
            new.push(own);
            let caller = if number == 0 { own } else { new[caller] };
            // Of names only those that are left.
            pruned.calls.push(Call { caller, name: pruned.names.len() as u32, own: call.own });
            pruned.names.push(self.names.get(call.name as usize).cloned().unwrap_or_default());
        }
        pruned
    }

    /// All stacks together: before and now.
    pub fn total(&self) -> [u64; 2] {
        self.calls
            .iter()
            .fold([0, 0], |sum, call| [sum[0].saturating_add(call.own[0]), sum[1].saturating_add(call.own[1])])
    }
}

/// `name` with no more than the last `elements` of its package's path, and without what a generic function was made
/// for: `k8s.io/api/core/v1.(*Secret).Unmarshal` with two is `core/v1.(*Secret).Unmarshal`.
pub fn short_name(name: &str, elements: usize) -> Cow<'_, str> {
    let plain = without_brackets(name);
    // Behind the package there may be types with paths of their own, in brackets.
    let path = plain.find(['(', '[']).unwrap_or(plain.len());
    let Some((cut, _)) = plain[..path].rmatch_indices('/').nth(elements.saturating_sub(1)) else { return plain };
    match plain {
        Cow::Borrowed(plain) => Cow::Borrowed(&plain[cut + 1..]),
        Cow::Owned(plain) => Cow::Owned(plain[cut + 1..].to_owned()),
    }
}

/// `[go.shape.struct { … }]` as `[…]`.
fn without_brackets(name: &str) -> Cow<'_, str> {
    match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if close > open + 4 => {
            Cow::Owned(format!("{}[…]{}", &name[..open], &name[close + 1..]))
        }
        _ => Cow::Borrowed(name),
    }
}

/// The package of a Go function; empty where the name has none.
pub fn package_of(name: &str) -> &str {
    let end = name.find(['(', '[']).unwrap_or(name.len());
    let start = name[..end].rfind('/').map_or(0, |slash| slash + 1);
    name[start..end].find('.').map_or("", |dot| &name[..start + dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_shorter_and_keep_what_tells_them_apart() {
        let name = "k8s.io/api/core/v1.(*Secret).Unmarshal";
        assert_eq!(
            (&*short_name(name, 1), &*short_name(name, 2)),
            ("v1.(*Secret).Unmarshal", "core/v1.(*Secret).Unmarshal")
        );
        assert_eq!(short_name(name, 9), name);
        assert_eq!(short_name("main.main", 1), "main.main");
        assert_eq!(short_name("a/b.(*L[go.shape.*uint8,go.shape.struct { x/y.Z }]).Get", 1), "b.(*L[…]).Get");
        assert_eq!(short_name("", 1), "");
    }

    #[test]
    fn packages_are_told_from_names() {
        for (name, package) in [
            ("k8s.io/api/core/v1.(*Secret).Unmarshal", "k8s.io/api/core/v1"),
            ("main.main", "main"),
            ("gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml%2ev3"),
            ("a/b.F[go.shape.struct { x/y.Z }]", "a/b"),
            ("memcpy", ""),
            ("", ""),
        ] {
            assert_eq!(package_of(name), package, "{name}");
        }
    }

    #[test]
    fn weights_are_sums_over_what_is_called() {
        let call = |caller, own| Call { caller, name: 0, own: [0, own] };
        let tree = Tree { calls: vec![call(0, 1), call(0, 2), call(1, 4), call(0, 8)], ..Tree::default() };
        assert_eq!(tree.weights().iter().map(|w| w[1]).collect::<Vec<_>>(), [15, 6, 4, 8]);
        assert_eq!(tree.total(), [0, 15]);
    }
}
