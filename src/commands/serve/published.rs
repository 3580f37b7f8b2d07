//! What is asked over HTTP, and by whom it is answered: metrics and health at once, from what was published last;
//! reports and documents by the same questions as the commands, on workers.

use super::api;
use super::parts::Incoming;
use super::posted::Posted;
use crate::actions::web::{Handler, WebAnswer, WebRequest};
use crate::cli::Settings;
use crate::model::exposed::Family;
use crate::sources::store::Store;
use crate::views::exposition::Exposition;
use hyper::body::Bytes;
use std::sync::{Arc, PoisonError, RwLock};

/// The metrics that were published last, in each form of [`Exposition::ALL`]; none before the first reading.
#[derive(Default)]
pub(super) struct Published(RwLock<Option<[Bytes; 3]>>);

impl Published {
    /// Puts new metrics in the place of those before.
    pub(super) fn publish(&self, families: Vec<Family>) {
        let texts = Exposition::ALL.map(|form| Bytes::from(form.render(&families)));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(texts);
    }

    fn metrics(&self, accept: &str) -> WebAnswer {
        let form = Exposition::accepted(accept);
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match texts.as_ref() {
            Some([text, open, protobuf]) => {
                let body = match form {
                    Exposition::Text => text,
                    Exposition::OpenMetrics => open,
                    Exposition::Protobuf => protobuf,
                };
                WebAnswer::new(200, form.content_type(), body.clone())
            }
            None => WebAnswer::text(503, "the sources are being read for the first time; retry in a few seconds"),
        }
    }

    fn is_ready(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Answers requests.
pub(super) struct Web {
    published: Arc<Published>,
    posted: Arc<Posted>,
    incoming: Arc<Incoming>,
    /// What questions are about.
    store: Store,
    settings: Settings,
}

const INDEX: &str = "<!doctype html><title>plimsoll</title><h1>plimsoll</h1>\
<ul><li><a href=\"/metrics\">metrics</a><li><a href=\"/report\">report</a>\
<li><a href=\"/api/v1/\">documents as JSON</a></ul>";

impl Web {
    pub(super) fn new(
        published: Arc<Published>,
        posted: Arc<Posted>,
        incoming: Arc<Incoming>,
        store: &Store,
        settings: Settings,
    ) -> Self {
        Self { published, posted, incoming, store: store.clone(), settings }
    }
}

impl Handler for Web {
    fn is_quick(&self, request: &WebRequest) -> bool {
        matches!(request.path.as_str(), "/" | "/metrics" | "/healthz" | "/readyz" | "/api/v1/")
    }

    fn is_open(&self, path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz")
    }

    fn answer(&self, request: WebRequest) -> WebAnswer {
        let path = request.path.as_str();
        let posted = path.strip_prefix("/audit").filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let part = path.strip_prefix("/parts/");
        let allow = if posted.is_some() || part.is_some() { "POST" } else { "GET, HEAD" };
        if !allow.split(", ").any(|method| method == request.method) {
            return WebAnswer { allow, ..WebAnswer::text(405, format!("{path} takes {allow}")) };
        }
        if let Some(name) = posted {
            return self.posted.take(name, &request.body);
        }
        if let Some(part) = part {
            return self.incoming.take(part, &request.query, &request.body);
        }
        match path {
            "/parts" => self.incoming.positions(),
            "/" => WebAnswer::new(200, "text/html; charset=utf-8", INDEX),
            "/metrics" => self.published.metrics(&request.accept),
            "/healthz" => WebAnswer::text(200, "ok"),
            "/readyz" if self.published.is_ready() => WebAnswer::text(200, "ok"),
            "/readyz" => WebAnswer::text(503, "the sources are being read for the first time"),
            _ => api::answer(&request, &self.store, &self.settings),
        }
    }
}
