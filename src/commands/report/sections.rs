//! What other questions come to about the same sources: the sections of a report.

use crate::analysis::answer::Answer;
use crate::analysis::incident::answers::Answers;
use crate::cli::{Context, Error, Progress, Shown};
use crate::commands::{answer, etcd};
use crate::inputs::etcd::opened::Ask;
use crate::inputs::etcd::{open, removed};
use crate::inputs::load::Load;
use crate::inputs::{logs, together};
use crate::model::cause::{Cause, Source};
use crate::model::incident::{Flame, Section};
use crate::model::question::{self, Question};
use crate::model::time::{Bounds, MINUTE, Micros, SECOND, Span};
use crate::sources::watcher::Watcher;
use crate::views::Format;
use Source::{Audit, Cgroup, Etcd, Heap, Metrics, Objects};

/// Rows of a table that a person can sort and search.
const TOP: usize = 100;
/// Sections whose rows are evidence: they are kept, shown or not. Of others a large log has hundreds of thousands.
const WHOLE: [&str; 6] = ["traffic_by_client", "compare", "guard", "balance", "controllers", "etcd_health"];
/// The order of sections: first what the window shows, then the control plane, then what is stored and used.
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
/// Less time before the window shows nothing of clients.
const MIN_SPAN_US: Micros = MINUTE;

/// All sections.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) all: Vec<Section>,
    pub(super) flames: Vec<Flame>,
    /// What they came to, as the analysis uses it.
    pub(super) answers: Answers,
    /// Those that could not be made, and why.
    pub(super) lost: Vec<String>,
}

/// A section that is asked for: its name in JSON, a heading, what it is for, and the question.
struct SectionSpec {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    question: Question,
}

/// Name in JSON, heading, what it is for.
type Head = [&'static str; 3];

fn asked([name, title, about]: Head, question: Question) -> SectionSpec {
    SectionSpec { name, title, about, question }
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
fn wanted(load: &Load) -> Vec<SectionSpec> {
    let mut wanted = Vec::new();
    let bounds = load.bounds;
    if load.has(Audit) {
        let head = ["guard", "Dangerous operations", "Operations that are hard to undo, by users and programs."];
        let sources = load.of(&[Audit]);
        wanted
            .push(asked(head, Question::GuardEvents(question::GuardEvents { sources, bounds, ..Default::default() })));
    }
    if load.has(Audit) || load.has(Metrics) {
        let head = ["balance", "Load balance", "Skew, onset, responsible clients and remedies."];
        let (sources, within) = (load.of(&[Audit, Metrics]), question::Balance::WITHIN);
        wanted.push(asked(head, Question::Balance(question::Balance { sources, filters: Vec::new(), within, bounds })));
    }
    if load.facts.has_requests() && load.has_rates() {
        let head = [
            "health",
            "Control-plane health",
            "Priority levels, objectives, LISTs, watches, webhooks and objects, from metrics.",
        ];
        let from = Some(question::Kind::Metrics);
        let sources = load.of(&[Metrics]);
        wanted.push(asked(
            head,
            Question::Traffic(question::Traffic { sources, from, health: true, bounds, ..by(&["verb", "resource"]) }),
        ));
    }
    if load.facts.has_store() {
        let head = ["etcd_health", "etcd health", "Disk, leader, proposals and size, from metrics."];
        wanted.push(asked(head, Question::EtcdHealth(question::EtcdHealth { sources: load.of(&[Metrics]), bounds })));
    }
    if load.has(Audit) || load.has(Metrics) {
        let head = ["controllers", "Controllers and scheduler", "Work queues, pending pods, leader changes."];
        let sources = load.of(&[Audit, Metrics, Objects]);
        wanted.push(asked(head, Question::Controllers(question::Controllers { sources, at: None, bounds })));
    }
    wanted.extend(stored(load));
    if !load.history.is_empty() {
        let head = ["forecast", "Capacity forecast", "When quotas, nodes, seats, etcd and memory reach their limits."];
        let sources = load.history.clone();
        wanted.push(asked(head, Question::Forecast(question::Forecast { sources, ..Default::default() })));
    }
    if let [first, last] = load.ends.as_slice() {
        let head = [
            "etcd_diff",
            "Changes in etcd",
            "Keys added, removed and changed between the first database and the last.",
        ];
        let (before, after) = (first.clone(), Some(last.clone()));
        wanted.push(asked(head, Question::EtcdDiff(question::EtcdDiff { before, after, ..Default::default() })));
    }
    wanted
}

fn by(dims: &[&str]) -> question::Traffic {
    question::Traffic { by: dims.iter().map(|dim| (*dim).to_owned()).collect(), ..Default::default() }
}

/// What is asked of what was captured at one moment: databases, cgroups, heaps, objects.
fn stored(load: &Load) -> Vec<SectionSpec> {
    let mut wanted = Vec::new();
    if let Some(source) = database(load) {
        wanted.push(asked(
            ["etcd_usage", "etcd key space", "Keys and bytes by resource and namespace."],
            Question::EtcdUsage(question::EtcdUsage { source: source.clone(), ..Default::default() }),
        ));
        wanted.push(asked(
            ["etcd_history", "etcd write history", "Hot keys and old revisions."],
            Question::EtcdHistory(question::EtcdHistory { source: source.clone(), ..Default::default() }),
        ));
        wanted.push(asked(
            ["etcd_check", "etcd integrity", "Checksums, trees, order, values, leases."],
            Question::EtcdCheck(question::EtcdCheck { source, ..Default::default() }),
        ));
    }
    if load.has(Cgroup) {
        let head = ["memory", "cgroup memory", "Memory by type, and whether it is short."];
        let sources = load.of(&[Cgroup]);
        wanted.push(asked(head, Question::MemoryShow(question::MemoryShow { sources, ..Default::default() })));
    }
    if load.has(Heap) {
        let sources = load.of(&[Heap]);
        let head = ["heap", "Go heap", "By purpose and by function."];
        wanted
            .push(asked(head, Question::HeapTop(question::HeapTop { sources: sources.clone(), ..Default::default() })));
        if load.heaps > 1 {
            let head = ["heap_diff", "Go heap changes", "Between the first profile and the last."];
            wanted.push(asked(head, Question::HeapDiff(question::HeapDiff { sources, ..Default::default() })));
        }
    }
    if load.has(Objects) {
        let source = question::QuotaSources { sources: load.of(&[Objects]), ..Default::default() };
        let head = ["quota", "Quotas", "Quotas and their usage."];
        wanted.push(asked(
            head,
            Question::QuotaCheck(question::QuotaCheck { source: source.clone(), ..Default::default() }),
        ));
        let head = ["quota_proposals", "Quota proposals", "Peak usage plus 20 % headroom."];
        wanted.push(asked(head, Question::QuotaPropose(question::QuotaPropose { source, ..Default::default() })));
    }
    wanted
}

/// The source of the database that questions about the key space are about: of several sources the last database.
fn database(load: &Load) -> Option<String> {
    match load.of(&[Etcd]).as_slice() {
        [one] => Some(one.clone()),
        many => load.ends.last().or(many.last()).cloned(),
    }
}

/// Walks once over each of the two databases that are compared, for all that asks how they differ.
pub(super) fn walk_ends(load: &Load, context: &mut Context<'_>) {
    if let [_, _] = load.ends.as_slice() {
        let mut asks = vec![etcd::ask_of_diff(), etcd::ask_of_flame()];
        asks.extend(load.has(Audit).then(removed::asks));
        load.ends.iter().for_each(|path| walk(path, &asks, context));
    }
}

/// Walks once over the database of which it is asked what fills it and whether it is whole.
fn walk_last(load: &Load, context: &mut Context<'_>) {
    if let Some(path) = database(load) {
        let mut asks = etcd::asks_of_state();
        asks.extend((load.ends.len() < 2).then(etcd::ask_of_flame));
        walk(&path, &asks, context);
    }
}

fn walk(path: &str, asks: &[Ask], context: &mut Context<'_>) {
    let shown = Shown { format: Format::Json, top: None };
    // A database that can't be read is reported where it is asked for.
    let _ = context.compose(shown, |context| {
        open::open(path, context)?.walk_ahead(None, asks, context);
        Ok(())
    });
}

/// What audit logs show: of the window where there is one.
fn of_window(load: &Load, window: Option<Span>) -> Vec<SectionSpec> {
    let mut wanted = Vec::new();
    if !load.has(Audit) {
        return wanted;
    }
    let during: Bounds = window.map_or(load.bounds, |(from, to)| (Some(from), Some(to)));
    let title = |during: &'static str, always: &'static str| if window.is_some() { during } else { always };
    let clients = |bounds: Bounds| {
        let sources = load.of(&[Audit, Metrics]);
        Question::Clients(question::Clients { sources, bounds, ..Default::default() })
    };
    let about = "Client profiles, findings and remedies.";
    wanted.push(asked(["clients", title("Clients during the incident", "Clients"), about], clients(during)));
    for (name, dims, title) in [
        ("traffic_by_client", ["user", "agent"], title("Requests by client during the incident", "Requests by client")),
        (
            "traffic",
            ["verb", "resource"],
            title("Requests by verb and resource during the incident", "Requests by verb and resource"),
        ),
    ] {
        let head = [name, title, "Count, errors and latency."];
        let sources = load.of(&[Audit]);
        wanted.push(asked(head, Question::Traffic(question::Traffic { sources, bounds: during, ..by(&dims) })));
    }
    let (Some((from, to)), Some(calm)) = (window, load.calm) else { return wanted };
    if let (true, [source]) = (from - calm.0 >= SECOND, load.of(&[Audit]).as_slice()) {
        let head =
            ["compare", "Changes during the incident", "Before and during the incident; only significant changes."];
        let question = question::Compare {
            before: source.clone(),
            after: None,
            windows: [(Some(calm.0), Some(from)), (Some(from), Some(to))],
            filters: Vec::new(),
            at_least: question::Compare::AT_LEAST,
            fail_on_increase: Vec::new(),
        };
        wanted.push(asked(head, Question::Compare(question)));
    }
    if from - calm.0 >= MIN_SPAN_US {
        let about = "Findings from before the incident: not its cause, but still worth fixing.";
        let before = (Some(calm.0), Some(from));
        wanted.push(asked(["chronic", "Clients before the incident", about], clients(before)));
    }
    wanted
}

impl SectionSpec {
    /// Whether the question is about audit logs, and it is given any, by name or in a bundle.
    fn asks_logs(&self, load: &Load) -> bool {
        let kinds: &[Source] = match self.name {
            "guard" => &[Audit],
            "balance" => &[Audit, Metrics],
            "controllers" => &[Audit, Metrics, Objects],
            "quota" | "quota_proposals" => &[Objects],
            _ => return false,
        };
        let holds = |source: &String| load.holders.iter().any(|(kind, holder)| *kind == Audit && holder == source);
        load.of(kinds).iter().any(holds)
    }
}

impl Sections {
    /// Asks all questions that have something to say of that.
    pub(super) fn of(load: &Load, asks: Asks, context: &mut Context<'_>) -> Result<Self, Error> {
        let wanted: Vec<SectionSpec> = match asks {
            Asks::LogsOf(window) => of_window(load, window),
            _ => wanted(load)
                .into_iter()
                .filter(|asked| asked.asks_logs(load) == (asks == Asks::LogsOfAllTime))
                .collect(),
        };
        if asks == Asks::Other {
            walk_last(load, context);
        }
        let mut sections = Self::default();
        let progress = Progress::count(
            wanted.len() as u64,
            "parts of the report",
            context.settings.progress && !logs::is_collecting(context),
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
        self.answers.merge(other.answers);
        let place = |section: &Section| ORDER.iter().position(|name| *name == section.name).unwrap_or(ORDER.len());
        self.all.sort_by_key(place);
    }

    /// Asks a question; one that can't be answered is left out, and it is said why.
    fn ask(&mut self, load: &Load, asked: SectionSpec, context: &mut Context<'_>) -> Result<(), Error> {
        // What machines read is whole; people sort and search a table that is not too long for it.
        let shown = match context.settings.format {
            Format::Json | Format::Yaml => Shown { format: Format::Json, top: None },
            _ => Shown { format: Format::Wide, top: Some(TOP) },
        };
        match context.compose(shown, |context| answer(&asked.question, context)) {
            Ok(Answer::Report(mut report, rows)) => {
                if !load.is_whole && !WHOLE.contains(&asked.name) {
                    report.table.rows.truncate(report.shown.unwrap_or(usize::MAX));
                }
                let SectionSpec { name, title, about, question } = asked;
                let section = Section { name, title, about, command: question.words(), report: *report };
                self.answers.add(&section, rows);
                self.all.push(section);
            }
            Ok(Answer::Flame(_) | Answer::Manifests(_)) => {}
            Err(Error::Output(error)) => return Err(Error::Output(error)),
            // It will be asked again when there is an answer.
            Err(Error::Unanswered) => {}
            // What was named, and can't be read, is a loss, as any source is.
            Err(error) if asked.name == "forecast" => context.lost(format!("--history: {error}"))?,
            Err(error) => self.lost.push(format!("{}: {error}", asked.title)),
        }
        Ok(())
    }

    /// Flame graphs of the key space and of the heap, and how both changed.
    pub(super) fn draw(&mut self, load: &Load, context: &mut Context<'_>) -> Result<(), Error> {
        let mut flames: Vec<(&'static str, &'static str, Question)> = Vec::new();
        let keys = |source: &String, diff: Option<&String>| {
            let (source, diff) = (source.clone(), diff.cloned());
            Question::EtcdFlame(question::EtcdFlame { source, diff, ..Default::default() })
        };
        let heap = |diff: Option<&String>| {
            let (sources, diff) = (load.of(&[Heap]), diff.cloned());
            Question::HeapFlame(question::HeapFlame { sources, diff, ..Default::default() })
        };
        if let Some(source) = database(load) {
            flames.push(("keyspace", "etcd key space, by bytes", keys(&source, None)));
            if let [first, _] = load.ends.as_slice() {
                flames.push((
                    "keyspace_diff",
                    "etcd key space, changes: red grew, blue shrank",
                    keys(&source, Some(first)),
                ));
            }
        }
        if load.has(Heap) {
            flames.push(("heap", "Go heap, by bytes in use", heap(None)));
        }
        let compared = self.all.iter().find(|section| section.name == "heap_diff");
        if let Some(first) = compared.and_then(|section| section.report.inputs.first()) {
            flames.push(("heap_diff", "Go heap, changes: red grew, blue shrank", heap(Some(&first.path))));
        }
        for (name, title, question) in flames {
            match context.compose(Shown::default(), |context| answer(&question, context)) {
                Ok(Answer::Flame(tree)) => {
                    self.flames.push(Flame { name, title, command: question.words(), tree: *tree });
                }
                Ok(_) => {}
                Err(Error::Output(error)) => return Err(Error::Output(error)),
                Err(error) => self.lost.push(format!("{title}: {error}")),
            }
        }
        Ok(())
    }
}

/// Objects that throttle the likeliest clients.
pub(super) fn manifests(load: &Load, causes: &mut [Cause], context: &mut Context<'_>) -> Result<(), Error> {
    let user = |cause: &Cause| cause.subject_of("user").map(str::to_owned);
    let is_likely = |cause: &&mut Cause| cause.kind == "client-surge" && cause.confidence >= Cause::LIKELY;
    let mut likely: Vec<(&mut Cause, Question)> = Vec::new();
    for cause in causes.iter_mut().filter(is_likely) {
        let Some(user) = user(cause) else { continue };
        let emit = question::Emit { form: Some(question::Form::Fence), clients: vec![user], ..Default::default() };
        let sources = load.of(&[Audit, Metrics]);
        likely.push((cause, Question::Clients(question::Clients { sources, emit, ..Default::default() })));
    }
    // All of them begin with the same roll-up.
    let answers = together::run(context, |context| {
        let ask = |question: &Question, context: &mut Context<'_>| {
            context.compose(Shown::default(), |context| answer(question, context))
        };
        let answers: Vec<Result<Answer, Error>> = likely.iter().map(|(_, question)| ask(question, context)).collect();
        match answers.iter().any(|answer| matches!(answer, Err(Error::Unanswered))) {
            true => Err(Error::Unanswered),
            false => Ok(answers),
        }
    })?;
    for ((cause, question), answer) in likely.into_iter().zip(answers) {
        match answer {
            Ok(Answer::Manifests(text)) if !text.is_empty() => cause.manifests.push((question.words(), text)),
            Err(Error::Output(error)) => return Err(Error::Output(error)),
            // It is said beside the cause how to write them.
            _ => {}
        }
    }
    Ok(())
}
