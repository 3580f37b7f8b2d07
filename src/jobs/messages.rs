//! Messages of a command: made from what is to be reported, kept until they are delivered, and given up after a while.

use crate::actions::notify::deliver::{self, Outcome};
use crate::actions::notify::standing::Standing;
use crate::actions::notify::store::{State, Store};
use crate::analysis::quota::owners;
use crate::cli::{Context, Error};
use crate::model::alert::{Channel, ChannelKind, Config, Message, OutboxEntry, Owner};
use crate::model::time::{self, Micros};
use crate::model::units::counted;
use crate::views::message;
use std::collections::BTreeMap;
use std::time::Duration;

/// A message with its texts and addresses, for all channels of its owner.
pub(crate) fn parcel(owner: &Owner, message: &Message, config: &Config) -> Result<OutboxEntry, Error> {
    let message::Rendered { subject, text, slack } =
        message::render(message, &config.templates).map_err(Error::Usage)?;
    let addresses = |channel: &Channel| match &channel.way {
        ChannelKind::Smtp { to, .. } if owner.channels.contains(&channel.name) => {
            Some((channel.name.clone(), owners::addresses(owner, to)))
        }
        _ => None,
    };
    let to = config.channels.iter().filter_map(addresses).collect();
    Ok(OutboxEntry { message: message.clone(), to, subject, text, slack, channels: owner.channels.clone() })
}

/// Forgets what could not be delivered for too long, and says so.
pub(crate) fn give_up(state: &mut State, keep: Duration, now: Micros, context: &mut Context<'_>) -> Result<(), Error> {
    let keep = Micros::try_from(keep.as_micros()).unwrap_or(Micros::MAX);
    let (kept, old): (Vec<OutboxEntry>, Vec<OutboxEntry>) =
        std::mem::take(&mut state.outbox).into_iter().partition(|parcel| now.saturating_sub(parcel.message.at) <= keep);
    state.outbox = kept;
    for OutboxEntry { message, channels, .. } in old {
        let (id, channels) = (message.id, channels.join(", "));
        context.lost(format!(
            "message {id} to {} of {}: {channels} never accepted it; it is dropped",
            message.owner,
            time::format(message.at)
        ))?;
    }
    Ok(())
}

/// Sends what is in the outbox, which holds afterwards what is left; what was in it before, and what became of it.
pub(crate) fn send(
    state: &mut State,
    store: &Store,
    config: &Config,
    standing: &Standing,
    patience: Duration,
    context: &mut Context<'_>,
) -> (Vec<OutboxEntry>, Vec<Outcome>) {
    let outcomes = deliver::deliver(&state.outbox, &config.channels, standing, store, patience, &mut context.io.out);
    let sent = state.outbox.clone();
    for parcel in &mut state.outbox {
        let id = &parcel.message.id;
        let is_taken =
            |name: &String| outcomes.iter().any(|one| one.id == *id && one.channel == *name && one.result.is_ok());
        parcel.channels.retain(|name| !is_taken(name));
    }
    state.outbox.retain(|parcel| !parcel.channels.is_empty());
    (sent, outcomes)
}

/// Says which channels failed, once each.
pub(crate) fn complain(outcomes: &[Outcome], context: &mut Context<'_>) -> Result<(), Error> {
    let mut failed: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for outcome in outcomes {
        if let Err(error) = &outcome.result {
            failed.entry(&outcome.channel).or_insert((0, error)).0 += u64::from(!outcome.id.is_empty());
        }
    }
    for (channel, (count, error)) in failed {
        let left = if count > 0 {
            format!("; {} in the outbox, to be sent at the next run", counted(count, "message"))
        } else {
            String::new()
        };
        context.lost(format!("channel {channel}: {error}{left}"))?;
    }
    Ok(())
}
