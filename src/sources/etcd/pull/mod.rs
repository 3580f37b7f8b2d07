//! A snapshot from a member that runs: etcd's gRPC call `Maintenance/Snapshot`, over HTTP/2.
//! (Source: etcd api/etcdserverpb/rpc.proto; grpc doc/PROTOCOL-HTTP2.md.)

mod grpc;
mod tls;

use super::mvcc::{Field, Fields};
use crate::model::problem::Problem;
use grpc::Call;
use http::Uri;
use sha2::{Digest, Sha256};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of the SHA-256 that a snapshot ends with.
const TRAILER: usize = 32;

/// How to reach members, and as whom.
#[derive(Clone, Default)]
pub struct Access {
    /// PEM with the authorities that sign members' certificates.
    pub authorities: Option<PathBuf>,
    /// PEM with the client's certificate, and with its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// User and password.
    pub user: Option<(String, String)>,
    /// How long a member may say nothing.
    pub patience: Duration,
    /// Set where someone wants to stop.
    pub stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the password.
        f.debug_struct("Access")
            .field("authorities", &self.authorities)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// A file of credentials can't be used.
    #[error("{0}")]
    Credentials(String),
    /// The member can't be reached, refuses, or breaks off; with what to do about it.
    #[error("{0}")]
    Member(String),
    /// Someone wanted to stop.
    #[error("stopped")]
    Stopped,
    /// What came can't be written.
    #[error("can't write the snapshot: {0}")]
    Write(#[from] io::Error),
}

/// A part of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Part<'p> {
    pub bytes: &'p [u8],
    /// How many bytes follow.
    pub remaining: u64,
}

/// An address of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    uri: Uri,
    /// As it was given, with a scheme.
    pub name: String,
}

impl Endpoint {
    /// Reads `https://host:2379`; without a scheme it is http, as for etcdctl.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let text = text.trim().trim_end_matches('/');
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let wrong = || {
            Problem::setting(format!("'{text}' is not an endpoint"))
                .hint("give https://HOST:2379, several with commas between")
        };
        let uri: Uri = whole.parse().map_err(|_| wrong())?;
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none() && !whole.contains('@');
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if !matches!(uri.scheme_str(), Some("http" | "https")) || !is_plain || !has_host {
            return Err(wrong());
        }
        let uri = match uri.port_u16() {
            Some(_) => uri,
            None => format!("{whole}:2379").parse().map_err(|_| wrong())?,
        };
        Ok(Self { name: whole, uri })
    }

    fn is_secure(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

/// Streams a snapshot of the member at `endpoint` to `sink`, with its trailer, which is checked. Gives the bytes that
/// came.
pub fn snapshot(
    endpoint: &Endpoint,
    access: &Access,
    sink: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
) -> Result<u64, PullError> {
    let tls = tls::config(access, endpoint)?;
    let stopped = |error: io::Error| PullError::Member(format!("{}: {error}", endpoint.name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(stopped)?;
    let done = runtime.block_on(async {
        let client = grpc::Client::new(endpoint, tls, access);
        let token = match &access.user {
            Some((name, password)) => Some(authenticate(&client, name, password).await?),
            None => None,
        };
        stream(&client, token.as_deref(), sink).await
    });
    // A look-up of a name may be under way: it is not waited for.
    runtime.shutdown_background();
    done
}

/// `Auth/Authenticate`: the token for a name (1) and a password (2).
async fn authenticate(client: &grpc::Client<'_>, name: &str, password: &str) -> Result<String, PullError> {
    let mut request = Vec::new();
    for (number, text) in [(1_u8, name), (2, password)] {
        request.push(number << 3 | 2);
        let mut length = text.len();
        while length >= 0x80 {
            request.push(length as u8 | 0x80);
            length >>= 7;
        }
        request.push(length as u8);
        request.extend_from_slice(text.as_bytes());
    }
    let mut call = client.call("/etcdserverpb.Auth/Authenticate", &request, None).await?;
    let mut token = None;
    while let Some(message) = call.message().await? {
        token = Fields::new(&message).find_map(|field| match field {
            (2, Field::Bytes(token)) => String::from_utf8(token.to_vec()).ok(),
            _ => None,
        });
    }
    token.ok_or_else(|| call.wrong("returned no token"))
}

/// `Maintenance/Snapshot`: messages of how much remains (2) and the bytes (3).
async fn stream(
    client: &grpc::Client<'_>,
    token: Option<&str>,
    sink: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
) -> Result<u64, PullError> {
    let mut call: Call<'_> = client.call("/etcdserverpb.Maintenance/Snapshot", &[], token).await?;
    let mut sum = Trailer::default();
    let mut total = 0;
    while let Some(message) = call.message().await? {
        let (mut bytes, mut remaining) = (&[][..], 0);
        let mut fields = Fields::new(&message);
        for field in fields.by_ref() {
            match field {
                (2, Field::Number(number)) => remaining = number,
                (3, Field::Bytes(blob)) => bytes = blob,
                _ => {}
            }
        }
        if fields.damaged {
            return Err(call.wrong("sent something that is not part of a snapshot"));
        }
        sum.take(bytes);
        total += bytes.len() as u64;
        sink(Part { bytes, remaining })?;
    }
    match sum.agrees() {
        true => Ok(total),
        false => Err(call
            .wrong("sent a snapshot with a wrong SHA-256; try another member, and check this one's disk and memory")),
    }
}

/// The SHA-256 of all but the last 32 bytes, beside those.
#[derive(Default)]
struct Trailer {
    sum: Sha256,
    last: Vec<u8>,
}

impl Trailer {
    fn take(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        let before = self.last.len().saturating_sub(TRAILER);
        self.sum.update(&self.last[..before]);
        self.last.drain(..before);
    }

    fn agrees(self) -> bool {
        self.sum.finalize()[..] == self.last[..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trailer_is_checked_however_it_comes() {
        // As printf abc | sha256sum has it.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let sum: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&sum[2 * at..2 * at + 2], 16).expect("hex")).collect();
        let whole = [b"abc".as_slice(), &sum].concat();
        for size in 1..=whole.len() {
            let mut trailer = Trailer::default();
            whole.chunks(size).for_each(|part| trailer.take(part));
            assert!(trailer.agrees(), "{size}");
        }
        for bad in [&whole[1..], &whole[..34], b"".as_slice(), b"abc"] {
            let mut trailer = Trailer::default();
            trailer.take(bad);
            assert!(!trailer.agrees());
        }
    }

    #[test]
    fn endpoints_are_read_as_etcdctl_does() {
        let parsed = |text: &str| Endpoint::parse(text).map(|endpoint| endpoint.uri.to_string());
        assert_eq!(parsed("https://a:2379"), Ok("https://a:2379/".to_owned()));
        assert_eq!(parsed("a"), Ok("http://a:2379/".to_owned()));
        assert_eq!(parsed("[::1]:99"), Ok("http://[::1]:99/".to_owned()));
        for bad in ["", "unix://x", "https://user:pw@a:2379", "https://a:2379/x", "https://", "a:b:c"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
