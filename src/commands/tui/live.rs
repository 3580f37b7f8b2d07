//! What is read live: each source on a thread of its own, at its own pace, into the spool. One that fails is tried
//! again, later and later; what is known of it goes to the log.

use super::engine::{Worker, look};
use super::objects::objects;
use super::pace::{Pace, retry_after};
use super::shared::{Shared, locked};
use crate::cli::Settings;
use crate::jobs::captures;
use crate::model::cause::Source;
use crate::model::report::Severity;
use crate::sources::apf;
use crate::sources::audit::follow::Follower;
use crate::sources::clock::now;
use crate::sources::live::{Cluster, LiveError, Page, Target};
use crate::views::tui::{Msg, Standing};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often logs are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a log that was there already that are read.
const BACK: u64 = 64 << 20;

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
        pace.report(Standing::Gone);
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
                shared.arrived(&[(Source::Metrics, "")], has_dumps);
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
                    shared.send(Msg::Said(Severity::Info, format!("{error}; holders of seats are unknown")));
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
                true => captures::page(&source, at).map(|(instance, bytes)| ("metrics", instance, bytes)),
                false => captures::group(&source).map(|text| {
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
                    shared.arrived(
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
        let mut warned = BTreeSet::new();
        let (mut reported, mut lost, mut has_come) = (None::<Instant>, 0, false);
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
                let new = follower.losses().into_iter().filter(|loss| warned.insert(loss.clone()));
                new.for_each(|loss| shared.send(Msg::Said(Severity::Warning, loss)));
            }
            if reported.is_none() && !has_come {
                // Nothing has been written yet.
                pace.well(Duration::ZERO, false);
            } else if has_come && reported.is_none_or(|reported| reported.elapsed() >= shared.every) {
                shared.arrived(&[(Source::Audit, "audit")], false);
                pace.well(Duration::ZERO, false);
            }
            if reported.is_none_or(|reported| reported.elapsed() >= shared.every) {
                (reported, has_come) = (Some(Instant::now()), false);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    });
}
