//! TLS to a member: which authorities are believed, and with which certificate the client shows itself.

use super::{Access, Endpoint, PullError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// The configuration; without authorities only for plain HTTP, which has no use for it.
pub(super) fn config(access: &Access, endpoint: &Endpoint) -> Result<ClientConfig, PullError> {
    let wrong = |path: &Path, what: &str| PullError::Credentials(format!("{}: {what}", path.display()));
    let mut roots = RootCertStore::empty();
    match &access.authorities {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|_| wrong(path, "holds a certificate that can't be used"))?;
            }
        }
        None if endpoint.is_secure() => {
            let what = "give --cacert FILE: etcd's certificates are usually signed by their own CA (kubeadm: \
                 /etc/kubernetes/pki/etcd/ca.crt)";
            return Err(PullError::Credentials(format!("{}: {what}", endpoint.name)));
        }
        None => {}
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |_| PullError::Credentials("TLS can't be set up".to_owned());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failed)?;
    let builder = builder.with_root_certificates(roots);
    let Some((certificate, key)) = &access.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate)?;
    // What is wrong with a key is not reported: its text is secret.
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        rustls::pki_types::pem::Error::Io(error) => wrong(key, &error.to_string()),
        _ => wrong(key, "holds no private key in PEM"),
    })?;
    builder
        .with_client_auth_cert(chain, secret)
        .map_err(|_| wrong(key, "is not the key of the certificate, or of a kind that can't be used"))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PullError> {
    let wrong = |what: String| PullError::Credentials(format!("{}: {what}", path.display()));
    let read = |error| match error {
        rustls::pki_types::pem::Error::Io(error) => wrong(error.to_string()),
        _ => wrong("holds no certificates in PEM".to_owned()),
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(read)?.collect();
    let all = all.map_err(read)?;
    if all.is_empty() { Err(wrong("holds no certificates in PEM".to_owned())) } else { Ok(all) }
}
