//! `plimsoll quota alert`: notifies owners whose quotas come near their limits. Made for cron.

use super::check::{self, Flags};
use crate::actions::notify::deliver::Outcome;
use crate::actions::notify::standing::Standing;
use crate::actions::notify::store::{self, State, Store};
use crate::analysis::quota::check::Checked;
use crate::analysis::quota::digest::{self, Decided};
use crate::analysis::quota::{calendar, owners};
use crate::cli::{Context, Error, FailOn, duration_parser};
use crate::inputs::quotas::{self, NEEDED, QuotaOptions, SourceFlags};
use crate::jobs::messages;
use crate::model::alert::{Channel, ChannelKind, Config, Level, Message, OutboxEntry, Reason};
use crate::model::input::InputReport;
use crate::model::question;
use crate::model::report::{Report, Table, Value};
use crate::model::time::{self, Micros, SECOND};
use crate::model::units::counted;
use crate::sources::alerts;
use crate::views::text::plain;
use crate::views::{Format, message};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Notify owners whose quotas come near their limits.
///
/// Each owner gets one message with all that is theirs: when something comes nearer to its limit, again after --repeat
/// if it still stands, and once when all is over; in working hours, but for what is critical. What could not be
/// delivered is sent at the next run. Exit codes: 0 all that was due is delivered, 2 usage, 3 something could not be
/// read or delivered.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # who would get what, and when
  plimsoll quota alert --alerts alerts.yaml --dry-run
  plimsoll quota alert --alerts alerts.yaml --state /var/lib/plimsoll/alerts
  plimsoll quota alert captures/ --alerts alerts.yaml --warn 70% --days 14

docs/alerts.md has the configuration, the rules, and what each channel is sent.")]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    flags: Flags,
    /// Repeat open alerts after this time (default 24h).
    #[arg(long, value_name = "TIME", value_parser = duration_parser(0, "30s, 90m, 24h, 7d"), help_heading = "Messages")]
    repeat: Option<Duration>,
    /// Use the templates subject.txt, text.txt and slack.txt of this folder, where they exist.
    #[arg(long, value_name = "DIR", help_heading = "Messages")]
    template: Option<PathBuf>,
    /// Keep the state (sent and pending messages) in this folder (default: plimsoll/alerts in the user's state
    /// folder).
    #[arg(long, value_name = "DIR", env = "PLIMSOLL_ALERT_STATE", help_heading = "Messages")]
    state: Option<PathBuf>,
    /// Try to deliver for this long; also the longest wait for another run.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration_parser(0, "30s, 90m, 24h, 7d"),
        help_heading = "Messages")]
    give_up: Duration,
    /// Show recipients, messages and times; send and store nothing.
    #[arg(long, help_heading = "Messages")]
    dry_run: bool,
    /// Use this as the current time: for tests.
    #[arg(long, value_name = "TIME", hide = true)]
    now: Option<jiff::Timestamp>,
}

impl Args {
    /// What is checked.
    fn question(&self, now: Micros) -> Result<question::QuotaCheck, Error> {
        Ok(self.flags.question(self.source.question(now)?))
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if let Some(now) = args.now {
        context.io.now = now.as_microsecond();
    }
    let now = context.io.now;
    if args.flags.alerts.is_none() {
        return Err(Error::Usage(
            "--alerts FILE is missing: it configures who is notified, and how (docs/alerts.md has one to begin with)"
                .to_owned(),
        ));
    }
    let mut config = check::config(&args.question(now)?)?;
    if let Some(repeat) = args.repeat {
        config.repeat = repeat;
    }
    if let Some(folder) = &args.template {
        config.templates =
            alerts::read_templates(folder).map_err(|error| Error::Usage(format!("--template: {error}")))?;
    }
    // A template that is wrong is to be found before something has to be reported.
    message::render(&trial(), &config.templates).map_err(Error::Usage)?;
    let folder = args.state.clone().map_or_else(|| store::default_folder("alerts"), Ok).map_err(Error::Usage)?;

    let read = look(args, &config, context);
    if args.dry_run {
        let Seen { cluster, checked, whole, inputs } = read?;
        let mut state = store::peek(&folder).map_err(Error::Input)?;
        let decided = digest::step(&mut state.watches, &config, &cluster, &checked, now, whole);
        messages::give_up(&mut state, config.keep, now, context)?;
        // As the real run makes them, so that what is wrong with a text is found here.
        let parcels = decided.messages.iter().map(|(owner, message)| messages::parcel(owner, message, &config));
        let parcels = parcels.collect::<Result<Vec<OutboxEntry>, Error>>()?;
        let rows = rows(&decided, &state.outbox, &config, None);
        let mut report = report(rows, inputs, now, "would be sent");
        report.more.insert("texts".to_owned(), parcels.iter().map(text_of).collect());
        context.print(&report, FailOn::Never)?;
        if matches!(context.settings.format, Format::Table | Format::Wide) {
            for parcel in &parcels {
                let owner = if parcel.message.owner.is_empty() { "nobody" } else { &parcel.message.owner };
                let (owner, subject) = (plain(owner), plain(&parcel.subject));
                write!(
                    context.io.out,
                    "\nto {owner} by {}\nSubject: {subject}\n\n{}",
                    parcel.channels.join(", "),
                    parcel.text
                )?;
            }
        }
        return Ok(());
    }
    let (store, mut state) = Store::open(&folder, args.give_up).map_err(Error::Input)?;
    let mut decided = Decided::default();
    let mut inputs = Vec::new();
    let failed = match read {
        Ok(seen) => {
            decided = digest::step(&mut state.watches, &config, &seen.cluster, &seen.checked, now, seen.whole);
            inputs = seen.inputs;
            for (owner, message) in &decided.messages {
                state.outbox.push(messages::parcel(owner, message, &config)?);
            }
            state.at = now;
            state.cluster = seen.cluster;
            None
        }
        // What is due from before is sent all the same.
        Err(error) => Some(error),
    };
    messages::give_up(&mut state, config.keep, now, context)?;
    // From here on nothing is forgotten.
    store.save(&state).map_err(Error::Input)?;
    let standing = standing(&state, &config, now);
    let (sent, outcomes) = messages::send(&mut state, &store, &config, &standing, args.give_up, context);
    messages::complain(&outcomes, context)?;
    if let Err(error) = store.save(&state) {
        // Its record is on the disk already.
        context.lost(error)?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let rows = rows(&decided, &sent, &config, Some(&outcomes));
    let report = report(rows, inputs, now, "sent");
    let is_printed = config.channels.iter().any(|channel| channel.way == ChannelKind::Stdout);
    if is_printed {
        // The messages themselves are on stdout.
        return report.lead.iter().try_for_each(|line| context.notice(line));
    }
    context.print(&report, FailOn::Never)
}

/// A message as a receiver will see it.
fn text_of(parcel: &OutboxEntry) -> Json {
    let OutboxEntry { message, subject, text, channels, to, .. } = parcel;
    json!({"message_id": message.id, "owner": message.owner, "channels": channels, "to": to, "subject": subject,
        "text": text})
}

/// What was read.
struct Seen {
    cluster: String,
    checked: Vec<Checked>,
    whole: bool,
    inputs: Vec<InputReport>,
}

fn look(args: &Args, config: &Config, context: &mut Context<'_>) -> Result<Seen, Error> {
    let sources = args.source.question(context.io.now)?;
    let asked = QuotaOptions { sources: &sources, access: Some(&args.source) };
    let mut read = quotas::read_kinds(asked, &|kind| NEEDED.contains(&kind), context)?;
    let mut checked = check::look(&mut read, &sources.namespaces, config);
    // Of what nobody knows nothing is over, and nothing begins.
    checked.retain(|own| !own.gauge.used.is_empty());
    if checked.is_empty() {
        context.notice("no quotas in these sources; open alerts stay open")?;
    }
    // What is missing is over only if all could be read, and is known.
    let lost =
        matches!(context.verdict(), Err(Error::Partial)) || check::tell_unknown(&read.quotas.standings, context)?;
    let whole = !lost && !checked.is_empty() && args.source.namespaces.is_empty();
    let cluster = if config.cluster.is_empty() { read.quotas.cluster } else { config.cluster.clone() };
    Ok(Seen { cluster, checked, whole, inputs: read.inputs })
}

/// A message that has everything, to try templates on.
fn trial() -> Message {
    let (id, cluster, owner) = ("0".repeat(32), "cluster".to_owned(), "owner".to_owned());
    Message {
        id,
        cluster,
        owner,
        at: 0,
        reason: Reason::News,
        level: Some(Level::Warning),
        alerts: Vec::new(),
        over: Vec::new(),
        deeds: Vec::new(),
        episodes: Vec::new(),
    }
}

/// What stands and was reported, and the channels of those who were.
fn standing(state: &State, config: &Config, at: Micros) -> Standing {
    let alerts = digest::standing(&state.watches);
    let channels = alerts
        .keys()
        .map(|name| (owners::resolve(config, name).name, owners::resolve(config, name).channels))
        .collect();
    // As messages name them.
    let alerts = alerts.into_iter().map(|(name, alerts)| (owners::resolve(config, &name).name, alerts)).collect();
    Standing { cluster: state.cluster.clone(), at, alerts, channels }
}

const COLUMNS: [&str; 11] =
    ["owner", "channel", "status", "when", "local", "level", "reason", "alerts", "over", "message_id", "failure"];

/// A row for each message and channel, and for each owner whose news wait.
fn rows(decided: &Decided, outbox: &[OutboxEntry], config: &Config, outcomes: Option<&[Outcome]>) -> Vec<Vec<Value>> {
    let text = |text: &str| Value::Text(text.to_owned());
    let count = |count: usize| Value::Count(count as u64);
    let mut rows = Vec::new();
    let mut add = |message: &Message, channel: &str, status: &str, error: Option<&str>| {
        rows.push(vec![
            text(if message.owner.is_empty() { "(nobody)" } else { &message.owner }),
            text(channel),
            text(status),
            Value::Text(time::format(message.at)),
            Value::None,
            message.level.map(Level::name).into(),
            text(message.reason.name()),
            count(message.alerts.len()),
            count(message.over.len()),
            text(&message.id),
            error.into(),
        ]);
    };
    for parcel in outbox {
        for channel in &parcel.channels {
            let outcome =
                outcomes.and_then(|all| all.iter().find(|one| one.id == parcel.message.id && one.channel == *channel));
            match outcome.map(|outcome| &outcome.result) {
                Some(Ok(())) => add(&parcel.message, channel, "sent", None),
                Some(Err(error)) => add(&parcel.message, channel, "failed", Some(error)),
                None if !config.channels.iter().any(|known| known.name == *channel) => {
                    add(&parcel.message, channel, "failed", Some("the configuration no longer has this channel"));
                }
                None => add(&parcel.message, channel, "from before", None),
            }
        }
    }
    if outcomes.is_none() {
        for (owner, message) in &decided.messages {
            owner.channels.iter().for_each(|channel| add(message, channel, "now", None));
        }
    }
    for waiting in &decided.waiting {
        let until = waiting.until.map_or("never".to_owned(), time::format);
        let local = waiting
            .until
            .zip(waiting.owner.hours.as_ref())
            .map(|(until, hours)| Value::Text(calendar::wall(hours, until)));
        for Channel { name, .. } in
            config.channels.iter().filter(|channel| waiting.owner.channels.contains(&channel.name))
        {
            rows.push(vec![
                text(if waiting.owner.name.is_empty() { "(nobody)" } else { &waiting.owner.name }),
                text(name),
                text("waits"),
                Value::Text(until.clone()),
                local.clone().unwrap_or_default(),
                text(waiting.level.name()),
                text(Reason::News.name()),
                count(waiting.count),
                count(0),
                Value::None,
                Value::None,
            ]);
        }
    }
    rows
}

fn report(rows: Vec<Vec<Value>>, inputs: Vec<InputReport>, now: Micros, done: &str) -> Report {
    let of = |status: &str| rows.iter().filter(|row| row.get(2) == Some(&Value::from(status))).count() as u64;
    let (sent, failed, waiting) = (of("sent") + of("now") + of("from before"), of("failed"), of("waits"));
    let delivered =
        |row: &&Vec<Value>| row.get(2) != Some(&Value::from("waits")) && row.get(2) != Some(&Value::from("failed"));
    let id = |row: &Vec<Value>| if let Some(Value::Text(id)) = row.get(9) { Some(id.clone()) } else { None };
    let ids: BTreeSet<String> = rows.iter().filter(delivered).filter_map(id).collect();
    // One message may go to several channels.
    let several = if sent > ids.len() as u64 { format!(" in {sent} deliveries") } else { String::new() };
    let mut lead = format!("{} {done}{several}", counted(ids.len() as u64, "message"));
    if failed > 0 {
        lead += &format!(", {failed} failed");
    }
    if waiting > 0 {
        lead += &format!(", {waiting} waiting for working hours");
    }
    lead += &format!(", at {}", time::format(now - now.rem_euclid(SECOND)));
    let columns = COLUMNS.map(str::to_owned).to_vec();
    let table =
        Table { name: "messages".to_owned(), columns, rows, headings: vec![("reason", "WHY")], ..Table::default() };
    let totals = vec![
        ("sent".to_owned(), sent.into()),
        ("failed".to_owned(), failed.into()),
        ("waiting".to_owned(), waiting.into()),
    ];
    let mut report = Report {
        schema: "plimsoll.quota-alert/v1".to_owned(),
        inputs,
        table,
        totals,
        lead: vec![lead],
        ..Report::default()
    };
    report.coverage.insert("at".to_owned(), time::format(now).into());
    report
}
