//! Budgets as JUnit XML, which CI systems show beside a pull request: a suite for each budget, a case for each limit.

use super::text::plain;
use crate::model::budget::{Checked, Verdict};
use std::io::{self, Write};

/// Text within XML: what the form forbids, or would take for its own, is replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            // XML 1.0 has no other control characters, and not these two at all.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Writes the document.
pub fn write(checked: &[Checked], out: &mut dyn Write) -> io::Result<()> {
    let count = |all: &[Checked], verdict: Verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let totals = |all: &[Checked]| {
        format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
            all.len(),
            count(all, Verdict::Exceeded),
            count(all, Verdict::Unknown)
        )
    };
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"plimsoll budget\" {}>", totals(checked))?;
    for suite in checked.chunk_by(|a, b| a.budget == b.budget) {
        writeln!(out, "  <testsuite name=\"{}\" {}>", escaped(&suite[0].budget), totals(suite))?;
        for one in suite {
            let of = one.resource.as_ref().map_or(String::new(), |resource| format!(" of {resource}"));
            let name = escaped(&format!("{}{of}", one.rule.name()));
            write!(out, "    <testcase classname=\"{}\" name=\"{name}\"", escaped(&one.client))?;
            let used = one.used.map_or_else(|| "unknown".to_owned(), |used| used.to_string());
            let message = escaped(&format!("{}: {used}, {} allowed", one.rule.what(), one.allowed));
            let detail = escaped(&one.detail);
            match one.verdict {
                Verdict::Exceeded => writeln!(
                    out,
                    ">\n      <failure message=\"{message}\">{detail}\nWhat to do: {}</failure>\n    </testcase>",
                    escaped(one.rule.remedy())
                )?,
                Verdict::Unknown => {
                    writeln!(out, ">\n      <error message=\"{message}\">{detail}</error>\n    </testcase>")?;
                }
                Verdict::Within | Verdict::Excepted => {
                    writeln!(out, ">\n      <system-out>{message}; {detail}</system-out>\n    </testcase>")?;
                }
            }
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}
