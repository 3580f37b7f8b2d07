//! Alertmanager, by its API version 2. An alert there is its labels; it is over at `endsAt`, and is to be sent again
//! while it stands.

use super::Fault;
use super::http::Target;
use crate::actions::notify::standing::Standing;
use crate::model::alert::{Alert, EpisodeNews, GuardEvent, Level, Login, OutboxEntry, Url};
use crate::model::time::{self, MINUTE, Micros, SECOND};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Alerts in one request.
const BATCH: usize = 500;

/// Alertmanager takes an end that lies ahead of its clock for none: so much may its clock be behind ours.
const SKEW: Micros = MINUTE;

/// An Alertmanager.
#[derive(Debug)]
pub(super) struct Alertmanager {
    target: Target,
    hold: Micros,
    labels: BTreeMap<String, String>,
    link: Option<String>,
}

impl Alertmanager {
    pub(super) fn new(
        url: &str,
        login: Option<&Login>,
        hold: Duration,
        labels: &BTreeMap<String, String>,
        link: Option<&str>,
        ca: Option<&Path>,
    ) -> Result<Self, String> {
        let target = Target::new(&Url::Plain(url.to_owned()), "/api/v2/alerts", login, ca)?;
        let hold = Micros::try_from(hold.as_micros()).unwrap_or(Micros::MAX / 4);
        Ok(Self { target, hold, labels: labels.clone(), link: link.map(str::to_owned) })
    }

    /// Sends a message's alerts. They stand for `hold` from the time of the message on: reminders make that longer.
    pub(super) fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
        let message = &parcel.message;
        let mut alerts = Vec::new();
        for alert in message.alerts.iter().chain(&message.over) {
            alerts.extend(self.of(alert, &message.cluster, &message.owner, message.at));
        }
        alerts.extend(
            message.deeds.iter().map(|deed| self.guard_event(deed, &message.cluster, &message.owner, message.at)),
        );
        let of = |own| self.episode(own, &message.cluster, &message.owner, message.at);
        alerts.extend(message.episodes.iter().map(of));
        self.post(&alerts, within)
    }

    /// Says again what stands.
    pub(super) fn remind(&mut self, standing: &Standing, name: &str, within: Duration) -> Result<(), Fault> {
        let mut alerts = Vec::new();
        for (owner, theirs) in &standing.alerts {
            if standing.channels.get(owner).is_some_and(|channels| channels.iter().any(|channel| channel == name)) {
                theirs.iter().for_each(|alert| alerts.extend(self.of(alert, &standing.cluster, owner, standing.at)));
            }
        }
        self.post(&alerts, within)
    }

    fn post(&self, alerts: &[Value], within: Duration) -> Result<(), Fault> {
        // A batch that is sent twice, as the one behind it failed, changes nothing.
        alerts
            .chunks(BATCH)
            .try_for_each(|batch| self.target.post(Value::from(batch).to_string().as_bytes(), &[], within))
    }

    /// An alert, and the one of another level that it takes the place of: the level is one of the labels.
    fn of(&self, alert: &Alert, cluster: &str, owner: &str, at: Micros) -> Vec<Value> {
        let stands = alert.ended.is_none();
        let until = alert.ended.map_or(at.saturating_add(self.hold), |ended| ended - SKEW);
        // What is over has the level under which it was reported, if it was.
        let level = if stands { alert.level } else { alert.was.unwrap_or(alert.level) };
        let mut all = vec![self.one(alert, level, until, cluster, owner)];
        if let Some(was) = alert.was.filter(|was| stands && *was != level) {
            all.push(self.one(alert, was, at - SKEW, cluster, owner));
        }
        all
    }

    /// The configured labels, and these, as far as they say something.
    fn labels(&self, own: &[(&str, &str)]) -> Map<String, Value> {
        let mut labels: Map<String, Value> =
            self.labels.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let present = own.iter().filter(|(_, value)| !value.is_empty());
        present.for_each(|(name, value)| drop(labels.insert((*name).to_owned(), (*value).into())));
        labels
    }

    /// A dangerous operation. It is over when it is done, but people should see it: it stands for `hold`.
    fn guard_event(&self, deed: &GuardEvent, cluster: &str, owner: &str, at: Micros) -> Value {
        let namespace = if let [one] = deed.namespaces.as_slice() { one } else { "" };
        let labels = self.labels(&[
            ("alertname", "PlimsollGuard"),
            ("cluster", cluster),
            ("kind", &deed.kind),
            ("user", &deed.user),
            ("impersonated", &deed.impersonated),
            ("namespace", namespace),
            ("resource", &deed.resource),
            ("owner", owner),
            ("severity", deed.level.name()),
            // Two of one kind by one actor are two.
            ("audit_id", &deed.audit_id),
        ]);
        let annotations = json!({
            "summary": format!("{} {}: {}", deed.user, deed.what, deed.outcome),
            "by": format!("{} from {}", deed.agent, deed.source),
            "next_time": deed.stopped_by,
        });
        let until = at.saturating_add(self.hold);
        json!({ "labels": labels, "annotations": annotations, "startsAt": time::format(deed.at.min(at)),
            "endsAt": time::format(until) })
    }

    /// An episode: it stands for `hold`, or until it is over.
    fn episode(&self, own: &EpisodeNews, cluster: &str, owner: &str, at: Micros) -> Value {
        let labels = self.labels(&[
            ("alertname", "PlimsollEpisode"),
            ("cluster", cluster),
            ("grade", &own.grade),
            ("cause", &own.cause),
            ("user", &own.user),
            ("owner", owner),
            ("severity", own.level.name()),
            ("episode", &own.id),
        ]);
        let annotations = json!({ "summary": own.headline, "do_now": own.step });
        let from = own.from.min(at);
        // It begins before it ends, however short it was.
        let until = if own.is_over { (own.to.min(at) - SKEW).max(from + SECOND) } else { at.saturating_add(self.hold) };
        json!({
            "labels": labels, "annotations": annotations, "startsAt": time::format(from),
            "endsAt": time::format(until),
        })
    }

    fn one(&self, alert: &Alert, level: Level, until: Micros, cluster: &str, owner: &str) -> Value {
        let gauge = &alert.gauge;
        let labels = self.labels(&[
            ("alertname", "PlimsollQuota"),
            ("cluster", cluster),
            ("namespace", &gauge.key.namespace),
            ("quota", &gauge.key.quota),
            ("resource", &gauge.key.resource),
            ("owner", owner),
            ("severity", level.name()),
        ]);
        let share = gauge.share.map(|share| format!(" ({:.0}%)", share * 100.0)).unwrap_or_default();
        let mut annotations = Map::new();
        let summary = format!(
            "{} of namespace {}: {} of {}{share}",
            gauge.key.resource, gauge.key.namespace, gauge.used, gauge.hard
        );
        annotations.insert("summary".into(), summary.into());
        if let Some(full) = gauge.full_at {
            annotations.insert("full_at".into(), time::format(full).into());
        }
        if let Some(proposed) = gauge.raise() {
            annotations.insert("proposed".into(), proposed.into());
        }
        let since = alert.since.min(until);
        let mut json = json!({ "labels": labels, "annotations": annotations, "startsAt": time::format(since),
            "endsAt": time::format(until) });
        let is_plain =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
        if let Some(link) = self.link.as_ref().filter(|_| is_plain(&gauge.key.namespace)) {
            json["generatorURL"] = link.replace("{namespace}", &gauge.key.namespace).into();
        }
        json
    }
}
