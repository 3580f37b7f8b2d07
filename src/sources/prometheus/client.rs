//! One question at a time: who asks, how long it is waited for, what is tried again, and which answers mean that the
//! question was too heavy.

use super::answer::{self, Answer, Unread, Values};
use super::error::{PromError, without_secrets};
use crate::sources::clock::now;
use crate::sources::live::foreign;
use crate::sources::retry::{Retries, RetryAfter, RetryPolicy, retry_after};
use crate::sources::watcher::Watcher;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::MultiGzDecoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest pause between two tries, unless a longer one is asked for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The most that an answer other than 200 is read of.
const MESSAGE: u64 = 64 << 10;
/// Questions up to this many bytes are GETs, which anything between here and Prometheus lets through.
const MAX_GET_BYTES: usize = 4 << 10;

/// As whom.
#[derive(Clone, Default)]
pub enum Auth {
    /// As nobody.
    #[default]
    None,
    /// With this bearer token.
    Bearer(String),
    /// With the bearer token in this file, read again for each question: Kubernetes replaces tokens within the hour.
    BearerFile(PathBuf),
    /// As `user:password`.
    Basic(String),
    /// As the `user:password` in this file.
    BasicFile(PathBuf),
}

impl fmt::Debug for Auth {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bearer(_) => f.write_str("Bearer(***)"),
            Self::Basic(_) => f.write_str("Basic(***)"),
            Self::BearerFile(path) => write!(f, "BearerFile({})", path.display()),
            Self::BasicFile(path) => write!(f, "BasicFile({})", path.display()),
        }
    }
}

/// Where Prometheus is, and how it is asked.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The URL before `/api/v1`, with the prefix where there is one.
    pub url: String,
    /// As whom.
    pub auth: Auth,
    /// More headers, as `X-Scope-OrgID`, by name.
    pub headers: Vec<(String, String)>,
    /// A PEM file with the certificates to trust, instead of the public ones.
    pub ca_file: Option<PathBuf>,
    /// How long a question may take; it is sent along, so that Prometheus ends it too.
    pub timeout: Duration,
    /// How often a question is asked that met 429, 5xx or a broken connection.
    pub tries: u32,
    /// The pause after the first such answer if it names none; it doubles each time.
    pub pause: Duration,
    /// All pauses of one question together.
    pub patience: Duration,
    /// Samples that one query may load at once.
    pub max_samples: u64,
    /// Matchers that go where expressions have `$match`: `cluster="prod"`.
    pub matchers: String,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            url: String::new(),
            auth: Auth::None,
            headers: Vec::new(),
            ca_file: None,
            timeout: Duration::from_secs(120),
            tries: 5,
            pause: Duration::from_millis(500),
            patience: Duration::from_secs(300),
            max_samples: 1_000_000,
            matchers: String::new(),
        }
    }
}

/// Why a question has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// A smaller one may have. `is_slow`: nothing was said, time ran out here.
    TooHeavy { why: String, is_slow: bool },
    /// The question makes no sense to Prometheus.
    Bad(String),
    /// No question has.
    Final(PromError),
}

/// What one try came to, if not to an answer.
enum Failed {
    Again { what: String, next: &'static str, code: Option<u16>, after: Option<Duration> },
    Fault(Fault),
}

/// One HTTP client.
pub(super) struct Client {
    agent: ureq::Agent,
    base: String,
    auth: Auth,
    headers: HeaderMap,
    timeout: Duration,
    retries: RetryPolicy,
    /// Tries beyond the first of each question.
    pub(super) again: u64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &without_secrets(&self.base)).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Self, PromError> {
        let base = base(&endpoint.url).map_err(|what| PromError::Url { url: without_secrets(&endpoint.url), what })?;
        let mut headers = HeaderMap::new();
        for (name, value) in &endpoint.headers {
            let wrong = |what| PromError::Header { name: foreign(name), what };
            let key = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("not a header name such as X-Scope-OrgID"))?;
            if key == AUTHORIZATION && !matches!(endpoint.auth, Auth::None) {
                return Err(wrong("a bearer token or a password is already set; remove one of them"));
            }
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| wrong("its value has characters that are not allowed in headers"))?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        let tls = match &endpoint.ca_file {
            Some(path) => TlsConfig::builder().root_certs(roots(path)?).build(),
            None => TlsConfig::default(),
        };
        let config = ureq::Agent::config_builder()
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(3)
            .tls_config(tls)
            .timeout_connect(Some(CONNECT))
            // Prometheus itself ends the query after `timeout`: its own words are better than silence.
            .timeout_recv_response(Some(endpoint.timeout + Duration::from_secs(10)))
            .timeout_per_read(Some(endpoint.timeout))
            .build();
        Ok(Self {
            agent: config.new_agent(),
            base,
            auth: endpoint.auth.clone(),
            headers,
            timeout: endpoint.timeout,
            retries: RetryPolicy {
                tries: endpoint.tries.max(1),
                first_pause: endpoint.pause,
                longest_pause: LONGEST_PAUSE,
                total_pause: endpoint.patience,
                asked: RetryAfter::Replaces,
            },
            again: 0,
        })
    }

    /// Asks an expression: its answer, of at most so many points.
    pub(super) fn query(
        &mut self,
        path: &str,
        form: &[(&str, &str)],
        points: u64,
        watcher: &dyn Watcher,
    ) -> Result<Answer, Fault> {
        let timeout = format!("{}ms", self.timeout.as_millis());
        let form = [form, &[("timeout", timeout.as_str()), ("stats", "true")]].concat();
        let answer = self.ask(path, &form, watcher, &|body| answer::read(body, points))?;
        self.is_success(path, &answer.status).map(|()| answer)
    }

    /// The values of a label between two times.
    pub(super) fn values(
        &mut self,
        label: &str,
        form: &[(&str, &str)],
        watcher: &dyn Watcher,
    ) -> Result<Values, Fault> {
        let path = format!("label/{label}/values");
        let values = self.ask(&path, form, watcher, &|body| answer::read_values(body))?;
        self.is_success(&path, &values.status).map(|()| values)
    }

    /// JSON of another server has no such status.
    fn is_success(&self, path: &str, status: &str) -> Result<(), Fault> {
        if status == "success" {
            return Ok(());
        }
        let (url, what) =
            (without_secrets(&format!("{}/api/v1/{path}", self.base)), "its status is not success".to_owned());
        Err(Fault::Final(PromError::NotApi { url, what }))
    }

    fn ask<T>(
        &mut self,
        path: &str,
        form: &[(&str, &str)],
        watcher: &dyn Watcher,
        read: &dyn Fn(&mut dyn Read) -> Result<T, Unread>,
    ) -> Result<T, Fault> {
        let url = format!("{}/api/v1/{path}", self.base);
        let mut retries = Retries::new(self.retries);
        loop {
            let (what, next, code, after) = match self.once(&url, form, watcher, read) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Fault(fault)) => return Err(fault),
                Err(Failed::Again { what, next, code, after }) => (what, next, code, after),
            };
            let Some(pause) = retries.pause(after) else {
                let (url, tries) = (without_secrets(&url), retries.failed());
                return Err(Fault::Final(match code {
                    Some(code) => PromError::Busy { url, code, tries, retry_after: after, what },
                    None => PromError::Unreachable { url, what, tries, next },
                }));
            };
            self.again += 1;
            std::thread::sleep(pause);
        }
    }

    fn once<T>(
        &self,
        url: &str,
        form: &[(&str, &str)],
        watcher: &dyn Watcher,
        read: &dyn Fn(&mut dyn Read) -> Result<T, Unread>,
    ) -> Result<T, Failed> {
        let authorization = self.authorization().map_err(|error| Failed::Fault(Fault::Final(error)))?;
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        let size: usize = form.iter().map(|(_, value)| value.len()).sum();
        let sent = if size <= MAX_GET_BYTES {
            let mut request = self.agent.get(url).query_pairs(form.iter().copied());
            request.headers_mut().into_iter().for_each(|to| to.extend(headers.clone()));
            request.call()
        } else {
            let mut request = self.agent.post(url);
            request.headers_mut().into_iter().for_each(|to| to.extend(headers.clone()));
            request.send_form(form.iter().copied())
        };
        let response = sent.map_err(|error| unsent(error, self.timeout))?;
        let (head, body) = response.into_parts();
        let code = head.status.as_u16();
        let packed = Counted { reader: body.into_with_config().limit(u64::MAX).reader(), watcher };
        let mut plain: Box<dyn Read> = match head.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
            Some(b"gzip") => Box::new(MultiGzDecoder::new(packed)),
            _ => Box::new(packed),
        };
        if code == 200 {
            return read(&mut plain).map_err(|unread| {
                let (what, next) = match unread {
                    Unread::TooMany => {
                        let why = "the answer is larger than the limit".to_owned();
                        return Failed::Fault(Fault::TooHeavy { why, is_slow: false });
                    }
                    Unread::Foreign(what) => {
                        return Failed::Fault(Fault::Final(PromError::NotApi {
                            url: without_secrets(url),
                            what: foreign(&what),
                        }));
                    }
                    Unread::Cut(what) => (what, "a proxy may truncate long answers: try a smaller --max-samples"),
                };
                Failed::Again {
                    what: format!("the response ended early ({})", foreign(&what)),
                    next,
                    code: None,
                    after: None,
                }
            });
        }
        let mut text = Vec::new();
        // What can be read of it is all that it says.
        let _ = plain.take(MESSAGE).read_to_end(&mut text);
        Err(refused(url, code, &head.headers, &text))
    }

    fn authorization(&self) -> Result<Option<HeaderValue>, PromError> {
        let text = match &self.auth {
            Auth::None => return Ok(None),
            Auth::Bearer(token) => format!("Bearer {}", token.trim()),
            Auth::BearerFile(path) => format!("Bearer {}", secret(path)?),
            Auth::Basic(pair) => format!("Basic {}", BASE64_STANDARD.encode(pair)),
            Auth::BasicFile(path) => {
                let pair = secret(path)?;
                if !pair.contains(':') {
                    let what = "it has no colon; it must contain user:password".to_owned();
                    return Err(PromError::File { path: path.display().to_string(), what });
                }
                format!("Basic {}", BASE64_STANDARD.encode(pair))
            }
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            let path = match &self.auth {
                Auth::BearerFile(path) | Auth::BasicFile(path) => path.display().to_string(),
                _ => "the token".to_owned(),
            };
            PromError::File {
                path,
                what: "it has more than one line, or characters that are not allowed in headers".to_owned(),
            }
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// The URL as the prefix of others, or what is wrong with it.
fn base(url: &str) -> Result<String, &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "not a URL such as http://prometheus:9090")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("a URL must begin with http:// or https://");
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err("remove the password from the URL, where process lists show it; use --basic-auth-file");
    }
    if uri.query().is_some() {
        return Err("remove the query string; use --header for headers");
    }
    let url = url.trim_end_matches('/');
    Ok(url.strip_suffix("/api/v1").unwrap_or(url).trim_end_matches('/').to_owned())
}

/// The text of a file with a secret, without the end of its line.
fn secret(path: &Path) -> Result<String, PromError> {
    let wrong = |what| PromError::File { path: path.display().to_string(), what };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let text = text.trim();
    if text.is_empty() { Err(wrong("the file is empty".to_owned())) } else { Ok(text.to_owned()) }
}

fn roots(path: &Path) -> Result<RootCerts, PromError> {
    let wrong = |what| PromError::File { path: path.display().to_string(), what };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(wrong(format!("not a PEM file ({error})"))),
        }
    }
    if found.is_empty() {
        return Err(wrong("it has no certificate; --ca-file must be a PEM file with BEGIN CERTIFICATE".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&found))
}

/// A body that shows how much of it has come.
struct Counted<'w, R> {
    reader: R,
    watcher: &'w dyn Watcher,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.reader.read(buffer)?;
        self.watcher.read(size as u64);
        Ok(size)
    }
}

/// No answer at all.
fn unsent(error: ureq::Error, timeout: Duration) -> Failed {
    let next = "check the URL, and that this machine can reach it";
    match &error {
        ureq::Error::Timeout(ureq::Timeout::RecvResponse | ureq::Timeout::PerRead) => {
            Failed::Fault(Fault::TooHeavy { why: format!("no answer within {timeout:?}"), is_slow: true })
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => tls(foreign(&error.to_string())),
        // What goes wrong while hands are shaken comes as an I/O error that wraps it.
        ureq::Error::Io(inner) if error.to_string().to_lowercase().contains("certificate") => {
            tls(foreign(&inner.to_string()))
        }
        ureq::Error::HostNotFound => Failed::Again {
            what: "unknown host".to_owned(),
            next: "check the name in --prometheus",
            code: None,
            after: None,
        },
        _ => Failed::Again { what: foreign(&error.to_string()), next, code: None, after: None },
    }
}

/// TLS that fails fails again.
fn tls(what: String) -> Failed {
    let next = "give --ca-file with the CA of its certificate, and the host name in the certificate";
    Failed::Fault(Fault::Final(PromError::Unreachable { url: "--prometheus".to_owned(), what, tries: 1, next }))
}

/// The pause that an answer asks for.
fn asked(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, now())
}

/// An answer other than 200.
fn refused(url: &str, code: u16, headers: &HeaderMap, body: &[u8]) -> Failed {
    let message = answer::read(body, 0).ok().filter(|answer| !answer.error.is_empty());
    let (kind, error) = message.map_or((String::new(), String::new()), |answer| (answer.error_type, answer.error));
    let text = foreign(&String::from_utf8_lossy(body));
    let what = match (error.is_empty(), text.is_empty()) {
        (false, _) => foreign(&error),
        (true, false) => text,
        (true, true) => "without a message".to_owned(),
    };
    let lower = what.to_lowercase();
    if code == 429 || lower.contains("too many outstanding requests") {
        return Failed::Again { what, next: "", code: Some(code), after: asked(headers) };
    }
    // Prometheus, Thanos, Mimir and VictoriaMetrics, each in its own words.
    const HEAVY: [&str; 9] = [
        "too many samples",
        "maximum resolution",
        "too many points",
        "exceed",
        "limit",
        "timed out",
        "timeout",
        "deadline",
        "out of memory",
    ];
    let is_heavy = matches!(kind.as_str(), "timeout") || HEAVY.iter().any(|word| lower.contains(word));
    match code {
        // Without Prometheus' own words, 503 and 504 are those of a proxy before it.
        400 | 413 | 422 | 500 | 503 | 504 if is_heavy && (!kind.is_empty() || matches!(code, 413 | 422 | 504)) => {
            Failed::Fault(Fault::TooHeavy { why: what, is_slow: false })
        }
        400 | 422 => Failed::Fault(Fault::Bad(what)),
        500.. => Failed::Again { what, next: "", code: Some(code), after: asked(headers) },
        _ => Failed::Fault(Fault::Final(PromError::Refused { url: without_secrets(url), code, what })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_may_be_given_in_many_ways() {
        for (given, expected) in [
            ("http://a:9090", Ok("http://a:9090")),
            ("https://a/prometheus/", Ok("https://a/prometheus")),
            ("http://a/x/api/v1/", Ok("http://a/x")),
            ("a:9090", Err("must begin with")),
            ("ftp://a", Err("must begin with")),
            ("http://u:p@a", Err("--basic-auth-file")),
            ("http://a/?x=1", Err("query string")),
            ("", Err("not a URL")),
        ] {
            match (base(given), expected) {
                (Ok(base), Ok(expected)) => assert_eq!(base, expected),
                (Err(what), Err(expected)) => assert!(what.contains(expected), "{given}: {what}"),
                (base, _) => panic!("{given}: {base:?}"),
            }
        }
    }

    #[test]
    fn what_is_too_heavy_is_told_from_what_is_busy_or_wrong() {
        let error = |kind: &str, text: &str| format!(r#"{{"status":"error","errorType":"{kind}","error":"{text}"}}"#);
        let many = "query processing would load too many samples into memory in query execution";
        for (code, body, expected) in [
            (422, error("execution", many), "heavy"),
            (400, error("bad_data", "exceeded maximum resolution of 11,000 points per timeseries"), "heavy"),
            (503, error("timeout", "query timed out in expression evaluation"), "heavy"),
            (
                422,
                error("execution", "the query exceeded the maximum number of chunks (limit: 2000000 chunks)"),
                "heavy",
            ),
            (504, "upstream request timeout".to_owned(), "heavy"),
            (400, error("bad_data", "1:1: parse error: unexpected end of input"), "bad"),
            (422, error("execution", "found duplicate series for the match group"), "bad"),
            (503, "Service Unavailable".to_owned(), "again"),
            (503, "connect timeout".to_owned(), "again"),
            (500, String::new(), "again"),
            (429, "the request rate limit is exceeded".to_owned(), "again"),
            (401, "Unauthorized".to_owned(), "final"),
            (404, "404 page not found".to_owned(), "final"),
        ] {
            let found = match refused("http://a", code, &HeaderMap::new(), body.as_bytes()) {
                Failed::Fault(Fault::TooHeavy { .. }) => "heavy",
                Failed::Fault(Fault::Bad(_)) => "bad",
                Failed::Fault(Fault::Final(_)) => "final",
                Failed::Again { .. } => "again",
            };
            assert_eq!(found, expected, "{code} {body}");
        }
    }
}
