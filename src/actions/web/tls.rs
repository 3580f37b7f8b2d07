//! Certificates: read from files, and read again when these change.

use crate::model::time;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The last second that certificates can name: that of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// How often it is looked whether the files have changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// A certificate chain and its key, in PEM files.
#[derive(Debug)]
pub struct Tls {
    certificates: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// When the certificate expires, in s since 1970, until that was reported.
    expires: Option<u64>,
    changed: [Option<SystemTime>; 2],
    looked: Instant,
    /// Of which change it was found that it can't be used.
    refused: Option<[Option<SystemTime>; 2]>,
    /// Why, until somebody asks.
    problem: Option<String>,
}

impl Current {
    /// Reads files that have changed; those before them stay in use while the new ones can't be used.
    fn look(&mut self, tls: &Tls) {
        if self.looked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let now = [changed(&tls.certificates), changed(&tls.key)];
        if now != self.changed && self.refused != Some(now) {
            match config(&tls.certificates, &tls.key) {
                Ok((config, expires)) => {
                    (self.config, self.expires, self.changed, self.refused) = (config, expires, now, None);
                }
                Err(why) => {
                    let why = format!("{why}; the certificate from before stays in use");
                    (self.refused, self.problem) = (Some(now), Some(why));
                }
            }
        }
        self.expiry(&tls.certificates);
    }

    /// Says that the certificate has expired, once.
    fn expiry(&mut self, certificates: &Path) {
        let now = UnixTime::now().as_secs();
        if let Some(at) = self.expires.take_if(|at| *at < now) {
            let at = time::format(i64::try_from(at).unwrap_or(i64::MAX).saturating_mul(time::SECOND));
            let path = certificates.display();
            self.problem = Some(format!("{path}: the certificate expired at {at}, and clients refuse it; renew it"));
        }
    }
}

impl Tls {
    /// Reads both files; the error names the one that is wrong.
    pub fn open(certificates: &Path, key: &Path) -> Result<Self, String> {
        let (config, expires) = config(certificates, key)?;
        let changed = [changed(certificates), changed(key)];
        let mut current = Current { config, expires, changed, looked: Instant::now(), refused: None, problem: None };
        current.expiry(certificates);
        Ok(Self { certificates: certificates.to_owned(), key: key.to_owned(), current: Mutex::new(current) })
    }

    /// What shakes hands, with the files as they are now; as they were while they can't be used.
    pub(super) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.look(self);
        tokio_rustls::TlsAcceptor::from(Arc::clone(&current.config))
    }

    /// What is wrong with the certificate, once: it has expired, or its files have changed and can't be used.
    pub fn problem(&self) -> Option<String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.look(self);
        current.problem.take()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// When a certificate expires, in s since 1970; `None` where nothing ends its validity.
fn expires(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let end_of_time = UnixTime::since_unix_epoch(Duration::from_secs(LAST_SECOND));
    let usage = webpki::KeyUsage::server_auth();
    match certificate.verify_for_usage(&[], &[], &[], end_of_time, usage, None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after.as_secs()),
        _ => None,
    }
}

/// What serves with these files, and when their certificate expires.
fn config(certificates: &Path, key: &Path) -> Result<(Arc<ServerConfig>, Option<u64>), String> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let read = |path: &Path| std::fs::read(path).map_err(|error: io::Error| failed(path, &error));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(certificates)?)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(certificates, &format!("not certificates in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(failed(certificates, &"no certificate in it; give a PEM file with BEGIN CERTIFICATE"));
    }
    let expires = chain.first().and_then(expires);
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| failed(key, &format!("not a private key in PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| failed(key, &format!("not the key of {}: {error}", certificates.display())))?;
    Ok((Arc::new(config), expires))
}
