//! A small HTTP server on a thread of its own: TLS, authentication and limits are its business, answers are not.
//!
//! It bounds connections (512), time, and size (32 MiB a request). Quick answers come from its own thread, slow ones
//! from two workers.

mod access;
mod tls;

pub use access::Access;
pub use tls::Tls;

use crossbeam_channel::bounded;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 512;

/// Largest body of a request: an apiserver's webhook sends batches of up to 10 MiB.
const MAX_BODY_BYTES: usize = 32 << 20;

/// Slow answers that run or wait at a time; further ones are reported to come again.
const MAX_SLOW: usize = 16;

/// Threads for slow answers.
const WORKERS: usize = 2;

/// For a TLS handshake, and for the body of a request.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// For the head of a request: whoever is slower keeps others from connecting.
const HEAD_TIMEOUT: Duration = Duration::from_secs(8);

/// For requests that are being answered when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A request, read.
#[derive(Debug, Clone, Default)]
pub struct WebRequest {
    /// GET, POST, in upper case.
    pub method: String,
    /// Path, without the query.
    pub path: String,
    /// Query, as it was sent.
    pub query: String,
    /// What the client accepts.
    pub accept: String,
    pub body: Vec<u8>,
    /// The namespace that whoever asks may see, where that is not all.
    pub namespace: Option<String>,
}

/// What somebody may ask who shows a token that is none of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// What concerns this namespace.
    AllowedIn(String),
    /// Nobody knows the token.
    Unknown,
    /// Somebody known may not: what would let them.
    Denied(String),
    /// Whoever decides can't be asked: why.
    Unanswered(String),
}

/// Who decides about tokens that are none of the server's own. It may take its time.
pub trait Reviewer: Send + Sync + 'static {
    /// By a bearer token, method, path and query of a request.
    fn review(&self, token: &str, method: &str, path: &str, query: &str) -> Verdict;
}

/// An answer to be sent.
#[derive(Debug, Clone)]
pub struct WebAnswer {
    /// Status code.
    pub status: u16,
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: Bytes,
    /// The methods that there are, where the request's is not one of them.
    pub allow: &'static str,
}

impl WebAnswer {
    /// A body of some type.
    pub fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, headers: Vec::new(), body: body.into(), allow: "" }
    }

    /// A sentence for people.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into() + "\n")
    }
}

/// What answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Whether the answer takes no time, and may be given on the server's own thread.
    fn is_quick(&self, request: &WebRequest) -> bool;
    /// Whether anybody may ask this without authentication.
    fn is_open(&self, path: &str) -> bool;
    /// The answer.
    fn answer(&self, request: WebRequest) -> WebAnswer;
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct WebServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WebServer {
    /// Listens, and answers on a thread of its own.
    pub fn start(
        listen: SocketAddr,
        tls: Option<Arc<Tls>>,
        (access, reviewer): (Access, Option<Arc<dyn Reviewer>>),
        handler: Arc<dyn Handler>,
    ) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(WORKERS)
            .thread_name("web")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = bounded(1);
        // With a certificate no other name leads here.
        let is_private = address.ip().is_loopback() && access.is_open() && reviewer.is_none() && tls.is_none();
        let shared = Arc::new(Shared { access, reviewer, handler, slow: Semaphore::new(MAX_SLOW), is_private });
        let thread = std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            runtime.block_on(async {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let _ = ready.send(Ok(()));
                        serve(listener, tls, shared, stopped).await;
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
            });
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the server's thread ended")))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Shared {
    access: Access,
    reviewer: Option<Arc<dyn Reviewer>>,
    handler: Arc<dyn Handler>,
    slow: Semaphore,
    /// Whether it is open to all on this machine and to nobody else: a web page that its user looks at is somebody
    /// else.
    is_private: bool,
}

async fn serve(listener: TcpListener, tls: Option<Arc<Tls>>, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        // Out of files, or the client has disconnected already: others may connect.
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (shared, watcher) = (Arc::clone(&shared), graceful.watcher());
        let acceptor = tls.as_deref().map(Tls::acceptor);
        tokio::spawn(async move {
            let _permit = permit;
            let Some(io) = secured(stream, acceptor).await else { return };
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(shared.respond(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(io), service);
            let _ = watcher.watch(connection).await;
        });
    }
    drop(listener);
    let _ = timeout(STOP_TIMEOUT, graceful.shutdown()).await;
}

/// A stream that may be encrypted.
trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for S {}

async fn secured(stream: TcpStream, acceptor: Option<tokio_rustls::TlsAcceptor>) -> Option<Box<dyn Stream>> {
    let _ = stream.set_nodelay(true);
    match acceptor {
        None => Some(Box::new(stream)),
        Some(acceptor) => Some(Box::new(timeout(READ_TIMEOUT, acceptor.accept(stream)).await.ok()?.ok()?)),
    }
}

impl Shared {
    async fn respond(&self, request: hyper::Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let text = |name: HeaderName| header(&head.headers, name);
        let gzip = text(ACCEPT_ENCODING).split(',').any(|name| name.trim().split(';').next() == Some("gzip"));
        let path = head.uri.path().to_owned();
        let mut request = WebRequest {
            method: head.method.as_str().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            accept: text(ACCEPT),
            path,
            ..WebRequest::default()
        };
        let (host, origin) = (text(HOST), text(ORIGIN));
        if self.is_private && !(is_local(&host) && (origin.is_empty() || is_page_of(&origin, &host))) {
            let why = "without a token only requests to localhost are answered, and none of web pages from elsewhere";
            return respond(WebAnswer::text(403, why), gzip, "", false);
        }
        let answer = match self.verdict(&text(AUTHORIZATION), &request).await {
            Verdict::Unknown => {
                WebAnswer::text(401, "not authenticated: send a bearer token or a user name and password")
            }
            Verdict::Denied(missing) => WebAnswer::text(403, format!("not allowed: {missing}")),
            Verdict::Unanswered(why) => WebAnswer::text(503, format!("who may ask can't be decided: {why}")),
            verdict @ (Verdict::Allowed | Verdict::AllowedIn(_)) => {
                if let Verdict::AllowedIn(namespace) = verdict {
                    request.namespace = Some(namespace);
                }
                match timeout(READ_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
                    Err(_) => WebAnswer::text(408, "the body of the request took too long"),
                    Ok(Err(_)) => {
                        WebAnswer::text(413, format!("the body is larger than {MAX_BODY_BYTES} bytes, or incomplete"))
                    }
                    Ok(Ok(body)) => {
                        request.body = body.to_bytes().to_vec();
                        self.answer(request).await
                    }
                }
            }
        };
        let is_head = head.method == http::Method::HEAD;
        respond(answer, gzip, self.access.challenge(), is_head)
    }

    /// Whether a request may be answered: by the server's own secrets, else by whoever decides about other tokens.
    async fn verdict(&self, authorization: &str, request: &WebRequest) -> Verdict {
        let is_enough = match &self.reviewer {
            Some(_) => !self.access.is_open() && self.access.allows(authorization),
            None => self.access.allows(authorization),
        };
        if is_enough || self.handler.is_open(&request.path) {
            return Verdict::Allowed;
        }
        let (Some(reviewer), Some(token)) = (&self.reviewer, access::bearer(authorization)) else {
            return Verdict::Unknown;
        };
        let Ok(_permit) = self.slow.try_acquire() else {
            return Verdict::Unanswered("too many requests at once; retry in a few seconds".to_owned());
        };
        let (reviewer, token) = (Arc::clone(reviewer), token.to_owned());
        let WebRequest { method, path, query, .. } = request.clone();
        let decided = tokio::task::spawn_blocking(move || reviewer.review(&token, &method, &path, &query)).await;
        decided.unwrap_or_else(|_| Verdict::Unanswered("plimsoll panicked over it: please report this".to_owned()))
    }

    async fn answer(&self, request: WebRequest) -> WebAnswer {
        if self.handler.is_quick(&request) {
            return self.handler.answer(request);
        }
        let Ok(_permit) = self.slow.try_acquire() else {
            let mut answer = WebAnswer::text(503, "too many requests at once; retry in a few seconds");
            answer.headers.push(("retry-after", "5"));
            return answer;
        };
        let handler = Arc::clone(&self.handler);
        let answered = tokio::task::spawn_blocking(move || handler.answer(request)).await;
        answered.unwrap_or_else(|_| WebAnswer::text(500, "plimsoll panicked while answering this: please report it"))
    }
}

/// Whether a web page is one of this host's own.
fn is_page_of(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, own)| own.eq_ignore_ascii_case(host))
}

/// Whether a host is this machine, or is not given. Names in the DNS that lead to it (DNS rebinding) are not.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // A name that anybody may register has a dot.
    let is_short = || !name.contains(['.', ':']);
    address.map_or_else(|_| is_short(), |address| address.is_loopback())
}

fn header(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

fn respond(answer: WebAnswer, gzip: bool, challenge: &'static str, is_head: bool) -> Response<Full<Bytes>> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    for (name, value) in answer.headers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !answer.allow.is_empty() {
        headers.insert(ALLOW, HeaderValue::from_static(answer.allow));
    }
    if answer.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    let mut body = answer.body;
    if gzip && body.len() > 1024 {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        if encoder.write_all(&body).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            body = packed.into();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    headers.insert("vary", HeaderValue::from_static("accept, accept-encoding"));
    if is_head {
        body = Bytes::new();
    }
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::{is_local, is_page_of};

    #[test]
    fn this_machine_is_local_and_names_that_lead_to_it_are_not() {
        for own in ["", "localhost", "LOCALHOST:9797", "127.0.0.1:9797", "127.8.9.1", "[::1]:9797", "tower"] {
            assert!(is_local(own), "{own}");
        }
        for other in ["evil.example:9797", "10.0.0.1", "localhost.evil.example", "[::2]:1", "192.168.0.1:80"] {
            assert!(!is_local(other), "{other}");
        }
        assert!(is_page_of("http://localhost:9797", "localhost:9797"));
        for other in ["http://evil.example", "null", "http://localhost:80", ""] {
            assert!(!is_page_of(other, "localhost:9797"), "{other}");
        }
    }
}
