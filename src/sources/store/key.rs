//! A series as one text: `name{"label":"value"}`, labels as JSON by name. Files are sorted by it.

use crate::model::series::{Selector, Series};
use std::collections::BTreeMap;

/// The longest text of a series.
pub const MAX_KEY_BYTES: usize = 32 << 10;

/// The text of a series; `None` where its name is none or it is too long.
pub fn key(series: &Series) -> Option<String> {
    let mut chars = series.name.chars();
    let first = chars.next()?;
    let is_name = (first.is_ascii_alphabetic() || matches!(first, '_' | ':'))
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
    if !is_name {
        return None;
    }
    let key = format!("{}{}", series.name, serde_json::to_string(&series.labels).ok()?);
    (key.len() <= MAX_KEY_BYTES).then_some(key)
}

/// The name in a series' text, and its labels as JSON.
pub fn parts(key: &str) -> (&str, &str) {
    key.find('{').map_or((key, "{}"), |at| key.split_at(at))
}

/// The series that a text means.
pub fn series(key: &str) -> Option<Series> {
    let (name, labels) = parts(key);
    let labels: BTreeMap<String, String> = serde_json::from_str(labels).ok()?;
    Some(Series { name: name.to_owned(), labels })
}

/// Whether a selector means the series of this text.
pub fn matches(selector: &Selector, key: &str) -> bool {
    if selector.name.is_empty() && selector.labels.is_empty() {
        return true;
    }
    let is_name = selector.name.is_empty() || parts(key).0 == selector.name;
    is_name && (selector.labels.is_empty() || series(key).is_some_and(|series| selector.matches(&series)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_survives_its_text() {
        let odd = Series::new("a:b_1", &[("x", "{\"'\\\n,=}"), ("a", "ü")]);
        let text = key(&odd).unwrap();
        assert_eq!(series(&text), Some(odd.clone()));
        assert_eq!(parts(&text).0, "a:b_1");
        assert!(matches(&Selector::new("a:b_1", &[("a", "ü")]), &text));
        assert!(matches(&Selector::new("", &[("absent", "")]), &text));
        assert!(!matches(&Selector::new("a:b_1", &[("a", "u")]), &text));
        assert!(!matches(&Selector::new("a:b", &[]), &text));
        for bad in ["", "1a", "a{", "a b", "ü"] {
            assert_eq!(key(&Series::new(bad, &[])), None, "{bad}");
        }
        assert_eq!(key(&Series::new("a", &[("b", &"x".repeat(MAX_KEY_BYTES))])), None);
    }
}
