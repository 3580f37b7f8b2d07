//! What goes wrong between here and Prometheus, said so that the next step is clear.

use crate::model::units::grouped;
use crate::sources::live::foreign;
use std::time::Duration;

/// Why Prometheus could not be asked, or what it would not answer.
#[derive(Debug, thiserror::Error)]
pub enum PromError {
    /// No URL, or none that can be used.
    #[error("--prometheus {url}: {what}")]
    Url {
        /// What was given, without what may be a password.
        url: String,
        /// What is wrong with it, and what to do.
        what: &'static str,
    },
    /// A file with a certificate, a token or a password.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A header that can't be sent.
    #[error("--header {name}: {what}")]
    Header {
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No connection, or none that holds.
    #[error("{url}: {what}, after {tries} {}; {next}", if *tries == 1 { "try" } else { "tries" })]
    Unreachable {
        /// What was asked.
        url: String,
        /// What happened last.
        what: String,
        /// How often it was asked.
        tries: u32,
        /// What to do.
        next: &'static str,
    },
    /// 429 or 5xx, however often it was asked.
    #[error("{url}: {code} after {tries} {}{}, {what}; try again later", if *tries == 1 { "try" } else { "tries" },
        asks(*retry_after))]
    Busy {
        /// What was asked.
        url: String,
        /// The status.
        code: u16,
        /// How often it was asked.
        tries: u32,
        /// How long it last asked to be left alone.
        retry_after: Option<Duration>,
        /// Its own words.
        what: String,
    },
    /// Any other status but 200.
    #[error("{url}: {code}, {what}{}", advice(*code))]
    Refused {
        /// What was asked.
        url: String,
        /// The status.
        code: u16,
        /// Its own words.
        what: String,
    },
    /// The answer is not that of Prometheus' API.
    #[error(
        "{url}: not an answer of Prometheus' HTTP API ({what}); --prometheus is the URL before /api/v1, as in \
         http://prometheus:9090 or https://mimir/prometheus"
    )]
    NotApi {
        /// What was asked.
        url: String,
        /// What came instead.
        what: String,
    },
    /// The expression is not accepted.
    #[error("query {name}: {what}; show the expression with `plimsoll` -v, replace it with --query {name}=PROMQL")]
    Query {
        /// The query's name.
        name: String,
        /// Prometheus' own words.
        what: String,
    },
    /// Not even one instant keeps the limit, and it can't be cut further.
    #[error("query {name}: one instant of {part} is too heavy for --max-samples {}: {why}; {next}", grouped(*limit))]
    TooHeavy {
        /// The query's name.
        name: String,
        part: String,
        /// The limit in samples.
        limit: u64,
        /// By what that is known.
        why: String,
        /// What to do.
        next: String,
    },
    /// More series than are kept.
    #[error("query {name}: more than {} series; add a sum or max by labels to the expression", grouped(*limit))]
    Series {
        /// The query's name.
        name: String,
        /// The bound.
        limit: u64,
    },
    /// A query given by name, flag or file that makes no sense.
    #[error("{0}")]
    Given(String),
}

/// An address without user and password, as messages may show it.
pub(super) fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) =
        rest.split_once('/').map_or((rest, String::new()), |(authority, path)| (authority, format!("/{path}")));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    foreign(&if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") })
}

fn asks(retry_after: Option<Duration>) -> String {
    retry_after.map_or(String::new(), |time| format!(" (Retry-After {time:?})"))
}

fn advice(code: u16) -> &'static str {
    match code {
        401 => "; give --bearer-token-file or --basic-auth-file, or a fresh token",
        403 => "; these credentials may not read metrics here",
        404 => "; --prometheus is the URL before /api/v1, with its prefix if any: https://mimir/prometheus",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_passwords() {
        for (url, shown) in [
            ("http://u:p@host:9090/prometheus/api/v1/query?query=up", "http://host:9090/prometheus/api/v1/query"),
            ("host:9090", "host:9090"),
            ("https://a@b@host", "https://host"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn tries_are_counted_in_english() {
        let unreachable = |tries| PromError::Unreachable {
            url: "http://x".to_owned(),
            what: "refused".to_owned(),
            tries,
            next: "look",
        };
        assert_eq!(unreachable(1).to_string(), "http://x: refused, after 1 try; look");
        assert_eq!(unreachable(5).to_string(), "http://x: refused, after 5 tries; look");
    }
}
