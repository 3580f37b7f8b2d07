//! gRPC as far as two calls need it: a message to send, messages to read, a status at the end.

use super::{Access, Endpoint, PullError};
use http::{HeaderMap, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The largest message that is taken. etcd sends 32 KiB to 1 MiB at a time.
const LARGEST: usize = 64 << 20;
/// How much may be under way: enough for a fast link, little beside a snapshot.
const WINDOW: u32 = 4 << 20;

/// How often it is looked whether someone wants to stop.
const SLICE: Duration = Duration::from_millis(200);

/// How long a member may say nothing, and whether someone wants to stop.
#[derive(Clone)]
struct Patience {
    longest: Duration,
    stop: Arc<AtomicBool>,
}

impl Patience {
    /// Waits, but not forever; says why it did not go on.
    async fn wait<T>(&self, what: impl Future<Output = T>) -> Result<T, PullError> {
        let mut what = std::pin::pin!(what);
        let started = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(PullError::Stopped);
            }
            match tokio::time::timeout(SLICE.min(self.longest), what.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) if started.elapsed() >= self.longest => {
                    let seconds = self.longest.as_secs();
                    return Err(PullError::Member(format!(
                        "sent nothing for {seconds} s; try another endpoint, or raise --timeout"
                    )));
                }
                Err(_) => {}
            }
        }
    }
}

/// A client of one member.
pub(super) struct Client<'e> {
    endpoint: &'e Endpoint,
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Patience,
    has_identity: bool,
}

impl<'e> Client<'e> {
    pub(super) fn new(endpoint: &'e Endpoint, tls: ClientConfig, access: &Access) -> Self {
        let patience = Patience { longest: access.patience, stop: Arc::clone(&access.stop) };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(access.patience.min(CONNECT)));
        connector.set_nodelay(true);
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http2().wrap_connector(connector);
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(WINDOW)
            .build(connector);
        Self { endpoint, client, patience, has_identity: access.identity.is_some() }
    }

    /// Begins a call with one message.
    pub(super) async fn call(
        &self,
        path: &'static str,
        message: &[u8],
        token: Option<&str>,
    ) -> Result<Call<'e>, PullError> {
        let wrong = |what: &str| PullError::Member(format!("{}: {what}", self.endpoint.name));
        let mut parts = self.endpoint.uri.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static(path));
        let uri = Uri::from_parts(parts).map_err(|_| wrong("is not an address"))?;
        let length = u32::try_from(message.len()).map_err(|_| wrong("user or password are too long"))?;
        let body = [&[0], &length.to_be_bytes()[..], message].concat();
        let agent = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
        let mut request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::USER_AGENT, agent);
        if let Some(token) = token {
            request = request.header("token", token);
        }
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|_| wrong("returned a token that can't be sent"))?;
        let answer = self
            .patience
            .wait(self.client.request(request))
            .await
            .map_err(|error| named(&self.endpoint.name, error))?;
        let answer = answer.map_err(|error| wrong(&self.unreachable(&error)))?;
        if answer.status() != http::StatusCode::OK {
            return Err(wrong(&format!(
                "answered HTTP {}: not an etcd endpoint, or behind a proxy; use the address that etcdctl uses",
                answer.status()
            )));
        }
        let (parts, body) = answer.into_parts();
        let mut call =
            Call { name: &self.endpoint.name, body, patience: self.patience.clone(), buffer: Vec::new(), ended: false };
        // An error without a message comes in the headers.
        call.ended = call.status(&parts.headers)?;
        Ok(call)
    }

    /// Why there is no answer, and what to do.
    fn unreachable(&self, error: &legacy::Error) -> String {
        let mut causes: Vec<String> = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        let all = causes.join(": ").to_lowercase();
        let last = causes.last().map_or_else(|| error.to_string(), Clone::clone);
        let mentions = |what: &[&str]| what.iter().any(|what| all.contains(what));
        let next = if mentions(&["unknownissuer"]) {
            "its certificate is signed by another authority: check --cacert"
        } else if mentions(&["notvalidforname", "not valid for name"]) {
            "its certificate is for another name: use a name in the certificate"
        } else if mentions(&["invalidcontenttype", "corrupt message"]) {
            "the server there does not speak TLS: use http://"
        } else if mentions(&["refused"]) {
            "check host and port, and whether the member runs"
        } else if mentions(&["lookup", "resolve", "dns error"]) {
            "check the name"
        } else if self.endpoint.is_secure() && !self.has_identity {
            // In TLS 1.3 a member that misses a certificate only closes the connection once it is made.
            "it may require a client certificate: give --cert and --key signed by its CA"
        } else if self.endpoint.is_secure() {
            "it may not accept this client certificate: check --cert and --key, and etcd's log"
        } else {
            "check the endpoint: it may require https://"
        };
        format!("{last} ({next})")
    }
}

/// A call whose messages are read.
pub(super) struct Call<'e> {
    name: &'e str,
    body: Incoming,
    patience: Patience,
    buffer: Vec<u8>,
    ended: bool,
}

impl Call<'_> {
    /// An error of this member's.
    pub(super) fn wrong(&self, what: &str) -> PullError {
        PullError::Member(format!("{} {what}", self.name))
    }

    /// The next message; `None` once the member has said that all is well.
    pub(super) async fn message(&mut self) -> Result<Option<Vec<u8>>, PullError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            if self.ended {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(self.wrong("ended within a message")),
                };
            }
            match self.patience.wait(self.body.frame()).await.map_err(|error| named(self.name, error))? {
                None => return Err(self.wrong("ended before the snapshot was complete")),
                Some(Err(error)) => return Err(self.wrong(&format!("broke off: {}", root(&error)))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            self.ended = self.status(&trailers)?;
                        }
                    }
                },
            }
        }
    }

    /// A message that has arrived whole: whether it is compressed, its length, its bytes.
    fn whole(&mut self) -> Result<Option<Vec<u8>>, PullError> {
        let Some((head, _)) = self.buffer.split_at_checked(5) else { return Ok(None) };
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] != 0 || length > LARGEST {
            return Err(self.wrong("sent something that is not a gRPC message"));
        }
        if self.buffer.len() < 5 + length {
            return Ok(None);
        }
        let rest = self.buffer.split_off(5 + length);
        let mut message = std::mem::replace(&mut self.buffer, rest);
        message.drain(..5);
        Ok(Some(message))
    }

    /// Whether these headers end the call well.
    fn status(&self, headers: &HeaderMap) -> Result<bool, PullError> {
        let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let Some(status) = text("grpc-status") else { return Ok(false) };
        if status == "0" {
            return Ok(true);
        }
        let message = text("grpc-message").unwrap_or_default();
        Err(self.wrong(&format!("rejected the request: {} ({})", percent_decoded(&message), advice(&status, &message))))
    }
}

/// What to do about a status of gRPC.
fn advice(status: &str, message: &str) -> &'static str {
    let mentions = |what: &str| message.contains(what);
    if mentions("invalid user ID or password") {
        "check --user and the password"
    } else if mentions("user name is empty") {
        "authentication is on: give --user, and the password in PLIMSOLL_ETCD_PASSWORD or --password-file"
    } else if mentions("authentication is not enabled") {
        "authentication is off: remove --user"
    } else if mentions("permission denied") {
        "a snapshot requires a user with the role root"
    } else {
        match status {
            "14" => "it is not available: try another endpoint",
            "12" => "not an etcd with the v3 API",
            _ => "check etcd's log",
        }
    }
}

/// grpc-message is percent-encoded.
fn percent_decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits = [ahead.next(), ahead.next()].map(|digit| char::from(digit.unwrap_or(0)).to_digit(16));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                out.push((high << 4 | low) as u8);
                bytes = ahead;
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The same error with the member's name before it.
fn named(name: &str, error: PullError) -> PullError {
    match error {
        PullError::Member(what) => PullError::Member(format!("{name} {what}")),
        other => other,
    }
}

/// The first cause of an error.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_grpc_are_decoded() {
        assert_eq!(percent_decoded("a%20b%3a%e2%82%ac%"), "a b:€%");
        assert!(advice("7", "etcdserver: permission denied").contains("role root"));
    }
}
