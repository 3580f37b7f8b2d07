//! What is read live: each source on a thread of its own, at its own pace, into the spool. One that fails is tried
//! again, later and later; what is known of it goes to the log.

use super::course::Growing;
use super::engine::{Worker, look};
use super::spool::Spool;
use crate::actions::bundle::ARCHIVE;
use crate::cli::Settings;
use crate::commands::collect;
use crate::model::incident::Source;
use crate::model::report::Severity;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::apf;
use crate::sources::audit::follow::Follower;
use crate::sources::clock::now;
use crate::sources::live::{Cluster, LiveError, Page, Target};
use crate::views::tui::{Found, Msg, Standing, Status};
use crossbeam_channel::Sender;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A source that fails is tried again after the usual pause, then twice that, and so on up to this.
const LONGEST: Duration = Duration::from_secs(60);
/// After so many failures the cluster is looked for anew: credentials run out, apiservers move.
const ANEW: u32 = 3;
/// What comes within this time is told together.
const TOGETHER: Duration = Duration::from_millis(400);
/// How often logs are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a log that was there already that are read.
const BACK: u64 = 64 << 20;

/// What all threads write into.
pub(super) struct Shared {
    pub(super) spool: Mutex<Spool>,
    messages: Sender<Msg>,
    growing: Arc<Mutex<Growing>>,
    /// What there is, as far as it is known.
    found: Mutex<Found>,
    /// Whether something has come that nobody was told of.
    has_more: AtomicBool,
    /// How often everything is asked for.
    every: Duration,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Nothing has been read.
    pub(super) fn new(spool: Spool, growing: Arc<Mutex<Growing>>, messages: Sender<Msg>, every: Duration) -> Arc<Self> {
        let has_more = AtomicBool::new(false);
        let shared =
            Arc::new(Self { spool: Mutex::new(spool), messages, growing, found: Mutex::default(), has_more, every });
        let told = Arc::clone(&shared);
        std::thread::spawn(move || {
            // What several apiservers give at about the same time is looked at once.
            loop {
                std::thread::sleep(TOGETHER);
                if told.has_more.swap(false, Ordering::Relaxed) {
                    let found = locked(&told.found).clone();
                    told.send(Msg::Found(found));
                }
            }
        });
        shared
    }

    /// Writes what was read as a bundle that stays, on a thread of its own; says what came of it.
    pub(super) fn save(self: &Arc<Self>, path: String, with_bodies: bool) {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            if Path::new(&path).exists() {
                return shared.send(Msg::Done(format!("{path}: it is there already; name another")));
            }
            let written = locked(&shared.spool).save(Path::new(&path), with_bodies);
            let next = if path.ends_with(ARCHIVE) { "unpack it, and " } else { "" };
            shared.send(Msg::Done(match written {
                Ok((files, stripped)) => {
                    let left = match stripped.events {
                        0 => String::new(),
                        events => format!(", bodies of {} left out", counted(events, "audit event")),
                    };
                    format!(
                        "written: {path} ({}{left}); {next}plimsoll report and plimsoll tui read it",
                        counted(files, "file")
                    )
                }
                Err(error) => format!("{path}: can't write it: {error}"),
            }));
        });
    }

    /// Removes what was kept: the threads that still write are not waited for.
    pub(super) fn end(&self) {
        locked(&self.spool).remove();
    }

    fn send(&self, msg: Msg) {
        // Nobody listens any more: the program ends.
        let _ = self.messages.send(msg);
    }

    /// Something of these kinds has come.
    fn came(&self, kinds: &[(Source, &str)], has_dumps: bool) {
        let spool = locked(&self.spool);
        let since = spool.since();
        let folder = spool.folder.display().to_string();
        drop(spool);
        let mut found = locked(&self.found);
        for (kind, below) in kinds {
            let holder = (*kind, if below.is_empty() { folder.clone() } else { format!("{folder}/{below}") });
            if !found.holders.contains(&holder) {
                found.holders.push(holder);
            }
        }
        if has_dumps && !found.dumps.contains(&folder) {
            found.dumps.push(folder);
        }
        found.span = since.map(|since| (since, now()));
        self.has_more.store(true, Ordering::Relaxed);
    }

    fn lost(&self, what: &str, error: &std::io::Error) {
        self.send(Msg::Said(Severity::Critical, format!("{what}: what came can't be kept: {error}")));
    }
}

/// Finds out what there is among sources that don't change.
pub(super) fn still(shared: &Arc<Shared>, sources: Vec<String>, history: Vec<String>, settings: Settings) {
    if sources.is_empty() && history.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let worker = Worker::new(settings, shared.messages.clone());
        match worker.with(|context| look(&sources, history, context)) {
            Ok(still) => {
                let mut found = locked(&shared.found);
                found.holders.extend(still.holders);
                found.dumps.extend(still.dumps);
                (found.ends, found.history, found.stores) = (still.ends, still.history, still.stores);
                shared.has_more.store(true, Ordering::Relaxed);
            }
            Err(error) => shared.send(Msg::Said(Severity::Critical, error.to_string())),
        }
    });
}

/// How a source does, and when it is asked next.
struct Pace<'a> {
    shared: &'a Shared,
    name: String,
    failures: u32,
    since: Micros,
}

impl<'a> Pace<'a> {
    fn new(shared: &'a Shared, name: &str) -> Self {
        Self { shared, name: name.to_owned(), failures: 0, since: 0 }
    }

    fn tell(&self, standing: Standing) {
        self.shared.send(Msg::Source(Status { name: self.name.clone(), standing }));
    }

    /// It gave what was asked for.
    fn well(&mut self) -> Duration {
        self.failures = 0;
        self.tell(Standing::Well(now()));
        self.shared.every
    }

    /// It failed.
    fn failed(&mut self, why: String) -> Duration {
        if self.failures == 0 {
            self.since = now();
        }
        let pause = self.shared.every.saturating_mul(1 << self.failures.min(10)).min(LONGEST.max(self.shared.every));
        self.failures += 1;
        let again = Some(now() + i64::try_from(pause.as_micros()).unwrap_or(i64::MAX / 2));
        self.tell(Standing::Failing { since: self.since, why, again });
        pause
    }
}

/// Reads a cluster: each of its apiservers on a thread.
pub(super) fn cluster(shared: &Arc<Shared>, target: Target) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let name = target.context.clone().unwrap_or_else(|| "cluster".to_owned());
        let mut pace = Pace::new(&shared, &name);
        let cluster = loop {
            match Cluster::connect(&target) {
                Ok(cluster) => break Arc::new(cluster),
                Err(error) => {
                    let pause = pace.failed(error.to_string());
                    std::thread::sleep(pause);
                }
            }
        };
        pace.tell(Standing::Gone);
        for note in cluster.notes() {
            shared.send(Msg::Said(Severity::Info, note.clone()));
        }
        let names: Vec<String> = cluster.apiservers().iter().map(|server| server.name.clone()).collect();
        let version = cluster.apiservers().iter().find_map(|server| server.version.clone());
        if let Err(error) = locked(&shared.spool).describe(cluster.name(), version.as_deref(), &names) {
            shared.lost("bundle.yaml", &error);
        }
        shared.send(Msg::Name(cluster.name().to_owned()));
        for (number, name) in names.into_iter().enumerate() {
            let (shared, target, cluster) = (Arc::clone(&shared), target.clone(), Arc::clone(&cluster));
            std::thread::spawn(move || apiserver(&shared, &target, cluster, number, &name));
        }
    });
}

/// Asks one apiserver for metrics and for who holds the seats, again and again.
fn apiserver(shared: &Shared, target: &Target, mut cluster: Arc<Cluster>, mut number: usize, name: &str) {
    let mut pace = Pace::new(shared, name);
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    loop {
        let pause = match cluster.get(number, "/metrics") {
            Ok(Page { at, body, .. }) => {
                if let Err(error) = locked(&shared.spool).add("metrics", name, "", at, &body) {
                    shared.lost(name, &error);
                }
                locked(&shared.growing).page(cluster.name(), name, at, body);
                let has_dumps = dumps(shared, &cluster, number, name, &mut forbidden);
                shared.came(&[(Source::Metrics, "")], has_dumps);
                pace.well()
            }
            Err(error) => pace.failed(error.to_string()),
        };
        std::thread::sleep(pause);
        if pace.failures >= ANEW
            && let Ok(again) = Cluster::connect(target)
            && let Some(at) = again.apiservers().iter().position(|server| server.name == name)
        {
            (cluster, number) = (Arc::new(again), at);
        }
    }
}

/// Who holds the seats; whether that is known. What may not be read is not asked for again.
fn dumps<'p>(shared: &Shared, cluster: &Cluster, number: usize, name: &str, forbidden: &mut BTreeSet<&'p str>) -> bool
where
    'static: 'p,
{
    let mut has_all = true;
    for path in apf::PATHS {
        if forbidden.contains(path) {
            has_all = false;
            continue;
        }
        match cluster.get(number, path) {
            Ok(Page { at, body, .. }) => {
                let file = path.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or(path);
                if let Err(error) = locked(&shared.spool).add_short("apf", name, &format!("{file}-"), at, &body) {
                    shared.lost(name, &error);
                }
            }
            Err(error) => {
                has_all = false;
                if matches!(error, LiveError::Forbidden { .. } | LiveError::Status { code: 404, .. }) {
                    forbidden.insert(path);
                    shared.send(Msg::Said(Severity::Info, format!("{error}; who holds the seats is not told")));
                }
            }
        }
    }
    has_all
}

/// Reads a page of metrics by its URL, or a cgroup, again and again.
pub(super) fn again(shared: &Arc<Shared>, source: String) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut pace = Pace::new(&shared, &source);
        loop {
            let at = now();
            let taken = match crate::sources::arguments::is_url(&source) {
                true => collect::page(&source, at).map(|(instance, bytes)| ("metrics", instance, bytes)),
                false => collect::group(&source).map(|text| {
                    let name =
                        std::path::Path::new(&source).file_name().unwrap_or_default().to_string_lossy().into_owned();
                    ("cgroup", if name.is_empty() { "machine".to_owned() } else { name }, text.into_bytes())
                }),
            };
            let pause = match taken {
                Ok((kind, of, bytes)) => {
                    if let Err(error) = locked(&shared.spool).add(kind, &of, "", at, &bytes) {
                        shared.lost(&source, &error);
                    }
                    match kind {
                        "metrics" => locked(&shared.growing).page("", &of, at, bytes),
                        _ => locked(&shared.growing).group(&of, at, &String::from_utf8_lossy(&bytes)),
                    }
                    shared.came(
                        &[if kind == "metrics" { (Source::Metrics, "") } else { (Source::Cgroup, "cgroup") }],
                        false,
                    );
                    pace.well()
                }
                Err(why) => pace.failed(why),
            };
            std::thread::sleep(pause);
        }
    });
}

/// Follows audit logs: from what was written last on.
pub(super) fn logs(shared: &Arc<Shared>, sources: Vec<String>) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut follower = Follower::open_near_end(&sources, BACK);
        for folder in std::mem::take(&mut follower.waiting) {
            shared.send(Msg::Said(Severity::Info, format!("{folder}: no audit log yet; waiting for one")));
        }
        let name = sources.join(", ");
        let mut pace = Pace::new(&shared, &name);
        let mut said = BTreeSet::new();
        let (mut told, mut lost, mut has_come) = (None::<std::time::Instant>, 0, false);
        loop {
            let mut failed = None;
            follower.poll_lines(&mut |stream, lines| {
                has_come = true;
                let of =
                    if stream.instance.is_empty() { format!("log-{}", stream.id) } else { stream.instance.clone() };
                failed = locked(&shared.spool).lines(&of, lines).err().or(failed.take());
            });
            for error in std::mem::take(&mut follower.errors) {
                shared.send(Msg::Said(Severity::Critical, error.to_string()));
            }
            if let Some(error) = failed {
                shared.lost(&name, &error);
            }
            if follower.lost() > lost {
                lost = follower.lost();
                let new = follower.losses().into_iter().filter(|loss| said.insert(loss.clone()));
                new.for_each(|loss| shared.send(Msg::Said(Severity::Warning, loss)));
            }
            if told.is_none() && !has_come {
                // Nothing has been written yet.
                pace.well();
            } else if has_come && told.is_none_or(|told| told.elapsed() >= shared.every) {
                shared.came(&[(Source::Audit, "audit")], false);
                pace.well();
            }
            if told.is_none_or(|told| told.elapsed() >= shared.every) {
                (told, has_come) = (Some(std::time::Instant::now()), false);
            }
            std::thread::sleep(LOOK);
        }
    });
}
