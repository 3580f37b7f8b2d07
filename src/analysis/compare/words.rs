//! Rows in words: what they are of, values, changes.

use super::{Area, Row, Unit};
use crate::analysis::dims::short_user;
use crate::model::units::{bytes, grouped, signed_percent, significant};

/// `+30%`; of much more, or where `is_factor`, how many times it is: `2.54×`.
pub(super) fn signed(change: f64, is_factor: bool) -> String {
    match change {
        _ if change.is_infinite() => "any".to_owned(),
        999.0.. => "> 1,000×".to_owned(),
        _ if is_factor || change >= 10.0 => format!("{}×", significant(change + 1.0)),
        _ => signed_percent(change),
    }
}

/// A value with its unit.
pub(super) fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", significant(value)),
        Unit::Millis => format!("{} ms", significant(value)),
        Unit::Count => grouped(value.round() as u64),
        Unit::Bytes => bytes(value),
    }
}

/// What a row is of: `node-agent (monitoring:node-agent)`, `list pods`, `all`.
pub(super) fn name(row: &Row) -> String {
    let field =
        |name: &str| row.pair.subject.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value.as_str());
    let (user, agent) = (field("user"), field("agent"));
    let user = short_user(user);
    let slash = if field("subresource").is_empty() { String::new() } else { format!("/{}", field("subresource")) };
    let group = if field("group").is_empty() { String::new() } else { format!(".{}", field("group")) };
    match (row.pair.area, field("verb")) {
        (Area::Clients, _) if agent.is_empty() => short(user),
        // An account that is called as its agent names both.
        (Area::Clients, _) if user.rsplit(':').next() == Some(agent) => short(user),
        (Area::Clients, _) => format!("{} ({})", short(agent), short(user)),
        (_, "") => [field("resource").to_owned() + &group, field("name").to_owned(), field("instance").to_owned()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "all".to_owned()),
        (_, verb) if field("resource").is_empty() => format!("{verb} (no resource)"),
        (_, verb) => format!("{verb} {}{group}{slash}", field("resource")),
    }
}

/// The start of a name, which may be as long as its owner likes.
fn short(name: &str) -> String {
    const MAX_NAME_CHARS: usize = 60;
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
