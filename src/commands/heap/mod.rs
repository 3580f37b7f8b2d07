//! `plimsoll heap`: heap profiles.

use super::show;
use crate::analysis::answer::Answer;
use crate::analysis::compare::{Pair, states};
use crate::analysis::heap::flame::Growing;
use crate::analysis::heap::measure::{Counted, Measuring};
use crate::analysis::heap::report::{Shape, report};
use crate::analysis::heap::select::{Filters, Selection};
use crate::analysis::heap::top::By;
use crate::cli::{Context, Error, FailOn, KubeFlags, MomentFlags};
use crate::inputs::profiles::{Taken, Which, at, both, profiles};
use crate::model::flame::Tree;
use crate::model::input::InputReport;
use crate::model::question::{self, HeapWhat, Question};
use crate::model::stacks::Stacks;
use crate::model::time::{self, Micros};
use crate::sources::pprof::Profile;
use crate::views::Format;
use crate::views::text::plain;
use regex::Regex;
use std::collections::BTreeSet;

/// Arguments of `plimsoll heap`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

impl Args {
    /// Whether it takes `-o svg` and `-o folded`.
    pub fn draws(&self) -> bool {
        matches!(self.command, Command::Flame(_))
    }
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what functions hold, flat and cumulative.
    Top(Box<TopArgs>),
    /// Draw a flame graph: SVG or folded text.
    Flame(Box<FlameArgs>),
    /// Show what changed between two profiles.
    Diff(Box<DiffArgs>),
}

/// What is counted, and what is left out.
#[derive(Debug, clap::Args)]
struct WhatArgs {
    /// What to count: inuse_space, inuse_objects, alloc_space, alloc_objects, or another that the profile has (default:
    /// inuse_space).
    #[arg(long, value_name = "TYPE")]
    sample_type: Option<String>,
    /// Count only stacks with a function, file or binary that matches.
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    focus: Option<Regex>,
    /// Ignore stacks with a function, file or binary that matches.
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    ignore: Option<Regex>,
    /// Cut each stack above its outermost frame that matches.
    #[arg(long, value_name = "REGEX", value_parser = regex)]
    show_from: Option<Regex>,
    /// Use only this process: the name of its folder, or an apiserver's host:port.
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll heap top heap.pb.gz
  plimsoll heap top bundle/ --by package --top 10
  plimsoll heap top heap.pb.gz --focus 'handlers.ListResource' \\
    --sample-type alloc_space
  kubectl get --raw /debug/pprof/heap | plimsoll heap top -
  # live: all apiservers of the cluster, added up
  plimsoll heap top --context prod")]
struct TopArgs {
    /// Profiles: files, globs, URLs, - for stdin, all added up; of a folder or bundle the latest. None: a live cluster.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Group rows by this.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    moment: MomentFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll heap flame heap.pb.gz > heap.svg
  plimsoll heap flame bundle/ --focus storage/cacher > cache.svg
  plimsoll heap flame now.pb.gz --diff before.pb.gz > change.svg
  plimsoll heap flame heap.pb.gz -o folded | inferno-flamegraph > own.svg

FORMS
  -o svg      (default) widths are what stacks hold; with --diff red has grown and blue has shrunk
  -o folded   a line for each stack; with --diff both weights")]
struct FlameArgs {
    /// Profiles, as for top.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Colour by the change against this profile; of a folder the latest.
    #[arg(long, value_name = "OLD")]
    diff: Option<String>,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    moment: MomentFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll heap diff before.pb.gz after.pb.gz
  plimsoll heap diff bundle/  # its first profile and its last
  plimsoll heap diff before/ after/ --by package --sort-by cum_change")]
struct DiffArgs {
    /// Two profiles, the older first; of a folder each the latest. Or one folder or bundle: its first and its last.
    #[arg(value_name = "SOURCE", required = true, num_args = 1..=2)]
    sources: Vec<String>,
    /// Group rows by this.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    #[command(flatten)]
    what: WhatArgs,
}

/// A regular expression.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

impl WhatArgs {
    fn question(&self) -> HeapWhat {
        let pattern = |regex: &Option<Regex>| regex.as_ref().map(|regex| regex.as_str().to_owned());
        HeapWhat {
            sample_type: self.sample_type.clone(),
            focus: pattern(&self.focus),
            ignore: pattern(&self.ignore),
            show_from: pattern(&self.show_from),
            instance: self.instance.clone(),
        }
    }
}

impl TopArgs {
    fn question(&self, now: Micros) -> Result<question::HeapTop, Error> {
        let at = self.moment.resolve(now).map_err(Error::Usage)?;
        Ok(question::HeapTop { sources: self.sources.clone(), at, by: self.by, what: self.what.question() })
    }
}

impl FlameArgs {
    fn question(&self, now: Micros) -> Result<question::HeapFlame, Error> {
        let at = self.moment.resolve(now).map_err(Error::Usage)?;
        let (sources, diff) = (self.sources.clone(), self.diff.clone());
        Ok(question::HeapFlame { sources, at, diff, what: self.what.question() })
    }
}

impl DiffArgs {
    fn question(&self) -> question::HeapDiff {
        question::HeapDiff { sources: self.sources.clone(), by: self.by, what: self.what.question() }
    }
}

impl Args {
    /// What the flags ask of files.
    pub fn question(&self, now: Micros) -> Result<Option<Question>, Error> {
        Ok(Some(match &self.command {
            Command::Top(args) => Question::HeapTop(args.question(now)?),
            Command::Flame(args) => Question::HeapFlame(args.question(now)?),
            Command::Diff(args) => Question::HeapDiff(args.question()),
        }))
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let answer = match &args.command {
        Command::Top(args) => top(&args.question(context.io.now)?, Some(&args.kube), context)?,
        Command::Diff(args) => diff(&args.question(), context)?,
        Command::Flame(_) if context.settings.format.of_flame().is_none() => {
            return Err(Error::Usage(
                "a flame graph is -o svg or -o folded; for numbers use plimsoll heap top -o json".to_owned(),
            ));
        }
        Command::Flame(args) => flame(&args.question(context.io.now)?, Some(&args.kube), context)?,
    };
    show(answer, FailOn::Never, context)
}

/// What functions, files, packages or lines hold; of a live cluster where no source is named.
pub(super) fn top(
    question: &question::HeapTop,
    kube: Option<&KubeFlags>,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    let what = What::of(&question.what)?;
    let now = at(question.at, &question.sources, what.instance.as_deref(), kube, context)?;
    table(&what, question.by, &[], &now, context)
}

/// What has changed between two profiles.
pub(super) fn diff(question: &question::HeapDiff, context: &mut Context<'_>) -> Result<Answer, Error> {
    let what = What::of(&question.what)?;
    let (before, now) = match question.sources.as_slice() {
        [old, new] => {
            let old = profiles(std::slice::from_ref(old), what.instance.as_deref(), None, Which::Last, context)?;
            (old, profiles(std::slice::from_ref(new), what.instance.as_deref(), None, Which::Last, context)?)
        }
        one => both(one, what.instance.as_deref(), context)?,
    };
    table(&what, question.by, &before, &now, context)
}

/// A flame graph; of a live cluster where no source is named.
pub(super) fn flame(
    question: &question::HeapFlame,
    kube: Option<&KubeFlags>,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    draw(question, kube, context).map(|tree| Answer::Flame(Box::new(tree)))
}

/// What is counted, and what is left out, its patterns read.
struct What {
    sample_type: Option<String>,
    focus: Option<Regex>,
    ignore: Option<Regex>,
    show_from: Option<Regex>,
    instance: Option<String>,
}

impl What {
    fn of(what: &HeapWhat) -> Result<Self, Error> {
        let read = |flag: &str, pattern: &Option<String>| {
            pattern.as_deref().map(regex).transpose().map_err(|why| Error::Usage(format!("{flag}: {why}")))
        };
        Ok(Self {
            sample_type: what.sample_type.clone(),
            focus: read("--focus", &what.focus)?,
            ignore: read("--ignore", &what.ignore)?,
            show_from: read("--show-from", &what.show_from)?,
            instance: what.instance.clone(),
        })
    }
}

/// A profile as an input of a report.
fn input(Profile { path, bytes, stacks }: &Profile) -> InputReport {
    let records = stacks.samples() as u64;
    InputReport { path: path.clone(), kind: "heap", bytes: *bytes, records, ..InputReport::default() }
}

/// What heaps held before and hold after, process by process where both sides name the same ones.
pub(super) fn compared(before: &[Taken], after: &[Taken]) -> Result<(Vec<Pair>, Vec<InputReport>), Error> {
    let names = |side: &[Taken]| side.iter().map(|taken| taken.instance.clone()).collect::<BTreeSet<_>>();
    let (mut pairs, mut inputs) = (Vec::new(), Vec::new());
    let same = names(before) == names(after);
    let instances = if same { names(after) } else { BTreeSet::from([String::new()]) };
    for instance in instances {
        let mut measuring = Measuring::new(By::Function);
        let mut each = 0.0_f64;
        for (when, side) in [before, after].into_iter().enumerate() {
            for one in side.iter().filter(|one| !same || one.instance == instance) {
                let number = kind(one, None)?;
                let selection = Selection::new(&one.profile.stacks, &Filters::default()).map_err(Error::input)?;
                let Profile { path, stacks, .. } = &*one.profile;
                let (path, samples) = (path.clone(), stacks.samples());
                // Older programs and the text form may not say how seldom they look.
                each = each.max(if stacks.period > 1 { stacks.period as f64 } else { 524_288.0 });
                measuring.add(
                    Counted { path, instance: instance.clone(), at: stacks.at, samples, when },
                    &selection,
                    number,
                );
                inputs.push(input(&one.profile));
            }
        }
        pairs.extend(states::heaps(&measuring.finish(), &instance, each));
    }
    Ok((pairs, inputs))
}

/// The sample type to count, in one profile.
fn kind(taken: &Taken, wanted: Option<&str>) -> Result<usize, Error> {
    let Stacks { types, preferred, .. } = &taken.profile.stacks;
    let names =
        || types.iter().map(|kind| kind.name.as_str()).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
    let path = &taken.profile.path;
    let found = match wanted {
        Some(name) => taken.profile.stacks.type_named(name),
        // A legacy profile of a program that freed nothing has only these.
        None => ["inuse_space", "space"].iter().find_map(|name| taken.profile.stacks.type_named(name)),
    };
    found.ok_or_else(|| {
        const TAKE: &str = "take one with kubectl get --raw /debug/pprof/heap";
        let own =
            preferred.and_then(|own| types.get(own)).map(|kind| kind.name.as_str()).filter(|name| !name.is_empty());
        let hint = own.map_or_else(
            || "choose one with --sample-type".to_owned(),
            |own| format!("--sample-type {own} shows its own choice"),
        );
        let message = match (wanted, names()) {
            (Some(name), names) if names.is_empty() => {
                format!("{path}: no sample type {name}: the profile has none")
            }
            (Some(name), names) => format!("{path}: no sample type {name}; use one of: {names}"),
            (None, names) if names.is_empty() => {
                format!("{path}: not a heap profile: its sample types have no names; {TAKE}")
            }
            (None, names) => format!("{path}: not a heap profile: its sample types are {names}; {TAKE}, or {hint}"),
        };
        let message = plain(&message).into_owned();
        if wanted.is_some() { Error::Usage(message) } else { Error::Input(message) }
    })
}

/// What is counted of each profile, and by which type.
fn selections<'t>(what: &What, taken: &'t [Taken]) -> Result<Vec<(&'t Taken, Selection<'t>, usize)>, Error> {
    let filters = Filters { focus: what.focus.clone(), ignore: what.ignore.clone(), show_from: what.show_from.clone() };
    let select = |taken: &'t Taken| {
        let number = kind(taken, what.sample_type.as_deref())?;
        let selection = Selection::new(&taken.profile.stacks, &filters);
        let selection =
            selection.map_err(|error| Error::Input(plain(&format!("{}: {error}", taken.profile.path)).into_owned()))?;
        Ok((taken, selection, number))
    };
    taken.iter().map(select).collect()
}

/// A table of what is held now, compared with before if there is a before.
fn table(what: &What, by: By, before: &[Taken], now: &[Taken], context: &Context<'_>) -> Result<Answer, Error> {
    let sides = [selections(what, before)?, selections(what, now)?];
    let mut measuring = Measuring::new(by);
    let mut inputs = Vec::new();
    for (when, side) in sides.iter().enumerate() {
        for (taken, selection, kind) in side {
            let Taken { instance, profile } = *taken;
            let Profile { path, stacks, .. } = &**profile;
            let (path, samples) = (path.clone(), stacks.samples());
            measuring.add(Counted { path, instance: instance.clone(), at: stacks.at, samples, when }, selection, *kind);
            inputs.push(input(&taken.profile));
        }
    }
    let measured = measuring.finish();
    let shape = Shape {
        by,
        compares: !before.is_empty(),
        sort_by: context.settings.sort_by.clone(),
        top: context.settings.top,
        full_names: context.settings.format != Format::Table,
    };
    report(&measured, inputs, &shape).map(Answer::of).map_err(Error::usage)
}

/// Draws a flame graph.
fn draw(question: &question::HeapFlame, kube: Option<&KubeFlags>, context: &mut Context<'_>) -> Result<Tree, Error> {
    let what = What::of(&question.what)?;
    let before = match &question.diff {
        Some(old) => profiles(std::slice::from_ref(old), what.instance.as_deref(), None, Which::Last, context)?,
        None => Vec::new(),
    };
    let now = at(question.at, &question.sources, what.instance.as_deref(), kube, context)?;
    let sides = [selections(&what, &before)?, selections(&what, &now)?];
    let mut growing = Growing::default();
    for (when, side) in sides.iter().enumerate() {
        for (_, selection, kind) in side {
            growing.add(selection, *kind, when);
        }
    }
    let mut tree = growing.finish();
    if let Some((taken, selection, kind)) = sides[1].last() {
        let stacks = selection.stacks;
        let of = if taken.instance.is_empty() { &taken.profile.path } else { &taken.instance };
        tree.title = stacks.types[*kind].name.clone();
        tree.unit = stacks.types[*kind].unit.clone();
        let mut parts = vec![if now.len() > 1 {
            format!("{} profiles", now.len())
        } else {
            of.rsplit('/').next().unwrap_or(of).to_owned()
        }];
        parts.extend(stacks.at.map(time::format));
        if let Some(old) = before.first() {
            parts.push(format!(
                "compared with {}",
                old.profile.stacks.at.map_or_else(|| old.profile.path.clone(), time::format)
            ));
        }
        for (flag, what) in [("--focus", &what.focus), ("--ignore", &what.ignore), ("--show-from", &what.show_from)] {
            parts.extend(what.as_ref().map(|what| format!("{flag} {}", what.as_str())));
        }
        tree.subtitle = parts.join(", ");
        for idle in &selection.idle {
            context.notice(format!("{idle} matches nothing in this profile"))?;
        }
    }
    (tree.is_code, tree.compares) = (true, !before.is_empty());
    if tree.total()[1] == 0 {
        return Err(Error::Input("nothing to draw: no matching stack holds memory".to_owned()));
    }
    Ok(tree)
}
