//! Messages of what is followed: sent by the channels of a configuration, once each, also if the run is killed between.

use crate::actions::notify::standing::Standing;
use crate::actions::notify::store::{self, State, Store};
use crate::analysis::guard::message;
use crate::analysis::quota::owners;
use crate::cli::{Context, Error, duration_parser};
use crate::jobs::messages;
use crate::model::alert::{Config, EpisodeNews, GuardEvent, Message, Owner};
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::alerts;
use crate::sources::clock::now;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a channel that failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Flags of messages.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct MailFlags {
    /// Send alerts through the channels in this file (docs/alerts.md), at any hour.
    #[arg(long, value_name = "FILE", requires = "follow")]
    alerts: Option<PathBuf>,
    /// Send alerts to this owner, as the file names it [default: the file's default owner].
    #[arg(long, value_name = "NAME", requires = "alerts")]
    owner: Option<String>,
    /// Keep the state (sent and pending messages) in this folder [default: plimsoll/guard in the user's state
    /// folder].
    #[arg(long, value_name = "DIR", requires = "alerts")]
    state: Option<PathBuf>,
    /// Try to deliver for at most this long at a time; reading pauses meanwhile.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "alerts",
        value_parser = duration_parser(0, "30s, 5m, 12h"))]
    give_up: Duration,
}

/// Messages, and what is remembered of them.
pub(super) struct Mail {
    config: Config,
    owner: Owner,
    store: Store,
    state: State,
    give_up: Duration,
    /// When what is left is tried again.
    again: Option<Instant>,
}

impl Mail {
    /// `None` without `--alerts`.
    pub(super) fn open(flags: &MailFlags) -> Result<Option<Self>, Error> {
        let Some(path) = &flags.alerts else { return Ok(None) };
        let config = alerts::read(path).map_err(Error::usage)?;
        let owner = match &flags.owner {
            Some(name) if !config.owners.iter().any(|owner| owner.name == *name) => {
                let names: Vec<&str> = config.owners.iter().map(|owner| owner.name.as_str()).collect();
                return Err(Error::Usage(format!(
                    "--owner {name}: {} has no such owner; use one of: {}",
                    path.display(),
                    names.join(", ")
                )));
            }
            name => owners::resolve(&config, name.as_deref().unwrap_or_default()),
        };
        let folder = flags.state.clone().map_or_else(|| store::default_folder("guard"), Ok).map_err(Error::Usage)?;
        let (store, state) = Store::open(&folder, flags.give_up).map_err(Error::Input)?;
        // What an earlier run left is tried at once.
        let again = (!state.outbox.is_empty()).then(Instant::now);
        Ok(Some(Self { config, owner, store, state, give_up: flags.give_up, again }))
    }

    /// Whether this run or an earlier one reported the operation, or the row, of this id.
    pub(super) fn was_reported(&self, id: &str) -> bool {
        self.state.reported.contains_key(id)
    }

    /// The ids of what this run or an earlier one reported.
    pub(super) fn reported(&self) -> impl Iterator<Item = &str> {
        self.state.reported.keys().map(String::as_str)
    }

    /// Sends these, by cluster, and what is left from before; remembers these ids beside theirs.
    pub(super) fn report_operations(
        &mut self,
        deeds: Vec<(String, GuardEvent)>,
        ids: Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let now = now();
        let mut by_cluster: BTreeMap<String, Vec<GuardEvent>> = BTreeMap::new();
        for (cluster, deed) in deeds {
            by_cluster.entry(self.cluster(&cluster)).or_default().push(deed);
        }
        for (cluster, deeds) in by_cluster {
            let keys = deeds.iter().map(GuardEvent::id).collect();
            if let Some(message) = message(deeds, &cluster, &self.owner.name, now) {
                self.post(&message, keys)?;
            }
        }
        self.state.reported.extend(ids.into_iter().map(|id| (id, now)));
        self.send_due(now, context)
    }

    /// Sends news of episodes of a cluster, and what is left from before.
    pub(super) fn report_episodes(
        &mut self,
        episodes: Vec<EpisodeNews>,
        cluster: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let now = now();
        if let Some(level) = episodes.iter().map(|own| own.level).max() {
            let keys: Vec<String> = episodes.iter().map(EpisodeNews::key).collect();
            let message = Message::news(&self.cluster(cluster), &self.owner.name, now, level, &keys);
            self.post(&Message { episodes, ..message }, keys)?;
        }
        self.send_due(now, context)
    }

    /// The configuration's name of the cluster goes before that of the sources.
    fn cluster(&self, of_sources: &str) -> String {
        let own = &self.config.cluster;
        if own.is_empty() { of_sources.to_owned() } else { own.clone() }
    }

    /// Puts a message into the outbox, to be sent at once, and remembers what it is about.
    fn post(&mut self, message: &Message, keys: Vec<String>) -> Result<(), Error> {
        self.state.outbox.push(messages::parcel(&self.owner, message, &self.config)?);
        self.state.reported.extend(keys.into_iter().map(|key| (key, message.at)));
        self.again = Some(Instant::now());
        Ok(())
    }

    /// Sends what is in the outbox, where something is new or the time has come to try again.
    fn send_due(&mut self, now: Micros, context: &mut Context<'_>) -> Result<(), Error> {
        if self.again.is_some_and(|again| Instant::now() >= again) { self.send(now, context) } else { Ok(()) }
    }

    fn send(&mut self, now: Micros, context: &mut Context<'_>) -> Result<(), Error> {
        let Self { config, store, state, .. } = self;
        messages::give_up(state, config.keep, now, context)?;
        let keep = Micros::try_from(config.keep.as_micros()).unwrap_or(Micros::MAX);
        state.reported.retain(|_, at| now.saturating_sub(*at) <= keep);
        state.at = now;
        // From here on nothing is forgotten.
        store.save(state).map_err(Error::Input)?;
        let (_, outcomes) = messages::send(state, store, config, &Standing::default(), self.give_up, context);
        let failed: BTreeMap<&str, &String> =
            outcomes.iter().filter_map(|one| Some((one.channel.as_str(), one.result.as_ref().err()?))).collect();
        for (channel, error) in failed {
            context.warn(format!("channel {channel}: {error}; retrying"))?;
        }
        if let Err(error) = store.save(state) {
            context.warn(error)?;
        }
        self.again = (!state.outbox.is_empty()).then(|| Instant::now() + AGAIN);
        Ok(())
    }

    /// A last try; what is left is for the next run.
    pub(super) fn end(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if self.again.is_some() {
            self.send(now(), context)?;
        }
        if self.state.outbox.is_empty() {
            return Ok(());
        }
        context.lost(format!(
            "{} in the outbox, to be sent when it runs again",
            counted(self.state.outbox.len() as u64, "message")
        ))
    }
}
