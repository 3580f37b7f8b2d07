//! A flame graph in characters, its root on top (an *icicle*): boxes as wide as what they hold. One walks through it
//! and into it.

use super::theme::Theme;
use crate::model::flame::{Tree, short_name};
use crate::model::units::{bytes, grouped, percent, signed_percent};
use crate::views::text::{fit, plain};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// A tree of more calls is shown without those that hold less than `1 / NARROWEST` of it.
const MAX_CALLS_SHOWN_WHOLE: usize = 200_000;
const NARROWEST: u64 = 100_000;
const DEEPEST: usize = 400;
/// Elements of a package's path that are shown in a box.
const ELEMENTS: usize = 1;

#[derive(Debug, Clone)]
struct Node {
    name: String,
    parent: usize,
    weight: [u64; 2],
    /// The largest first.
    children: Vec<usize>,
}

/// A box on the screen: where it begins, how wide it is, how far down, and what it shows; `None` for what is too narrow
/// to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    x: u16,
    width: u16,
    y: u16,
    node: Option<usize>,
}

/// A tree, and where one is in it.
#[derive(Debug, Clone)]
pub struct Icicle {
    /// What it is called among the parts of a tab.
    pub title: String,
    nodes: Vec<Node>,
    unit: String,
    is_code: bool,
    compares: bool,
    /// What fills the width.
    root: usize,
    selected: usize,
}

impl Icicle {
    /// All of a tree.
    pub fn new(tree: &Tree) -> Self {
        let seen = match tree.calls.len() > MAX_CALLS_SHOWN_WHOLE {
            true => tree.seen(NARROWEST, DEEPEST),
            false => tree.calls.iter().enumerate().map(|(at, call)| (at, call.own)).collect(),
        };
        let mut places = vec![0; tree.calls.len()];
        let mut nodes: Vec<Node> = Vec::with_capacity(seen.len());
        for (at, own) in seen {
            let call = &tree.calls[at];
            places[at] = nodes.len();
            let name = tree.names.get(call.name as usize).cloned().unwrap_or_default();
            nodes.push(Node {
                name: if at == 0 { "all".to_owned() } else { name },
                parent: places[call.caller as usize],
                weight: own,
                children: Vec::new(),
            });
        }
        for at in (1..nodes.len()).rev() {
            let (parent, weight) = (nodes[at].parent, nodes[at].weight);
            nodes[parent].weight = [0, 1].map(|side| nodes[parent].weight[side].saturating_add(weight[side]));
            nodes[parent].children.push(at);
        }
        let width: Vec<u64> = nodes.iter().map(|node| node.weight[0].max(node.weight[1])).collect();
        for at in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[at].children);
            children.sort_by(|a, b| width[*b].cmp(&width[*a]).then_with(|| nodes[*a].name.cmp(&nodes[*b].name)));
            nodes[at].children = children;
        }
        let title = if tree.compares { "flame graph, before and now" } else { "flame graph" };
        Self {
            title: title.to_owned(),
            nodes,
            unit: tree.unit.clone(),
            is_code: tree.is_code,
            compares: tree.compares,
            root: 0,
            selected: 0,
        }
    }

    /// How wide something is: what it holds now, or held before, whichever is more.
    fn width_of(&self, node: usize) -> u64 {
        self.nodes[node].weight[0].max(self.nodes[node].weight[1])
    }

    /// Names from the top to a node.
    fn path(&self, node: usize) -> Vec<&str> {
        let mut path = Vec::new();
        let mut at = node;
        while at != 0 {
            path.push(self.nodes[at].name.as_str());
            at = self.nodes[at].parent;
        }
        path.reverse();
        path
    }

    /// Goes on where `before` was, as far as it is still there.
    pub fn go_on(&mut self, before: &Self) {
        let find = |path: Vec<&str>| {
            path.into_iter().try_fold(0, |at, name| {
                self.nodes[at].children.iter().copied().find(|child| self.nodes[*child].name == name)
            })
        };
        self.root = find(before.path(before.root)).unwrap_or(0);
        self.selected = find(before.path(before.selected)).unwrap_or(self.root);
    }

    /// To the box beside, to the right or to the left.
    pub fn sideways(&mut self, right: bool) {
        if self.selected == self.root {
            return;
        }
        let beside = &self.nodes[self.nodes[self.selected].parent].children;
        let Some(at) = beside.iter().position(|child| *child == self.selected) else { return };
        let next = if right { at + 1 } else { at.wrapping_sub(1) };
        self.selected = beside.get(next).copied().unwrap_or(self.selected);
    }

    /// To the largest box below, or to the one above.
    pub fn step(&mut self, down: bool) {
        if down {
            self.selected = self.nodes[self.selected].children.first().copied().unwrap_or(self.selected);
        } else if self.selected != self.root {
            self.selected = self.nodes[self.selected].parent;
        }
    }

    /// What is selected fills the width.
    pub fn enter(&mut self) {
        self.root = self.selected;
    }

    /// What is above fills the width; whether there was anything.
    pub fn back(&mut self) -> bool {
        let is_inside = self.root != 0;
        self.root = self.nodes[self.root].parent;
        is_inside
    }

    /// All of it fills the width.
    pub fn top(&mut self) {
        (self.root, self.selected) = (0, 0);
    }

    /// What is selected, from the top, in one line.
    pub fn selected_text(&self) -> String {
        plain(&self.path(self.selected).join(if self.is_code { ";" } else { "/" })).into_owned()
    }

    /// The boxes that can be seen where there is so much room.
    fn seen(&self, width: u16, height: u16) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut open = vec![(self.root, 0u16, width, 0u16)];
        while let Some((node, x, width, y)) = open.pop() {
            seen.push(Seen { x, width, y, node: Some(node) });
            if y + 1 >= height {
                continue;
            }
            let own = self
                .width_of(node)
                .max(self.nodes[node].children.iter().map(|child| self.width_of(*child)).sum())
                .max(1);
            let place = |sum: u64| x + (u128::from(sum) * u128::from(width) / u128::from(own)) as u16;
            let (mut sum, mut end, mut shown) = (0, x, 0);
            for &child in &self.nodes[node].children {
                let from = place(sum);
                sum += self.width_of(child);
                let to = place(sum);
                if to == from {
                    break;
                }
                open.push((child, from, to - from, y + 1));
                (end, shown) = (to, shown + 1);
            }
            // What is left is too narrow to be distinguished.
            let rest: u64 = self.nodes[node].children.iter().skip(shown).map(|child| self.width_of(*child)).sum();
            let until = place(sum.max(sum + rest)).min(x + width);
            if rest > 0 && until > end {
                seen.push(Seen { x: end, width: until - end, y: y + 1, node: None });
            }
        }
        seen
    }

    /// Selects the box at this place of the area it is drawn in; whether it was selected already.
    pub fn select_at(&mut self, x: u16, y: u16, area: Rect) -> bool {
        let (x, y) = (x.saturating_sub(area.x), y.saturating_sub(area.y));
        let hit = self
            .seen(area.width, area.height.saturating_sub(2))
            .into_iter()
            .find(|own| own.y == y && (own.x..own.x + own.width).contains(&x));
        let Some(node) = hit.and_then(|own| own.node) else { return false };
        std::mem::replace(&mut self.selected, node) == node
    }

    fn amount(&self, amount: u64) -> String {
        if self.unit == "bytes" { bytes(amount as f64) } else { grouped(amount) }
    }

    /// What is selected, in words.
    fn about(&self) -> [String; 2] {
        let node = &self.nodes[self.selected];
        let [before, now] = node.weight;
        let share = |whole: u64| percent(now as f64 / whole.max(1) as f64);
        let mut what = format!("{} {}", self.amount(now), if self.unit == "bytes" { "" } else { self.unit.as_str() });
        what = format!("{}: {} of all", what.trim_end(), share(self.nodes[0].weight[1]));
        if self.selected != 0 {
            what += &format!(", {} of its parent", share(self.nodes[node.parent].weight[1]));
        }
        if self.compares {
            let change = if before == 0 { "new".to_owned() } else { signed_percent(now as f64 / before as f64 - 1.0) };
            what += &format!("; before: {} ({change})", self.amount(before));
        }
        let path = self.selected_text();
        [if path.is_empty() { "all".to_owned() } else { path }, what]
    }

    /// Draws boxes, and below them what is selected.
    pub fn draw(&self, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        if area.height < 4 || area.width < 10 {
            return;
        }
        if self.nodes.len() < 2 {
            buffer.set_stringn(area.x, area.y, "nothing", usize::from(area.width), theme.dim);
            return;
        }
        for own in self.seen(area.width, area.height - 2) {
            let (x, y, width) = (area.x + own.x, area.y + own.y, usize::from(own.width));
            let Some(at) = own.node else {
                buffer.set_stringn(x, y, "░".repeat(width), width, theme.dim);
                continue;
            };
            let node = &self.nodes[at];
            let style = match (at == self.selected, self.compares) {
                (true, _) => theme.selected,
                (false, true) => match node.weight[1].cmp(&node.weight[0]) {
                    std::cmp::Ordering::Greater => theme.more,
                    std::cmp::Ordering::Less => theme.less,
                    std::cmp::Ordering::Equal => theme.dim,
                },
                (false, false) => theme.of_box(&node.name),
            };
            let name = if self.is_code { short_name(&node.name, ELEMENTS) } else { node.name.as_str().into() };
            let sign = match (self.compares, node.weight[1].cmp(&node.weight[0])) {
                (true, std::cmp::Ordering::Greater) => "+",
                (true, std::cmp::Ordering::Less) => "-",
                _ => "",
            };
            // Where there is room for it: how much it is.
            let amount = format!("{name} {}", self.amount(node.weight[1]));
            let name = if amount.width() + 1 + sign.len() <= width { amount.into() } else { name };
            let text = if width > 1 {
                format!("▏{sign}{}", fit(&plain(&name), width.saturating_sub(1 + sign.len())))
            } else {
                "▏".to_owned()
            };
            let pad = width.saturating_sub(text.width());
            buffer.set_stringn(x, y, text + &" ".repeat(pad), width, style);
        }
        let [path, what] = self.about();
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.bottom() - 2, fit(&path, width), width, theme.heading);
        buffer.set_stringn(area.x, area.bottom() - 1, fit(&what, width), width, theme.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::flame::Call;

    fn icicle() -> Icicle {
        let call = |caller, name, own| Call { caller, name, own: [0, own] };
        let names = ["", "pods", "leases", "kube-system", "default", "x"].map(str::to_owned).to_vec();
        let calls = vec![call(0, 0, 0), call(0, 1, 10), call(0, 2, 30), call(1, 3, 50), call(1, 4, 9), call(1, 5, 1)];
        Icicle::new(&Tree { names, calls, unit: "bytes".into(), ..Tree::default() })
    }

    #[test]
    fn boxes_are_as_wide_as_what_they_hold_and_never_overlap() {
        let icicle = icicle();
        let seen = icicle.seen(100, 5);
        let of =
            |name: &str| seen.iter().find(|own| own.node.is_some_and(|node| icicle.nodes[node].name == name)).copied();
        assert_eq!(of("pods").map(|own| (own.x, own.width, own.y)), Some((0, 70, 1)));
        assert_eq!(of("leases").map(|own| (own.x, own.width, own.y)), Some((70, 30, 1)));
        assert_eq!(of("kube-system").map(|own| (own.x, own.width, own.y)), Some((0, 50, 2)));
        for width in 1..60 {
            for y in 0..3 {
                let mut row: Vec<(u16, u16)> = icicle
                    .seen(width, 5)
                    .iter()
                    .filter(|own| own.y == y)
                    .map(|own| (own.x, own.x + own.width))
                    .collect();
                row.sort_unstable();
                assert!(
                    row.windows(2).all(|two| two[0].1 <= two[1].0) && row.iter().all(|own| own.1 <= width),
                    "{width}: {row:?}"
                );
            }
        }
    }

    #[test]
    fn one_walks_through_it_and_into_it() {
        let mut icicle = icicle();
        icicle.step(true);
        assert_eq!(icicle.selected_text(), "pods");
        icicle.sideways(true);
        assert_eq!(icicle.about(), ["leases".to_owned(), "30 B: 30.0% of all, 30.0% of its parent".to_owned()]);
        icicle.sideways(true);
        icicle.sideways(false);
        icicle.enter();
        icicle.sideways(true);
        icicle.step(true);
        icicle.sideways(true);
        assert_eq!((icicle.root, icicle.selected_text().as_str()), (1, "pods/default"));
        icicle.step(false);
        icicle.step(false);
        assert_eq!(icicle.selected_text(), "pods", "not above what fills the width");
        let mut again = self::icicle();
        again.go_on(&icicle);
        assert_eq!((again.root, again.selected), (1, 1));
        assert!(icicle.back() && !icicle.back());
    }
}
