//! What the mouse does.

use super::keys::Action;
use super::scene::Scene;
use super::sheet::Body;
use super::state::State;
use super::{Effect, Tab, draw, overview, timeline};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

impl State {
    /// The wheel steps, a click goes to a tab, a moment or a row.
    pub(super) fn mouse(&mut self, mouse: &MouseEvent) -> Vec<Effect> {
        let scene = Scene::of(self.size, self.has_time());
        let at = ratatui::layout::Position { x: mouse.column, y: mouse.row };
        match mouse.kind {
            MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
                let action = if mouse.kind == MouseEventKind::ScrollDown { Action::Down } else { Action::Up };
                match self.popup.is_some() {
                    true => drop(self.in_popup(action)),
                    false => self.step(if action == Action::Down { 3 } else { -3 }),
                }
            }
            MouseEventKind::Down(MouseButton::Left) if self.popup.is_some() => self.popup = None,
            MouseEventKind::Down(MouseButton::Left) if scene.tabs.contains(at) => {
                self.tab = Scene::tab_at(&self.tabs(), self.size.0, at.x).unwrap_or(self.tab);
            }
            MouseEventKind::Down(MouseButton::Left) | MouseEventKind::Drag(MouseButton::Left)
                if scene.timeline.contains(at) =>
            {
                if let Some(moment) = timeline::moment_at(self, scene.timeline, at.x) {
                    self.clock.go(moment);
                }
            }
            MouseEventKind::Down(MouseButton::Left) if scene.body.contains(at) => {
                return self.click(&scene, at.x, at.y);
            }
            _ => {}
        }
        Vec::new()
    }

    /// A click into the tab: a row is selected, and what is selected already is looked into; a heading sorts.
    fn click(&mut self, scene: &Scene, x: u16, y: u16) -> Vec<Effect> {
        if self.tab == Tab::Overview && self.pane().place() == 0 {
            return Vec::new();
        }
        let (_, _, mut area) = scene.part(draw::lead_lines(self));
        if self.tab == Tab::Memory {
            area = overview::with_memory(self, area).0;
        }
        if !(area.y..area.bottom()).contains(&y) {
            return Vec::new();
        }
        let line = usize::from(y - area.y);
        let is_again = match self.body_mut() {
            Some(Body::Grid(grid)) if line == 0 => {
                grid.sort_at(usize::from(x - area.x), usize::from(area.width));
                false
            }
            Some(Body::Grid(grid)) => {
                let before = grid.selected_index();
                grid.select_at(line, usize::from(area.height)) && grid.selected_index() == before
            }
            Some(Body::Icicle(icicle)) => icicle.select_at(x, y, area),
            _ => false,
        };
        if is_again { self.enter() } else { Vec::new() }
    }
}
