//! Messages to owners of quotas: a message is on disk before it is sent, and so is its delivery right after.
//!
//! ```text
//! decided ──► state.json ──► receiver ──► sent.log ──► state.json without it
//!             fsync, rename   accepts      fsync
//! ```
//!
//! A run that is killed before the receiver accepts has sent nothing: the next one sends it. One that is killed between
//! the receiver's acceptance and our record of it sends it again, with the same id. Nothing else is sent twice, and
//! nothing is lost.

pub mod deliver;
pub mod standing;
pub mod store;

#[cfg(feature = "live")]
mod alertmanager;
#[cfg(feature = "live")]
pub(super) mod http;
#[cfg(feature = "live")]
mod slack;
#[cfg(feature = "live")]
mod smtp;
#[cfg(feature = "live")]
mod webhook;

use crate::model::alert::Secret;
use std::time::Duration;

/// Why a message was not taken.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The receiver does not want it, and won't: trying again at once is no use.
    Refused(String),
    /// It may be taken later; the receiver may have said when.
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "without it no notification can be sent"))]
    Later(String, Option<Duration>),
}

/// The longest secret.
const LONGEST_SECRET: u64 = 64 << 10;

/// A secret's text. Errors name where it should be, never what is there.
#[cfg_attr(not(feature = "live"), expect(dead_code, reason = "the only channel is stdout"))]
pub(crate) fn reveal(secret: &Secret) -> Result<String, String> {
    use std::io::Read;
    let text = match secret {
        Secret::File(path) => {
            let mut text = String::new();
            let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST_SECRET).read_to_string(&mut text));
            read.map_err(|error| format!("{}: {error}; the configuration expects a secret there", path.display()))?;
            text.trim().to_owned()
        }
        Secret::Env(name) => std::env::var(name).map_err(|_| {
            format!(
                "the environment variable {name} is not set; the configuration \
                 expects a secret there"
            )
        })?,
    };
    if text.is_empty() {
        let place = match secret {
            Secret::File(path) => path.display().to_string(),
            Secret::Env(name) => name.clone(),
        };
        return Err(format!("{place}: the secret is empty"));
    }
    Ok(text)
}
