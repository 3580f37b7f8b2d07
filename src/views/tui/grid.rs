//! A table that can be sorted, filtered and walked through. What is costly (how wide columns must be, the order of
//! rows) is found out when the table or the order changes, so that drawing looks at no more rows than can be seen.

use super::theme::Theme;
use crate::model::report::{Severity, Table, Value};
use crate::views::columns::{self, Kind};
use crate::views::table::{Need, aligned, layout};
use crate::views::text::plain;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use regex::{Regex, RegexBuilder};
use unicode_width::UnicodeWidthStr;

/// Texts are not cut below this as long as there are columns that may go.
const MIN_TEXT_WIDTH: usize = 22;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    title: String,
    kind: Kind,
    /// How wide the widest cell is.
    width: usize,
    /// Whether only `-o wide` shows it.
    is_wide: bool,
}

/// A value as it is shown: how full something is as a bar, too.
fn cell(column: &Column, value: &Value) -> String {
    const FULL: usize = 10;
    match value {
        Value::Number(share) if column.name == "used_share" => {
            let full = ((share * FULL as f64).round().max(0.0) as usize).min(FULL);
            format!("{}{} {:>6}", "█".repeat(full), "░".repeat(FULL - full), columns::show(column.kind, value))
        }
        _ => columns::show(column.kind, value),
    }
}

/// Which rows are shown.
#[derive(Debug, Clone, Default)]
enum Filter {
    #[default]
    All,
    /// Those that match, or those that don't.
    Matching(Regex, bool),
    /// Those that have these characters in this order.
    Fuzzy(Vec<char>),
}

impl Filter {
    /// `regex`, `!regex`, `-f characters`; what is no regex is taken as it stands. Without capital letters, case does
    /// not matter.
    fn parse(text: &str) -> Self {
        if text.is_empty() {
            return Self::All;
        }
        if let Some(fuzzy) = text.strip_prefix("-f ") {
            return Self::Fuzzy(fuzzy.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect());
        }
        let (pattern, is_not) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let any_case = !pattern.chars().any(char::is_uppercase);
        let build = |pattern: &str| RegexBuilder::new(pattern).case_insensitive(any_case).size_limit(1 << 20).build();
        match build(pattern).or_else(|_| build(&regex::escape(pattern))) {
            Ok(regex) => Self::Matching(regex, is_not),
            Err(_) => Self::All,
        }
    }

    fn takes(&self, row: &[Value]) -> bool {
        match self {
            Self::All => true,
            Self::Matching(regex, is_not) => texts(row).any(|text| regex.is_match(text)) != *is_not,
            Self::Fuzzy(wanted) => {
                let mut rest = wanted.iter();
                let mut next = rest.next();
                for c in texts(row).flat_map(str::chars).flat_map(char::to_lowercase) {
                    if next == Some(&c) {
                        next = rest.next();
                    }
                }
                next.is_none()
            }
        }
    }
}

/// What is text in a row, also within groups.
fn texts(row: &[Value]) -> impl Iterator<Item = &str> {
    fn of(value: &Value) -> Vec<&str> {
        match value {
            Value::Text(text) => vec![text.as_str()],
            Value::Group(members) => members.iter().flat_map(|(_, value)| of(value)).collect(),
            _ => Vec::new(),
        }
    }
    row.iter().flat_map(of)
}

/// A table, how it is ordered, and where one is in it.
#[derive(Debug, Clone)]
pub struct Grid {
    /// What it is called among the parts of a tab.
    pub title: String,
    columns: Vec<Column>,
    /// The rows as they came.
    pub rows: Vec<Vec<Value>>,
    /// Rows that are shown, in order.
    order: Vec<usize>,
    sort: Option<(usize, bool)>,
    filter: Filter,
    /// The filter as it was typed.
    pub filter_text: String,
    selected: usize,
    /// The first column that is shown.
    left: usize,
}

impl Grid {
    /// The rows of a table in their own order. Columns in which no row has anything are left out.
    pub fn new(table: &Table, title: &str) -> Self {
        let none = |at: usize, row: &Vec<Value>| {
            row[at] == Value::None || table.columns[at] == "open" && row[at] == Value::Count(0)
        };
        let is_empty = |at: usize| table.rows.iter().all(|row| none(at, row));
        let kept: Vec<usize> = (0..table.columns.len()).filter(|at| !is_empty(*at)).collect();
        let rows: Vec<Vec<Value>> =
            table.rows.iter().map(|row| kept.iter().map(|at| row[*at].clone()).collect()).collect();
        let columns = kept.iter().enumerate().map(|(at, of)| {
            let name = &table.columns[*of];
            let (kind, title) = (columns::kind_in(table, *of), plain(&columns::heading(table, *of)).into_owned());
            // One hostile value should not push the rest away.
            let is_wide = columns::is_wide(table, *of);
            let mut column = Column { width: 0, name: name.clone(), title, kind, is_wide };
            let widest = rows.iter().map(|row| plain(&cell(&column, &row[at])).width()).max().unwrap_or(0).min(160);
            // Room for the mark of the order behind the title.
            column.width = widest.max(column.title.width() + 1);
            column
        });
        let columns = columns.collect();
        let order = (0..rows.len()).collect();
        Self {
            title: title.to_owned(),
            columns,
            rows,
            order,
            sort: None,
            filter: Filter::All,
            filter_text: String::new(),
            selected: 0,
            left: 0,
        }
    }

    /// Goes on as `before` was: its order, its filter, the row that was selected.
    pub fn go_on(&mut self, before: &Self) {
        self.sort = before.sort.and_then(|(at, is_turned)| Some((self.place(&before.columns[at].name)?, is_turned)));
        self.set_filter(&before.filter_text);
        self.left = before.left.min(self.columns.len().saturating_sub(1));
        let Some(row) = before.selected_row() else { return };
        let key: Vec<&str> = texts(row).collect();
        let found = self.order.iter().position(|at| texts(&self.rows[*at]).eq(key.iter().copied()));
        self.selected = found.unwrap_or(before.selected);
        self.clamp();
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// How many rows are shown, and how many there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.order.len(), self.rows.len())
    }

    /// The row that is selected: its number among all, as they came.
    pub fn selected_index(&self) -> Option<usize> {
        self.order.get(self.selected).copied()
    }

    /// The row that is selected.
    pub fn selected_row(&self) -> Option<&[Value]> {
        self.selected_index().map(|at| self.rows[at].as_slice())
    }

    /// The names and values of the row that is selected.
    pub fn selected_fields(&self) -> Vec<(&str, &Value)> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        self.selected_row().map_or_else(Vec::new, |row| names.zip(row).collect())
    }

    /// The rows that are shown, in their order.
    pub fn table(&self) -> Table {
        let columns = self.columns.iter().map(|column| column.name.clone()).collect();
        Table { columns, rows: self.order.iter().map(|at| self.rows[*at].clone()).collect(), ..Table::default() }
    }

    /// The first row's course in time as bars, if it has one.
    pub fn bars(&self) -> Option<String> {
        let at = self.columns.iter().position(|column| column.kind == Kind::Spark)?;
        self.rows.first().map(|row| columns::show(Kind::Spark, &row[at]))
    }

    /// The row that is selected as a line of text, tabs between.
    pub fn selected_text(&self) -> Option<String> {
        let cell = |(column, value): (&Column, &Value)| plain(&columns::show(column.kind, value)).into_owned();
        self.selected_row().map(|row| self.columns.iter().zip(row).map(cell).collect::<Vec<_>>().join("\t"))
    }

    /// Moves the selection by so many rows.
    pub fn step(&mut self, by: isize) {
        self.selected = self.selected.saturating_add_signed(by);
        self.clamp();
    }

    /// Selects the first row that is shown, or the last.
    pub fn jump(&mut self, to_last: bool) {
        self.selected = if to_last { usize::MAX } else { 0 };
        self.clamp();
    }

    fn clamp(&mut self) {
        self.selected = self.selected.min(self.order.len().saturating_sub(1));
    }

    /// Moves to other columns.
    pub fn sideways(&mut self, right: bool) {
        let last = self.columns.iter().filter(|column| !column.is_wide).count().saturating_sub(2);
        self.left = if right { (self.left + 1).min(last) } else { self.left.saturating_sub(1) };
    }

    /// Sorts by the next column; behind the last, as it came.
    pub fn sort_next(&mut self) {
        self.sort = match self.sort {
            None => Some((0, false)),
            Some((at, _)) => Some((at + 1, false)),
        };
        while self.sort.is_some_and(|(at, _)| {
            self.columns.get(at).is_some_and(|column| column.is_wide || column.kind == Kind::Spark)
        }) {
            self.sort = self.sort.map(|(at, is_turned)| (at + 1, is_turned));
        }
        self.sort = self.sort.filter(|(at, _)| *at < self.columns.len());
        self.arrange();
    }

    /// Sorts by the column whose heading is at this place of a line.
    pub fn sort_at(&mut self, x: usize, width: usize) {
        let mut end = 0;
        for (at, own) in self.laid(width) {
            end += own + 2;
            if x < end {
                self.sort = Some((at, self.sort.is_some_and(|(sorted, is_turned)| sorted == at && !is_turned)));
                return self.arrange();
            }
        }
    }

    /// Turns the order around.
    pub fn reverse(&mut self) {
        self.sort =
            self.sort.or(Some((0, false))).map(|(at, is_turned)| (at, !is_turned)).filter(|_| !self.columns.is_empty());
        self.arrange();
    }

    /// Shows the rows that the filter takes.
    pub fn set_filter(&mut self, text: &str) {
        self.filter = Filter::parse(text);
        text.clone_into(&mut self.filter_text);
        self.arrange();
    }

    fn arrange(&mut self) {
        let selected = self.selected_index();
        self.order = (0..self.rows.len()).filter(|at| self.filter.takes(&self.rows[*at])).collect();
        if let Some((column, is_turned)) = self.sort {
            let rows = &self.rows;
            self.order.sort_by(|a, b| rows[*a][column].in_order(&rows[*b][column]));
            if is_turned {
                self.order.reverse();
            }
        }
        // The selection stays with its row; where that was removed, at its place.
        if let Some(at) = selected.and_then(|selected| self.order.iter().position(|at| *at == selected)) {
            self.selected = at;
        }
        self.clamp();
    }

    /// By what it is sorted, in words.
    pub fn order_in_words(&self) -> String {
        self.sort.map_or_else(String::new, |(at, is_turned)| {
            format!("by {}{}", self.columns[at].title, if is_turned { ", reversed" } else { "" })
        })
    }

    /// Columns that fit, and how wide they are.
    fn laid(&self, width: usize) -> Vec<(usize, usize)> {
        let may: Vec<usize> =
            (0..self.columns.len()).filter(|at| !self.columns[*at].is_wide || width > 180).skip(self.left).collect();
        let needs: Vec<Need<'_>> = may
            .iter()
            .map(|at| &self.columns[*at])
            .map(|column| Need { name: &column.name, kind: column.kind, width: column.width })
            .collect();
        let mut laid: Vec<(usize, usize)> =
            layout(&needs, Some(width), Some(MIN_TEXT_WIDTH)).into_iter().map(|(at, width)| (may[at], width)).collect();
        // A number of which digits are missing is another number: what does not fit is reached with the arrows.
        while laid.len() > 1 && laid.iter().map(|(_, width)| width + 2).sum::<usize>() > width + 2 {
            laid.pop();
        }
        laid
    }

    /// The row that stands in this line of the area it is drawn in; the heading is line 0.
    pub fn select_at(&mut self, line: usize, height: usize) -> bool {
        let at = self.first_shown(height.saturating_sub(1)) + line.saturating_sub(1);
        let is_row = line > 0 && at < self.order.len();
        if is_row {
            self.selected = at;
        }
        is_row
    }

    /// The first row that can be seen where so many can: the selection lies in the same page until it leaves it.
    fn first_shown(&self, height: usize) -> usize {
        let height = height.max(1);
        (self.selected / height * height).min(self.order.len().saturating_sub(height))
    }

    /// Draws heading and rows.
    pub fn draw(&self, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        if area.height < 2 || area.width < 4 {
            return;
        }
        let laid = self.laid(usize::from(area.width));
        let line = |cell: &dyn Fn(usize, usize) -> String| {
            laid.iter().map(|(at, width)| cell(*at, *width)).collect::<Vec<_>>().join("  ")
        };
        let heading = line(&|at, width| {
            let column = &self.columns[at];
            let mark = match self.sort {
                Some((sorted, is_turned)) if sorted == at => {
                    if is_turned {
                        "▲"
                    } else {
                        "▼"
                    }
                }
                _ => "",
            };
            aligned(&format!("{}{mark}", column.title), column.kind, width)
        });
        let width = usize::from(area.width);
        buffer.set_stringn(area.x, area.y, &heading, width, theme.heading);
        if self.order.is_empty() {
            let why = if self.rows.is_empty() { "nothing" } else { "no row matches the filter (Esc clears it)" };
            buffer.set_stringn(area.x, area.y + 1, why, width, theme.dim);
            return;
        }
        let first = self.first_shown(usize::from(area.height) - 1);
        for (y, place) in (area.y + 1..area.bottom()).zip(first..) {
            let Some(row) = self.order.get(place).map(|at| &self.rows[*at]) else { break };
            let text = line(&|at, width| {
                let column = &self.columns[at];
                aligned(&plain(&cell(column, &row[at])), column.kind, width)
            });
            let style = if place == self.selected { theme.selected } else { self.style_of(row, theme) };
            buffer.set_stringn(area.x, y, &text, width, style);
            if place == self.selected {
                buffer.set_style(Rect { y, height: 1, ..area }, theme.selected);
            }
        }
    }

    /// Rows that show how grave they are look like it.
    fn style_of(&self, row: &[Value], theme: &Theme) -> ratatui::style::Style {
        let reported = self
            .columns
            .iter()
            .zip(row)
            .find(|(column, _)| matches!(column.name.as_str(), "severity" | "level" | "verdict"));
        match reported.map(|(_, value)| value) {
            Some(Value::Text(text)) => match text.as_str() {
                "critical" => theme.of(Severity::Critical),
                "warning" => theme.of(Severity::Warning),
                _ => theme.text,
            },
            _ => theme.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let row = |user: &str, requests: u64| vec![user.into(), requests.into(), Value::None];
        let rows = vec![row("kubelet", 5), row("Scheduler", 90), row("node-agent\u{1b}[31m", 40)];
        let columns = ["user", "requests", "p99_ms"].map(str::to_owned).to_vec();
        Grid::new(&Table { columns, rows, ..Table::default() }, "t")
    }

    fn users(grid: &Grid) -> Vec<&str> {
        grid.order.iter().map(|at| texts(&grid.rows[*at]).next().unwrap()).collect()
    }

    #[test]
    fn rows_are_filtered_by_regex_by_its_opposite_and_fuzzily() {
        for (filter, left) in [
            ("^k", vec!["kubelet"]),
            ("!^k", vec!["Scheduler", "node-agent\u{1b}[31m"]),
            ("sched", vec!["Scheduler"]),
            ("SCHED", vec![]),
            ("-f ndgt", vec!["node-agent\u{1b}[31m"]),
            ("[31m", vec!["node-agent\u{1b}[31m"]),
            ("", vec!["kubelet", "Scheduler", "node-agent\u{1b}[31m"]),
        ] {
            let mut grid = grid();
            grid.set_filter(filter);
            assert_eq!(users(&grid), left, "{filter}");
        }
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut grid = grid();
        grid.step(1);
        grid.sort_next();
        assert_eq!((users(&grid)[0], grid.selected_index()), ("Scheduler", Some(1)), "capital letters come first");
        grid.sort_next();
        assert_eq!(users(&grid), ["Scheduler", "node-agent\u{1b}[31m", "kubelet"]);
        grid.reverse();
        assert_eq!((grid.selected, grid.order_in_words().as_str()), (2, "by REQUESTS, reversed"));
        let mut next = self::grid();
        next.rows.remove(0);
        next.go_on(&grid);
        assert_eq!((next.selected_index(), next.selected), (Some(0), 1));
        grid.set_filter("kubelet");
        assert_eq!(grid.selected_index(), Some(0), "its row is gone: what is at its place");
    }

    #[test]
    fn what_could_act_on_a_terminal_is_drawn_as_text() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 4));
        grid().draw(&Theme::none(), buffer.area, &mut buffer);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert!(text.contains("node-agent\\u{1b}[31m") && !text.contains('\u{1b}') && !text.contains("P99"), "{text}");
    }
}
