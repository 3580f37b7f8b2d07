//! What is exported: counters of audit logs, which are kept in the store's folder with the place up to which they
//! count, what is wrong now, and how `serve` itself does.

use crate::actions::fresh::replace;
use crate::analysis::clients::cost::SizeContext;
use crate::analysis::exporter::{Counters, Gauges, Relists};
use crate::analysis::list_route::Minor;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::stored::{Loader, Tables, Wanted};
use crate::cli::{Context, Error};
use crate::inputs::episodes;
use crate::inputs::manifest::manifest;
use crate::inputs::recording::{Gained, failed};
use crate::inputs::rolled;
use crate::jobs::samples::Taken;
use crate::model::alert::Config;
use crate::model::episode::State;
use crate::model::exposed::{Exposed, Family, FamilyKind, Spec};
use crate::model::question::{Clients, Question};
use crate::model::report::Severity;
use crate::model::rollup::{Manifest, StoredFile};
use crate::model::time::{HOUR, Micros, SECOND};
use crate::sources::clock::now;
use crate::sources::rolled::Rolled;
use crate::sources::store::Store;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The counters' file in the store's folder; hidden, since it is no source.
const FILE: &str = ".serve.json";

/// What is judged: the time before now.
const JUDGED: Micros = HOUR;

const fn counter(name: &'static str, help: &'static str) -> Spec {
    Spec { name, help, kind: FamilyKind::Counter, labels: &[] }
}

const EPISODES: Spec = Spec::gauge(
    "plimsoll_episode_active",
    "Ongoing episodes, by grade (outage, incident, degraded, surge) and likely cause.",
    &["grade", "cause"],
);
const FINDINGS: Spec = Spec::gauge(
    "plimsoll_finding_active",
    "Findings of severity warning and above about clients in the last hour, by whoever owns the client's namespace.",
    &["id", "severity", "owner"],
);
const CLIENTS: Spec = Spec::gauge(
    "plimsoll_client_info",
    "1 for each client with series of its own whose service account's namespace has an owner.",
    &["user", "agent", "owner"],
);
const BUILD: Spec = Spec::gauge("plimsoll_build_info", "Version of this process.", &["version"]);
const ROUNDS: Spec = counter("plimsoll_serve_rounds", "Readings of the sources.");
const ERRORS: Spec = counter("plimsoll_serve_errors", "Readings that failed and are tried again.");
const EVENTS: Spec = counter("plimsoll_serve_audit_events", "Audit events that were read.");
const LOSSES: Spec = counter("plimsoll_serve_losses", "Lines and parts of logs that could not be read.");
const SECONDS: Spec = Spec::gauge("plimsoll_serve_round_duration_seconds", "Time that the last reading took.", &[]);
const LAST: Spec = Spec::gauge(
    "plimsoll_serve_last_round_timestamp_seconds",
    "When the sources were last read without an error; 0: never.",
    &[],
);
const JUDGE_SECONDS: Spec =
    Spec::gauge("plimsoll_serve_judge_duration_seconds", "Time that the last judgement took.", &[]);
const SERIES: Spec = Spec::gauge(
    "plimsoll_serve_series",
    "Series of counters by client, LIST or operation that are exported; at most 20,000.",
    &[],
);
const WAITING: Spec = Spec::gauge(
    "plimsoll_serve_parts_waiting",
    "Roll-ups that wait to be handed over to the instance that judges them.",
    &[],
);
const RESIDENT: Spec = Spec::gauge("process_resident_memory_bytes", "Resident memory of this process.", &[]);

/// Counters and gauges.
pub(super) struct Counted {
    counters: Counters,
    file: PathBuf,
    /// The part before of the same logs, whose last watches may have ended just before a LIST of the next: by the names
    /// of the apiservers.
    before: BTreeMap<String, (Rollup, Manifest, Relists)>,
    /// What the last judgement found.
    judged: BTreeMap<&'static str, Family>,
    /// What metrics pages, cgroups and objects show of now.
    pub(super) gauges: Gauges,
    /// Who owns which namespace.
    owners: Config,
    /// Whether something was read since the last judgement.
    pub(super) has_news: bool,
    pub(super) rounds: u64,
    /// Parts that wait to be handed over, where there is somebody to hand them to.
    pub(super) waiting: Option<usize>,
    pub(super) errors: u64,
    pub(super) round_seconds: f64,
    /// When the sources were last read without an error.
    pub(super) last_success: Option<Micros>,
    judge_seconds: f64,
    /// When the last hour could last be judged.
    judged_at: Micros,
    events: u64,
    losses: u64,
}

impl Counted {
    /// The counters that the store keeps, and what parts of the store they lack: a process may have been killed between
    /// the two. A store without counters begins at zero: what it holds already is not counted.
    pub(super) fn open(
        store: &Store,
        max_clients: usize,
        server: Option<Minor>,
        owners: Config,
        context: &mut Context<'_>,
    ) -> Result<Self, Error> {
        let file = store.folder.join(FILE);
        let kept = match fs::read(&file) {
            Ok(text) => match serde_json::from_slice::<Counters>(&text) {
                Ok(counters) => Some(counters),
                Err(error) => {
                    context.lost(format!("{}: {error}; the counters begin at zero", file.display()))?;
                    None
                }
            },
            Err(_) => None,
        };
        let is_new = kept.is_none();
        let mut counted = Self {
            counters: kept.unwrap_or_default(),
            file,
            before: BTreeMap::new(),
            gauges: Gauges::default(),
            judged: BTreeMap::new(),
            owners,
            has_news: false,
            rounds: 0,
            waiting: None,
            errors: 0,
            round_seconds: 0.0,
            last_success: None,
            judge_seconds: 0.0,
            judged_at: 0,
            events: 0,
            losses: 0,
        };
        counted.counters.configure(max_clients, server);
        let parts = store.rollups().map_err(failed)?;
        let (ahead, behind): (Vec<&Rolled>, Vec<&Rolled>) = parts.parts.iter().partition(|part| {
            let files = &part.manifest.files;
            !is_new && !files.is_empty() && files.iter().all(|file| counted.is_ahead(file))
        });
        if is_new {
            behind.iter().for_each(|part| counted.mark(&part.manifest.files));
        }
        // What the last part ends with goes on in the next.
        let mut last: BTreeMap<String, &Rolled> = BTreeMap::new();
        for part in behind {
            let own = last.entry(apiservers(&part.manifest)).or_insert(part);
            if part.manifest.last > own.manifest.last {
                *own = part;
            }
        }
        for (names, part) in last {
            let (rollup, manifest) = rolled::join(&[part], part.manifest.tile_seconds)?;
            let relists = Relists::from_rollup(&rollup);
            counted.before.insert(names, (rollup, manifest, relists));
        }
        counted.count_parts(ahead)?;
        counted.keep(context)?;
        Ok(counted)
    }

    fn count_parts<'p>(&mut self, parts: impl IntoIterator<Item = &'p Rolled>) -> Result<(), Error> {
        for part in parts {
            let (rollup, manifest) = rolled::join(&[part], part.manifest.tile_seconds)?;
            self.count(rollup, manifest)?;
        }
        Ok(())
    }

    /// Counts what others handed over, which the store holds already.
    pub(super) fn take_parts(&mut self, parts: &[Rolled], context: &mut Context<'_>) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        for stream in parts.iter().flat_map(|part| &part.manifest.streams) {
            self.events += stream.coverage().total();
        }
        self.count_parts(parts)?;
        self.keep(context)
    }

    /// Takes note of what was read, and counts none of it: whom it is handed to does.
    pub(super) fn note(&mut self, gained: &Gained) {
        self.events += gained.events();
        self.losses += gained.outcome.losses.iter().map(|loss| loss.count).sum::<u64>();
    }

    /// Whether a piece of a log lies behind what is counted of it.
    fn is_ahead(&self, file: &StoredFile) -> bool {
        self.counters.counted.get(&file.log).is_none_or(|to| file.from >= *to)
    }

    fn mark(&mut self, files: &[StoredFile]) {
        files.iter().for_each(|file| file.advance(&mut self.counters.counted));
    }

    /// Counts what the logs gained, which the store holds already.
    pub(super) fn take(&mut self, gained: Gained, context: &mut Context<'_>) -> Result<(), Error> {
        self.note(&gained);
        let Gained { rollup: Some(rollup), outcome, files } = gained else { return Ok(()) };
        let manifest = Manifest { files, ..manifest(&rollup, &[], &outcome) };
        self.count(rollup, manifest)?;
        self.keep(context)
    }

    /// Takes what metrics pages, cgroups and objects show.
    pub(super) fn take_now(&mut self, taken: Taken) {
        self.gauges.take(&taken.samples);
        self.gauges.memory(taken.groups);
        if let Some(namespaces) = taken.namespaces {
            self.gauges.namespaces(namespaces);
        }
        if let Some((at, requests)) = taken.requests {
            self.gauges.requests(at, requests);
        }
    }

    /// Counts a part, of which relists may follow watches that ended in the part before.
    fn count(&mut self, rollup: Rollup, manifest: Manifest) -> Result<(), Error> {
        let own = Relists::from_rollup(&rollup);
        let names = apiservers(&manifest);
        let relists = match self.before.remove(&names) {
            None => own.clone(),
            Some((before, of_before, theirs)) => {
                let wanted = Wanted { with_seams: true, tables: Tables::All, ..Wanted::default() };
                let mut loader = Loader::new(wanted);
                for (part, of_part) in [(&before, &of_before), (&rollup, &manifest)] {
                    rolled::take_part(&mut loader, Tables::All, part, of_part).map_err(Error::input)?;
                }
                Relists::from_rollup(&loader.finish()).without(&theirs)
            }
        };
        let sizes = SizeContext { snapshot: None, metrics: self.gauges.sizes() };
        self.counters.add(&rollup, &relists, &sizes, now());
        self.mark(&manifest.files);
        self.before.insert(names, (rollup, manifest, own));
        self.has_news = true;
        Ok(())
    }

    /// Writes the counters down. Where that fails they go on, and a restart counts the store's parts again from before.
    fn keep(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let written = serde_json::to_vec(&self.counters)
            .map_err(std::io::Error::other)
            .and_then(|text| replace(&self.file, &text));
        if let Err(error) = written {
            self.errors += 1;
            context.warn(format!("{}: {error}", self.file.display()))?;
        }
        Ok(())
    }

    /// Whether an episode or a finding is exported: it ends also where nothing is read any more.
    pub(super) fn shows_something(&self) -> bool {
        self.judged.values().any(|family| !family.series.is_empty())
    }

    /// Judges the last hour of the store. What fails is said, and what was known before stays, for an hour at most.
    pub(super) fn judge(&mut self, store: &Store, context: &mut Context<'_>) {
        let began = std::time::Instant::now();
        let within = (Some(now() - JUDGED), None);
        let sources = super::api::judged_sources(store);
        let episodes = episodes::episodes(&sources, within, context).map(|judged| judged.episodes);
        let findings = match store.rollups() {
            // Metrics name no clients.
            Ok(parts) if parts.parts.is_empty() => Ok(Vec::new()),
            _ => {
                let sources = vec![store.rollups_folder().display().to_string()];
                let clients = Question::Clients(Clients { sources, bounds: within, ..Clients::default() });
                super::api::findings(&clients, context)
            }
        };
        let result = episodes.and_then(|episodes| Ok((episodes, findings?)));
        self.judge_seconds = began.elapsed().as_secs_f64();
        let (episodes, findings) = match result {
            Ok(found) => found,
            Err(error) => {
                if now() - self.judged_at > JUDGED {
                    self.judged.clear();
                }
                self.errors += 1;
                let _ = context.warn(format!("judging: {}", error.message().unwrap_or_default()));
                return;
            }
        };
        self.judged_at = now();
        let mut active: BTreeMap<Vec<String>, f64> = BTreeMap::new();
        for own in episodes.iter().filter(|own| own.state == State::Ongoing) {
            let cause = own.causes.first().map_or("unknown", |cause| cause.kind);
            *active.entry(vec![own.grade.name().to_owned(), cause.to_owned()]).or_default() += 1.0;
        }
        self.set(EPISODES, active);
        let mut active: BTreeMap<Vec<String>, f64> = BTreeMap::new();
        for own in findings.iter().filter(|own| own.severity >= Severity::Warning) {
            let owner = own.subject.get("user").map(|user| self.gauges.owner(&self.owners, user)).unwrap_or_default();
            *active.entry(vec![own.id.to_string(), own.severity.name().to_owned(), owner]).or_default() += 1.0;
        }
        self.set(FINDINGS, active);
    }

    fn set(&mut self, spec: Spec, values: BTreeMap<Vec<String>, f64>) {
        let series = values.into_iter().map(|(labels, value)| (labels, Exposed::Number(value))).collect();
        self.judged.insert(spec.name, Family { spec, series });
    }

    /// All that is exported now.
    pub(super) fn families(&self) -> Vec<Family> {
        let version = vec![env!("CARGO_PKG_VERSION").to_owned()];
        let own = [
            Family { spec: BUILD, series: vec![(version, Exposed::Number(1.0))] },
            Family::single(ROUNDS, self.rounds as f64),
            Family::single(ERRORS, self.errors as f64),
            Family::single(EVENTS, self.events as f64),
            Family::single(LOSSES, self.losses as f64),
            Family::single(SECONDS, self.round_seconds),
            Family::single(LAST, self.last_success.unwrap_or(0) as f64 / SECOND as f64),
            Family::single(JUDGE_SECONDS, self.judge_seconds),
            Family::single(SERIES, self.counters.len() as f64),
        ];
        let resident = resident_bytes().map(|bytes| Family::single(RESIDENT, bytes as f64));
        let waiting = self.waiting.map(|parts| Family::single(WAITING, parts as f64));
        let now = now();
        let counters = self.counters.families(now).into_iter();
        let gauges = [self.clients()].into_iter().chain(self.gauges.families(now));
        counters.chain(gauges).chain(self.judged.values().cloned()).chain(own).chain(waiting).chain(resident).collect()
    }

    /// Owners of clients.
    fn clients(&self) -> Family {
        let owned = self.counters.shown().filter_map(|(user, agent)| {
            let owner = self.gauges.owner(&self.owners, user);
            let labels = [user, agent, &owner].map(str::to_owned).to_vec();
            (!owner.is_empty()).then_some((labels, Exposed::Number(1.0)))
        });
        Family { spec: CLIENTS, series: owned.collect() }
    }
}

/// The names of the apiservers whose logs a part is made of.
fn apiservers(manifest: &Manifest) -> String {
    manifest.streams.iter().map(|stream| stream.instance.as_str()).collect::<Vec<_>>().join(",")
}

/// Resident memory of this process, where the kernel says.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
