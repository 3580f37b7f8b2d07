//! `plimsoll memory watch`.

use crate::actions::fresh::replace;
use crate::analysis::memory::findings::finding;
use crate::analysis::memory::report;
use crate::analysis::memory::seen::Seen;
use crate::analysis::memory::verdict::Verdict;
use crate::cli::repeat::{print_again, sleep_until, stop_signal};
use crate::cli::{Context, Error, parse_every};
use crate::inputs::groups::{GroupFlags, read};
use crate::model::input::InputReport;
use crate::model::memory::Sample;
use crate::model::report::{Finding, Severity};
use crate::model::time::{MINUTE, Micros};
use crate::sources::cgroup::Group;
use crate::views::{Format, textfile};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rates are taken over this time, or what there is of it.
const RATES: Micros = MINUTE;
/// Samples that a chart can show.
const CHART: usize = 600;
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll memory watch --component kube-apiserver
  plimsoll memory watch --component kube-apiserver -o json \\
    | jq -c '.rows[0] | {at, usage, verdict}'
  plimsoll memory watch kubepods.slice --every 15s -q --textfile \\
    /var/lib/node_exporter/textfile/plimsoll_memory.prom
  plimsoll memory watch --pid 4711 --for 2m --until 1h --fail-on warning")]
pub(super) struct Args {
    /// Cgroups: a path, the id of a pod or container, a systemd unit [default: the machine's top cgroup].
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Time between samples.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_every)]
    every: Duration,
    /// Report a verdict as a finding once it has lasted this long.
    #[arg(long = "for", value_name = "DURATION", default_value = "1m", value_parser = parse_every)]
    holds: Duration,
    /// Stop after this duration [default: run until SIGINT or SIGTERM].
    #[arg(long, value_name = "DURATION", value_parser = parse_every)]
    until: Option<Duration>,
    /// Also write the last sample to this file for the textfile collector of Prometheus' node_exporter; replaced
    /// atomically.
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    #[command(flatten)]
    groups: GroupFlags,
}

/// What is known of a group.
#[derive(Default)]
struct Watched {
    /// Samples of the last minute, for rates.
    past: VecDeque<Sample>,
    /// Its verdict, and since when it has been so.
    verdict: Option<(Verdict, Micros)>,
    /// The inode it had: another group of the same name begins again.
    inode: Option<u64>,
}

impl Watched {
    fn see(&mut self, sample: Sample, host: Option<u64>) -> Seen {
        if self.inode != sample.inode {
            *self = Self { inode: sample.inode, ..Self::default() };
        }
        while self.past.len() > 1 && self.past.get(1).is_some_and(|second| sample.at - second.at >= RATES) {
            self.past.pop_front();
        }
        let seen = Seen::new(sample.clone(), self.past.front(), host);
        self.past.push_back(sample);
        let verdict = seen.judged.verdict;
        let since = self.verdict.filter(|(old, _)| *old == verdict).map_or(seen.sample.at, |(_, since)| since);
        self.verdict = Some((verdict, since));
        seen
    }
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let meant = args.groups.find(&args.sources, false, context)?;
    if !meant.copies.is_empty() {
        return Err(Error::Usage("memory watch requires live cgroups; use memory show for copies".to_owned()));
    }
    let stop = stop_signal()?;
    let end = args.until.map(|length| Instant::now() + length);
    let mut watched: HashMap<String, Watched> = HashMap::new();
    let mut past: Vec<Vec<Seen>> = Vec::new();
    let mut printed = 0;
    // Of each finding that was ever made, the gravest form: what `--fail-on` is measured by at the end.
    let mut reported: HashMap<String, Severity> = HashMap::new();
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| next <= end) {
        sleep_until(next, &stop);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        next = (next + args.every).max(Instant::now());
        let (seen, findings) = look(&meant.live, &mut watched, args, context)?;
        if seen.is_empty() {
            // It was said why; a unit that restarts comes back.
            if watched.is_empty() {
                return Err(Error::Partial);
            }
            continue;
        }
        for finding in &findings {
            let is_new = reported
                .insert(finding.fingerprint.clone() + &finding.id, finding.severity)
                .is_none_or(|old| old < finding.severity);
            if is_new && (context.settings.format != Format::Table || !context.io.out_is_terminal) {
                context.notice(format!("{}: {}", finding.severity.name(), finding.summary))?;
            }
        }
        past.push(seen);
        if past.len() > CHART {
            past.remove(0);
        }
        let width = context.settings.style.width.unwrap_or(80).saturating_sub(44).clamp(10, CHART);
        let mut report = report::watch(&past, width);
        report.findings = findings;
        let inputs = meant.live.iter().map(|group| InputReport {
            path: group.folder.display().to_string(),
            kind: "cgroup",
            records: printed + 1,
            ..InputReport::default()
        });
        report.inputs = inputs.collect();
        if let Some(file) = &args.textfile {
            let mut text = Vec::new();
            textfile::write(&report, &mut text)?;
            if let Err(error) = replace(file, &text) {
                context.lost(format!("{}: {error}", file.display()))?;
            }
        }
        print_again(&report, printed, context)?;
        printed += 1;
    }
    Ok(())
}

/// One look at all groups, and the findings that hold by now.
fn look(
    groups: &[Group],
    watched: &mut HashMap<String, Watched>,
    args: &Args,
    context: &mut Context<'_>,
) -> Result<(Vec<Seen>, Vec<Finding>), Error> {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for group in groups {
        // A removed group was reported once.
        if !group.folder.is_dir() && watched.get(&group.path).is_some_and(|watched| watched.past.is_empty()) {
            continue;
        }
        let Some(sample) = read(group, context)? else {
            watched.entry(group.path.clone()).and_modify(|watched| watched.past.clear());
            continue;
        };
        let watched = watched.entry(group.path.clone()).or_default();
        let seen = watched.see(sample, args.groups.host_memory);
        let since = watched.verdict.map_or(seen.sample.at, |(_, since)| since);
        if seen.sample.at - since >= args.holds.as_micros() as Micros {
            findings.extend(finding(&seen, Some(since)));
        }
        all.push(seen);
    }
    Ok((all, findings))
}
