//! Colours. Whatever a colour says is said by a word or a shape as well.

use crate::model::report::Severity;
use ratatui::style::{Color, Modifier, Style};

/// How things look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub name: &'static str,
    /// What is read.
    pub text: Style,
    /// What may be overlooked.
    pub dim: Style,
    /// The name of the program, the tab in view.
    pub title: Style,
    pub heading: Style,
    /// The row that is selected.
    pub selected: Style,
    /// Lines of charts.
    pub line: Style,
    /// What has grown, in a comparison.
    pub more: Style,
    /// What has shrunk.
    pub less: Style,
    /// What is well.
    pub good: Style,
    severities: [Style; 3],
    boxes: [Style; 6],
}

/// Names of themes, in the order in which a key goes through them.
pub const NAMES: [&str; 3] = ["default", "safe", "none"];

const fn on(foreground: Color, background: Color) -> Style {
    Style::new().fg(foreground).bg(background)
}

impl Theme {
    /// One by its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::usual()),
            "safe" => Some(Self::safe()),
            "none" => Some(Self::none()),
            _ => None,
        }
    }

    /// The terminal's own colours, so that it fits in with whatever else is on it.
    pub fn usual() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Self {
            name: "default",
            text: Style::new(),
            dim: Style::new().fg(Color::DarkGray),
            title: bold.fg(Color::Cyan),
            heading: bold,
            selected: on(Color::Black, Color::Cyan),
            line: Style::new().fg(Color::Green),
            more: on(Color::White, Color::Red),
            less: on(Color::White, Color::Blue),
            good: Style::new().fg(Color::Green),
            severities: [Style::new().fg(Color::Cyan), Style::new().fg(Color::Yellow), bold.fg(Color::Red)],
            boxes: [208, 178, 172, 214, 180, 215].map(|color| on(Color::Black, Color::Indexed(color))),
        }
    }

    /// Colours that people who see fewer of them can distinguish: blue, orange, and how bright they are. (After Okabe
    /// and Ito.)
    pub fn safe() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let (blue, orange, yellow, sky) =
            (Color::Indexed(25), Color::Indexed(208), Color::Indexed(227), Color::Indexed(117));
        Self {
            name: "safe",
            text: Style::new(),
            dim: Style::new().fg(Color::DarkGray),
            title: bold.fg(sky),
            heading: bold,
            selected: on(Color::Black, sky),
            line: Style::new().fg(sky),
            more: on(Color::Black, orange),
            less: on(Color::White, blue),
            good: Style::new().fg(sky),
            severities: [Style::new().fg(sky), Style::new().fg(yellow), bold.fg(orange)],
            boxes: [117, 74, 110, 153, 67, 152].map(|color| on(Color::Black, Color::Indexed(color))),
        }
    }

    /// No colour at all: bold, reversed, underlined.
    pub fn none() -> Self {
        let with = |modifier| Style::new().add_modifier(modifier);
        let (bold, turned) = (with(Modifier::BOLD), with(Modifier::REVERSED));
        Self {
            name: "none",
            text: Style::new(),
            dim: Style::new(),
            title: bold,
            heading: with(Modifier::UNDERLINED),
            selected: turned,
            line: Style::new(),
            more: turned.add_modifier(Modifier::BOLD),
            less: turned,
            good: Style::new(),
            severities: [Style::new(), bold, with(Modifier::BOLD.union(Modifier::UNDERLINED))],
            boxes: [Style::new(); 6],
        }
    }

    /// How something of this severity looks.
    pub fn of(&self, severity: Severity) -> Style {
        self.severities[severity as usize]
    }

    /// How a box of a flame graph looks: the same for the same name, and another for most others.
    pub fn of_box(&self, name: &str) -> Style {
        let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes());
        self.boxes[(hash % self.boxes.len() as u64) as usize]
    }
}
