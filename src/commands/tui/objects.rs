//! Objects of a live cluster, listed again and again where that is asked for: whole captures in the spool.

use super::now;
use super::pace::{Pace, retry_after};
use super::shared::{Shared, locked};
use crate::actions::bundle::private;
use crate::actions::fresh::folder as private_folder;
use crate::model::cause::Source;
use crate::model::report::Severity;
use crate::model::time::{Micros, SECOND};
use crate::sources::live::{Cluster, LiveError, Target};
use crate::sources::objects::{clean, live};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lists weigh more than metrics: they are asked for this seldom at most.
pub(super) const SELDOM: Duration = Duration::from_secs(300);

/// What a round of lists came to.
struct Taken {
    /// Names of the files below the capture's folder, and their lengths.
    files: Vec<(String, u64)>,
    /// Why the cluster has to be left alone.
    failed: Option<LiveError>,
    is_busy: bool,
}

/// Lists the objects of a cluster again and again.
pub(super) fn objects(shared: &Arc<Shared>, target: &Target, cluster: &Arc<Cluster>) {
    let (shared, target, mut cluster) = (Arc::clone(shared), target.clone(), Arc::clone(cluster));
    std::thread::spawn(move || {
        let mut pace = Pace::new(&shared, "objects", shared.every.max(SELDOM));
        let mut forbidden: BTreeSet<&str> = BTreeSet::new();
        loop {
            let (began, at) = (Instant::now(), now());
            let spool = locked(&shared.spool).folder.clone();
            // A capture is there as a whole or not at all: who reads folders leaves out what is hidden.
            let hidden = spool.join(format!("objects/.{}", at / SECOND));
            let taken = take(&cluster, &hidden, &mut forbidden, &shared);
            let pause = match taken {
                Err(error) => {
                    shared.lost("objects", &error);
                    pace.failed(error.to_string(), None)
                }
                Ok(Taken { failed: Some(error), .. }) => pace.failed(error.to_string(), retry_after(&error)),
                Ok(Taken { files, .. }) if files.is_empty() => {
                    shared
                        .send_said(Severity::Warning, "no objects could be listed; see the messages above".to_owned());
                    let _ = fs::remove_dir_all(&hidden);
                    return;
                }
                Ok(Taken { files, is_busy, .. }) => {
                    if let Err(error) = adopt(&shared, &hidden, at, files) {
                        shared.lost("objects", &error);
                    }
                    shared.arrived(&[(Source::Objects, "objects")], false);
                    pace.well(began.elapsed(), is_busy)
                }
            };
            let _ = fs::remove_dir_all(&hidden);
            std::thread::sleep(pause);
            if pace.is_long_gone()
                && let Ok(again) = Cluster::connect(&target)
            {
                cluster = Arc::new(again);
            }
        }
    });
}

fn adopt(shared: &Shared, hidden: &Path, at: Micros, files: Vec<(String, u64)>) -> io::Result<()> {
    locked(&shared.spool).adopt(hidden, &format!("objects/{}", at / SECOND), at, files)
}

/// Takes all lists that may be read; what may not is not asked for again.
fn take<'p>(cluster: &Cluster, hidden: &Path, forbidden: &mut BTreeSet<&'p str>, shared: &Shared) -> io::Result<Taken>
where
    'static: 'p,
{
    let mut taken = Taken { files: Vec::new(), failed: None, is_busy: false };
    private_folder(hidden)?;
    for (_, path) in live::LISTS {
        if forbidden.contains(path) {
            continue;
        }
        let kind = path.rsplit('/').next().unwrap_or(path);
        let mut next: Option<String> = None;
        for number in 1..=live::PAGES {
            let page = match cluster.get(0, &live::page_of(path, next.as_deref())) {
                Ok(page) => page,
                Err(error @ (LiveError::Forbidden { .. } | LiveError::Status { code: 404, .. })) => {
                    forbidden.insert(path);
                    shared.send_said(Severity::Info, format!("{error}; {kind} left out"));
                    break;
                }
                Err(error) => {
                    taken.failed = Some(error);
                    return Ok(taken);
                }
            };
            taken.is_busy |= page.tries > 1;
            let cleaned = clean::page(&page.body).map_err(|what| io::Error::other(format!("{path}: {what}")))?;
            let name = format!("{kind}.{number}.json");
            private(&hidden.join(&name))?.write_all(&cleaned.text)?;
            taken.files.push((name, cleaned.text.len() as u64));
            next = cleaned.next;
            if next.is_none() {
                break;
            }
        }
    }
    Ok(taken)
}
