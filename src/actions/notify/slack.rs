//! Incoming webhooks as Slack, Mattermost, Rocket.Chat and others have them: a POST of `{"text": …}`.

use super::Fault;
use super::http::Target;
use crate::model::alert::{OutboxEntry, Url};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Characters that Slack shows of a message at most (it cuts at 40,000).
const MAX_TEXT_CHARS: usize = 39_000;

/// An incoming webhook.
#[derive(Debug)]
pub(super) struct Slack {
    target: Target,
}

impl Slack {
    pub(super) fn new(url: &Url, ca: Option<&Path>) -> Result<Self, String> {
        Ok(Self { target: Target::new(url, "", None, ca)? })
    }

    pub(super) fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
        let text: String = parcel.slack.chars().take(MAX_TEXT_CHARS).collect();
        // Names are not to become mentions or links.
        let body = json!({ "text": text, "link_names": 0, "unfurl_links": false, "unfurl_media": false });
        self.target.post(body.to_string().as_bytes(), &[], within)
    }
}
