//! Views write a report to a writer. They take nothing but the model, and every string that came from
//! an input goes through [`text`] on its way out.
//!
//! ```
//! use plimsoll::model::exposed::{Family, FamilyKind, Spec};
//! use plimsoll::views::exposition::Exposition;
//!
//! let up = Spec { name: "up", help: "Whether it runs.", kind: FamilyKind::Gauge, labels: &[] };
//! let page = Exposition::Text.render(&[Family::single(up, 1.0)]);
//! assert_eq!(page, b"# HELP up Whether it runs.\n# TYPE up gauge\nup 1\n");
//! ```

mod chart;
pub mod columns;
pub mod contrast_svg;
mod csv;
pub mod dashboards;
pub mod exposition;
pub mod flame;
pub mod forecast_svg;
mod html;
pub mod incident;
mod json;
pub mod junit;
mod markdown;
pub mod message;
pub mod objects;
pub mod page;
mod protobuf;
mod table;
pub mod text;
pub mod textfile;
#[cfg(feature = "tui")]
pub mod tui;
mod yaml;

use crate::model::report::Report;
use std::io::{self, Write};

/// The form of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Aligned columns, for people.
    #[default]
    Table,
    /// The same with all columns.
    Wide,
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// Rows only, comma-separated.
    Csv,
    /// A Markdown table.
    Markdown,
    /// One page that needs no network, for `report` and `fleet` only.
    #[value(hide = true)]
    Html,
    /// A flame graph, for `heap flame` and `etcd flame` only.
    #[value(hide = true)]
    Svg,
    /// Stacks, a line each, for the same.
    #[value(hide = true)]
    Folded,
}

impl Format {
    /// Whether it is a flame graph's, which a report can't take.
    pub fn is_of_stacks(self) -> bool {
        matches!(self, Self::Svg | Self::Folded)
    }

    /// The form in which a flame graph is drawn where this was asked for: a picture if nothing was. `None` for what
    /// only tables have.
    pub fn of_flame(self) -> Option<Self> {
        match self {
            Self::Table | Self::Wide | Self::Svg => Some(Self::Svg),
            Self::Folded => Some(Self::Folded),
            _ => None,
        }
    }
}

/// How to write for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; `None` where lines may be of any length.
    pub width: Option<usize>,
    /// Whether to use colour.
    pub color: bool,
    /// Whether to print headings.
    pub headers: bool,
    /// One JSON document to a line, for output that goes on.
    pub compact: bool,
}

/// Writes `report` to `out`.
pub fn render(report: &Report, format: Format, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Table => table::write(report, style, false, out),
        Format::Wide => table::write(report, style, true, out),
        Format::Json => json::write(report, style.compact, out),
        Format::Yaml => yaml::write(report, out),
        Format::Csv => csv::write(report, style.headers, out),
        Format::Markdown => markdown::write(report, out),
        Format::Html => html::write(report, out),
        Format::Svg | Format::Folded => Err(io::Error::other("a report can't be drawn as a flame graph")),
    }
}
