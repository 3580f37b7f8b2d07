//! `plimsoll memory reclaim`.

use crate::actions::reclaim::{self, Method, Reclaimer, Repaired, Stepped};
use crate::analysis::memory::account::own_limit;
use crate::analysis::memory::plan::{self, Most, Plan, Until};
use crate::analysis::memory::rates::Rates;
use crate::analysis::memory::reclaimed::{self, Outcome, Step};
use crate::analysis::memory::seen::Seen;
use crate::analysis::memory::verdict::Verdict;
use crate::cli::repeat::{print_again, sleep_until, stop_signal};
use crate::cli::{Context, Error, FailOn, parse_every};
use crate::inputs::groups::{GroupFlags, read, size};
use crate::model::memory::Amount;
use crate::model::units::{bytes, parse_bytes, percent};
use crate::sources::cgroup::{Group, Machine, process_names};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
#[command(after_help = "Without --yes nothing is changed: the plan and what it should free are printed.

EXAMPLES
  # what would be done
  plimsoll memory reclaim --component kube-apiserver
  # until the working set is all that is left
  plimsoll memory reclaim --component kube-apiserver --yes
  plimsoll memory reclaim kubepods.slice --until headroom=20% --most 100% --yes
  plimsoll memory reclaim --unit etcd --until 'cache<2GiB' --yes --even-etcd
  plimsoll memory reclaim --component kube-apiserver --daemon --high 90% \\
    --low 80% --yes")]
pub(super) struct Args {
    /// Cgroups: a path, the id of a pod or container, a systemd unit.
    #[arg(value_name = "SOURCE", required_unless_present_any = ["pid", "unit", "component"])]
    sources: Vec<String>,
    /// Reclaim; without this, only print the plan.
    #[arg(long)]
    yes: bool,
    /// Reclaim even if etcd runs in the cgroup: its page cache is its database, which it then reads again.
    #[arg(long)]
    even_etcd: bool,
    /// Reclaim this much in each step.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = step)]
    step: u64,
    /// Stop at: working-set (no inactive cache left), headroom=20% (of the limit free), cache<2GiB.
    #[arg(long, value_name = "GOAL", default_value = "working-set", value_parser = until)]
    until: Until,
    /// Reclaim at most this: a share of the reclaimable memory, or a size.
    #[arg(long, value_name = "SHARE|SIZE", default_value = "50%", value_parser = most)]
    most: Most,
    /// Wait this long after each step to see whether the cache is read again.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = parse_every)]
    pause: Duration,
    /// Kernel interface to use [default: the first that the cgroup has of memory.reclaim, memory.high,
    /// memory.force_empty (no processes), memory.limit_in_bytes].
    #[arg(long, value_enum, value_name = "METHOD")]
    method: Option<Method>,
    /// Keep temporarily lowered limits in this folder, so that the next run can restore them.
    #[arg(long, value_name = "DIR", default_value_os_t = reclaim::default_state())]
    state: PathBuf,
    /// Keep running: when usage is above --high, reclaim down to --low (with --yes).
    #[arg(long)]
    daemon: bool,
    /// With --daemon: start above this share of the limit.
    #[arg(long, value_name = "SHARE", default_value = "90%", value_parser = share, requires = "daemon")]
    high: f64,
    /// With --daemon: stop at this share of the limit.
    #[arg(long, value_name = "SHARE", default_value = "80%", value_parser = share, requires = "daemon")]
    low: f64,
    /// With --daemon: time between checks.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_every, requires = "daemon")]
    every: Duration,
    #[command(flatten)]
    groups: GroupFlags,
}

fn step(text: &str) -> Result<u64, String> {
    size(text).and_then(|bytes| if bytes >= 64 << 10 { Ok(bytes) } else { Err("at least 64KiB".to_owned()) })
}

fn share(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok())
        .filter(|number| (0.0..=100.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| "a share of 0% to 100%".to_owned())
}

fn most(text: &str) -> Result<Most, String> {
    if text.ends_with('%') { share(text).map(Most::Share) } else { size(text).map(Most::Bytes) }
}

fn until(text: &str) -> Result<Until, String> {
    let cache = || text.strip_prefix("cache<").and_then(parse_bytes).map(Until::Cache);
    let headroom = || text.strip_prefix("headroom=").and_then(|text| share(text).ok()).map(Until::Headroom);
    if text == "working-set" {
        Ok(Until::WorkingSet)
    } else {
        cache().or_else(headroom).ok_or_else(|| "working-set, headroom=20%, or cache<2GiB".to_owned())
    }
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if args.daemon && args.low >= args.high {
        return Err(Error::Usage("--low must be below --high".to_owned()));
    }
    let stop = stop_signal()?;
    // First of all: what a run that was killed has left, of whichever group.
    for repaired in reclaim::repair(&args.state, !args.yes) {
        match repaired {
            Repaired::Restored(what) if args.yes => context.notice(format!("restored: {what}"))?,
            Repaired::Restored(what) => context.lost(format!("{what}; --yes restores it"))?,
            Repaired::Changed(what) => context.notice(what)?,
            Repaired::Failed(what) => context.lost(what)?,
            Repaired::Fine => {}
        }
    }
    let find = |context: &mut Context<'_>| {
        let meant = args.groups.find(&args.sources, false, context)?;
        match meant.machine {
            Some(machine) if meant.copies.is_empty() => Ok((machine, meant.live)),
            _ => Err(Error::Usage("memory reclaim works on live cgroups, not on copies".to_owned())),
        }
    };
    if !args.daemon {
        let (machine, live) = find(context)?;
        let mut outcomes = Vec::new();
        for group in &live {
            outcomes.extend(one(args, &machine, group, args.until, &stop, context)?);
        }
        let refused = outcomes.iter().any(|outcome| outcome.refused);
        context.print(&reclaimed::report(&outcomes), FailOn::Never)?;
        return if refused { Err(Error::Input("nothing was changed; see above".to_owned())) } else { Ok(()) };
    }
    let mut warned: HashMap<String, String> = HashMap::new();
    let mut printed = 0;
    while !stop.load(Ordering::Relaxed) {
        // Pods come and go: names are looked up again each time.
        match find(context) {
            Ok((machine, live)) => {
                for group in &live {
                    let Some(outcome) = watched(args, &machine, group, &stop, &mut warned, context)? else { continue };
                    print_again(&reclaimed::report(&[outcome]), printed, context)?;
                    printed += 1;
                }
            }
            Err(Error::Input(why)) => notice_once(&mut warned, "", why, context)?,
            Err(other) => return Err(other),
        }
        sleep_until(Instant::now() + args.every, &stop);
    }
    Ok(())
}

fn notice_once(
    warned: &mut HashMap<String, String>,
    about: &str,
    what: String,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    if warned.get(about) != Some(&what) {
        context.notice(&what)?;
        warned.insert(about.to_owned(), what);
    }
    Ok(())
}

/// One look of the daemon; what was done, if anything was.
fn watched(
    args: &Args,
    machine: &Machine,
    group: &Group,
    stop: &AtomicBool,
    warned: &mut HashMap<String, String>,
    context: &mut Context<'_>,
) -> Result<Option<Outcome>, Error> {
    let Some(sample) = read(group, context)? else { return Ok(None) };
    let seen = Seen::new(sample, None, args.groups.host_memory);
    match seen.account.fill() {
        Some(fill) if fill < args.high => return Ok(None),
        Some(_) => {}
        None => {
            notice_once(warned, &group.path, format!("{}: has no limit, which --until requires", group.path), context)?;
            return Ok(None);
        }
    }
    let Some(outcome) = one(args, machine, group, Until::Usage(args.low), stop, context)? else { return Ok(None) };
    if outcome.refused || !args.yes || outcome.steps.is_empty() {
        let did = if args.yes { "" } else { "dry run: " };
        notice_once(warned, &group.path, format!("{}: {did}{}", group.path, outcome.ended), context)?;
        return Ok(None);
    }
    warned.remove(&group.path);
    Ok(Some(outcome))
}

/// Plans, and with `--yes` acts on, one group. `None` if it no longer exists.
fn one(
    args: &Args,
    machine: &Machine,
    group: &Group,
    until: Until,
    stop: &AtomicBool,
    context: &mut Context<'_>,
) -> Result<Option<Outcome>, Error> {
    let host = args.groups.host_memory;
    let Some(first) = read(group, context)? else { return Ok(None) };
    sleep_until(Instant::now() + args.pause, stop);
    let Some(sample) = read(group, context)? else { return Ok(None) };
    let before = Seen::new(sample, Some(&first), host);
    let mut outcome = Outcome::new(before.clone(), args.yes);
    let planned = plan::plan(&before.account, until, args.most, args.step);
    let refuse = |mut outcome: Outcome, why: String| {
        outcome.refused = true;
        outcome.ended = format!("nothing was changed: {why}");
        Ok(Some(outcome))
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(why) => return refuse(outcome, why.to_string()),
    };
    outcome.plan = Some(plan.clone());
    match args.method.map_or_else(|| Method::choose(group), Ok) {
        Ok(method) => outcome.method = method.file().to_owned(),
        Err(why) => return refuse(outcome, why),
    }
    let names = process_names(machine, group);
    if !args.even_etcd && (names.contains("etcd") || group.path.split(['/', '-', '.']).any(|part| part == "etcd")) {
        return refuse(
            outcome,
            "etcd runs here, and its page cache is its database: without it every read goes to disk; --even-etcd \
             overrides this"
                .to_owned(),
        );
    }
    if !args.even_etcd && names.contains("?") {
        return refuse(
            outcome,
            "its processes are not visible from here, so one of them may be etcd; give --root \
             (and share the host's PID namespace), or --even-etcd"
                .to_owned(),
        );
    }
    if before.judged.verdict == Verdict::Thrashing {
        return refuse(outcome, format!("the cache is in use: {}", before.judged.reasons.join("; ")));
    }
    if plan.goal == 0 {
        outcome.ended = plan.note.unwrap_or_else(|| "nothing to do".to_owned());
        return Ok(Some(outcome));
    }
    if !args.yes {
        outcome.ended = format!(
            "would reclaim {} in steps of {}; add --yes to do it",
            bytes(plan.goal as f64),
            bytes(plan.step as f64)
        );
        return Ok(Some(outcome));
    }
    match Reclaimer::new(group, args.method, &args.state) {
        Ok(reclaimer) => act(args, group, reclaimer, &plan, stop, &mut outcome, context)?,
        Err(why) => return refuse(outcome, why),
    }
    Ok(Some(outcome))
}

/// Step by step, until the goal is met or there is a reason to stop.
fn act(
    args: &Args,
    group: &Group,
    mut reclaimer: Reclaimer,
    plan: &Plan,
    stop: &AtomicBool,
    outcome: &mut Outcome,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let host = args.groups.host_memory;
    outcome.method = reclaimer.method().file().to_owned();
    let mut last = outcome.before.clone();
    let mut freed = 0u64;
    let mut barren = 0;
    outcome.ended = loop {
        if stop.load(Ordering::Relaxed) {
            break "stopped by a signal".to_owned();
        }
        if freed >= plan.goal {
            break plan.note.clone().unwrap_or_else(|| "goal reached".to_owned());
        }
        let (Some(usage), Some(firm)) = (last.account.usage, last.account.unreclaimable) else {
            break "usage can no longer be read".to_owned();
        };
        let ask = plan.step.min(plan.goal - freed);
        let stepped = match reclaimer.step(ask, usage, firm) {
            Ok(stepped) => stepped,
            Err(error) => {
                context.lost(&error)?;
                break format!("failed: {error}");
            }
        };
        // Right away, to see what was freed; then again, to see what was read back.
        let right_after = read(group, context)?.map(|sample| Seen::new(sample, Some(&last.sample), host));
        let Some(right_after) = right_after else { break "the cgroup was removed".to_owned() };
        let got = usage.saturating_sub(right_after.account.usage.unwrap_or(usage));
        sleep_until(Instant::now() + args.pause, stop);
        let Some(sample) = read(group, context)? else { break "the cgroup was removed".to_owned() };
        let rates = Rates::between(&last.sample, &sample, host);
        freed += got;
        outcome.steps.push(Step { asked: ask, freed: got, rates: rates.clone() });
        last = Seen::new(sample, Some(&right_after.sample), host);
        outcome.after = Some(last.clone());
        if stepped == Stepped::Interrupted {
            break "stopped by a signal".to_owned();
        }
        if let Some(why) = rates.and_then(|rates| plan::stop(&rates, got)) {
            break format!("stopped: {why}");
        }
        // A step that frees next to nothing may be bad luck; three are not.
        barren = if got * 10 < ask { barren + 1 } else { 0 };
        if barren >= 3 || reclaimer.method() == Method::ForceEmpty {
            break if barren >= 3 {
                "the kernel can't reclaim more".to_owned()
            } else {
                "the cgroup was emptied".to_owned()
            };
        }
    };
    let limit = |seen: &Seen| own_limit(&seen.sample);
    if let Some(after) = &outcome.after
        && limit(after) != limit(&outcome.before)
    {
        let shown = |amount: Option<Amount>| {
            amount.and_then(Amount::number).map_or("none".to_owned(), |limit| bytes(limit as f64))
        };
        context.notice(format!(
            "{}: another program changed its limit meanwhile, from {} to {}",
            group.path,
            shown(limit(&outcome.before)),
            shown(limit(after))
        ))?;
    }
    if let Some(fill) = outcome.after.as_ref().and_then(|after| after.account.fill()) {
        outcome.ended += &format!("; usage is now {} of the limit", percent(fill));
    }
    Ok(())
}
