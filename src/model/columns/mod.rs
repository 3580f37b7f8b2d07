//! One spec for every column of every table, which all views use: what a field is called, its unit, whether a narrow
//! table shows it, and what it means. A field that is not listed is a dimension of a breakdown.

mod about;
mod budget;
mod clients;
mod controllers;
mod etcd;
mod fleet;
mod guard;
mod health;
mod incident;
mod memory;
mod quota;
mod seats;
mod traffic;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// How the values of a column are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Digits in groups.
    Count,
    /// Per second.
    Rate,
    /// 0 to 1, written as per cent.
    Share,
    /// A change against another value, as signed per cent.
    Change,
    /// Milliseconds.
    Millis,
    Bytes,
    /// Bytes more or fewer than before.
    MoreBytes,
    /// More or fewer than before.
    More,
    /// Counts in time, as a line of bars.
    Spark,
    /// RFC 3339, written as `Nov 20 09:21`.
    Time,
    /// A number of which nobody knows what it counts: its digits.
    Plain,
}

impl Kind {
    /// The unit of the JSON field.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Text | Self::Spark => "",
            Self::Count | Self::More | Self::Rate | Self::Plain => "number",
            Self::Share | Self::Change => "1 = 100 %",
            Self::Millis => "ms",
            Self::Bytes | Self::MoreBytes => "bytes",
            Self::Time => "RFC 3339",
        }
    }

    /// Whether values stand at the left, as words do.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Spark | Self::Time)
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// JSON field name.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// How values are written.
    pub kind: Kind,
    /// Whether only `-o wide` shows it.
    pub wide: bool,
    /// What it is, without a full stop.
    pub meaning: &'static str,
}

const fn column(name: &'static str, title: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, title, kind, wide: false, meaning }
}

const fn wide(name: &'static str, title: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, title, kind, wide: true, meaning }
}

/// All of them, by what they are about.
pub fn families() -> [(&'static str, &'static [Column]); 14] {
    [
        ("Requests", &traffic::TRAFFIC),
        ("Priority levels, service levels, LISTs, watch caches", &health::HEALTH),
        ("Seats", &seats::SEATS),
        ("Clients and apiservers", &clients::CLIENTS),
        ("Work queues, scheduling, leases", &controllers::CONTROLLERS),
        ("etcd", &etcd::ETCD),
        ("Memory and heap", &memory::MEMORY),
        ("Dangerous operations, webhooks, policies", &guard::GUARD),
        ("Quotas and forecasts", &quota::QUOTA),
        ("Budgets of clients", &budget::BUDGET),
        ("Upgrades", &budget::UPGRADE),
        ("Fleets", &fleet::FLEET),
        ("Incidents", &incident::INCIDENT),
        ("Explanations and collections", &about::ABOUT),
    ]
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Column> {
    families().into_iter().flat_map(|(_, columns)| columns)
}

/// The column of a JSON field; a field that is not listed is a dimension, whose heading is its name.
pub fn of(name: &str) -> Option<&'static Column> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Column>> =
        LazyLock::new(|| all().map(|column| (column.name, column)).collect());
    BY_NAME.get(name).copied()
}

/// The heading of a field.
pub fn title(name: &str) -> Cow<'static, str> {
    of(name).map_or_else(|| Cow::Owned(name.to_uppercase().replace(['_'], " ")), |column| Cow::Borrowed(column.title))
}

/// How a field is written.
pub fn kind(name: &str) -> Kind {
    of(name).map_or(Kind::Text, |column| column.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_field_is_listed_once_and_has_a_meaning() {
        let mut names = BTreeSet::new();
        for column in all() {
            assert!(names.insert(column.name), "{} is listed twice", column.name);
            let is_sentence = column.meaning.ends_with('.') || column.meaning.len() < 4;
            assert!(!is_sentence, "{}: {:?}", column.name, column.meaning);
        }
        assert!(names.len() > 300);
    }
}
