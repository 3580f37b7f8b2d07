//! Sends what is in the outbox: each channel on its own, so that one that fails or hangs does not hold up others.

use super::Fault;
use super::standing::Standing;
use super::store::Store;
use crate::model::alert::{Channel, ChannelKind, OutboxEntry};
use crate::sources::retry::{Retries, RetryAfter, RetryPolicy};
use std::io::Write;
use std::time::{Duration, Instant};

/// The longest that one try may take.
const TRY: Duration = Duration::from_secs(10);

/// The time to deliver ends the tries, whatever their number.
const RETRIES: RetryPolicy = RetryPolicy {
    tries: u32::MAX,
    first_pause: Duration::from_millis(500),
    longest_pause: Duration::from_secs(30),
    total_pause: Duration::MAX,
    asked: RetryAfter::Lengthens,
};

/// What became of a parcel on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The message's id; empty for what Alertmanager is to go on knowing.
    pub id: String,
    pub channel: String,
    /// Whether it was taken, and if not, why.
    pub result: Result<(), String>,
    /// How often it was tried.
    pub tries: u32,
}

/// What takes messages.
trait Sender {
    /// Sends a parcel; takes at most `within`.
    fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault>;
    /// Says again what still stands, where the receiver wants that.
    fn remind(&mut self, _: &Standing, _: &str, _: Duration) -> Result<(), Fault> {
        Ok(())
    }
}

/// Sends parcels, the oldest first, and records each that is taken. No channel takes longer than `patience`; what could
/// not be sent until then stays where it is. Gives an outcome for each parcel and channel.
pub fn deliver(
    parcels: &[OutboxEntry],
    channels: &[Channel],
    standing: &Standing,
    store: &Store,
    patience: Duration,
    out: &mut dyn Write,
) -> Vec<Outcome> {
    let end = Instant::now() + patience;
    let of = |name: &str| {
        parcels.iter().filter(|parcel| parcel.channels.iter().any(|channel| channel == name)).collect::<Vec<_>>()
    };
    let mut outcomes = Vec::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for channel in channels.iter().filter(|channel| channel.way != ChannelKind::Stdout) {
            let (parcels, worker) = (of(&channel.name), Worker { channel, store, end });
            running.push((channel, scope.spawn(move || worker.run(&parcels, standing))));
        }
        for channel in channels.iter().filter(|channel| channel.way == ChannelKind::Stdout) {
            let worker = Worker { channel, store, end };
            outcomes.extend(worker.all(&mut Printer(out), &of(&channel.name)));
        }
        for (channel, thread) in running {
            outcomes.extend(thread.join().unwrap_or_else(|_| {
                let (id, channel, result) =
                    (String::new(), channel.name.clone(), Err("it ended unexpectedly".to_owned()));
                vec![Outcome { id, channel, result, tries: 0 }]
            }));
        }
    });
    // Of a channel that is no longer configured.
    for parcel in parcels {
        for name in parcel.channels.iter().filter(|name| !channels.iter().any(|channel| channel.name == **name)) {
            let result = Err("this channel is no longer configured".to_owned());
            outcomes.push(Outcome { id: parcel.message.id.clone(), channel: name.clone(), result, tries: 0 });
        }
    }
    outcomes
}

struct Worker<'a> {
    channel: &'a Channel,
    store: &'a Store,
    end: Instant,
}

impl Worker<'_> {
    fn run(&self, parcels: &[&OutboxEntry], standing: &Standing) -> Vec<Outcome> {
        let name = &self.channel.name;
        let listens = matches!(self.channel.way, ChannelKind::Alertmanager { .. });
        let has = |owner: &String| standing.channels.get(owner).is_some_and(|channels| channels.contains(name));
        let reminds = listens && standing.alerts.iter().any(|(owner, alerts)| !alerts.is_empty() && has(owner));
        if parcels.is_empty() && !reminds {
            return Vec::new();
        }
        let mut sender = match open(self.channel) {
            Ok(sender) => sender,
            Err(error) => {
                let outcome = |id: &str| Outcome {
                    id: id.to_owned(),
                    channel: name.clone(),
                    result: Err(error.clone()),
                    tries: 0,
                };
                let ids = parcels.iter().map(|parcel| parcel.message.id.as_str());
                return ids.chain((reminds && parcels.is_empty()).then_some("")).map(outcome).collect();
            }
        };
        let mut outcomes = self.all(&mut *sender, parcels);
        // An old parcel that is sent later would undo what is said now.
        if reminds && outcomes.iter().all(|outcome| outcome.result.is_ok()) {
            let (result, tries) = self.insist(|within| sender.remind(standing, name, within));
            if let Err(error) = result {
                let result = Err(format!("no notification sent; these are still open: {}", error.0));
                outcomes.push(Outcome { id: String::new(), channel: name.clone(), result, tries });
            }
        }
        outcomes
    }

    fn all(&self, sender: &mut dyn Sender, parcels: &[&OutboxEntry]) -> Vec<Outcome> {
        let name = &self.channel.name;
        let mut outcomes = Vec::with_capacity(parcels.len());
        let mut stalled: Option<String> = None;
        for parcel in parcels {
            let id = parcel.message.id.clone();
            let (result, tries) = match &stalled {
                Some(error) => (Err(error.clone()), 0),
                None => {
                    let (result, tries) = self.insist(|within| sender.send(parcel, within));
                    let result = result.map_err(|(error, is_over)| {
                        if is_over {
                            stalled = Some(format!("not sent, because the channel rejected an older message: {error}"));
                        }
                        error
                    });
                    (result, tries)
                }
            };
            let result = result.and_then(|()| {
                self.store.sent(&id, name).map_err(|error| {
                    // Whatever is sent now would be sent again.
                    stalled = Some(format!("not sent: the delivery can't be recorded: {error}"));
                    format!("sent, but the delivery could not be recorded, so it will be sent again: {error}")
                })
            });
            outcomes.push(Outcome { id, channel: name.clone(), result, tries });
        }
        outcomes
    }

    /// Tries until it is done, refused, or the time is over; then the error, and whether others need not be tried.
    fn insist(&self, mut attempt: impl FnMut(Duration) -> Result<(), Fault>) -> (Result<(), (String, bool)>, u32) {
        let mut retries = Retries::new(RETRIES);
        let mut tries = 0;
        loop {
            let within = self.end.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(100), TRY);
            tries += 1;
            match attempt(within) {
                Ok(()) => return (Ok(()), tries),
                Err(Fault::Refused(error)) => return (Err((error, false)), tries),
                Err(Fault::Later(error, asked)) => {
                    let left = self.end.saturating_duration_since(Instant::now());
                    let Some(wait) = retries.pause(asked).filter(|wait| *wait < left) else {
                        return (Err((error, true)), tries);
                    };
                    std::thread::sleep(wait);
                }
            }
        }
    }
}

/// Standard output.
struct Printer<'o>(&'o mut dyn Write);

impl Sender for Printer<'_> {
    fn send(&mut self, parcel: &OutboxEntry, _: Duration) -> Result<(), Fault> {
        let text = format!("Subject: {}\n\n{}\n", parcel.subject, parcel.text);
        self.0
            .write_all(text.as_bytes())
            .and_then(|()| self.0.flush())
            .map_err(|error| Fault::Refused(error.to_string()))
    }
}

#[cfg(feature = "live")]
fn open(channel: &Channel) -> Result<Box<dyn Sender>, String> {
    let ca = channel.ca_file.as_deref();
    Ok(match &channel.way {
        ChannelKind::Alertmanager { url, login, hold, labels, link } => {
            Box::new(super::alertmanager::Alertmanager::new(url, login.as_ref(), *hold, labels, link.as_deref(), ca)?)
        }
        ChannelKind::Webhook { url, login, key } => {
            Box::new(super::webhook::Webhook::new(url, login.as_ref(), key.as_ref(), ca)?)
        }
        ChannelKind::Slack { url } => Box::new(super::slack::Slack::new(url, ca)?),
        ChannelKind::Smtp { server, port, tls, login, from, .. } => {
            Box::new(super::smtp::Mailer::new(&channel.name, server, *port, *tls, login.as_ref(), from, ca)?)
        }
        ChannelKind::Stdout => return Err("stdout can't be used from a delivery thread".to_owned()),
    })
}

#[cfg(not(feature = "live"))]
fn open(channel: &Channel) -> Result<Box<dyn Sender>, String> {
    Err(format!("this plimsoll was built without the 'live' feature and can't send to {}", channel.way.kind()))
}

#[cfg(feature = "live")]
mod ways {
    //! The channels as senders.

    use super::Sender;
    use crate::actions::notify::standing::Standing;
    use crate::actions::notify::{Fault, alertmanager::Alertmanager, slack::Slack, smtp::Mailer, webhook::Webhook};
    use crate::model::alert::OutboxEntry;
    use std::time::Duration;

    impl Sender for Alertmanager {
        fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
            Self::send(self, parcel, within)
        }
        fn remind(&mut self, standing: &Standing, name: &str, within: Duration) -> Result<(), Fault> {
            Self::remind(self, standing, name, within)
        }
    }

    impl Sender for Webhook {
        fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
            Self::send(self, parcel, within)
        }
    }

    impl Sender for Slack {
        fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
            Self::send(self, parcel, within)
        }
    }

    impl Sender for Mailer {
        fn send(&mut self, parcel: &OutboxEntry, within: Duration) -> Result<(), Fault> {
            Self::send(self, parcel, within)
        }
    }
}
