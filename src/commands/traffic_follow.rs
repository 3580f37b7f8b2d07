//! `plimsoll traffic --follow`: who sends what, while it is being sent.

use super::traffic_flags::{FollowFlags, shape};
use crate::analysis::traffic::logs::{self, Reading};
use crate::analysis::traffic::{Plan, Query, Traffic, report};
use crate::cli::repeat::{print_again, stop_signal};
use crate::cli::{Context, Error};
use crate::inputs::breakdown::Counting;
use crate::inputs::found::Version;
use crate::model::bundle::Bundle;
use crate::model::input::LossKind;
use crate::sources::audit::follow::Follower;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long to wait where there was nothing to read.
const IDLE: Duration = Duration::from_millis(100);

/// How long the end may take: what is left to read then is left out.
const LAST: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) fn run(
    sources: &[String],
    flags: &FollowFlags,
    query: impl Fn(&Option<Version>) -> Query,
    version: impl Fn(Option<&Bundle>) -> Result<Option<Version>, Error>,
    flow: Option<(Value, Option<String>)>,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let every = flags.every()?;
    let end = flags.length()?.map(|length| Instant::now() + length);
    let stop = stop_signal()?;
    let mut follower = Follower::open(sources);
    if follower.is_empty() {
        return Err(Error::inputs(&follower.errors));
    }
    for error in &follower.errors {
        context.lost(error)?;
    }
    for folder in &follower.waiting {
        context.notice(format!("{folder}: no audit log here yet; waiting for one"))?;
    }
    let server = version(follower.bundle.as_ref())?;
    let query = query(&server);
    follower.within(query.since, query.until);
    let plan = Plan::new(query.clone());
    let mut live = Live {
        query: &query,
        plan: &plan,
        server,
        flow,
        worker: Counting(plan.fold(), None),
        traffic: Traffic::default(),
        reported: HashMap::new(),
        printed: 0,
    };
    let mut next = Instant::now() + every;
    let stopped = || stop.load(Ordering::Relaxed);
    while !stopped() && !follower.is_done() {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if now >= next {
            live.print(&follower, context)?;
            next = (next + every).max(Instant::now());
            continue;
        }
        let until = end.map_or(next, |end| next.min(end));
        let Live { worker, traffic, .. } = &mut live;
        let more =
            follower.poll(worker, &mut || !stopped() && Instant::now() < until, &mut |batch| traffic.take(batch));
        live.report_losses(&follower, context, false)?;
        if !more {
            std::thread::sleep(IDLE.min(until.saturating_duration_since(Instant::now())));
        }
    }
    let last = Instant::now() + LAST;
    let Live { worker, traffic, .. } = &mut live;
    if !follower.finish(worker, &mut || Instant::now() < last, &mut |batch| traffic.take(batch)) {
        context.lost("ended before the logs were read to their end; allow more time")?;
    }
    live.report_losses(&follower, context, true)?;
    live.print(&follower, context)
}

/// What has been counted, and what has been said of it.
struct Live<'p> {
    query: &'p Query,
    plan: &'p Plan,
    server: Option<Version>,
    flow: Option<(Value, Option<String>)>,
    worker: Counting<'p>,
    traffic: Traffic,
    /// Losses that have been reported, by file and kind, and how many there were then.
    reported: HashMap<(String, LossKind), u64>,
    printed: u64,
}

impl Live<'_> {
    /// Says what is newly lost; at the end, how much it came to.
    fn report_losses(&mut self, follower: &Follower, context: &mut Context<'_>, at_end: bool) -> Result<(), Error> {
        if follower.lost() == self.reported.len() && !at_end {
            return Ok(());
        }
        for loss in follower.outcome().losses {
            let reported = self.reported.entry((loss.path.clone(), loss.kind)).or_default();
            if *reported == 0 || (at_end && loss.count > *reported) {
                context.lost(&loss)?;
                *reported = loss.count;
            }
        }
        Ok(())
    }

    /// Prints everything counted so far.
    fn print(&mut self, follower: &Follower, context: &mut Context<'_>) -> Result<(), Error> {
        let outcome = follower.outcome();
        let breakdown = self.traffic.snapshot(self.plan, &[&self.worker.0]);
        let reading = Reading {
            inputs: outcome.inputs,
            losses: outcome.losses,
            coverage: outcome.coverage,
            streams: follower.streams(),
            server: self.server.clone(),
            against_metrics: None,
            flow: self.flow.clone(),
        };
        let reported = logs::traffic_input(&breakdown, reading);
        let report = report::report(logs::measured(self.query, breakdown), None, reported, &shape(context));
        print_again(&report, self.printed, context)?;
        self.printed += 1;
        Ok(())
    }
}
