//! One HTTP client for all apiservers of a cluster, with the kubeconfig's credentials.
//!
//! kube's own client is tied to one URL. This one takes absolute URLs, so that a credential plugin runs once and not
//! once for each address. Which name a certificate must be for is decided by [`Names`].

use super::LiveError;
use super::error::foreign;
use super::kubeconfig::ClusterAccess;
use http::Uri;
use hyper_rustls::{HttpsConnectorBuilder, ResolveServerName};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{AuthError, Body, ConfigExt};
use kube::{Client, Config};
use rustls::pki_types::ServerName;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tower::{BoxError, Layer, Service, ServiceExt};

/// How long a connection may take before it counts as unreachable: a blackholed address should not hold up the others.
const CONNECT: Duration = Duration::from_secs(5);

/// Which name the certificate must be for that an address shows: that of the kubeconfig's server, since all apiservers
/// of a cluster usually share one. Where they don't, their own address will do: the authority that signs is the same.
#[derive(Debug)]
pub(super) struct Names {
    common: String,
    /// `host:port` of those whose certificates are for their own address.
    own: Mutex<HashSet<String>>,
}

impl Names {
    /// Asks `address` for a certificate for itself from now on.
    pub(super) fn expect_own(&self, address: &str, own: bool) {
        let mut addresses = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own {
            addresses.insert(address.to_owned())
        } else {
            addresses.remove(address)
        };
    }
}

#[derive(Debug)]
struct Resolver(Arc<Names>);

impl ResolveServerName for Resolver {
    fn resolve(&self, uri: &Uri) -> Result<ServerName<'static>, Box<dyn std::error::Error + Sync + Send>> {
        let address = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner).contains(address);
        let name = if own { bare(uri.host().unwrap_or_default()) } else { &self.0.common };
        Ok(ServerName::try_from(name.to_owned())?)
    }
}

/// A host without the brackets that an IPv6 address has in a URL.
fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// Makes the client. Runs the kubeconfig's credential plugin, if it has one: that may take long, and may ask questions
/// on the terminal.
pub(super) fn build(found: &ClusterAccess, timeout: Duration) -> Result<(Client, Arc<Names>), LiveError> {
    // kube leaves the choice to rustls, which panics if ever two providers are compiled in. If one is set, it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(timeout.min(CONNECT)));
    connector.set_nodelay(true);
    let Some(proxy) = &found.proxy else { return assemble(&found.config, connector) };
    match proxy.uri().scheme_str() {
        Some("http") => {
            let tunnel = Tunnel::new(proxy.uri().clone(), connector);
            assemble(
                &found.config,
                match proxy.basic_auth() {
                    Some(auth) => tunnel.with_auth(auth.clone()),
                    None => tunnel,
                },
            )
        }
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(proxy.uri().clone(), connector);
            assemble(
                &found.config,
                match proxy.raw_auth() {
                    Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                    None => socks,
                },
            )
        }
        _ => Err(LiveError::Kubeconfig {
            path: format!("proxy {}", proxy.uri().host().unwrap_or_default()),
            what:
                "only http:// and socks5:// proxies are supported; check proxy-url in the kubeconfig, and HTTPS_PROXY"
                    .to_owned(),
        }),
    }
}

fn assemble<C>(config: &Config, connector: C) -> Result<(Client, Arc<Names>), LiveError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: hyper::rt::Read + hyper::rt::Write + Connection + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let auth = config.auth_layer().map_err(|error| refused(&error, config))?;
    let mut for_tls = config.clone();
    if auth.is_some() {
        // It gave a token and no certificate: kube would run it again to see whether it gives one.
        for_tls.auth_info.exec = None;
        for_tls.auth_info.auth_provider = None;
    }
    let host = bare(config.cluster_url.host().unwrap_or_default());
    let common = config.tls_server_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(host).to_owned();
    let names = Arc::new(Names { common, own: Mutex::default() });
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(for_tls.rustls_client_config().map_err(|error| refused(&error, config))?)
        .https_or_http()
        .with_server_name_resolver(Resolver(Arc::clone(&names)))
        .enable_http1()
        .wrap_connector(connector);
    let client =
        legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build::<_, Body>(connector);
    let service =
        config.extra_headers_layer().map_err(|error| refused(&error, config))?.layer(client).map_err(BoxError::from);
    let client = match auth {
        Some(auth) => Client::new(auth.layer(service), "default"),
        None => Client::new(service, "default"),
    };
    Ok((client, names))
}

/// Why kube can't make a client of the kubeconfig.
fn refused(error: &kube::Error, config: &Config) -> LiveError {
    use kube::client::RustlsTlsError as Tls;
    let what = match error {
        kube::Error::Auth(error) => return credentials(error, &plugin(config)),
        // The parts of a PEM file are left out: one of them is a private key.
        kube::Error::RustlsTls(
            Tls::InvalidIdentityPem(_)
            | Tls::InvalidPrivateKey(_)
            | Tls::MissingPrivateKey
            | Tls::MissingCertificate
            | Tls::UnknownPrivateKeyFormat,
        ) => "the client certificate or its key can't be read; check client-certificate and client-key".to_owned(),
        other => foreign(&other.to_string()),
    };
    LiveError::Credentials { what }
}

/// What the kubeconfig's credential plugin is called, without its arguments.
pub(super) fn plugin(config: &Config) -> String {
    let command = config.auth_info.exec.as_ref().and_then(|exec| exec.command.as_deref());
    let old = || config.auth_info.auth_provider.as_ref().map(|provider| provider.name.as_str());
    foreign(command.or_else(old).unwrap_or_default())
}

/// Why there are no credentials. What a plugin printed to stdout is never shown: it is where tokens are.
pub(super) fn credentials(error: &AuthError, plugin: &str) -> LiveError {
    let what = match error {
        AuthError::AuthExecStart(error) => format!("can't be started: {error}; check that it is installed and in PATH"),
        AuthError::AuthExecRun { out, .. } => {
            // The command as kube gives it has arguments and variables, and those may hold a secret.
            let stderr = String::from_utf8_lossy(&out.stderr);
            match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
                Some(last) => format!("failed ({}): {}", out.status, foreign(last)),
                None => format!("failed ({})", out.status),
            }
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            "printed no ExecCredential that can be read".to_owned()
        }
        AuthError::ExecPluginFailed => "printed an ExecCredential without a status".to_owned(),
        AuthError::UnrefreshableTokenResponse => "returned a token, but none on the next call".to_owned(),
        other => return LiveError::Credentials { what: foreign(&other.to_string()) },
    };
    LiveError::Exec { plugin: plugin.to_owned(), what }
}
