//! What other commands say of the same sources, each with the words of its command.

use super::load::Load;
use crate::cli::{Context, Error, Progress, gather};
use crate::commands::logs;
use crate::model::incident::{Cause, Flame, Section, Source, Span};
use crate::model::report::Report;
use crate::model::time::{self, Micros, SECOND};
use crate::sources::audit::pass::Watcher;
use crate::views::Format;
use Source::{Audit, Cgroup, Etcd, Heap, Metrics, Objects};

/// Rows of a table that a person can sort and search.
const TOP: &str = "100";
/// Sections whose rows are evidence: they are kept, shown or not. Of others a large log has hundreds of thousands.
const WHOLE: [&str; 6] = ["traffic_by_client", "compare", "guard", "balance", "controllers", "etcd_health"];
/// The order of sections: first what the window tells, then the control plane, then what is stored and used.
const ORDER: [&str; 20] = [
    "clients",
    "traffic_by_client",
    "traffic",
    "compare",
    "chronic",
    "guard",
    "balance",
    "health",
    "etcd_health",
    "controllers",
    "etcd_usage",
    "etcd_history",
    "etcd_check",
    "memory",
    "heap",
    "heap_diff",
    "quota",
    "quota_proposals",
    "forecast",
    "etcd_diff",
];
/// Of those about all of the time, the ones whose commands ask audit logs; others need not be heard.
const ASKING: [&str; 5] = ["guard", "balance", "controllers", "quota", "quota_proposals"];
/// Less time before the window tells nothing of clients.
const ENOUGH: Micros = 60 * SECOND;

/// All sections.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) all: Vec<Section>,
    pub(super) flames: Vec<Flame>,
    /// Those that could not be made, and why.
    pub(super) lost: Vec<String>,
}

/// What is asked for, and what of it is told.
struct Asked {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The command's words before the sources, and behind them.
    words: &'static [&'static str],
    behind: Vec<String>,
    /// Which sources it is given.
    kinds: &'static [Source],
}

/// Where it is told what a command says: its name in JSON, a heading, and what it is for.
type Head = [&'static str; 3];

fn asked(
    [name, title, about]: Head,
    words: &'static [&'static str],
    kinds: &'static [Source],
    behind: &[&[String]],
) -> Asked {
    Asked { name, title, about, words, behind: behind.concat(), kinds }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `--since` and `--until`.
fn within((since, until): (Option<Micros>, Option<Micros>)) -> Vec<String> {
    let flag = |name: &str, at: Option<Micros>| at.map(|at| [name.to_owned(), time::format(at)]).into_iter().flatten();
    flag("--since", since).chain(flag("--until", until)).collect()
}

/// What parts of a report ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Audit logs, of all of the time.
    LogsOfAllTime,
    /// Audit logs, of the window or of what was before; of all of the time where there is none.
    LogsOf(Option<Span>),
    /// Anything else.
    Other,
}

/// What of all of the time is asked for.
fn wanted(load: &Load) -> Vec<Asked> {
    let mut wanted = Vec::new();
    let all = within(load.bounds);
    if load.has(Audit) {
        let head = ["guard", "Dangerous operations", "What people and programs did that can't be undone easily."];
        wanted.push(asked(head, &["guard", "events"], &[Audit], &[&all]));
    }
    if load.has(Audit) || load.has(Metrics) {
        let head = [
            "balance",
            "How the apiservers share the load",
            "Skew, since when, who pins it, and what would even it out.",
        ];
        wanted.push(asked(head, &["balance"], &[Audit, Metrics], &[&all]));
    }
    if load.facts.has_requests() && load.has_rates() {
        let head = [
            "health",
            "How the control plane does",
            "Priority levels, objectives, LISTs, watches, webhooks and objects by metrics.",
        ];
        wanted.push(asked(head, &["traffic"], &[Metrics], &[&words(&["--from", "metrics", "--health"]), &all]));
    }
    if load.facts.has_store() {
        let head = ["etcd_health", "How etcd does", "Disk, leader, proposals and size by metrics."];
        wanted.push(asked(head, &["etcd", "health"], &[Metrics], &[&all]));
    }
    if load.has(Audit) || load.has(Metrics) {
        let head = ["controllers", "Controllers and scheduler", "Work queues, pods that wait, leaders that change."];
        wanted.push(asked(head, &["controllers"], &[Audit, Metrics, Objects], &[&all]));
    }
    let rest: [(Head, &'static [&'static str], Source, bool); 8] = [
        (
            ["etcd_usage", "What fills etcd", "Keys and bytes by resource and namespace."],
            &["etcd", "usage"],
            Etcd,
            true,
        ),
        (
            ["etcd_history", "What is written to etcd again and again", "Hot keys and old revisions."],
            &["etcd", "history"],
            Etcd,
            true,
        ),
        (
            ["etcd_check", "Whether etcd's database is whole", "Checksums, trees, order, values, leases."],
            &["etcd", "check"],
            Etcd,
            true,
        ),
        (
            ["memory", "Memory of cgroups", "What the bytes are, and whether memory is short."],
            &["memory", "show"],
            Cgroup,
            true,
        ),
        (["heap", "What the Go heap holds", "By what it is for, and by function."], &["heap", "top"], Heap, true),
        (
            ["heap_diff", "How the Go heap changed", "The first profile and the last."],
            &["heap", "diff"],
            Heap,
            load.heaps > 1,
        ),
        (["quota", "Quotas", "Who comes near to a quota."], &["quota", "check"], Objects, true),
        (
            ["quota_proposals", "Quotas as they should be", "Peak and 20 % headroom."],
            &["quota", "propose"],
            Objects,
            true,
        ),
    ];
    for (head, words, kind, is_wanted) in rest {
        if load.has(kind) && is_wanted {
            let kinds: &'static [Source] = match kind {
                Etcd => &[Etcd],
                Cgroup => &[Cgroup],
                Heap => &[Heap],
                _ => &[Objects],
            };
            wanted.push(asked(head, words, kinds, &[]));
        }
    }
    if !load.history.is_empty() {
        let head =
            ["forecast", "When limits will be reached", "Quotas, nodes, seats, etcd and memory, by their history."];
        wanted.push(asked(head, &["forecast"], &[], &[&load.history]));
    }
    if let [first, last] = load.ends.as_slice() {
        let head = [
            "etcd_diff",
            "What changed in etcd",
            "Keys that were added, removed and changed between the first database and the last.",
        ];
        wanted.push(asked(head, &["etcd", "diff"], &[], &[&words(&[first, last])]));
    }
    wanted
}

/// What audit logs tell: of the window where there is one.
fn of_window(load: &Load, window: Option<Span>) -> Vec<Asked> {
    let mut wanted = Vec::new();
    if !load.has(Audit) {
        return wanted;
    }
    let all = within(load.bounds);
    let during = window.map_or_else(|| all.clone(), |(from, to)| within((Some(from), Some(to))));
    let title = |during: &'static str, always: &'static str| if window.is_some() { during } else { always };
    let about = "How each client behaves, what is wrong with it, and what to do.";
    wanted.push(asked(
        ["clients", title("Clients within the incident", "Clients"), about],
        &["clients"],
        &[Audit, Metrics],
        &[&during],
    ));
    for (name, dims, title) in [
        ("traffic_by_client", "user,agent", title("Requests by client, within the incident", "Requests by client")),
        (
            "traffic",
            "verb,resource",
            title("Requests by verb and resource, within the incident", "Requests by verb and resource"),
        ),
    ] {
        let head = [name, title, "How many, how often they fail, and how long they take."];
        wanted.push(asked(head, &["traffic"], &[Audit], &[&words(&["--by", dims]), &during]));
    }
    if let (Some((from, to)), Some(calm)) = (window, load.calm) {
        let side = |from: Micros, to: Micros| format!("{}..{}", time::format(from), time::format(to));
        if from - calm.0 >= SECOND && load.of(&[Audit]).len() == 1 {
            let sides = words(&["--before", &side(calm.0, from), "--after", &side(from, to)]);
            let head =
                ["compare", "What changed with the incident", "Before and within, and what of it is more than chance."];
            wanted.push(asked(head, &["compare"], &[Audit], &[&sides]));
        }
        if from - calm.0 >= ENOUGH {
            let about = "What was wrong already, while nothing had happened yet: it did not cause the incident, but it is worth mending.";
            let before = within((Some(calm.0), Some(from)));
            wanted.push(asked(
                ["chronic", "Clients before the incident", about],
                &["clients"],
                &[Audit, Metrics],
                &[&before],
            ));
        }
    }
    wanted
}

impl Asked {
    /// Whether the command asks audit logs, and is given any, by name or in a bundle.
    fn asks_logs(&self, load: &Load) -> bool {
        let holds = |source: &String| load.holders.iter().any(|(kind, holder)| *kind == Audit && holder == source);
        ASKING.contains(&self.name) && load.of(self.kinds).iter().any(holds)
    }
}

impl Sections {
    /// Asks all commands that have something to say of that.
    pub(super) fn of(load: &Load, asks: Asks, context: &mut Context<'_>) -> Result<Self, Error> {
        let wanted: Vec<Asked> = match asks {
            Asks::LogsOf(window) => of_window(load, window),
            _ => wanted(load)
                .into_iter()
                .filter(|asked| asked.asks_logs(load) == (asks == Asks::LogsOfAllTime))
                .collect(),
        };
        let mut sections = Self::default();
        let progress = Progress::count(
            wanted.len() as u64,
            "parts of the report",
            context.settings.progress && !logs::is_hearing(context),
        );
        for asked in wanted {
            sections.ask(load, asked, context)?;
            progress.read(1);
        }
        progress.finish();
        Ok(sections)
    }

    /// Adds others, and puts all in the order of a report.
    pub(super) fn add(&mut self, other: Self) {
        self.all.extend(other.all);
        self.lost.extend(other.lost);
        let place = |section: &Section| ORDER.iter().position(|name| *name == section.name).unwrap_or(ORDER.len());
        self.all.sort_by_key(place);
    }

    /// Asks a command; one that can't answer is left out, and it is said why.
    fn ask(&mut self, load: &Load, asked: Asked, context: &mut Context<'_>) -> Result<(), Error> {
        let command: Vec<String> =
            words(asked.words).into_iter().chain(load.of(asked.kinds)).chain(asked.behind).collect();
        // What machines read is whole; people sort and search a table that is not too long for it.
        let form: &[&str] = match context.settings.format {
            Format::Json | Format::Yaml => &["-o", "json"],
            _ => &["-o", "wide", "--top", TOP],
        };
        let full: Vec<String> = command.iter().cloned().chain(words(form)).collect();
        match gather(&full, context) {
            Ok(gathered) => {
                let is_whole = load.is_whole || WHOLE.contains(&asked.name);
                let own = |mut report: Report| {
                    if !is_whole {
                        report.table.rows.truncate(report.shown.unwrap_or(usize::MAX));
                    }
                    Section {
                        name: asked.name,
                        title: asked.title,
                        about: asked.about,
                        command: command.clone(),
                        report,
                    }
                };
                self.all.extend(gathered.reports.into_iter().take(1).map(own));
            }
            Err(Error::Output(error)) => return Err(Error::Output(error)),
            // It will be asked again when there is an answer.
            Err(Error::Unanswered) => {}
            Err(error) => self.lost.push(format!("{}: {error}", asked.title)),
        }
        Ok(())
    }

    /// Flame graphs of the key space and of the heap, and how both changed.
    pub(super) fn draw(&mut self, load: &Load, context: &mut Context<'_>) -> Result<(), Error> {
        let mut flames: Vec<(&'static str, &'static str, Vec<String>)> = Vec::new();
        let of = |command: &[&str], kind: Source| -> Vec<String> {
            words(command).into_iter().chain(load.of(&[kind])).collect()
        };
        if load.has(Etcd) {
            flames.push(("keyspace", "The key space of etcd, by bytes", of(&["etcd", "flame"], Etcd)));
        }
        if let [first, _] = load.ends.as_slice() {
            let command = of(&["etcd", "flame"], Etcd).into_iter().chain(words(&["--diff", first]));
            flames.push((
                "keyspace_diff",
                "The key space of etcd, and how it changed: red has grown, blue has shrunk",
                command.collect(),
            ));
        }
        if load.has(Heap) {
            flames.push(("heap", "The Go heap, by bytes in use", of(&["heap", "flame"], Heap)));
        }
        let compared = self.all.iter().find(|section| section.name == "heap_diff");
        if let Some(first) = compared.and_then(|section| section.report.inputs.first()) {
            let command = of(&["heap", "flame"], Heap).into_iter().chain(words(&["--diff", &first.path]));
            flames.push((
                "heap_diff",
                "The Go heap, and how it changed: red has grown, blue has shrunk",
                command.collect(),
            ));
        }
        for (name, title, command) in flames {
            match gather(&command, context) {
                Ok(gathered) => self.flames.extend(gathered.trees.into_iter().take(1).map(|tree| Flame {
                    name,
                    title,
                    command: command.clone(),
                    tree,
                })),
                Err(Error::Output(error)) => return Err(Error::Output(error)),
                Err(error) => self.lost.push(format!("{title}: {error}")),
            }
        }
        Ok(())
    }
}

/// Objects that fence the likeliest clients off.
pub(super) fn manifests(load: &Load, causes: &mut [Cause], context: &mut Context<'_>) -> Result<(), Error> {
    let user = |cause: &Cause| cause.subject.iter().find(|(name, _)| *name == "user").map(|(_, user)| user.clone());
    let is_likely = |cause: &&mut Cause| cause.kind == "client-surge" && cause.confidence >= Cause::LIKELY;
    let mut likely: Vec<(&mut Cause, Vec<String>)> = Vec::new();
    for cause in causes.iter_mut().filter(is_likely) {
        let Some(user) = user(cause) else { continue };
        let sources = load.of(&[Audit, Metrics]);
        likely.push((cause, [words(&["clients"]), sources, words(&["--emit", "fence", "--client", &user])].concat()));
    }
    // All of them begin with the same roll-up.
    let texts = logs::together(context, |context| {
        let texts: Vec<Result<String, Error>> =
            likely.iter().map(|(_, command)| gather(command, context).map(|gathered| gathered.text)).collect();
        match texts.iter().any(|text| matches!(text, Err(Error::Unanswered))) {
            true => Err(Error::Unanswered),
            false => Ok(texts),
        }
    })?;
    for ((cause, command), text) in likely.into_iter().zip(texts) {
        match text {
            Ok(text) if !text.is_empty() => cause.manifests.push((command, text)),
            Err(Error::Output(error)) => return Err(Error::Output(error)),
            // It is said beside the cause how to write them.
            _ => {}
        }
    }
    Ok(())
}
