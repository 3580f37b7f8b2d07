//! Who may ask: the server's own secrets, and the cluster's decisions about everybody else.

use super::reviews::Reviews;
use crate::actions::web::{Access, Reviewer, Tls};
use crate::cli::{Error, KubeFlags};
use crate::inputs::live::target;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who may ask.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access")]
pub(super) struct AccessFlags {
    /// Certificate chain for HTTPS, in PEM; read again when the file changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Require the bearer token that this file holds; it is read at the start.
    #[arg(long, value_name = "FILE")]
    bearer_token_file: Option<PathBuf>,
    /// Require USER:PASSWORD, as this file holds it at the start.
    #[arg(long, value_name = "FILE")]
    basic_auth_file: Option<PathBuf>,
    /// Ask the cluster who else may see what: TokenReview and SubjectAccessReview, kept for a minute.
    #[arg(long)]
    review_access: bool,
    /// Answer anyone who can reach the address without authentication, also beyond loopback.
    #[arg(long)]
    allow_unauthenticated: bool,
}

impl AccessFlags {
    pub(super) fn access(&self, listen: SocketAddr) -> Result<Access, Error> {
        let read = |flag: &str, file: &Option<PathBuf>| {
            let Some(file) = file else { return Ok(None) };
            let text = fs::read_to_string(file).map_err(|error| usage(flag, file, &error))?;
            match text.trim() {
                "" => Err(usage(flag, file, &"the file is empty")),
                text => Ok(Some(text.to_owned())),
            }
        };
        let bearer = read("--bearer-token-file", &self.bearer_token_file)?;
        let basic = read("--basic-auth-file", &self.basic_auth_file)?;
        if let (Some(file), Some(text)) = (&self.basic_auth_file, &basic)
            && !text.contains(':')
        {
            return Err(usage("--basic-auth-file", file, &"write USER:PASSWORD"));
        }
        let access = Access::new(bearer.as_deref(), basic.as_deref());
        if !listen.ip().is_loopback() && access.is_open() && !self.allow_unauthenticated && !self.review_access {
            return Err(Error::Usage(format!(
                "--listen {listen}: reachable from other machines without authentication; require a secret \
                 (--bearer-token-file, --basic-auth-file), let the cluster decide (--review-access), or allow \
                 everyone with --allow-unauthenticated"
            )));
        }
        Ok(access)
    }

    pub(super) fn reviewer(&self, has_cluster: bool, kube: &KubeFlags) -> Result<Option<Arc<dyn Reviewer>>, Error> {
        match (self.review_access, has_cluster) {
            (false, _) => Ok(None),
            (true, true) => Ok(Some(Arc::new(Reviews::new(target(kube))))),
            (true, false) => Err(Error::Usage(
                "--review-access: which cluster decides? name it with --cluster, \
                --kubeconfig or --context"
                    .to_owned(),
            )),
        }
    }

    pub(super) fn tls(&self) -> Result<Option<Tls>, Error> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificates), Some(key)) => Tls::open(certificates, key).map(Some).map_err(Error::Usage),
            _ => Ok(None),
        }
    }
}

fn usage(flag: &str, file: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::Usage(format!("{flag} {}: {why}", file.display()))
}
