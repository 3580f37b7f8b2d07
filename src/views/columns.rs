//! Values, headings and widths of a table's columns, as every view writes them.

use crate::model::columns::title;
pub use crate::model::columns::{Kind, kind, of};
use crate::model::report::{Table, Value};
use crate::model::units::{bytes, grouped, percent, signed_percent, significant};
use std::borrow::Cow;

/// A value as a person reads it.
pub fn show(kind: Kind, value: &Value) -> String {
    match (kind, value) {
        (_, Value::None) => "-".to_owned(),
        (Kind::Time, Value::Text(text)) => {
            text.parse().map_or_else(|_| text.clone(), |at: jiff::Timestamp| at.strftime("%b %-d %H:%M").to_string())
        }
        (_, Value::Text(text)) => text.clone(),
        (Kind::Bytes, Value::Count(count)) => bytes(*count as f64),
        (Kind::Bytes, Value::Number(number)) => bytes(*number),
        (Kind::Plain, Value::Count(count)) => count.to_string(),
        (Kind::Plain, Value::Json(json)) => json.as_f64().filter(|_| json.is_f64()).map_or(json.to_string(), digits),
        (_, Value::Count(count)) => grouped(*count),
        (Kind::MoreBytes, Value::Number(number)) => format!("{}{}", plus(*number), bytes(*number)),
        (Kind::More, Value::Number(number)) => format!("{}{}", plus(*number), significant(*number)),
        (Kind::Share, Value::Number(share)) => percent(*share),
        (Kind::Change, Value::Number(change)) => signed_percent(*change),
        (_, Value::Number(number)) => significant(*number),
        (_, Value::Series(counts)) => spark(counts),
        (_, Value::Json(json)) => json.to_string(),
        (_, Value::Group(values)) => {
            let values: Vec<String> =
                values.iter().map(|(name, value)| format!("{name} {}", show(kind, value))).collect();
            values.join(", ")
        }
    }
}

/// A number with up to six digits behind the point; a small one with all that it has.
fn digits(number: f64) -> String {
    if number != 0.0 && number.abs() < 1e-4 {
        return format!("{number:e}");
    }
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The sign that a number lacks where it is more.
fn plus(number: f64) -> &'static str {
    if number > 0.0 { "+" } else { "" }
}

/// The heading of a table's column: its own, or what columns of that name are called.
pub fn heading(table: &Table, at: usize) -> Cow<'_, str> {
    match own(table, at) {
        _ if table.is_raw => Cow::Borrowed(&table.columns[at]),
        Some(heading) => Cow::Borrowed(heading),
        None => title(&table.columns[at]),
    }
}

/// Whether only `-o wide` shows a table's column.
pub fn is_wide(table: &Table, at: usize) -> bool {
    !table.is_raw && own(table, at).is_none() && of(&table.columns[at]).is_some_and(|column| column.wide)
}

/// How the values of a table's column are written: as columns of that name are, but words as words.
pub fn kind_in(table: &Table, at: usize) -> Kind {
    if table.is_raw {
        let is_number = |value: &Value| match value {
            Value::Json(json) => json.is_number(),
            value => matches!(value, Value::None | Value::Count(_) | Value::Number(_)),
        };
        return if table.rows.iter().all(|row| row.get(at).is_some_and(is_number)) { Kind::Plain } else { Kind::Text };
    }
    let kind = kind(&table.columns[at]);
    let mut known = table.rows.iter().filter_map(|row| row.get(at)).filter(|value| **value != Value::None).peekable();
    let is_word = |value: &Value| matches!(value, Value::Text(text) if !text.contains(|c: char| c.is_ascii_digit()));
    let is_text = known.peek().is_some() && known.all(is_word);
    if is_text && !kind.is_text() { Kind::Text } else { kind }
}

fn own(table: &Table, at: usize) -> Option<&'static str> {
    table.headings.iter().find(|(name, _)| *name == table.columns[at]).map(|(_, heading)| *heading)
}

/// Counts as a line of bars, the highest full.
pub fn spark(counts: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&count: &u64| match count {
        0 => ' ',
        count => BARS[((count * 8).div_ceil(highest) - 1).min(7) as usize],
    };
    counts.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_headings_of_its_own() {
        let mut table = Table {
            columns: vec!["reason".to_owned(), "restarts".to_owned(), "change".to_owned()],
            rows: vec![vec!["a".into(), Value::Count(1), "added".into()]],
            ..Table::default()
        };
        let reported =
            |table: &Table| (0..3).map(|at| (heading(table, at).into_owned(), is_wide(table, at))).collect::<Vec<_>>();
        let heads = |reason: &str, restarts| {
            vec![(reason.to_owned(), false), ("RESTARTS".to_owned(), restarts), ("CHANGE".to_owned(), false)]
        };
        assert_eq!(reported(&table), heads("REASON", true));
        table.headings = vec![("reason", "WHY NOT"), ("restarts", "RESTARTS")];
        assert_eq!(reported(&table), heads("WHY NOT", false));
        assert_eq!(show(Kind::Time, &"2026-11-20T09:21:57.123Z".into()), "Nov 20 09:21");
        assert_eq!(show(Kind::Time, &"never".into()), "never");
        assert_eq!((kind_in(&table, 2), kind_in(&table, 1)), (Kind::Text, Kind::Count));
        // Numbers that somebody has written out stand as numbers do.
        table.rows.push(vec!["a".into(), Value::Count(1), "+3 %".into()]);
        assert_ne!(kind_in(&table, 2), Kind::Text);
    }

    #[test]
    fn bars_rise_with_counts() {
        assert_eq!(spark(&[0, 1, 4, 8]), " ▁▄█");
    }
}
