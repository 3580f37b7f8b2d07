//! A tab's content: what was asked last, what came of it, and where one is in it.

use super::sheet::{Answer, Body, Part};
use super::{Ask, Want};

/// A tab's content.
#[derive(Debug, Default)]
pub struct Pane {
    /// What came of the last question that was answered.
    pub answer: Option<Box<Answer>>,
    /// The question that is being answered.
    pub asked: Option<Ask>,
    /// Which part is in view.
    part: usize,
    /// How far down sentences are scrolled.
    pub scroll: usize,
}

impl Pane {
    /// The part that is in view.
    pub fn part(&self) -> Option<&Part> {
        self.answer.as_ref()?.parts.get(self.part)
    }

    /// The same, to be changed.
    pub fn part_mut(&mut self) -> Option<&mut Part> {
        self.answer.as_mut()?.parts.get_mut(self.part)
    }

    /// Which part is in view.
    pub fn place(&self) -> usize {
        self.part
    }

    /// To another part.
    pub fn go(&mut self, part: usize) {
        let count = self.answer.as_ref().map_or(0, |answer| answer.parts.len());
        self.part = part.min(count.saturating_sub(1));
        self.scroll = 0;
    }

    /// To the next part, or the one before.
    pub fn turn(&mut self, on: bool) {
        let count = self.answer.as_ref().map_or(0, |answer| answer.parts.len()).max(1);
        self.go((self.part + if on { 1 } else { count - 1 }) % count);
    }

    /// Whether what is shown, or will be shown when the answer comes, is this.
    pub fn is_about(&self, wants: &[Want]) -> bool {
        match (&self.asked, &self.answer) {
            (Some(asked), _) => asked.wants == wants,
            (None, Some(answer)) => answer.wants == wants,
            (None, None) => false,
        }
    }

    /// An answer has come. What is the same as before stays as it was looked at.
    pub fn take(&mut self, mut answer: Box<Answer>) {
        if let Some(before) = &self.answer {
            for part in &mut answer.parts {
                let Some(before) = before.parts.iter().find(|before| before.name() == part.name()) else { continue };
                match (&mut part.body, &before.body) {
                    (Body::Grid(grid), Body::Grid(before)) => grid.go_on(before),
                    (Body::Icicle(icicle), Body::Icicle(before)) => icicle.go_on(before),
                    _ => {}
                }
            }
            let name = before.parts.get(self.part).map(Part::name);
            self.part = answer.parts.iter().position(|part| Some(part.name()) == name).unwrap_or(0);
        }
        self.asked = None;
        self.answer = Some(answer);
    }
}
