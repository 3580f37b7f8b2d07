//! Where things are on the screen: known to those who draw, and to the mouse.

use super::Tab;
use ratatui::layout::Rect;

/// A terminal smaller than this can't show anything.
pub(super) const MIN_SIZE: (u16, u16) = (40, 12);

/// The parts of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scene {
    /// What is looked at, and when.
    pub(super) head: Rect,
    /// The tabs' names.
    pub(super) tabs: Rect,
    /// The tab in view.
    pub(super) body: Rect,
    /// The course of time.
    pub(super) timeline: Rect,
    /// Keys, messages, what is typed.
    pub(super) foot: Rect,
}

impl Scene {
    /// The parts of a screen of this size.
    pub(super) fn of((width, height): (u16, u16), has_time: bool) -> Self {
        let line = |y: u16, lines: u16| Rect { x: 0, y, width, height: lines };
        let time = if has_time { 2 } else { 0 };
        let body = height.saturating_sub(3 + time);
        Self {
            head: line(0, 1),
            tabs: line(1, 1),
            body: line(2, body),
            timeline: line(2 + body, time),
            foot: line(height.saturating_sub(1), 1),
        }
    }

    /// What these tabs are called where there is so much room, and where each begins: keys and names, as long as they
    /// fit.
    pub(super) fn names(tabs: &[Tab], width: u16) -> Vec<(Tab, String, u16)> {
        let named = |gap: &str, letters: usize| {
            let mut x = 0u16;
            let name = |tab: Tab| {
                let text = format!("{}{gap}{}", tab.key(), tab.name().chars().take(letters).collect::<String>());
                let at = x;
                x += (text.len() + gap.len() + 1) as u16;
                (tab, text, at)
            };
            let all: Vec<_> = tabs.iter().copied().map(name).collect();
            (all, x.saturating_sub(1))
        };
        let ways = [(" ", 9), ("", 9), ("", 4), ("", 2), ("", 1)].map(|(gap, letters)| named(gap, letters));
        let fits = ways.iter().position(|(_, end)| *end <= width).unwrap_or(ways.len() - 1);
        ways.into_iter().nth(fits).map_or_else(Vec::new, |(all, _)| all)
    }

    /// The tab whose name is at this place.
    pub(super) fn tab_at(tabs: &[Tab], width: u16, x: u16) -> Option<Tab> {
        Self::names(tabs, width)
            .into_iter()
            .find(|(_, text, at)| (*at..*at + text.len() as u16).contains(&x))
            .map(|(tab, ..)| tab)
    }

    /// Of the tab in view the lines for its heading and its parts, and what is left for the part in view.
    pub(super) fn part(&self, lead: u16) -> (Rect, Rect, Rect) {
        let body = self.body;
        let lead = lead.min(body.height / 3);
        let parts = u16::from(body.height > lead);
        (
            Rect { height: lead, ..body },
            Rect { y: body.y + lead, height: parts, ..body },
            Rect { y: body.y + lead + parts, height: body.height.saturating_sub(lead + parts), ..body },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_is_divided_without_gaps_and_all_tabs_have_a_name() {
        for (width, height) in [(80, 24), (40, 12), (200, 50), (300, 80)] {
            let scene = Scene::of((width, height), true);
            assert_eq!(scene.body.bottom(), scene.timeline.y);
            assert_eq!((scene.timeline.bottom(), scene.foot.bottom()), (scene.foot.y, height));
            let names = Scene::names(&Tab::ALL, width);
            let (_, last, at) = names.last().unwrap();
            assert!(at + last.len() as u16 <= width, "{width}: {names:?}");
            for (tab, _, at) in names {
                assert_eq!(Scene::tab_at(&Tab::ALL, width, at), Some(tab));
            }
        }
    }
}
