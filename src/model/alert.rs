//! Alerts on quotas: who owns a namespace and when they work, what is near its limit, the message that says so, and
//! where it goes.

use crate::model::quantity::Quantity;
use crate::model::report::Severity;
use crate::model::time::Micros;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Labels and annotations that name a namespace's owner where nothing else is configured.
pub const OWNER_KEYS: [&str; 3] = ["plimsoll.io/owner", "owner", "team"];

/// When somebody works. Days and times are those of the clock on their wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    pub zone: TimeZone,
    /// Working days from Monday to Sunday.
    pub days: [bool; 7],
    /// Opens at this minute of the day, 0 to 1439.
    pub from: u16,
    /// Closes before this minute of the day, 1 to 1440. Not after `from`: it closes on the next day.
    pub to: u16,
    /// Days on which nobody works.
    pub holidays: BTreeSet<Date>,
}

/// Whom messages about some namespaces go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    /// Patterns of namespaces, with `*` and `?`, that are theirs whatever the namespaces say.
    pub namespaces: Vec<String>,
    /// Channels by name, in the order of the configuration.
    pub channels: Vec<String>,
    /// Addresses for mail; where there are none, the channel's own.
    pub to: Vec<String>,
    /// When they work; `None`: always.
    pub hours: Option<Calendar>,
    /// Whether what is critical is reported at any hour.
    pub critical_any_time: bool,
}

/// A secret, kept somewhere else than in the configuration, and read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// A file's content, without the white space around it.
    File(PathBuf),
    /// The value of an environment variable.
    Env(String),
}

/// How a request over HTTP says who sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A user and a password.
    Basic(String, Secret),
    /// A token.
    Bearer(Secret),
}

/// How a mail server is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Plain at first, TLS before anything is said.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Implicit,
    None,
}

/// A URL: in the configuration, or where secrets are, as those of Slack are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    Plain(String),
    /// Elsewhere.
    Secret(Secret),
}

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelKind {
    /// Alertmanager's API, version 2.
    Alertmanager {
        /// The server, without `/api/v2/alerts`.
        url: String,
        /// Who sends it.
        login: Option<Login>,
        /// How long an alert stands in Alertmanager unless it is sent again.
        hold: Duration,
        /// Labels that each alert gets.
        labels: BTreeMap<String, String>,
        /// Where to read more, for `generatorURL`. `{namespace}` is the namespace.
        link: Option<String>,
    },
    /// Anything that takes JSON.
    Webhook {
        /// Where.
        url: Url,
        /// Who sends it.
        login: Option<Login>,
        /// The key of the signature.
        key: Option<Secret>,
    },
    /// An incoming webhook as Slack, Mattermost and others have it.
    Slack {
        /// Where.
        url: Url,
    },
    /// Mail.
    Smtp {
        /// The server's name.
        server: String,
        port: u16,
        /// How it is spoken to.
        tls: Tls,
        /// User and password.
        login: Option<(String, Secret)>,
        /// The sender.
        from: String,
        /// Who gets what has no other address. `{owner}` is the owner's name.
        to: Vec<String>,
    },
    /// Standard output.
    Stdout,
}

/// A channel: a way with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    /// Where it leads.
    pub way: ChannelKind,
    /// Certificates in PEM that are trusted instead of the public authorities.
    pub ca_file: Option<PathBuf>,
}

impl ChannelKind {
    /// What it is called in the configuration.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Alertmanager { .. } => "alertmanager",
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Smtp { .. } => "smtp",
            Self::Stdout => "stdout",
        }
    }
}

/// From where on usage is worth a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A warning from this share of what is granted on, 0 to 1.
    pub warn: f64,
    /// Critical from this share on.
    pub critical: f64,
    /// Critical as well where the trend reaches the limit within so many days.
    pub days: Option<f64>,
}

/// Texts that replace those built in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    /// The subject of a mail.
    pub subject: Option<String>,
    /// Text for mail and stdout.
    pub text: Option<String>,
    /// Text for Slack.
    pub slack: Option<String>,
}

/// All that is configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The cluster's name in messages; empty where the inputs name it.
    pub cluster: String,
    /// From where on usage is worth a word.
    pub thresholds: Thresholds,
    /// What still stands is said again after this time.
    pub repeat: Duration,
    /// What could not be delivered is kept for this time.
    pub keep: Duration,
    /// Labels and annotations of namespaces that name the owner; the first that is set counts.
    pub owner_keys: Vec<String>,
    /// Channels in order.
    pub channels: Vec<Channel>,
    /// Owners that the configuration knows, in order.
    pub owners: Vec<Owner>,
    /// Who gets what nobody owns; also the hours and channels of owners that only namespaces name.
    pub default: Owner,
    /// Texts.
    pub templates: Templates,
}

/// How near a limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Near.
    Warning,
    /// Very near, or reached.
    Critical,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// As findings have it.
    pub fn severity(self) -> Severity {
        match self {
            Self::Warning => Severity::Warning,
            Self::Critical => Severity::Critical,
        }
    }
}

/// What identifies an alert.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub namespace: String,
    /// The ResourceQuota's name.
    pub quota: String,
    /// The resource as quotas name it.
    pub resource: String,
}

/// A quota's resource as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gauge {
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// What is used, as Kubernetes writes it; empty where nobody knows.
    pub used: String,
    /// What is granted, as Kubernetes writes it.
    pub hard: String,
    /// Used by granted, 0 to 1 and above; `None` where nothing is granted.
    pub share: Option<f64>,
    /// The trend: more of the resource per week; `None` where too few days are known.
    pub per_week: Option<f64>,
    /// The same in per cent of what is granted.
    pub per_week_share: Option<f64>,
    /// When the trend reaches what is granted; `None` where it does not within a year.
    pub full_at: Option<Micros>,
    /// What `quota propose` would grant.
    pub proposed: Option<String>,
    /// When this was seen.
    #[serde(default)]
    pub taken: Option<Micros>,
}

impl Gauge {
    /// What is proposed, where that is more than what is granted: nobody near a limit is helped by a lower one.
    pub fn raise(&self) -> Option<&str> {
        let quantity = |text: &str| text.parse::<Quantity>().ok();
        let proposed = self.proposed.as_deref()?;
        (quantity(proposed)? > quantity(&self.hard)?).then_some(proposed)
    }

    /// What is left; nothing where as much is used as is granted, or more.
    pub fn left(&self) -> Option<Quantity> {
        let (hard, used) = (self.hard.parse::<Quantity>().ok()?, self.used.parse::<Quantity>().ok()?);
        (hard > used).then(|| Quantity::from_nanos(hard.nanos() - used.nanos(), hard.form()))
    }
}

/// A gauge that is worth a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The gauge, as it was last seen above its limit.
    #[serde(flatten)]
    pub gauge: Gauge,
    /// How near it is; of what is over, how near it was.
    pub level: Level,
    /// The worst since the last message.
    pub worst: Level,
    /// What the message before said of it; `None`: nothing.
    pub was: Option<Level>,
    /// Since when.
    pub since: Micros,
    /// Until when, where it is over.
    pub ended: Option<Micros>,
}

impl Alert {
    /// Whether its message is the first to say so, or to say that it is so bad.
    pub fn is_new(&self) -> bool {
        self.was.is_none_or(|was| self.worst > was)
    }
}

/// Why a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Something has come near its limit, or nearer.
    News,
    /// It still stands.
    Repeat,
    /// All is over.
    Clear,
}

impl Reason {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::News => "news",
            Self::Repeat => "repeat",
            Self::Clear => "clear",
        }
    }
}

/// What an owner is notified of, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The same however often it is sent: 32 hexadecimal digits.
    pub id: String,
    /// The cluster's name; may be empty.
    pub cluster: String,
    /// Who is notified.
    pub owner: String,
    /// When it was decided.
    pub at: Micros,
    /// Why.
    pub reason: Reason,
    /// The worst level of what stands; `None` where all is over.
    pub level: Option<Level>,
    /// What stands, the worst first.
    pub alerts: Vec<Alert>,
    /// What was reported, or would have been in working hours, and is over.
    pub over: Vec<Alert>,
    /// Dangerous operations, by time, where it is about those; then there are no alerts.
    #[serde(default)]
    pub deeds: Vec<GuardEvent>,
    /// Episodes, by time, where it is about those; then there is nothing else.
    #[serde(default)]
    pub episodes: Vec<EpisodeNews>,
}

impl Message {
    /// News for an owner, about things with these keys; what they are has to be filled in. The same keys make the same
    /// id.
    pub fn news(cluster: &str, owner: &str, at: Micros, level: Level, keys: &[String]) -> Self {
        let mut hash = Sha256::new();
        for text in [cluster, owner].into_iter().chain(keys.iter().map(String::as_str)) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Self {
            id: hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect(),
            cluster: cluster.to_owned(),
            owner: owner.to_owned(),
            at,
            reason: Reason::News,
            level: Some(level),
            alerts: Vec::new(),
            over: Vec::new(),
            deeds: Vec::new(),
            episodes: Vec::new(),
        }
    }
}

/// What is new about an episode: that it began, that it got worse, that it is over. (Grades: docs/judge.md.)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpisodeNews {
    /// The episode's id.
    pub id: String,
    pub grade: String,
    /// How grave that is.
    pub level: Level,
    /// From when.
    pub from: Micros,
    /// Until when, or up to when it was seen.
    pub to: Micros,
    /// Whether it is over.
    pub is_over: bool,
    /// Whether it was reported before with a lower severity.
    pub is_worse: bool,
    /// Grade, state, impact and likely cause in one sentence.
    pub headline: String,
    /// The kind of its likely cause; empty where none is likely.
    pub cause: String,
    /// The client that is the likely cause, if one is.
    pub user: String,
    /// What to do first; empty where nothing is known.
    pub step: String,
}

impl EpisodeNews {
    /// The same however often it is seen; another where it got worse, or is over.
    pub fn key(&self) -> String {
        format!("episode {} {}{}", self.id, self.grade, if self.is_over { " over" } else { "" })
    }
}

/// A dangerous operation as it is reported, or several of one kind by one actor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardEvent {
    /// When the first was answered.
    pub at: Micros,
    /// When the last was.
    pub last: Micros,
    /// Its kind, as docs/commands/guard.md names it.
    pub kind: String,
    /// How grave it is.
    pub level: Level,
    /// Who asked.
    pub user: String,
    /// As whom, where that is somebody else.
    pub impersonated: String,
    /// The product of the user agent.
    pub agent: String,
    /// From where.
    pub source: String,
    /// What was done, in words.
    pub what: String,
    /// What came of it, in words.
    pub outcome: String,
    /// How many so far.
    pub count: u64,
    /// Group of the resource.
    pub group: String,
    pub resource: String,
    /// Namespaces that it touches.
    pub namespaces: Vec<String>,
    /// What would have stopped it.
    pub stopped_by: String,
    /// The first event, to find it again.
    pub audit_id: String,
}

impl GuardEvent {
    /// The same however often it is read; another where it got worse.
    pub fn id(&self) -> String {
        format!("{} {} {} {} {}", self.at, self.kind, self.level.name(), self.user, self.audit_id)
    }
}

/// A message as it is sent, and to whom it has still to go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// What is said.
    pub message: Message,
    /// Addresses for mail, by channel.
    pub to: BTreeMap<String, Vec<String>>,
    /// The subject of a mail.
    pub subject: String,
    /// Text for mail and stdout.
    pub text: String,
    /// Text for Slack.
    pub slack: String,
    /// Channels that have not taken it yet.
    pub channels: Vec<String>,
}

/// What is remembered of an alert between runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// As it was last seen above its limit.
    pub gauge: Gauge,
    /// How near it is now, or was at last.
    pub level: Level,
    /// The worst since the last message.
    pub worst: Level,
    /// Since when.
    pub since: Micros,
    /// Until when, where it is over.
    pub ended: Option<Micros>,
    /// What the last message said of it.
    #[serde(rename = "told")]
    pub reported: Option<Level>,
}

/// What is remembered of an owner between runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Messages so far.
    pub count: u64,
    /// When the last was decided.
    pub last: Option<Micros>,
    /// What is watched, ordered by key.
    pub watched: Vec<Watched>,
}
