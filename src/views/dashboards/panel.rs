//! What a board is made of: rows of panels with their queries, read from `boards/*.yaml`, and where each panel lies in
//! the grid.

use super::promql::{expand, of_all_time};
use serde::Deserialize;

/// Columns of Grafana's grid.
pub const COLUMNS: u32 = 24;

/// The boards, the overview first.
const BOARDS: [&str; 10] = [
    include_str!("boards/overview.yaml"),
    include_str!("boards/list-cost.yaml"),
    include_str!("boards/priority-and-fairness.yaml"),
    include_str!("boards/etcd.yaml"),
    include_str!("boards/memory.yaml"),
    include_str!("boards/quotas.yaml"),
    include_str!("boards/apiserver-balance.yaml"),
    include_str!("boards/webhooks.yaml"),
    include_str!("boards/controllers.yaml"),
    include_str!("boards/clients.yaml"),
];

/// A Grafana board.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Its name in `dashboards/grafana/`, and in its URL behind `plimsoll-`.
    pub id: String,
    pub title: String,
    /// The question that it answers, for the list of boards.
    pub question: String,
    /// The metric whose instances its variable `instance` offers.
    pub instances_of: String,
    /// Variables beside data source, cluster and instance.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Its rows; the first one says whether something is wrong.
    pub rows: Vec<Row>,
}

impl Board {
    /// Its panels, row by row.
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.rows.iter().flat_map(|row| &row.panels)
    }
}

/// A variable of a board.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// How queries name it.
    pub name: String,
    /// What the reader sees.
    pub label: String,
    /// The label whose values it offers.
    pub of: String,
    /// The series that have it.
    pub series: String,
    /// The regular expression that "All" stands for.
    pub all: String,
}

/// A heading and the panels below it, left to right, top to bottom.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The heading.
    pub title: String,
    pub panels: Vec<Panel>,
}

/// How a panel draws its series, and its title.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The current value, large.
    Stat(String),
    /// Lines in time.
    Graph(String),
    /// Areas in time, one on top of the other.
    Stack(String),
    /// Horizontal bars, the longest first.
    Bars(String),
    /// Labels and values.
    Table(String),
}

/// A PromQL expression, in the notation of `promql.rs`, and how its series are called.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The expression.
    pub expr: String,
    /// The legend, with `{{label}}`.
    pub legend: String,
}

/// A panel.
#[derive(Debug, Clone, Deserialize)]
pub struct Panel {
    /// How it draws, and its title.
    #[serde(flatten)]
    pub kind: Kind,
    /// What it shows, what is bad, what to do: at most two sentences.
    pub description: String,
    /// Grafana's id of the unit.
    pub unit: String,
    /// What it draws.
    pub queries: Vec<Query>,
    /// Yellow from the first on, red from the second on; red from the only one on.
    #[serde(default)]
    pub limits: Vec<f64>,
    /// Red below.
    pub at_least: Option<f64>,
    /// Columns and lines of the grid, where they are not those of its kind.
    size: Option<(u32, u32)>,
    /// Whether the axis ends at 1.
    #[serde(default)]
    pub share: bool,
    /// What it shows nothing without, where the captures in `samples/` and `benches/incidents/captured/` lack that.
    pub needs: Option<String>,
}

impl Panel {
    /// Its title.
    pub fn title(&self) -> &str {
        match &self.kind {
            Kind::Stat(title) | Kind::Graph(title) | Kind::Stack(title) | Kind::Bars(title) | Kind::Table(title) => {
                title
            }
        }
    }

    /// Columns and lines of the grid.
    pub fn size(&self) -> (u32, u32) {
        self.size.unwrap_or(match self.kind {
            Kind::Stat(_) => (4, 4),
            Kind::Table(_) => (12, 8),
            _ => (8, 8),
        })
    }

    /// The colour below the first step, and from which value on which other holds.
    pub fn steps(&self) -> (&'static str, Vec<(f64, &'static str)>) {
        match (self.at_least, self.limits.as_slice()) {
            (Some(least), _) => ("red", vec![(least, "green")]),
            (None, [critical]) => ("green", vec![(*critical, "red")]),
            (None, limits) => ("green", limits.iter().copied().zip(["yellow", "red"]).collect()),
        }
    }
}

/// All boards, with their expressions written out.
pub fn boards() -> Result<Vec<Board>, serde_yaml_ng::Error> {
    BOARDS.iter().map(|text| board(text)).collect()
}

fn board(text: &str) -> Result<Board, serde_yaml_ng::Error> {
    let mut board: Board = serde_yaml_ng::from_str(text)?;
    for panel in board.rows.iter_mut().flat_map(|row| &mut row.panels) {
        let is_in_time = matches!(panel.kind, Kind::Graph(_) | Kind::Stack(_));
        for query in &mut panel.queries {
            let expr = expand(&query.expr);
            query.expr = if is_in_time { of_all_time(expr) } else { expr };
        }
    }
    Ok(board)
}

/// A place in the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Column of its left side.
    pub x: u32,
    /// Line of its top.
    pub y: u32,
    /// Columns.
    pub w: u32,
    /// Lines.
    pub h: u32,
}

/// Where headings and panels lie: line by line from the left, a new line where a panel does not fit.
pub fn places(board: &Board) -> Vec<(Place, Vec<Place>)> {
    let mut y = 0;
    let mut all = Vec::new();
    for row in &board.rows {
        let heading = Place { x: 0, y, w: COLUMNS, h: 1 };
        y += 1;
        let (mut x, mut tallest) = (0, 0);
        let mut panels = Vec::new();
        for panel in &row.panels {
            let (w, h) = panel.size();
            if x + w > COLUMNS {
                y += tallest;
                (x, tallest) = (0, 0);
            }
            panels.push(Place { x, y, w, h });
            x += w;
            tallest = tallest.max(h);
        }
        y += tallest;
        all.push((heading, panels));
    }
    all
}
