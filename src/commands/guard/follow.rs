//! `plimsoll guard events --follow`: a tripwire. What is dangerous is told as it is logged.

use super::events::wants;
use crate::actions::notify::deliver::Standing;
use crate::actions::notify::store::{self, State, Store};
use crate::analysis::guard::report::news;
use crate::analysis::guard::{Batch, Group, Notable, Rule, Tripwire, Watch, message};
use crate::analysis::quota::owners;
use crate::cli::{Context, Error, FailOn, duration_parser};
use crate::commands::messages;
use crate::commands::rollup::{One, Selection};
use crate::commands::traffic_follow::stop_signal;
use crate::model::alert::{Config, Owner};
use crate::model::question;
use crate::model::report::Severity;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::alerts;
use crate::sources::audit::follow::Follower;
use crate::sources::clock::now;
use crate::views::Format;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often what was read is looked at: a message holds what comes within this time.
const TICK: Duration = Duration::from_secs(1);

/// How long to wait where there was nothing to read.
const IDLE: Duration = Duration::from_millis(100);

/// How often a channel that failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// How long the end may take.
const LAST: Duration = Duration::from_secs(5);

/// Flags of `--follow`.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tripwire")]
pub(super) struct FollowFlags {
    /// Read on as the logs grow and are rotated, and tell what is dangerous as it comes: warnings and worse, from now
    /// on, or from --since.
    #[arg(long, conflicts_with_all = ["until", "before", "after"])]
    pub(super) follow: bool,
    /// End after this time [default: on SIGINT or SIGTERM].
    #[arg(long = "for", value_name = "DURATION", requires = "follow", value_parser = duration_parser(0, "30s, 5m, 12h"))]
    length: Option<Duration>,
    /// Send messages by the channels of this configuration (docs/alerts.md), at any hour.
    #[arg(long, value_name = "FILE", requires = "follow")]
    alerts: Option<PathBuf>,
    /// Send them to this owner of the configuration [default: its default].
    #[arg(long, value_name = "NAME", requires = "alerts")]
    owner: Option<String>,
    /// Keep in this folder what was told and what has still to be sent [default: plimsoll/guard in the user's state
    /// folder].
    #[arg(long, value_name = "DIR", requires = "alerts")]
    state: Option<PathBuf>,
    /// Try to deliver for so long at a time; reading waits.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "alerts", value_parser = duration_parser(0, "30s, 5m, 12h"))]
    give_up: Duration,
}

/// Runs the command.
pub(super) fn run(
    question: &question::GuardEvents,
    flags: &FollowFlags,
    mut selection: Selection,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    selection.since.get_or_insert(context.io.now);
    let least = question.severity.unwrap_or(Severity::Warning);
    let mut mail = flags.alerts.as_ref().map(|path| Mail::open(path, flags)).transpose()?;
    let end = flags.length.map(|length| Instant::now() + length);
    let stop = stop_signal()?;
    let mut follower = Follower::open(&question.sources);
    follower.within(selection.since, selection.until);
    if follower.is_empty() {
        let errors: Vec<String> = follower.errors.iter().map(ToString::to_string).collect();
        return Err(Error::Input(errors.join("\nplimsoll: ")));
    }
    for error in &follower.errors {
        context.lost(error)?;
    }
    for folder in &follower.waiting {
        context.say(format!("{folder}: no audit log here yet; waiting for one"))?;
    }
    let mut worker = One { observer: Watch::default(), selection: &selection };
    let mut wire = Tripwire::new(question.window);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let mut told = 0;
    while !is_over() && !follower.is_done() {
        let next = Instant::now() + TICK;
        let is_new =
            |one: &Notable| wants(question, one) && !mail.as_ref().is_some_and(|mail| mail.was_told(&one.id()));
        let mut take = |batch: Batch| wire.take(batch, is_new);
        let more = follower.poll(&mut worker, &mut || !is_over() && Instant::now() < next, &mut take);
        told += tell(wire.news(least), mail.as_mut(), context)?;
        if !more {
            std::thread::sleep(IDLE);
        }
    }
    let last = Instant::now() + LAST;
    let is_new = |one: &Notable| wants(question, one) && !mail.as_ref().is_some_and(|mail| mail.was_told(&one.id()));
    let mut take = |batch: Batch| wire.take(batch, is_new);
    if !follower.finish(&mut worker, &mut || Instant::now() < last, &mut take) {
        context.lost("ended before all that is in the logs had been read; let it run for longer")?;
    }
    told += tell(wire.news(least), mail.as_mut(), context)?;
    follower.outcome().losses.iter().try_for_each(|loss| context.lost(loss))?;
    if let Some(mail) = &mut mail {
        mail.end(context)?;
    }
    context.say(format!("{} looked at, {} told", counted(wire.events(), "request"), counted(told, "operation")))
}

/// Prints what is new, and sends it; how many there were.
fn tell(mut groups: Vec<Group>, mail: Option<&mut Mail>, context: &mut Context<'_>) -> Result<u64, Error> {
    if let Some(mail) = &mail {
        groups.retain(|group| !group.deed().is_some_and(|deed| mail.was_told(&deed.id())));
    }
    if !groups.is_empty() {
        context.print(&news(&groups), FailOn::Never)?;
        // Further ones go on below.
        context.settings.style.headers &= !matches!(context.settings.format, Format::Csv);
    }
    if let Some(mail) = mail {
        mail.tell(&groups, context)?;
    }
    Ok(groups.len() as u64)
}

/// Messages, and what is remembered of them.
struct Mail {
    config: Config,
    owner: Owner,
    store: Store,
    state: State,
    give_up: Duration,
    /// When what is left is tried again.
    again: Option<Instant>,
}

impl Mail {
    fn open(path: &std::path::Path, flags: &FollowFlags) -> Result<Self, Error> {
        let config = alerts::read(path).map_err(Error::Usage)?;
        let owner = match &flags.owner {
            Some(name) if !config.owners.iter().any(|owner| owner.name == *name) => {
                let names: Vec<&str> = config.owners.iter().map(|owner| owner.name.as_str()).collect();
                return Err(Error::Usage(format!(
                    "--owner {name}: {} has no such owner; there are: {}",
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
        Ok(Self { config, owner, store, state, give_up: flags.give_up, again })
    }

    /// Whether this run or an earlier one told the operation, or the row, of this id.
    fn was_told(&self, id: &str) -> bool {
        self.state.told.contains_key(id)
    }

    /// Sends these, and what is left from before.
    fn tell(&mut self, groups: &[Group], context: &mut Context<'_>) -> Result<(), Error> {
        let now = now();
        let mut by_cluster: BTreeMap<&str, Vec<Group>> = BTreeMap::new();
        for group in groups {
            let cluster = if self.config.cluster.is_empty() { &group.first.cluster } else { &self.config.cluster };
            by_cluster.entry(cluster).or_default().push(group.clone());
        }
        let mut is_new = false;
        for (cluster, groups) in by_cluster {
            if let Some(message) = message(&groups, cluster, &self.owner.name, now) {
                self.state.told.extend(message.deeds.iter().map(|deed| (deed.id(), now)));
                // Of kinds of which each counts each is remembered: what comes later is told without it.
                let each = groups.iter().filter(|group| {
                    group.deed().is_some() && Rule::of(group.first.kind).is_some_and(|rule| rule.least == 1)
                });
                self.state.told.extend(each.flat_map(|group| group.ids.iter().map(|id| (id.clone(), now))));
                self.state.outbox.push(messages::parcel(&self.owner, &message, &self.config)?);
                is_new = true;
            }
        }
        if is_new || self.again.is_some_and(|again| Instant::now() >= again) { self.send(now, context) } else { Ok(()) }
    }

    fn send(&mut self, now: Micros, context: &mut Context<'_>) -> Result<(), Error> {
        let Self { config, store, state, .. } = self;
        messages::give_up(state, config.keep, now, context)?;
        let keep = Micros::try_from(config.keep.as_micros()).unwrap_or(Micros::MAX);
        state.told.retain(|_, at| now.saturating_sub(*at) <= keep);
        state.at = now;
        // From here on nothing is forgotten.
        store.save(state).map_err(Error::Input)?;
        let (_, outcomes) = messages::send(state, store, config, &Standing::default(), self.give_up, context);
        let failed: BTreeMap<&str, &String> =
            outcomes.iter().filter_map(|one| Some((one.channel.as_str(), one.result.as_ref().err()?))).collect();
        for (channel, error) in failed {
            context.warn(format!("channel {channel}: {error}; it is tried again"))?;
        }
        if let Err(error) = store.save(state) {
            context.warn(error)?;
        }
        self.again = (!state.outbox.is_empty()).then(|| Instant::now() + AGAIN);
        Ok(())
    }

    /// A last try; what is left is for the next run.
    fn end(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
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
