//! A sample of a metrics page, as it stands there.

use std::borrow::Cow;

/// A name or a label value as it stands on a page, with its escapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageText<'p> {
    raw: &'p [u8],
    escaped: bool,
}

impl<'p> PageText<'p> {
    /// Text that holds escapes only if `escaped`.
    #[inline]
    pub fn new(raw: &'p [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// The bytes between the quotes.
    #[inline]
    pub fn raw(self) -> &'p [u8] {
        self.raw
    }

    /// Whether it is `text`.
    #[inline]
    pub fn is(self, text: &str) -> bool {
        if self.escaped { self.decode() == text } else { self.raw == text.as_bytes() }
    }

    /// The text: `\\`, `\"` and `\n` stand for backslash, quote and newline; a backslash before anything else is
    /// itself.
    pub fn decode(self) -> Cow<'p, str> {
        let text = String::from_utf8_lossy(self.raw);
        if !self.escaped {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match (c, rest.as_str().chars().next()) {
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some(mark @ ('\\' | '"'))) => out.push(mark),
                _ => {
                    out.push(c);
                    continue;
                }
            }
            rest.next();
        }
        Cow::Owned(out)
    }
}

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'p> {
    pub name: PageText<'p>,
    pub value: PageText<'p>,
}

/// An observation that stands for others, beside a bucket or a counter (OpenMetrics).
#[derive(Debug, Clone, PartialEq)]
pub struct Exemplar<'p> {
    pub labels: Vec<Label<'p>>,
    pub value: f64,
    /// Unix seconds.
    pub timestamp: Option<f64>,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'r, 'p> {
    /// The metric's name, with `_total`, `_bucket` and the like.
    pub name: PageText<'p>,
    /// Labels, in the page's order.
    pub labels: &'r [Label<'p>],
    /// The value; may be NaN or infinite.
    pub value: f64,
    /// Unix seconds, where the page gives them.
    pub timestamp: Option<f64>,
    /// The exemplar, where there is one.
    pub exemplar: Option<&'r Exemplar<'p>>,
    /// Name and labels as they stand on the page: the same bytes are the same series.
    pub series: &'p [u8],
}

impl<'p> Sample<'_, 'p> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<PageText<'p>> {
        self.labels.iter().find(|label| label.name.is(name)).map(|label| label.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for (raw, text) in
            [(r"a\\b", r"a\b"), (r#"\"q\""#, "\"q\""), (r"l\nm", "l\nm"), (r"\d\", r"\d\"), (r"\\n", r"\n"), ("é", "é")]
        {
            assert_eq!(PageText::new(raw.as_bytes(), true).decode(), text, "{raw}");
        }
    }
}
