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

    /// Whether what is shown is the answer to this.
    pub fn shows(&self, wants: &[Want]) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.wants == wants)
    }

    /// An answer has come. What is the same as before stays as it was looked at.
    pub fn take(&mut self, mut answer: Box<Answer>) {
        if let Some(before) = &self.answer {
            // Of parts with one name the first belongs to the first, the second to the second.
            let place =
                |parts: &[Part], at: usize| parts[..at].iter().filter(|part| part.name() == parts[at].name()).count();
            let numbers: Vec<usize> = (0..answer.parts.len()).map(|at| place(&answer.parts, at)).collect();
            for (part, number) in answer.parts.iter_mut().zip(&numbers) {
                let Some(before) = before.parts.iter().filter(|before| before.name() == part.name()).nth(*number)
                else {
                    continue;
                };
                match (&mut part.body, &before.body) {
                    (Body::Grid(grid), Body::Grid(before)) => grid.go_on(before),
                    (Body::Icicle(icicle), Body::Icicle(before)) => icicle.go_on(before),
                    _ => {}
                }
            }
            let shown = before.parts.get(self.part).map(|part| (part.name(), place(&before.parts, self.part)));
            let is_it = |(part, number): (&Part, &usize)| Some((part.name(), *number)) == shown;
            self.part = answer.parts.iter().zip(&numbers).position(is_it).unwrap_or(0);
        }
        self.asked = None;
        self.answer = Some(answer);
    }
}
