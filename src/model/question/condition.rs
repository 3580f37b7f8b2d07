//! One condition on one dimension, written so that it is read back as what is meant, whatever the value holds.

/// `DIM=VALUE`; of a value that would be read as an operator or cut at its ends, or that no terminal shows as it is,
/// `DIM=~^PATTERN$`.
pub fn condition(dim: &str, value: &str) -> String {
    let is_odd = value.starts_with(['=', '~']) || value.trim() != value || value.contains(char::is_control);
    if is_odd { format!("{dim}=~^{}$", pattern(value)) } else { format!("{dim}={value}") }
}

/// A pattern that matches this text alone.
fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' => pattern.push_str("[ ]"),
            c if c.is_control() || c.is_whitespace() => pattern.push_str(&format!("\\x{{{:x}}}", u32::from(c))),
            c => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_value_stays_as_it_is() {
        for value in ["admin", "system:node:a", "a b", "", "kubectl/v1.36 (linux/amd64)", "x=y", "*"] {
            assert_eq!(condition("user", value), format!("user={value}"));
        }
        assert_eq!(condition("user", "admin "), "user=~^admin[ ]$");
        assert_eq!(condition("name", "=x"), "name=~^=x$");
        assert_eq!(condition("name", "a\n\u{1b}"), "name=~^a\\x{a}\\x{1b}$");
    }

    proptest! {
        #[test]
        fn a_pattern_matches_its_text_alone(text in "\\PC{0,8}[ \t\n\u{1b}=~.*]{0,3}", other in "[ a=~]{0,3}") {
            let pattern = regex::Regex::new(&format!("^{}$", pattern(&text))).unwrap();
            prop_assert!(pattern.is_match(&text));
            prop_assert_eq!(pattern.is_match(&other), text == other);
            prop_assert_eq!(pattern.as_str().trim(), pattern.as_str());
        }
    }
}
