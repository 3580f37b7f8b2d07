//! Certificates: read from files, and read again when these change.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

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
        if now == self.changed || self.refused == Some(now) {
            return;
        }
        match config(&tls.certificates, &tls.key) {
            Ok(config) => (self.config, self.changed, self.refused) = (config, now, None),
            Err(why) => (self.refused, self.problem) = (Some(now), Some(why)),
        }
    }
}

impl Tls {
    /// Reads both files; the error names the one that is wrong.
    pub fn open(certificates: &Path, key: &Path) -> Result<Self, String> {
        let config = config(certificates, key)?;
        let changed = [changed(certificates), changed(key)];
        let current = Current { config, changed, looked: Instant::now(), refused: None, problem: None };
        Ok(Self { certificates: certificates.to_owned(), key: key.to_owned(), current: Mutex::new(current) })
    }

    /// What shakes hands, with the files as they are now; as they were while they can't be used.
    pub(super) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.look(self);
        tokio_rustls::TlsAcceptor::from(Arc::clone(&current.config))
    }

    /// Why changed files can't be used, once for each change.
    pub fn problem(&self) -> Option<String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.look(self);
        current.problem.take()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

fn config(certificates: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let read = |path: &Path| std::fs::read(path).map_err(|error: io::Error| failed(path, &error));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(certificates)?)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(certificates, &format!("not certificates in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(failed(certificates, &"no certificate in it; give a PEM file with BEGIN CERTIFICATE"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| failed(key, &format!("not a private key in PEM: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| failed(key, &format!("not the key of {}: {error}", certificates.display())))?;
    Ok(Arc::new(config))
}
