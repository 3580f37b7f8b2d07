//! One request to one apiserver: its bounds in time and size, the patience with an apiserver that is overloaded, and
//! what went wrong.

use super::client;
use super::error::{LiveError, foreign};
use crate::model::time::Micros;
use crate::sources::clock::now;
use crate::sources::retry::{Retries, RetryAfter, RetryPolicy, retry_after};
use flate2::read::MultiGzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::{AuthError, Body};
use std::error::Error as StdError;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often an apiserver is asked that answers 429 or 503.
const TRIES: u32 = 4;
/// The pause after the first such answer if it names none; it doubles each time.
const PAUSE: Duration = Duration::from_millis(500);
/// The most bytes of an error's body that are read.
const MESSAGE: u64 = 64 << 10;

/// What holds for all requests.
pub(super) struct RequestPolicy {
    /// For one try, from sending to the last byte; and for all pauses between tries together.
    pub(super) timeout: Duration,
    /// Bytes of a body, packed or not.
    pub(super) limit: u64,
    pub(super) gzip: bool,
    /// Whether the kubeconfig names the user to act as: then 403 may be about that.
    pub(super) impersonates: bool,
    /// The kubeconfig's credential plugin.
    pub(super) plugin: String,
}

/// An apiserver's address.
pub(super) struct Endpoint {
    /// What to call it.
    pub(super) name: String,
    /// Scheme and authority, and the path before all paths where a proxy such as Rancher's has one.
    base: Uri,
    /// Held while a request is under way.
    turn: tokio::sync::Mutex<()>,
}

impl Endpoint {
    pub(super) fn new(name: String, base: Uri) -> Self {
        Self { name, base, turn: tokio::sync::Mutex::new(()) }
    }

    fn uri(&self, path: &str) -> Option<Uri> {
        let before = self.base.path().trim_end_matches('/');
        let (scheme, authority) = (self.base.scheme_str()?, self.base.authority()?);
        path.starts_with('/').then(|| format!("{scheme}://{authority}{before}{path}").parse().ok())?
    }

    /// An error about reading `path` here. The query is left out: ours for the apiservers is longer than the rest.
    fn about(&self, path: &str) -> About {
        About { server: self.name.clone(), path: foreign(path.split('?').next().unwrap_or(path)) }
    }
}

/// A body, and when it was asked for.
pub(super) struct Answer {
    pub(super) at: Micros,
    pub(super) body: Vec<u8>,
    /// How often it was asked.
    pub(super) tries: u32,
}

/// What is asked of an apiserver.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Get,
    /// A review, as JSON: it is answered, and nothing is stored.
    Review(Vec<u8>),
}

/// Asks `path`, alone.
pub(super) async fn send(
    client: &Client,
    door: &Endpoint,
    path: &str,
    ask: &Ask,
    manners: &RequestPolicy,
) -> Result<Answer, LiveError> {
    let uri = door.uri(path).ok_or_else(|| LiveError::Path(foreign(path)))?;
    let _turn = door.turn.lock().await;
    let mut retries = Retries::new(RetryPolicy {
        tries: TRIES,
        first_pause: PAUSE,
        longest_pause: Duration::MAX,
        total_pause: manners.timeout,
        asked: RetryAfter::Lengthens,
    });
    let mut stale = false;
    loop {
        let at = now();
        let received = AtomicU64::new(0);
        let one = once(client, &uri, ask, manners, &received);
        let reply = match tokio::time::timeout(manners.timeout, one).await {
            Ok(reply) => reply,
            Err(_) => {
                let About { server, path } = door.about(path);
                return Err(LiveError::Timeout {
                    server,
                    path,
                    after: manners.timeout,
                    received: received.into_inner(),
                });
            }
        };
        match reply {
            Ok(body) => return Ok(Answer { at, body, tries: retries.failed() + 1 }),
            // The apiserver may have closed a connection that was kept open, just when it was used again. It has not
            // seen that try.
            Err(Fault::Gone(_)) if !stale => {
                stale = true;
            }
            Err(Fault::Busy { code, retry_after, words }) => {
                let Some(pause) = retries.pause(retry_after) else {
                    let About { server, path } = door.about(path);
                    let tries = retries.failed();
                    return Err(LiveError::Busy { server, path, code: code.as_u16(), tries, retry_after, words });
                };
                tokio::time::sleep(pause).await;
                // What was kept open may be closed again by now.
                stale = false;
            }
            Err(fault) => return Err(door.about(path).fault(fault, manners)),
        }
    }
}

/// What one try came to if not to a body.
enum Fault {
    /// 429 or 503, with the apiserver's words.
    Busy { code: StatusCode, retry_after: Option<Duration>, words: Box<str> },
    /// Another status, with the apiserver's words.
    Status(StatusCode, String),
    /// No connection, or no answer on it.
    Failed(kube::Error),
    /// A connection ended before the answer began.
    Gone(kube::Error),
    /// The answer broke off behind so many bytes.
    Cut(String, u64),
    /// The answer is too large.
    TooLarge,
}

async fn once(
    client: &Client,
    uri: &Uri,
    ask: &Ask,
    manners: &RequestPolicy,
    received: &AtomicU64,
) -> Result<Vec<u8>, Fault> {
    let (request, body) = match ask {
        Ask::Get => (Request::get(uri.clone()), Body::empty()),
        Ask::Review(review) => {
            (Request::post(uri.clone()).header(CONTENT_TYPE, "application/json"), Body::from(review.clone()))
        }
    };
    let request = request
        .header(USER_AGENT, concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(ACCEPT_ENCODING, if manners.gzip { "gzip" } else { "identity" })
        .body(body)
        .map_err(|error| Fault::Failed(kube::Error::HttpError(error)))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| if ended(&error) { Fault::Gone(error) } else { Fault::Failed(error) })?;
    let (head, mut body) = response.into_parts();
    let is_answer = matches!(head.status, StatusCode::OK | StatusCode::CREATED);
    let limit = if is_answer { manners.limit } else { MESSAGE };
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let Ok(data) = frame.into_data() else { continue };
                bytes.extend_from_slice(&data);
                received.store(bytes.len() as u64, Ordering::Relaxed);
            }
            // Of an error's text, what came is enough.
            Err(_) if !is_answer => break,
            Err(error) => {
                return Err(Fault::Cut(
                    format!("the response ended early ({})", innermost(&error)),
                    bytes.len() as u64,
                ));
            }
        }
        if bytes.len() as u64 > limit {
            if is_answer {
                return Err(Fault::TooLarge);
            }
            break;
        }
    }
    match head.status {
        StatusCode::OK | StatusCode::CREATED => unpack(&head.headers, bytes, limit),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let asked = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = asked.and_then(|text| retry_after(text, now()));
            let plain = unpack(&head.headers, bytes, limit).unwrap_or_default();
            Err(Fault::Busy { code: head.status, retry_after, words: message(head.status, &plain).into() })
        }
        other => {
            let plain = unpack(&head.headers, bytes, limit).unwrap_or_default();
            Err(Fault::Status(other, message(other, &plain)))
        }
    }
}

fn unpack(headers: &HeaderMap, bytes: Vec<u8>, limit: u64) -> Result<Vec<u8>, Fault> {
    let packing = headers.get(CONTENT_ENCODING).map_or("identity", |value| value.to_str().unwrap_or("?"));
    if packing.eq_ignore_ascii_case("identity") {
        return Ok(bytes);
    }
    if !packing.eq_ignore_ascii_case("gzip") {
        return Err(Fault::Cut(
            format!("the response has an unrequested encoding ({})", foreign(packing)),
            bytes.len() as u64,
        ));
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes.as_slice())
        .take(limit + 1)
        .read_to_end(&mut plain)
        .map_err(|error| Fault::Cut(format!("the response's gzip is damaged ({error})"), bytes.len() as u64))?;
    if plain.len() as u64 > limit { Err(Fault::TooLarge) } else { Ok(plain) }
}

/// An apiserver's words: the `message` of a `Status`, or the text as it is.
fn message(code: StatusCode, body: &[u8]) -> String {
    let status: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let words = match status.as_ref().and_then(|status| status["message"].as_str()) {
        Some(message) => foreign(message),
        None => foreign(&String::from_utf8_lossy(body)),
    };
    if words.is_empty() { code.canonical_reason().unwrap_or("no reason given").to_owned() } else { words }
}

/// The error itself, what caused it, and so on.
fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    // An `io::Error` that wraps another error gives that error's source as its own, and leaves the error itself out.
    std::iter::successors(Some(error), |error| {
        let error: &'e (dyn StdError + 'static) = *error;
        match error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref()) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    foreign(&chain(error).last().map(ToString::to_string).unwrap_or_default())
}

/// Whether a connection that stood ended without an answer.
fn ended(error: &kube::Error) -> bool {
    chain(error)
        .find_map(|error| error.downcast_ref::<hyper_util::client::legacy::Error>())
        .is_some_and(|error| !error.is_connect())
}

/// Which apiserver and path an error is about.
struct About {
    server: String,
    path: String,
}

impl About {
    fn fault(self, fault: Fault, manners: &RequestPolicy) -> LiveError {
        let Self { server, path } = self;
        match fault {
            Fault::Status(StatusCode::UNAUTHORIZED, _) => LiveError::Unauthorized { server, path },
            Fault::Status(StatusCode::FORBIDDEN, what) => {
                let next = missing_rule(&path, &what, manners.impersonates);
                LiveError::Forbidden { server, path, what, next }
            }
            Fault::Status(code, what) => LiveError::Status { server, path, code: code.as_u16(), what },
            Fault::Busy { code, retry_after, words } => {
                LiveError::Busy { server, path, code: code.as_u16(), tries: 1, retry_after, words }
            }
            Fault::Cut(what, received) => LiveError::Cut { server, path, what, received },
            Fault::TooLarge => LiveError::TooLarge { server, path, limit: manners.limit },
            Fault::Failed(error) | Fault::Gone(error) => self::failed(server, path, &error, &manners.plugin),
        }
    }
}

/// The RBAC rule that a 403 is about, as somebody may grant it.
fn missing_rule(path: &str, message: &str, impersonates: bool) -> String {
    if message.contains("\"system:anonymous\"") {
        return "the request had no credentials: the context's user is not in the kubeconfig, or has none".to_owned();
    }
    if impersonates && message.contains("impersonate") {
        return "impersonation requires a ClusterRole with verbs [impersonate] on users and groups".to_owned();
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => {
            return format!(
                "the user needs a ClusterRole with nonResourceURLs [{path}], verbs [get]: kubectl create clusterrole \
                 NAME --verb=get --non-resource-url={path}, and a clusterrolebinding"
            );
        }
    };
    let (rest, role) = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => (rest, "Role"),
        rest => (rest, "ClusterRole"),
    };
    let (resource, verb) = match rest {
        [resource] if resource.ends_with("reviews") => (*resource, "create"),
        [resource] => (*resource, "list"),
        [resource, ..] => (*resource, "get"),
        [] => ("", "get"),
    };
    format!("the user needs a {role} with apiGroups [\"{group}\"], resources [{resource}], verbs [{verb}]")
}

/// Why there was no answer.
fn failed(server: String, path: String, error: &kube::Error, plugin: &str) -> LiveError {
    let mut refused = false;
    let mut late = false;
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<AuthError>() {
            return client::credentials(error, plugin);
        }
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return certificate(server, path, error);
        }
        if let Some(error) = cause.downcast_ref::<std::io::Error>() {
            refused |= error.kind() == std::io::ErrorKind::ConnectionRefused;
            late |= error.kind() == std::io::ErrorKind::TimedOut;
        }
    }
    if refused {
        let what = "connection refused".to_owned();
        return LiveError::Unreachable {
            server,
            path,
            what,
            next: "check that the apiserver runs, and the kubeconfig's server",
        };
    }
    if late {
        let what = "connection timed out".to_owned();
        return LiveError::Unreachable { server, path, what, next: "check the route to it (VPN, firewall, proxy)" };
    }
    let what = if ended(error) {
        format!("the connection ended without an answer ({})", innermost(error))
    } else {
        innermost(error)
    };
    LiveError::Unreachable { server, path, what, next: "check the kubeconfig's server, and the network between" }
}

/// What is wrong with a certificate, in words.
fn certificate(server: String, path: String, error: &rustls::Error) -> LiveError {
    use rustls::{AlertDescription as Alert, CertificateError as Fault, Error};
    let (what, next) = match error {
        Error::InvalidCertificate(Fault::UnknownIssuer | Fault::BadSignature) => (
            "its certificate is signed by a CA that is not in the kubeconfig".to_owned(),
            "check that certificate-authority is the CA of this cluster, and that the server is right",
        ),
        Error::InvalidCertificate(Fault::NotValidForName | Fault::NotValidForNameContext { .. }) => (
            format!("its certificate is for another name ({})", foreign(&error.to_string())),
            "set the kubeconfig's server, or tls-server-name, to a name in the certificate",
        ),
        Error::InvalidCertificate(Fault::Expired | Fault::ExpiredContext { .. }) => (
            "its certificate has expired".to_owned(),
            "renew it (`kubeadm certs check-expiration`), or correct this machine's clock",
        ),
        Error::InvalidCertificate(Fault::NotValidYet | Fault::NotValidYetContext { .. }) => {
            ("its certificate is not valid yet".to_owned(), "correct the clock of this machine or of the apiserver")
        }
        Error::InvalidCertificate(_) => (
            format!("its certificate can't be accepted ({})", foreign(&error.to_string())),
            "inspect it with `openssl s_client -connect`",
        ),
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired,
        ) => (
            format!("it does not accept the client's certificate ({})", foreign(&error.to_string())),
            "it may have expired or belong to another cluster: check client-certificate in the kubeconfig",
        ),
        Error::InvalidMessage(_) => (
            "the server there does not speak TLS".to_owned(),
            "check the scheme (http or https) and the port of the kubeconfig's server",
        ),
        other => (
            format!("no TLS connection ({})", foreign(&other.to_string())),
            "check the kubeconfig's server, and proxies on the way",
        ),
    };
    LiveError::Certificate { server, path, what, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_rule_is_that_of_the_path() {
        for (path, rule) in [
            ("/metrics", "nonResourceURLs [/metrics], verbs [get]"),
            ("/debug/pprof/heap", "nonResourceURLs [/debug/pprof/heap], verbs [get]"),
            ("/api", "nonResourceURLs [/api]"),
            ("/api/v1/pods", "apiGroups [\"\"], resources [pods], verbs [list]"),
            ("/api/v1/namespaces/default/endpoints/kubernetes", "apiGroups [\"\"], resources [endpoints], verbs [get]"),
            ("/api/v1/namespaces", "resources [namespaces], verbs [list]"),
            (
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                "[\"discovery.k8s.io\"], resources [endpointslices], verbs [list]",
            ),
        ] {
            let printed = missing_rule(path, "forbidden", true);
            assert!(printed.contains(rule), "{path}: {printed}");
        }
        assert!(
            missing_rule("/metrics", "users \"x\" is forbidden: cannot impersonate", true)
                .contains("verbs [impersonate]")
        );
    }

    #[test]
    fn paths_follow_the_path_of_the_server() {
        let uri =
            |base: &str, path| Endpoint::new(String::new(), base.parse().unwrap()).uri(path).map(|uri| uri.to_string());
        assert_eq!(uri("https://a.test:6443", "/metrics").unwrap(), "https://a.test:6443/metrics");
        assert_eq!(
            uri("https://a.test/k8s/clusters/c-1/", "/metrics?x=1").unwrap(),
            "https://a.test/k8s/clusters/c-1/metrics?x=1"
        );
        for bad in ["metrics", "", "/a b", "/\u{7f}"] {
            assert_eq!(uri("https://a.test", bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_unpacked_is_bounded() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&vec![b'x'; 100_000]).unwrap();
        let packed = packer.finish().unwrap();
        let gzip = HeaderMap::from_iter([(CONTENT_ENCODING, "gzip".parse().unwrap())]);
        assert_eq!(unpack(&gzip, packed.clone(), 100_000).ok().unwrap().len(), 100_000);
        assert!(matches!(unpack(&gzip, packed.clone(), 99_999), Err(Fault::TooLarge)));
        assert!(matches!(unpack(&gzip, packed[..packed.len() / 2].to_vec(), 100_000), Err(Fault::Cut(..))));
        let other = HeaderMap::from_iter([(CONTENT_ENCODING, "br".parse().unwrap())]);
        assert!(matches!(unpack(&other, packed, 100_000), Err(Fault::Cut(..))));
    }
}
