//! `plimsoll etcd`: usage of the key space, and etcd health.

mod check;
mod diff;
mod extract;
mod flame;
mod health;
mod history;
mod pages;
#[cfg(feature = "live")]
mod pull;
mod split;
mod top;
mod usage;

pub(in crate::commands) use diff::asks as ask_of_diff;
pub(in crate::commands) use flame::asks as ask_of_flame;

use super::show;
use crate::analysis::answer::Answer;
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, MomentFlags};
use crate::inputs::etcd::opened::Ask;
use crate::model::question::{self, Question};
use crate::model::time::Micros;
use crate::sources::archive::place;
use crate::sources::find;
use crate::sources::limits::amount;
use crate::sources::wanted::Wanted;

/// Arguments of `plimsoll etcd`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show keys, revisions and bytes by resource, namespace, owner.
    Usage(usage::Args),
    /// Draw the key space as a flame graph.
    Flame(flame::Args),
    /// List the largest objects.
    Top(top::Args),
    /// List hot keys and what compaction would return.
    History(history::Args),
    /// Show page usage: how full pages are, and free pages.
    Pages(pages::Args),
    /// Check a database: checksums, B+ trees, values, leases, owner references.
    Check(check::Args),
    /// Show objects added, removed and changed between two databases.
    Diff(diff::Args),
    /// Propose resources to move to an etcd of their own.
    Split(split::Args),
    /// Restore objects of a snapshot as YAML manifests.
    Extract(Box<extract::Args>),
    /// Take a snapshot of a member, and check it.
    #[cfg(feature = "live")]
    Pull(Box<pull::Args>),
    /// Check etcd health by metrics: disk, leader, watchers, size.
    Health(health::Args),
}

/// Flags that all commands share that read a database.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// A snapshot (etcdctl snapshot save), or a copy of member/snap/db: a file (plain, .gz, .zst), or a folder that
    /// holds one.
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// Key prefix of the apiserver's objects (default: /registry, /kubernetes.io and /openshift.io).
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    #[command(flatten)]
    pub moment: MomentFlags,
}

impl SourceArgs {
    /// The moment that is asked for.
    pub(super) fn at(&self, now: Micros) -> Result<Option<Micros>, Error> {
        self.moment.resolve(now).map_err(Error::Usage)
    }
}

/// What the questions about a database as it is ask of it: `usage`, `history` and `check`, as a report asks them.
pub(in crate::commands) fn asks_of_state() -> Vec<Ask> {
    vec![usage::asks(&question::EtcdUsage::default()), history::asks(), check::asks()]
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    match &args.command {
        Command::Extract(args) => return extract::run(args, context),
        #[cfg(feature = "live")]
        Command::Pull(args) => return pull::run(args, context),
        Command::Flame(_) if context.settings.format.of_flame().is_none() => {
            let message = "a flame graph is -o svg or -o folded; for numbers use plimsoll etcd usage --by \
                 name-prefix -o json";
            return Err(Error::Usage(message.to_owned()));
        }
        _ => {}
    }
    let Some(question) = args.question(context.io.now)? else { return Ok(()) };
    if let Some(field) = &context.settings.sort_by
        && matches!(args.command, Command::Pages(_) | Command::Check(_) | Command::Health(_))
    {
        let message = format!("--sort-by {field}: its rows have a fixed order; sort the output of -o csv or -o json");
        return Err(Error::Usage(message));
    }
    let fail_on = if matches!(args.command, Command::Check(_)) { FailOn::Critical } else { FailOn::Never };
    let answer = answer(&question, context)?;
    if let Answer::Report(report, _) = &answer {
        let fields: Vec<&str> = report.table.columns.iter().map(String::as_str).collect();
        context.sort_by(&fields)?;
    }
    show(answer, fail_on, context)
}

/// Answers a question about etcd.
pub(super) fn answer(question: &Question, context: &mut Context<'_>) -> Result<Answer, Error> {
    match question {
        Question::EtcdUsage(own) => usage::answer(own, context).map(Answer::of),
        Question::EtcdFlame(own) => flame::answer(own, context).map(|tree| Answer::Flame(Box::new(tree))),
        Question::EtcdTop(own) => top::answer(own, context).map(Answer::of),
        Question::EtcdHistory(own) => history::answer(own, context).map(Answer::of),
        Question::EtcdPages(own) => pages::answer(own, context).map(Answer::of),
        Question::EtcdCheck(own) => check::answer(own, context).map(Answer::of),
        Question::EtcdDiff(own) => diff::answer(own, context).map(Answer::of),
        Question::EtcdSplit(own) => split::answer(own, context).map(Answer::of),
        Question::EtcdHealth(own) => health::answer(own, context).map(Answer::of),
        _ => Err(Error::Usage("this is not a question about etcd".to_owned())),
    }
}

impl Args {
    /// What the flags ask; `None` for commands that do something else.
    pub fn question(&self, now: Micros) -> Result<Option<Question>, Error> {
        Ok(Some(match &self.command {
            Command::Usage(args) => Question::EtcdUsage(args.question(now)?),
            Command::Flame(args) => Question::EtcdFlame(args.question(now)?),
            Command::Top(args) => Question::EtcdTop(args.question(now)?),
            Command::History(args) => Question::EtcdHistory(args.question(now)?),
            Command::Pages(args) => Question::EtcdPages(args.question(now)?),
            Command::Check(args) => Question::EtcdCheck(args.question(now)?),
            Command::Diff(args) => Question::EtcdDiff(args.question()),
            Command::Split(args) => Question::EtcdSplit(args.question(now)?),
            Command::Health(args) => Question::EtcdHealth(args.question(now)?),
            _ => return Ok(None),
        }))
    }

    /// Whether the command draws, so that `-o svg` and `-o folded` make sense.
    pub fn draws(&self) -> bool {
        matches!(self.command, Command::Flame(_))
    }
}

/// Reads a size: 8589934592, 8GiB.
fn parse_size(text: &str) -> Result<u64, String> {
    let size = amount(text).ok().filter(|size| (1.0..9e18).contains(size));
    size.map(|size| size.round() as u64).ok_or_else(|| "a size: 8589934592, 512Mi, 8GiB".to_owned())
}

/// The quota that was given, else that of the metrics beside the database, if the argument is a folder.
fn quota(given: Option<u64>, argument: &str, context: &mut Context<'_>) -> Option<u64> {
    if given.is_some() || !place(std::path::Path::new(argument)).is_dir() {
        return given;
    }
    let found = find::find(&[argument.to_owned()], Wanted::Pages, context.io.now);
    // What can't be read of the metrics is no loss here: they were not asked for.
    let facts = crate::inputs::pages::quiet_facts(found.pages, Retention::Requests, context).ok()?;
    crate::analysis::metrics::etcd::quota(&facts)
}
