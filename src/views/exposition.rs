//! Metrics in the forms that Prometheus scrapes: its own text (0.0.4), OpenMetrics 1.0, and protobuf messages, which
//! alone have native histograms.

use super::protobuf;
use crate::model::exposed::{Exposed, Family, FamilyKind};
use std::fmt::Write;

/// Which form is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' own, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Messages of `io.prometheus.client.MetricFamily`, each behind its length.
    Protobuf,
}

impl Exposition {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// The form that a scraper's `Accept` header likes best; of those that it likes as much the first.
    pub fn accepted(header: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for choice in header.split(',') {
            let mut parts = choice.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parts: Vec<&str> = parts.collect();
            let form = match media {
                "application/openmetrics-text" => Self::OpenMetrics,
                "application/vnd.google.protobuf"
                    if parts.contains(&"proto=io.prometheus.client.MetricFamily")
                        && parts.contains(&"encoding=delimited") =>
                {
                    Self::Protobuf
                }
                "text/plain" => Self::Text,
                _ => continue,
            };
            let liked = parts.iter().find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
            if liked > best.0 {
                best = (liked, form);
            }
        }
        best.1
    }

    /// The `Content-Type` of what is written.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Writes all families. Families without series are left out.
    pub fn render(self, families: &[Family]) -> Vec<u8> {
        let families = families.iter().filter(|family| !family.series.is_empty());
        if self == Self::Protobuf {
            return families.flat_map(protobuf::family).collect();
        }
        let mut out = String::new();
        families.for_each(|family| self.family(family, &mut out));
        if self == Self::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out.into_bytes()
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
                Exposed::Histogram(own) => {
                    let name = format!("{}_bucket", spec.name);
                    for (bound, count) in &own.buckets {
                        line(out, &name, spec.labels, labels, Some(&bound.to_string()), *count as f64);
                    }
                    line(out, &name, spec.labels, labels, Some("+Inf"), own.count as f64);
                    line(out, &format!("{}_sum", spec.name), spec.labels, labels, None, own.sum);
                    line(out, &format!("{}_count", spec.name), spec.labels, labels, None, own.count as f64);
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
    use crate::model::exposed::{Observations, Spec};

    fn families() -> Vec<Family> {
        let requests = Spec { name: "r", help: "Requests.", kind: FamilyKind::Counter, labels: &["user", "code"] };
        let seconds = Spec { name: "d_seconds", help: "Time.", kind: FamilyKind::Histogram, labels: &["op"] };
        let labels = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        vec![
            Family { spec: requests, series: vec![(labels(&["a\"\\\n\u{1b}[31m", ""]), Exposed::Number(3.0))] },
            Family {
                spec: seconds,
                series: vec![(
                    labels(&["list"]),
                    Exposed::Histogram(Observations {
                        buckets: vec![(0.001_024, 1), (0.5, 2)],
                        native: vec![(-80, 1), (-9, 1), (-8, 1)],
                        zeros: 1,
                        count: 4,
                        sum: 1.5,
                    }),
                )],
            },
            Family { spec: Spec { name: "none", ..requests }, series: Vec::new() },
        ]
    }

    #[test]
    fn prometheus_names_series_and_hostile_labels_stay_on_their_line() {
        let text = String::from_utf8(Exposition::Text.render(&families())).unwrap();
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
        let text = String::from_utf8(Exposition::OpenMetrics.render(&families())).unwrap();
        assert!(text.starts_with("# HELP r Requests.\n# TYPE r counter\nr_total{"), "{text}");
        assert!(text.contains("# UNIT d_seconds seconds\n") && text.ends_with("# EOF\n"), "{text}");
        assert_eq!(Exposition::accepted("application/openmetrics-text;version=1.0.0"), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted("*/*"), Exposition::Text);
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (header, form) in [
            (format!("{protobuf},application/openmetrics-text;version=1.0.0;q=0.8"), Exposition::Protobuf),
            (format!("application/openmetrics-text;q=0.5,{protobuf};q=0.4"), Exposition::OpenMetrics),
            (format!("{protobuf};q=0,*/*;q=0.1"), Exposition::Text),
            (protobuf.replace("delimited", "text"), Exposition::Text),
        ] {
            assert_eq!(Exposition::accepted(&header), form, "{header}");
        }
    }
}
