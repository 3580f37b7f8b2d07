//! Flag groups that commands share.

use crate::model::input::Dedupe;
use crate::model::report::Severity;
use crate::model::time::{self, Bounds, Micros};
use crate::model::units::{duration, parse_bytes, parse_duration, parse_share};
use crate::views::Format;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The heading of flags about the output in --help.
const OUTPUT: &str = "Output";

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorMode {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Whether to show progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgressMode {
    /// On a terminal, for what takes longer than a second.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// Which findings make the exit code 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Critical ones.
    Critical,
    /// Warnings and critical ones.
    Warning,
    /// None.
    #[default]
    Never,
}

impl FailOn {
    /// Whether a finding of `severity` counts.
    pub fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Critical => severity >= Severity::Critical,
            Self::Warning => severity >= Severity::Warning,
            Self::Never => false,
        }
    }
}

/// How to print.
#[derive(Debug, Clone, Default, Args)]
pub struct ViewFlags {
    /// Output format.
    #[arg(short, long, value_enum, env = "PLIMSOLL_OUTPUT", global = true, help_heading = OUTPUT, value_name = "FORM")]
    pub output: Option<Format>,
    /// Leave out headings and the text around tables.
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub no_headers: bool,
    /// Sort rows by this field: numbers from the largest, text from the smallest.
    #[arg(long, value_name = "FIELD", global = true, help_heading = OUTPUT)]
    pub sort_by: Option<String>,
    /// Rows in tables, 0 for all (default 25); json, yaml and csv hold all rows unless it is given.
    #[arg(long, value_name = "N", env = "PLIMSOLL_TOP", global = true, help_heading = OUTPUT)]
    pub top: Option<usize>,
    /// Use colour.
    #[arg(long, value_enum, env = "PLIMSOLL_COLOR", value_name = "WHEN", global = true, help_heading = OUTPUT)]
    pub color: Option<ColorMode>,
    /// Show progress on stderr.
    #[arg(long, value_enum, env = "PLIMSOLL_PROGRESS", value_name = "WHEN", global = true, help_heading = OUTPUT)]
    pub progress: Option<ProgressMode>,
    /// Exit with 1 if there are findings of this severity or above.
    #[arg(long, value_enum, env = "PLIMSOLL_FAIL_ON", value_name = "SEVERITY", global = true, help_heading = OUTPUT)]
    pub fail_on: Option<FailOn>,
    /// Read settings from this file (default: plimsoll/config.toml in the user's config folder).
    #[arg(long, env = "PLIMSOLL_CONFIG", value_name = "FILE", global = true, help_heading = OUTPUT)]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub config: Option<PathBuf>,
    /// Threads that parse (default: one per core).
    #[arg(long, env = "PLIMSOLL_THREADS", value_name = "N", global = true, help_heading = OUTPUT)]
    pub threads: Option<usize>,
    /// Drop duplicate audit events: auto does so in exports of log services and in overlapping files.
    #[arg(long, value_enum, env = "PLIMSOLL_DEDUPE", value_name = "WHEN", global = true, help_heading = OUTPUT)]
    pub dedupe: Option<Dedupe>,
    /// Cache roll-ups of large audit logs in this folder, so that no log is read twice (default: plimsoll in the
    /// user's cache folder).
    #[arg(long, env = "PLIMSOLL_CACHE", value_name = "DIR", global = true, help_heading = OUTPUT)]
    pub cache: Option<PathBuf>,
    /// Neither use nor fill the cache of roll-ups.
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub no_cache: bool,
    /// Maximum size of the cache (default 2GB); the least recently used roll-ups are dropped first.
    #[arg(long, env = "PLIMSOLL_CACHE_SIZE", value_name = "SIZE", global = true, help_heading = OUTPUT,
        value_parser = parse_size, hide_short_help = true)]
    pub cache_size: Option<u64>,
    /// Cache roll-ups of audit logs from this size on (default 256MB).
    #[arg(long, env = "PLIMSOLL_CACHE_FROM", value_name = "SIZE", global = true, help_heading = OUTPUT,
        value_parser = parse_size, hide_short_help = true)]
    pub cache_from: Option<u64>,
    /// Have audit logs in object stores rolled up there, by Apache Spark's workers: SOURCEs like s3a://, gs://,
    /// file:/// are read by this Spark Connect server (docs/engine.md).
    #[arg(long, env = "PLIMSOLL_ENGINE", value_name = "URL", global = true, help_heading = OUTPUT,
        hide_short_help = true, hide_env_values = true)]
    pub engine: Option<String>,
    /// The plimsoll that the engine's workers run, if their platform is another (default: this one).
    #[arg(long, env = "PLIMSOLL_ENGINE_PROGRAM", value_name = "FILE", global = true, help_heading = OUTPUT,
        hide_short_help = true)]
    pub engine_program: Option<PathBuf>,
    /// Print no messages but errors.
    #[arg(short, long, global = true, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print more on stderr about what was read.
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub verbose: bool,
}

/// A size in bytes.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("{text}: not a size; write 256MB, 2GiB"))
}

/// Time range.
#[derive(Debug, Clone, Default, Args)]
pub struct TimeFlags {
    /// Ignore everything before this time (RFC 3339, -1h, now-7d).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// Ignore everything from this time on (RFC 3339, -1h, now-7d).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub until: Option<String>,
}

/// Which moment to look at.
#[derive(Debug, Clone, Default, Args)]
pub struct MomentFlags {
    /// Use the newest state in the sources at or before this time (RFC 3339, -1h, now-7d).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
}

impl MomentFlags {
    /// The moment, given what time it is.
    pub fn resolve(&self, now: Micros) -> Result<Option<Micros>, String> {
        self.at.as_deref().map(|text| parse_time(text, now).map_err(|why| format!("--at: {why}"))).transpose()
    }

    /// The moment, and the bounds that are given beside it: `--since` at most.
    pub fn bounds(&self, time: &TimeFlags, now: Micros) -> Result<(Option<Micros>, Bounds), String> {
        let (since, until) = time.resolve(now)?;
        let Some(moment) = self.resolve(now)? else { return Ok((None, (since, until))) };
        if until.is_some() {
            return Err("--at and --until both set the end; use one".to_owned());
        }
        if since.is_some_and(|since| since > moment) {
            return Err(format!("--since is after --at {}", time::format(moment)));
        }
        Ok((Some(moment), (since, None)))
    }
}

/// Which cluster to read, and as whom; the flags are kubectl's.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct KubeFlags {
    /// Read this kubeconfig (default: $KUBECONFIG, else ~/.kube/config, else the pod's service account).
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig (default: its current one).
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Act as this user.
    #[arg(long = "as", value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group; may be given several times.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub as_groups: Vec<String>,
    /// Give up on an apiserver's answer after this time: 500ms, 30s, 2m.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration_parser(1, "500ms, 30s, 2m"))]
    pub request_timeout: Duration,
}

impl KubeFlags {
    /// Why no cluster can be asked where the program was built without that.
    #[cfg(not(feature = "live"))]
    pub fn unavailable() -> super::Error {
        let why = "give a SOURCE: this plimsoll was built without the 'live' feature and can't query a cluster";
        super::Error::Usage(why.to_owned())
    }
}

/// Which Prometheus to ask, as whom, and how heavily.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Prometheus")]
pub struct PrometheusFlags {
    /// Read history from this Prometheus, Thanos or Mimir: the URL before /api/v1.
    #[arg(long, value_name = "URL", env = "PLIMSOLL_PROMETHEUS")]
    pub prometheus: Option<String>,
    /// Samples that one query may load at once; longer ranges are split.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_samples: u64,
    /// Replace the query of this name; may be given several times (docs/prometheus.md).
    #[arg(long = "query", value_name = "NAME=PROMQL", requires = "prometheus")]
    pub queries: Vec<String>,
    /// Read queries from this YAML or TOML file: NAME: PROMQL.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub queries_file: Option<PathBuf>,
    /// Matchers that all queries get: 'cluster="prod"'.
    #[arg(long = "match", value_name = "MATCHERS", requires = "prometheus")]
    pub matchers: Option<String>,
    /// Send the bearer token in this file (or in $PLIMSOLL_BEARER_TOKEN).
    #[arg(long, value_name = "FILE", conflicts_with = "basic_auth_file", requires = "prometheus")]
    pub bearer_token_file: Option<PathBuf>,
    /// Send the user:password in this file (or in $PLIMSOLL_BASIC_AUTH).
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub basic_auth_file: Option<PathBuf>,
    /// The token itself; meant for the environment only, since process lists show flags.
    #[arg(long, hide = true, env = "PLIMSOLL_BEARER_TOKEN", hide_env_values = true)]
    pub bearer_token: Option<String>,
    /// The same for user and password.
    #[arg(long, hide = true, env = "PLIMSOLL_BASIC_AUTH", hide_env_values = true)]
    pub basic_auth: Option<String>,
    /// Trust the certificates in this PEM file instead of the public authorities.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub ca_file: Option<PathBuf>,
    /// Send this header too, as 'X-Scope-OrgID: team-a'; may be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "prometheus")]
    pub headers: Vec<String>,
    /// Give up on an answer of Prometheus after this time.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration_parser(1, "500ms, 30s, 2m"))]
    pub query_timeout: Duration,
}

/// How far apart the points are that a Prometheus is asked for.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Prometheus")]
pub struct StepFlags {
    /// Time between points: 1s to 1h. Peaks of quotas are kept at any step.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration_parser(1, "500ms, 30s, 2m"))]
    pub step: Duration,
}

impl StepFlags {
    /// In microseconds.
    pub fn micros(&self) -> Micros {
        Micros::try_from(self.step.as_micros()).unwrap_or(Micros::MAX)
    }
}

/// A value parser of clap for lengths of time (µs) of at least so much; `examples` show how they are written.
pub fn length_parser(
    least: Micros,
    examples: &'static str,
) -> impl Fn(&str) -> Result<Micros, String> + Clone + Send + Sync + 'static {
    move |text| parse_length(text, least, examples)
}

/// The same for the standard library's type.
pub fn duration_parser(
    least: Micros,
    examples: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| parse_length(text, least, examples).map(|micros| Duration::from_micros(micros.unsigned_abs()))
}

/// A folder that is written to. A URL is none: a folder of its name would be made here, and nothing where it points.
pub fn parse_folder(text: &str) -> Result<PathBuf, String> {
    match text.split_once("://") {
        Some((scheme, _))
            if !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+') =>
        {
            Err("it is a URL, and a local folder is written to; write to one, and copy or mount it".to_owned())
        }
        _ => Ok(PathBuf::from(text)),
    }
}

/// Reads a share of up to ten times, as a change, a headroom: `5%`, `0.05`.
pub fn parse_tenfold_share(text: &str) -> Result<f64, String> {
    parse_share(text)
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| "a share of 0 to 1000%: 5%, 0.05".to_owned())
}

/// Reads how often something is done, or for how long: at least 100 ms.
pub fn parse_every(text: &str) -> Result<Duration, String> {
    duration_parser(100_000, "500ms, 10s, 5m")(text)
}

/// Reads a length of time (µs) of at least so much; `examples` show how it is written.
pub fn parse_length(text: &str, least: Micros, examples: &str) -> Result<Micros, String> {
    let bound = match least {
        0 => String::new(),
        1 => " above zero".to_owned(),
        _ => format!(" of at least {}", duration(least)),
    };
    let read = parse_duration(text).filter(|micros| *micros >= least);
    read.ok_or_else(|| format!("write a time{bound} with its unit: {examples}"))
}

impl TimeFlags {
    /// The bounds, given what time it is.
    pub fn resolve(&self, now: Micros) -> Result<Bounds, String> {
        let read = |text: &Option<String>| text.as_deref().map(|text| parse_time(text, now)).transpose();
        let (since, until) = (read(&self.since)?, read(&self.until)?);
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            return Err(format!("--since {} is not before --until {}", time::format(since), time::format(until)));
        }
        Ok((since, until))
    }
}

/// Reads RFC 3339, a date and a time of day or a date alone (UTC), `now`, `now-7d`, `-1h`, or a duration back from now
/// (`1h`).
pub fn parse_time(text: &str, now: Micros) -> Result<Micros, String> {
    let form = "a time is RFC 3339 (2026-11-20T09:17:00Z), UTC as tables show it (2026-11-20 09:17, 2026-11-20), -1h, \
                or now-7d";
    let trimmed = text.trim();
    if trimmed == "now" {
        return Ok(now);
    }
    let back = trimmed.strip_prefix("now-").or_else(|| trimmed.strip_prefix('-')).unwrap_or(trimmed);
    if let Some(length) = parse_duration(back) {
        return Ok(now - length);
    }
    // A zone in brackets says more than an offset does.
    let in_zone = || Some(trimmed.parse::<jiff::Zoned>().ok()?.timestamp().as_microsecond());
    let utc = || if trimmed.contains('[') { in_zone() } else { time::parse_utc(trimmed) };
    time::parse_any(trimmed).or_else(utc).ok_or_else(|| format!("'{text}' is not a time: {form}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::{DAY, HOUR, MINUTE, SECOND};

    #[test]
    fn lengths_of_time_have_units_and_bounds() {
        let above_zero = length_parser(1, "12h, 30d");
        assert_eq!(above_zero("30d"), Ok(30 * DAY));
        for bad in ["0s", "-1s", "5", "", "soon"] {
            assert_eq!(above_zero(bad), Err("write a time above zero with its unit: 12h, 30d".to_owned()), "{bad}");
        }
        let any = duration_parser(0, "0s, 1m");
        assert_eq!((any("0s"), any("1m")), (Ok(Duration::ZERO), Ok(Duration::from_secs(60))));
        assert_eq!(any("-1s"), Err("write a time with its unit: 0s, 1m".to_owned()));
        assert_eq!(parse_every("100ms"), Ok(Duration::from_millis(100)));
        assert!(parse_every("99ms").unwrap_err().starts_with("write a time of at least 0.10s"));
    }

    #[test]
    fn a_cluster_is_named_as_kubectl_does() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            kube: KubeFlags,
        }
        let read =
            |args: &[&str]| <Line as clap::Parser>::try_parse_from([&["x"], args].concat()).map(|line| line.kube);
        let flags =
            read(&["--context", "a", "--as=jane", "--as-group", "b", "--as-group", "c", "--request-timeout", "1m30s"])
                .unwrap();
        assert_eq!((flags.context.as_deref(), flags.as_user.as_deref()), (Some("a"), Some("jane")));
        assert_eq!(
            (flags.as_groups, flags.request_timeout),
            (vec!["b".to_owned(), "c".to_owned()], Duration::from_secs(90))
        );
        assert_eq!(read(&[]).unwrap().request_timeout, Duration::from_secs(30));
        assert!(read(&["--as-group", "b"]).is_err(), "kubectl refuses a group without a user too");
        for bad in ["0s", "5", "-1s", "soon"] {
            assert!(
                read(&[&format!("--request-timeout={bad}")]).unwrap_err().to_string().contains("above zero"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_prometheus_is_named() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            prometheus: PrometheusFlags,
        }
        let read =
            |args: &[&str]| <Line as clap::Parser>::try_parse_from([&["x"], args].concat()).map(|line| line.prometheus);
        let flags = read(&["--prometheus", "http://a", "--query", "a=b", "--query", "c=d", "--header=X: y"]).unwrap();
        assert_eq!(flags.prometheus.as_deref(), Some("http://a"));
        assert_eq!((flags.queries.len(), flags.headers.len(), flags.max_samples), (2, 1, 1_000_000));
        assert_eq!(read(&[]).unwrap().query_timeout, Duration::from_secs(120));
        for bad in [
            &["--max-samples", "0"][..],
            &["--query-timeout", "0s"],
            &["--bearer-token-file", "a", "--basic-auth-file", "b"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_moment_ends_what_is_looked_at() {
        let now = 1_000_000 * SECOND;
        let at = |text: &str| MomentFlags { at: Some(text.to_owned()) };
        let since = |text: &str| TimeFlags { since: Some(text.to_owned()), until: None };
        let hour_ago = now - HOUR;
        assert_eq!(at("-1h").resolve(now), Ok(Some(hour_ago)));
        let all = TimeFlags::default();
        assert_eq!(at("-1h").bounds(&all, now), Ok((Some(hour_ago), (None, None))));
        assert_eq!(MomentFlags::default().bounds(&all, now), Ok((None, (None, None))));
        assert!(at("-1h").bounds(&since("-2h"), now).is_ok());
        assert!(at("-1h").bounds(&since("-30m"), now).is_err());
        assert!(at("-1h").bounds(&TimeFlags { since: None, until: Some("-2h".to_owned()) }, now).is_err());
        assert!(at("soon").resolve(now).unwrap_err().starts_with("--at: "));
    }

    #[test]
    fn times_are_read_in_every_form() {
        let now = 1_000_000 * SECOND;
        for (text, expected) in [
            ("now", now),
            ("-1h", now - HOUR),
            ("now-2m", now - 120 * SECOND),
            ("1970-01-02", DAY),
            ("1970-01-01T00:01:00+00:00", MINUTE),
            ("1970-01-01 00:01", MINUTE),
            ("1970-01-01T00:01:02.5", 62_500_000),
            ("1970-01-01 01:00:00+01:00", 0),
        ] {
            assert_eq!(parse_time(text, now), Ok(expected), "{text}");
        }
        for bad in ["yesterday", "1970-01-01 25:00", "00:01"] {
            assert!(parse_time(bad, now).is_err(), "{bad}");
        }
        let turned = TimeFlags { since: Some("-1h".into()), until: Some("-2h".into()) };
        assert!(turned.resolve(now).is_err());
    }
}
