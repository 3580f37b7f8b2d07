//! `plimsoll guard events --follow`: a tripwire. What is dangerous is reported as it is logged.

use super::mail::{Mail, MailFlags};
use crate::analysis::guard::report::news;
use crate::analysis::guard::{Batch, Group, Notable, Rule, Tripwire, Watch, is_of_kinds};
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, FailOn, duration_parser};
use crate::inputs::rollup::One;
use crate::inputs::selection::Selection;
use crate::model::question;
use crate::model::report::Severity;
use crate::model::units::counted;
use crate::sources::audit::follow::Follower;
use crate::views::Format;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often what was read is looked at: a message holds what comes within this time.
const TICK: Duration = Duration::from_secs(1);

/// How long to wait where there was nothing to read.
const IDLE: Duration = Duration::from_millis(100);

/// How long the end may take.
const LAST: Duration = Duration::from_secs(5);

/// Flags of `--follow`.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tripwire")]
pub(super) struct FollowFlags {
    /// Follow logs as they grow and rotate, and report dangerous operations live: warnings and above, from now on, or
    /// from --since.
    #[arg(long, conflicts_with_all = ["until", "before", "after"])]
    pub(super) follow: bool,
    /// Stop after this duration [default: run until SIGINT or SIGTERM].
    #[arg(long = "for", value_name = "DURATION", requires = "follow",
        value_parser = duration_parser(0, "30s, 5m, 12h"))]
    length: Option<Duration>,
    #[command(flatten)]
    mail: MailFlags,
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
    let mut mail = Mail::open(&flags.mail)?;
    let end = flags.length.map(|length| Instant::now() + length);
    let stop = stop_signal()?;
    let mut follower = Follower::open(&question.sources);
    follower.within(selection.since, selection.until);
    if follower.is_empty() {
        return Err(Error::inputs(&follower.errors));
    }
    for error in &follower.errors {
        context.lost(error)?;
    }
    for folder in &follower.waiting {
        context.notice(format!("{folder}: no audit log here yet; waiting for one"))?;
    }
    let mut worker = One { observer: Watch::default(), selection: &selection };
    let mut wire = Tripwire::new(question.window);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let mut reported = 0;
    while !is_over() && !follower.is_done() {
        let next = Instant::now() + TICK;
        let is_new = |one: &Notable| {
            is_of_kinds(one, &question.kinds) && !mail.as_ref().is_some_and(|mail| mail.was_reported(&one.id()))
        };
        let mut take = |batch: Batch| wire.take(batch, is_new);
        let more = follower.poll(&mut worker, &mut || !is_over() && Instant::now() < next, &mut take);
        reported += deliver(wire.news(least), mail.as_mut(), context)?;
        if !more {
            std::thread::sleep(IDLE);
        }
    }
    let last = Instant::now() + LAST;
    let is_new = |one: &Notable| {
        is_of_kinds(one, &question.kinds) && !mail.as_ref().is_some_and(|mail| mail.was_reported(&one.id()))
    };
    let mut take = |batch: Batch| wire.take(batch, is_new);
    if !follower.finish(&mut worker, &mut || Instant::now() < last, &mut take) {
        context.lost("ended before the logs were read to their end; allow more time")?;
    }
    reported += deliver(wire.news(least), mail.as_mut(), context)?;
    follower.outcome().losses.iter().try_for_each(|loss| context.lost(loss))?;
    if let Some(mail) = &mut mail {
        mail.end(context)?;
    }
    context.notice(format!(
        "{} checked, {} reported",
        counted(wire.events(), "request"),
        counted(reported, "operation")
    ))
}

/// Prints what is new, and sends it; how many there were.
fn deliver(mut groups: Vec<Group>, mail: Option<&mut Mail>, context: &mut Context<'_>) -> Result<u64, Error> {
    if let Some(mail) = &mail {
        groups.retain(|group| !group.guard_event().is_some_and(|deed| mail.was_reported(&deed.id())));
    }
    if !groups.is_empty() {
        context.print(&news(&groups), FailOn::Never)?;
        // Further ones go on below.
        context.settings.style.headers &= !matches!(context.settings.format, Format::Csv);
    }
    if let Some(mail) = mail {
        let deeds =
            groups.iter().filter_map(|group| Some((group.first.cluster.clone(), group.guard_event()?))).collect();
        // Where a single operation is dangerous, remember each id: a later message leaves it out.
        let each = groups.iter().filter(|group| {
            group.guard_event().is_some() && Rule::of(group.first.kind).is_some_and(|rule| rule.least == 1)
        });
        let ids = each.flat_map(|group| group.ids.iter().cloned()).collect();
        mail.report_operations(deeds, ids, context)?;
    }
    Ok(groups.len() as u64)
}
