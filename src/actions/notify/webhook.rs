//! Anything that takes JSON by POST. The body is signed, so that the receiver knows who sent it:
//!
//! ```text
//! X-Plimsoll-Id: the message's id, the same however often it is sent
//! X-Plimsoll-Timestamp: seconds since 1970 when it was sent
//! X-Plimsoll-Signature: v1=HMAC-SHA256(key, timestamp + "." + body), hexadecimal
//! ```

use super::http::Target;
use super::{Fault, reveal};
use crate::model::alert::{Login, OutboxEntry, Secret, Url};
use crate::model::time;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    target: Target,
    key: Option<String>,
}

impl Webhook {
    pub(super) fn new(
        url: &Url,
        login: Option<&Login>,
        key: Option<&Secret>,
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        Ok(Self { target: Target::new(url, "", login, ca)?, key: key.map(reveal).transpose()? })
    }

    pub(super) fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
        let message = &parcel.message;
        let is_guard = !message.deeds.is_empty() || !message.episodes.is_empty();
        let mut body = json!({
            "schema": if is_guard { "plimsoll.guard.message/v1" } else { "plimsoll.quota-alert.message/v1" },
            "id": message.id,
            "cluster": message.cluster,
            "owner": message.owner,
            "at": time::format(message.at),
            "reason": message.reason,
            "level": message.level,
            "subject": parcel.subject.trim_end(),
            "text": parcel.text,
        });
        if is_guard {
            body["operations"] = message.deeds.iter().map(guard_event).collect();
            body["episodes"] = message.episodes.iter().map(episode).collect();
        } else {
            body["alerts"] = message.alerts.iter().map(alert).collect();
            body["over"] = message.over.iter().map(alert).collect();
        }
        let body = body.to_string();
        let mut headers = vec![("X-Plimsoll-Id", message.id.clone())];
        if let Some(key) = &self.key {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            headers.push(("X-Plimsoll-Timestamp", seconds.to_string()));
            headers.push((
                "X-Plimsoll-Signature",
                format!("v1={}", signature(key, &seconds.to_string(), &body).map_err(Fault::Refused)?),
            ));
        }
        self.target.post(body.as_bytes(), &headers, within)
    }
}

/// An alert as the receiver reads it: times in RFC 3339.
fn alert(alert: &crate::model::alert::Alert) -> serde_json::Value {
    let mut json = json!(alert);
    json["since"] = time::format(alert.since).into();
    json["ended"] = alert.ended.map(time::format).into();
    json["taken"] = alert.gauge.taken.map(time::format).into();
    json["full_at"] = alert.gauge.full_at.map(time::format).into();
    json["is_new"] = alert.is_new().into();
    json
}

/// A dangerous operation as the receiver reads it.
fn guard_event(deed: &crate::model::alert::GuardEvent) -> serde_json::Value {
    let mut json = json!(deed);
    json["at"] = time::format(deed.at).into();
    json["last"] = time::format(deed.last).into();
    json
}

/// An episode as the receiver reads it.
fn episode(own: &crate::model::alert::EpisodeNews) -> serde_json::Value {
    let mut json = json!(own);
    json["from"] = time::format(own.from).into();
    json["to"] = time::format(own.to).into();
    json
}

fn signature(key: &str, timestamp: &str, body: &str) -> Result<String, String> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.as_bytes()).map_err(|_| "the signing key is not valid".to_owned())?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    Ok(mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}
