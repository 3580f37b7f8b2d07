//! Metrics as text that Prometheus scrapes: its own format (0.0.4) and OpenMetrics 1.0.

use crate::model::exposed::{Exposed, Family, FamilyKind};
use std::fmt::Write;

/// Which of the two text formats is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' own, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The format that a scraper's `Accept` header asks for.
    pub fn accepted(header: &str) -> Self {
        if header.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type` of what is written.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes all families. Families without series are left out.
    pub fn render(self, families: &[Family]) -> String {
        let mut out = String::new();
        for family in families.iter().filter(|family| !family.series.is_empty()) {
            self.family(family, &mut out);
        }
        if self == Self::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }

    fn family(self, Family { spec, series }: &Family, out: &mut String) {
        let (kind, total) = match spec.kind {
            FamilyKind::Counter => ("counter", "_total"),
            FamilyKind::Gauge => ("gauge", ""),
            FamilyKind::Histogram => ("histogram", ""),
        };
        // OpenMetrics names the family, Prometheus the series.
        let named = if self == Self::Text { format!("{}{total}", spec.name) } else { spec.name.to_owned() };
        let _ = writeln!(out, "# HELP {named} {}\n# TYPE {named} {kind}", spec.help);
        if self == Self::OpenMetrics && spec.name.ends_with("_seconds") {
            let _ = writeln!(out, "# UNIT {named} seconds");
        }
        for (labels, value) in series {
            match value {
                Exposed::Number(value) => {
                    line(out, &format!("{}{total}", spec.name), spec.labels, labels, None, *value);
                }
                Exposed::Buckets(buckets, count, sum) => {
                    let name = format!("{}_bucket", spec.name);
                    for (bound, count) in buckets {
                        line(out, &name, spec.labels, labels, Some(&bound.to_string()), *count as f64);
                    }
                    line(out, &name, spec.labels, labels, Some("+Inf"), *count as f64);
                    line(out, &format!("{}_sum", spec.name), spec.labels, labels, None, *sum);
                    line(out, &format!("{}_count", spec.name), spec.labels, labels, None, *count as f64);
                }
            }
        }
    }
}

fn line(out: &mut String, name: &str, labels: &[&str], values: &[String], bound: Option<&str>, value: f64) {
    out.push_str(name);
    let le = bound.map(|bound| ("le", bound));
    let pairs = labels.iter().copied().zip(values.iter().map(String::as_str)).chain(le);
    let mut separator = '{';
    for (label, text) in pairs.filter(|(_, text)| !text.is_empty()) {
        let _ = write!(out, "{separator}{label}=\"");
        escape(text, out);
        out.push('"');
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

/// What both formats escape in the value of a label; other control characters have no place in one.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::exposed::Spec;

    fn families() -> Vec<Family> {
        let requests = Spec { name: "r", help: "Requests.", kind: FamilyKind::Counter, labels: &["user", "code"] };
        let seconds = Spec { name: "d_seconds", help: "Time.", kind: FamilyKind::Histogram, labels: &["op"] };
        let labels = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        vec![
            Family { spec: requests, series: vec![(labels(&["a\"\\\n\u{1b}[31m", ""]), Exposed::Number(3.0))] },
            Family {
                spec: seconds,
                series: vec![(labels(&["list"]), Exposed::Buckets(vec![(0.001_024, 1), (0.5, 2)], 4, 1.5))],
            },
            Family { spec: Spec { name: "none", ..requests }, series: Vec::new() },
        ]
    }

    #[test]
    fn prometheus_names_series_and_hostile_labels_stay_on_their_line() {
        let text = Exposition::Text.render(&families());
        assert_eq!(
            text,
            "# HELP r_total Requests.\n# TYPE r_total counter\nr_total{user=\"a\\\"\\\\\\n\u{fffd}[31m\"} 3\n\
             # HELP d_seconds Time.\n# TYPE d_seconds histogram\nd_seconds_bucket{op=\"list\",le=\"0.001024\"} 1\n\
             d_seconds_bucket{op=\"list\",le=\"0.5\"} 2\nd_seconds_bucket{op=\"list\",le=\"+Inf\"} 4\n\
             d_seconds_sum{op=\"list\"} 1.5\nd_seconds_count{op=\"list\"} 4\n"
        );
    }

    #[test]
    fn openmetrics_names_families_and_units_and_ends() {
        let text = Exposition::OpenMetrics.render(&families());
        assert!(text.starts_with("# HELP r Requests.\n# TYPE r counter\nr_total{"), "{text}");
        assert!(text.contains("# UNIT d_seconds seconds\n") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(Exposition::accepted("application/openmetrics-text;version=1.0.0"), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted("*/*"), Exposition::Text);
    }
}
