//! What is read live: each source on a thread of its own, at its own pace, into the spool. One that fails is tried
//! again, later and later; what is known of it goes to the log.

use super::course::Growing;
use super::engine::{Worker, look};
use super::objects::objects;
use super::pace::{Interval, retry_after};
use super::spool::Spool;
use crate::actions::bundle::ARCHIVE;
use crate::cli::Settings;
use crate::commands::collect;
use crate::model::incident::Source;
use crate::model::report::Severity;
use crate::model::time::Micros;
use crate::model::units::{counted, duration};
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
use std::time::{Duration, Instant};

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
    pub(super) every: Duration,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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

    /// Something is to be remembered.
    pub(super) fn send_said(&self, severity: Severity, what: String) {
        self.send(Msg::Said(severity, what));
    }

    /// Something of these kinds has come.
    pub(super) fn came(&self, kinds: &[(Source, &str)], has_dumps: bool) {
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
        found.lists_objects |= kinds.iter().any(|(kind, _)| *kind == Source::Objects);
        found.span = since.map(|since| (since, now()));
        self.has_more.store(true, Ordering::Relaxed);
    }

    pub(super) fn lost(&self, what: &str, error: &std::io::Error) {
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
pub(super) struct Pace<'a> {
    shared: &'a Shared,
    name: String,
    interval: Interval,
    failures: u32,
    since: Micros,
    /// Whether it is asked less often than the user said, and that was told.
    is_slow: bool,
}

impl<'a> Pace<'a> {
    /// One that is asked this often.
    pub(super) fn new(shared: &'a Shared, name: &str, every: Duration) -> Self {
        let interval = Interval::new(every);
        Self { shared, name: name.to_owned(), interval, failures: 0, since: 0, is_slow: false }
    }

    fn tell(&self, standing: Standing) {
        self.shared.send(Msg::Source(Status { name: self.name.clone(), standing }));
    }

    /// It gave what was asked for, within this time, and whether only after an answer of 429 or 503; when it is asked
    /// next.
    pub(super) fn well(&mut self, took: Duration, is_busy: bool) -> Duration {
        self.failures = 0;
        self.tell(Standing::Well(now()));
        let pause = self.interval.answered(took, is_busy);
        let is_slow = pause > self.interval.every();
        if is_slow != std::mem::replace(&mut self.is_slow, is_slow) {
            let length = |time: Duration| duration(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
            let (pause, took) = (length(pause), length(took));
            let what = match (is_slow, is_busy) {
                (true, true) => format!("{}: it is overloaded (429 or 503); asked again in {pause}", self.name),
                (true, false) => format!("{}: an answer takes {took}; asked every {pause}", self.name),
                (false, _) => format!("{}: asked every {pause} again", self.name),
            };
            self.shared.send_said(Severity::Info, what);
        }
        pause
    }

    /// It failed, and perhaps asked to be left alone for a time; when it is asked again.
    pub(super) fn failed(&mut self, why: String, retry_after: Option<Duration>) -> Duration {
        if self.failures == 0 {
            self.since = now();
        }
        let pause = self.interval.failed(retry_after);
        self.failures += 1;
        let again = Some(now().saturating_add(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX / 2)));
        self.tell(Standing::Failing { since: self.since, why, again });
        pause
    }

    /// Whether it has failed so often that it is looked for anew.
    pub(super) fn is_long_gone(&self) -> bool {
        self.failures >= ANEW
    }
}

/// Reads a cluster: each of its apiservers on a thread.
pub(super) fn cluster(shared: &Arc<Shared>, target: Target, with_objects: bool) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let name = target.context.clone().unwrap_or_else(|| "cluster".to_owned());
        let mut pace = Pace::new(&shared, &name, shared.every);
        let cluster = loop {
            match Cluster::connect(&target) {
                Ok(cluster) => break Arc::new(cluster),
                Err(error) => {
                    let pause = pace.failed(error.to_string(), retry_after(&error));
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
        if with_objects {
            objects(&shared, &target, &cluster);
        }
        for (number, name) in names.into_iter().enumerate() {
            let (shared, target, cluster) = (Arc::clone(&shared), target.clone(), Arc::clone(&cluster));
            std::thread::spawn(move || apiserver(&shared, &target, cluster, number, &name));
        }
    });
}

/// Asks one apiserver for metrics and for who holds the seats, again and again.
fn apiserver(shared: &Shared, target: &Target, mut cluster: Arc<Cluster>, mut number: usize, name: &str) {
    let mut pace = Pace::new(shared, name, shared.every);
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    loop {
        let began = Instant::now();
        let pause = match cluster.get(number, "/metrics") {
            Ok(Page { at, body, tries, .. }) => {
                if let Err(error) = locked(&shared.spool).add("metrics", name, "", at, &body) {
                    shared.lost(name, &error);
                }
                locked(&shared.growing).page(cluster.name(), name, at, body);
                let has_dumps = dumps(shared, &cluster, number, name, &mut forbidden);
                shared.came(&[(Source::Metrics, "")], has_dumps);
                pace.well(began.elapsed(), tries > 1)
            }
            Err(error) => pace.failed(error.to_string(), retry_after(&error)),
        };
        std::thread::sleep(pause);
        if pace.is_long_gone()
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
        let mut pace = Pace::new(&shared, &source, shared.every);
        loop {
            let (at, began) = (now(), Instant::now());
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
                    pace.well(began.elapsed(), false)
                }
                Err(why) => pace.failed(why, None),
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
        let mut pace = Pace::new(&shared, &name, shared.every);
        let mut said = BTreeSet::new();
        let (mut told, mut lost, mut has_come) = (None::<Instant>, 0, false);
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
                pace.well(Duration::ZERO, false);
            } else if has_come && told.is_none_or(|told| told.elapsed() >= shared.every) {
                shared.came(&[(Source::Audit, "audit")], false);
                pace.well(Duration::ZERO, false);
            }
            if told.is_none_or(|told| told.elapsed() >= shared.every) {
                (told, has_come) = (Some(Instant::now()), false);
            }
            std::thread::sleep(LOOK);
        }
    });
}
