//! `plimsoll memory show`.

use crate::analysis::answer::Answer;
use crate::analysis::memory::heap;
use crate::analysis::memory::report::{self, MemoryInput};
use crate::analysis::memory::seen::Seen;
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, MomentFlags, duration_parser};
use crate::commands::show;
use crate::inputs::groups::{GroupFlags, SelectedGroups, read, warn_unknown};
use crate::inputs::{moment, pages, profiles};
use crate::model::input::InputReport;
use crate::model::memory::Sample;
use crate::model::question;
use crate::model::report::{Report, Value};
use crate::model::time::{MINUTE, Micros};
use crate::sources::archive::place;
use crate::sources::cgroup::Series;
use crate::sources::clock;
use crate::sources::find;
use crate::sources::wanted::Wanted;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # cache or heap?
  plimsoll memory show --component kube-apiserver
  # all cgroups of the machine
  plimsoll memory show / --recursive --top 0
  # with the changes within a minute
  plimsoll memory show --pid 4711 --over 60s
  # from a container
  plimsoll memory show --root /host --component etcd
  # with what /debug/pprof/heap?debug=1 gave
  plimsoll memory show --component kube-apiserver --heap heap.txt
  # a bundle; its metrics and profiles show Go's heap
  plimsoll memory show samples/list-storm
  # copies of memory.stat and its siblings
  plimsoll memory show copy/ --host-memory 32GiB")]
pub(super) struct Args {
    /// Cgroups: a path, the id of a pod or container, a systemd unit; or copied cgroup files: files, folders, bundles,
    /// - for stdin [default: the machine's top cgroup].
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Show the cgroups below as well.
    #[arg(short, long)]
    recursive: bool,
    /// Sample live cgroups twice, this far apart, to separate idle cache from cache that is read again; 0s samples
    /// once.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_parser(0, "0s, 1s, 1m"))]
    over: Duration,
    /// Metrics pages of the program in the cgroup, to compare Go's heap with its anonymous memory. A bundle's own are
    /// found.
    #[arg(long, value_name = "SOURCE")]
    metrics: Vec<String>,
    /// Heap profiles of the same program (files, folders, URLs): memory of Go objects. The text form (?debug=1) has
    /// idle and released memory too. A bundle's own are found.
    #[arg(long, value_name = "SOURCE")]
    heap: Vec<String>,
    #[command(flatten)]
    moment: MomentFlags,
    #[command(flatten)]
    groups: GroupFlags,
}

/// The last sample of a series, and the one nearest to a minute before it.
fn last_of(series: &Series) -> Option<(&Sample, Option<&Sample>)> {
    let (last, before) = series.samples.split_last()?;
    let far = |sample: &&Sample| (last.at - sample.at - MINUTE).abs();
    Some((last, before.iter().filter(|sample| sample.at < last.at).min_by_key(far)))
}

impl Args {
    /// What the flags ask.
    pub(super) fn question(&self, now: Micros) -> Result<question::MemoryShow, Error> {
        Ok(question::MemoryShow {
            sources: self.sources.clone(),
            at: self.moment.resolve(now).map_err(Error::Usage)?,
            recursive: self.recursive,
            over: self.over,
            metrics: self.metrics.clone(),
            heap: self.heap.clone(),
            ..self.groups.question()
        })
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let report = answer(&args.question(context.io.now)?, context)?;
    show(Answer::of(report), FailOn::Never, context)
}

/// Answers the question.
pub(super) fn answer(question: &question::MemoryShow, context: &mut Context<'_>) -> Result<Report, Error> {
    let groups = GroupFlags::from(question);
    let SelectedGroups { live, mut copies, .. } = groups.find(&question.sources, question.recursive, context)?;
    if let Some(moment) = question.at {
        if let Some(group) = live.first() {
            return Err(Error::Usage(format!(
                "--at: {} is a live cgroup, which has only the present; give copies",
                group.path
            )));
        }
        copies = moment::of_groups(copies, moment, context)?;
    }
    let host = groups.host_memory;
    let mut input = MemoryInput::default();
    let mut seen = Vec::new();
    for series in &copies {
        let Some((last, before)) = last_of(series) else { continue };
        let mut problems = 0;
        let mut first_error = None;
        for sample in &series.samples {
            warn_unknown(&series.place, sample, context)?;
            problems += sample.problems.len() as u64;
            first_error = first_error.or_else(|| sample.problems.first().cloned());
        }
        input.inputs.push(InputReport {
            path: series.place.clone(),
            kind: "cgroup",
            bytes: series.bytes,
            records: series.samples.len() as u64,
            skipped: problems,
            first_error,
        });
        seen.push(Seen { depth: series.depth, ..Seen::new(last.clone(), before, host) });
    }
    let mut groups = Vec::new();
    for group in live {
        let depth = |path: &str| path.split('/').filter(|part| !part.is_empty()).count();
        let top = depth(&group.path);
        let all = if question.recursive { group.tree() } else { vec![group] };
        groups.extend(all.into_iter().map(|group| ((depth(&group.path) - top) as u64, group)));
    }
    let mut before = Vec::new();
    for (_, group) in &groups {
        before.push(if question.over.is_zero() { None } else { group.read(clock::now()).ok() });
    }
    if !question.over.is_zero() && !groups.is_empty() {
        std::thread::sleep(question.over);
    }
    for ((depth, group), before) in groups.iter().zip(&before) {
        // Groups come and go; only one that was asked for is missed.
        if *depth > 0 && !group.folder.is_dir() {
            continue;
        }
        let Some(sample) = read(group, context)? else { continue };
        input.inputs.push(InputReport {
            path: group.folder.display().to_string(),
            kind: "cgroup",
            records: 1,
            ..InputReport::default()
        });
        seen.push(Seen { depth: *depth, ..Seen::new(sample, before.as_ref(), host) });
    }
    if seen.is_empty() {
        return Err(Error::Input("none of the cgroups could be read".to_owned()));
    }
    heaps_by_metrics(question, &seen, &mut input, context)?;
    heaps_by_profiles(question, &seen, &mut input, context)?;
    let of = arranged(seen, context)?;
    let mut report = report::show(&of, input);
    if let Some(top) = context.settings.top.filter(|top| *top > 0) {
        report.shown = Some(top);
    }
    let limit = context.settings.top.unwrap_or(25);
    if let (true, Some([many, ..])) = (of.len() > 1 && limit > 0, report.people.as_deref_mut())
        && many.rows.len() > limit
    {
        report.notes.push(format!("{} more cgroups not shown; --top 0 shows all.", many.rows.len() - limit));
        many.rows.truncate(limit);
    }
    Ok(report)
}

/// What a flag names, else the bundles among the sources, whose own pages and profiles are looked for.
fn named_or_bundles(named: &[String], sources: &[String]) -> Vec<String> {
    match named {
        [] => sources
            .iter()
            .filter(|source| place(std::path::Path::new(source)).join("bundle.yaml").is_file())
            .cloned()
            .collect(),
        named => named.to_vec(),
    }
}

/// Go's heaps by metrics.
fn heaps_by_metrics(
    question: &question::MemoryShow,
    seen: &[Seen],
    input: &mut MemoryInput,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let sources = named_or_bundles(&question.metrics, &question.sources);
    if sources.is_empty() {
        return Ok(());
    }
    let mut found = find::find(&sources, Wanted::Pages, context.io.now);
    pages::keep(&mut found.pages, None, question.at.map(|moment| moment + 1));
    if !question.metrics.is_empty() {
        for error in &found.errors {
            context.lost(error)?;
        }
    }
    let (facts, read) = pages::facts(found.pages, Retention::Requests, context)?;
    input.inputs.extend(read.inputs);
    input.heaps = heap::of_metrics(&facts, seen);
    if input.heaps.is_empty() && !question.metrics.is_empty() {
        input.notes.push("The metrics have no Go heap of these cgroups (matched by folder name).".to_owned());
    }
    Ok(())
}

/// Go's heaps by profiles.
fn heaps_by_profiles(
    question: &question::MemoryShow,
    seen: &[Seen],
    input: &mut MemoryInput,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let sources = named_or_bundles(&question.heap, &question.sources);
    if sources.is_empty() {
        return Ok(());
    }
    let taken = match question.at {
        Some(moment) => profiles::within(&sources, (None, Some(moment + 1)), context),
        None => profiles::latest(&sources, !question.heap.is_empty(), context),
    };
    let taken = match taken {
        Ok(taken) => taken,
        // The cgroups are shown all the same.
        Err(Error::Input(why)) => return context.lost(why),
        Err(other) => return Err(other),
    };
    let mut heaps = Vec::new();
    for profiles::Taken { instance, profile } in &taken {
        let heap = heap::of_profile(instance, &profile.stacks, seen, taken.len() == 1);
        if heap.is_none() && !question.heap.is_empty() {
            input.notes.push(format!(
                "{}: its folder's name matches none of these cgroups, or it is not a heap profile.",
                profile.path
            ));
        }
        heaps.extend(heap);
        input.inputs.push(InputReport {
            path: profile.path.clone(),
            kind: "heap",
            bytes: profile.bytes,
            records: profile.stacks.samples() as u64,
            ..InputReport::default()
        });
    }
    input.notes.extend(heap::notes(&heaps, &input.heaps, seen));
    input.heaps.extend(heaps);
    Ok(())
}

/// Groups as a tree, siblings by `--sort-by` (default: usage), the largest first.
fn arranged(seen: Vec<Seen>, context: &Context<'_>) -> Result<Vec<Seen>, Error> {
    let field = context.settings.sort_by.as_deref().unwrap_or("usage");
    let rows = report::rows("memory-show", &seen);
    let column = rows.table.column(field).ok_or_else(|| {
        Error::Usage(format!("--sort-by {field}: unknown field; use one of: {}", report::FIELDS.join(", ")))
    })?;
    let key = |index: usize| match &rows.table.rows[index][column] {
        Value::Count(count) => (*count as f64, String::new()),
        Value::Number(number) => (*number, String::new()),
        Value::Text(text) => (0.0, text.clone()),
        _ => (f64::NEG_INFINITY, String::new()),
    };
    // Each group's place: the keys of the groups above it, from the top, then its own.
    // Copies of several machines may have groups of one name: those above stand before, and nearest.
    let index_of = |path: &str, before: usize| seen[..before].iter().rposition(|other| other.sample.path == path);
    let place = |index: usize| {
        let mut path = seen[index].sample.path.as_str();
        let mut places = vec![(key(index), format!("{path} {index:09}"))];
        let mut at = index;
        for _ in 0..seen[index].depth {
            path = path.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
            if let Some(above) = index_of(path, at) {
                places.push((key(above), format!("{path} {above:09}")));
                at = above;
            }
        }
        places.reverse();
        places
    };
    let mut order: Vec<_> = (0..seen.len()).map(|index| (index, place(index))).collect();
    order.sort_by(|(_, a), (_, b)| {
        let steps = a
            .iter()
            .zip(b)
            .map(|(((x, s), p), ((y, t), q))| y.total_cmp(x).then_with(|| s.cmp(t)).then_with(|| p.cmp(q)));
        steps.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
    });
    let mut seen: Vec<Option<Seen>> = seen.into_iter().map(Some).collect();
    Ok(order.iter().filter_map(|(index, _)| seen[*index].take()).collect())
}
