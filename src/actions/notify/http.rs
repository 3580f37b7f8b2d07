//! A POST, and what its answer means.

use super::{Fault, reveal};
use crate::model::alert::{Login, Url};
use crate::sources::clock::now;
use crate::sources::retry::retry_after;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::path::Path;
use std::time::Duration;
use ureq::Body;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// Characters of an answer that are shown in an error.
const SHOWN: usize = 200;

/// An answer that is read is no longer than this.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Where messages are posted to.
#[derive(Debug, Clone)]
pub(in crate::actions) struct Target {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
}

impl Target {
    /// A target at this URL, with what stands behind it.
    pub(in crate::actions) fn new(
        url: &Url,
        path: &str,
        login: Option<&Login>,
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        let url = match url {
            Url::Plain(url) => url.clone(),
            Url::Secret(secret) => reveal(secret)?,
        };
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err("its URL does not begin with https:// or http://".to_owned());
        }
        let authorization = match login {
            None => None,
            Some(Login::Bearer(token)) => Some(format!("Bearer {}", reveal(token)?)),
            Some(Login::Basic(user, password)) => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", reveal(password)?))))
            }
        };
        let mut config = ureq::Agent::config_builder()
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            // What is posted elsewhere would be neither signed for nor meant for it.
            .max_redirects(0)
            .max_redirects_will_error(false);
        if let Some(path) = ca {
            config = config.tls_config(TlsConfig::builder().root_certs(roots(path)?).build());
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url: format!("{}{path}", url.trim_end_matches('/')),
            authorization,
        })
    }

    /// The same server, with more behind the path.
    pub(in crate::actions) fn at(&self, path: &str) -> Self {
        Self { url: format!("{}{path}", self.url), ..self.clone() }
    }

    /// What the server has there.
    pub(in crate::actions) fn get(&self, within: Duration) -> Result<Vec<u8>, Fault> {
        let mut request = self.agent.get(&self.url);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let sent = request.config().timeout_global(Some(within)).build().call();
        let mut response = self.answered(sent)?;
        let read = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        read.map_err(|error| Fault::Later(error.to_string(), None))
    }

    /// Posts JSON with these headers.
    pub(super) fn post(&self, body: &[u8], headers: &[(&str, String)], within: Duration) -> Result<(), Fault> {
        self.send("application/json", body, headers, within)
    }

    /// Posts something of this type with these headers.
    pub(in crate::actions) fn send(
        &self,
        content_type: &str,
        body: &[u8],
        headers: &[(&str, String)],
        within: Duration,
    ) -> Result<(), Fault> {
        let mut request = self.agent.post(&self.url).header("Content-Type", content_type);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let sent = request.config().timeout_global(Some(within)).build().send(body);
        self.answered(sent).map(drop)
    }

    /// An answer, if it is one of success.
    fn answered(&self, sent: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Fault> {
        let mut response = sent.map_err(|error| match error {
            // The text of others may hold the URL, which may be a secret.
            ureq::Error::BadUri(_) => Fault::Refused("its URL is not valid".to_owned()),
            error => Fault::Later(error.to_string(), None),
        })?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let asked = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok())
            .and_then(|text| retry_after(text, now()));
        let body = response.body_mut().with_config().limit(64 << 10).read_to_string().unwrap_or_default();
        let body: String = body.trim().chars().take(SHOWN).collect();
        let error = format!("HTTP {status}{}{body}", if body.is_empty() { "" } else { ": " });
        Err(match status {
            408 | 425 | 429 | 500.. => Fault::Later(error, asked),
            300..400 => Fault::Refused(format!("{error} (redirects are not followed: configure the URL itself)")),
            _ => Fault::Refused(error),
        })
    }
}

/// The certificates of a PEM file.
fn roots(path: &Path) -> Result<RootCerts, String> {
    let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let certificate = |item: Result<PemItem<'static>, ureq::Error>| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = parse_pem(&pem).filter_map(certificate).collect();
    if found.is_empty() {
        return Err(format!("{}: contains no PEM certificate", path.display()));
    }
    Ok(RootCerts::from(found))
}
