//! Roll-ups of logs that an engine reads (docs/engine.md): what its workers send becomes one roll-up, which stands for
//! the logs from then on.

use super::rolled::join;
use crate::actions::fresh::{self, Temporary};
use crate::actions::rollup::write;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, EngineChoice, Error, Progress};
use crate::inputs::manifest::giving;
use crate::model::engine::{CHUNK_BYTES, UNPLACED, Unplaced};
use crate::model::input::{Loss, LossKind};
use crate::model::problem::Problem;
use crate::model::rollup::MANIFEST;
use crate::model::stray::Days;
use crate::sources::archive_names;
use crate::sources::engine::{self, Engine, Row};
use crate::sources::rolled::{Rolled, open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A roll-up among temporary files, which are removed with it.
#[derive(Debug)]
pub struct EngineRollup {
    _home: Temporary,
}

/// Has an engine roll up the logs behind each of some groups of sources; from then on the roll-ups stand for them.
pub fn roll_up(
    choice: &EngineChoice,
    groups: &[Vec<String>],
    context: &mut Context<'_>,
) -> Result<Vec<EngineRollup>, Error> {
    let stop = stop_signal()?;
    let rolled = groups.iter().map(|roots| roll_up_one(choice, roots, &stop, context)).collect();
    // From here on nobody looks whether to stop: the next signal ends the program at once, as a second one does.
    stop.store(true, Ordering::Relaxed);
    rolled
}

fn roll_up_one(
    choice: &EngineChoice,
    roots: &[String],
    stop: &AtomicBool,
    context: &mut Context<'_>,
) -> Result<EngineRollup, Error> {
    let failed = |error: std::io::Error| Error::Input(format!("--engine: {error}"));
    let home = Temporary::make("engine").map_err(failed)?;
    let program = match &choice.program {
        Some(program) => std::path::absolute(program).map_err(failed)?,
        None => std::env::current_exe().map_err(failed)?,
    };
    let parts = home.path().join("parts");
    let mut unplaced: Vec<Unplaced> = Vec::new();
    let asked = Engine { url: &choice.url, program: &program, home: home.path() };
    let progress = Progress::bytes(0, context.settings.progress);
    let take = |row| keep(&parts, row, &mut unplaced);
    let result = engine::roll_up(asked, &outermost(roots), stop, &progress, take);
    progress.finish();
    result.map_err(Error::input)?;
    let rolled = manifests(&parts).map_err(failed)?.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>();
    let (rolled, mut lost) = without_stray(rolled.map_err(Error::input)?);
    if rolled.is_empty() {
        return Err(Error::Input(format!("{}: no audit log", roots.join(", "))));
    }
    let (rollup, mut manifest) = join(&rolled.iter().collect::<Vec<_>>(), 0)?;
    let logs: BTreeSet<&str> = manifest.sources.iter().map(|source| source.path.as_str()).collect();
    lost.extend(unplaced.into_iter().filter(|own| logs.contains(own.file.as_str())).map(|own| Loss {
        kind: LossKind::NoTime,
        path: own.file,
        line: 0,
        offset: 0,
        count: own.lines,
        detail: String::new(),
    }));
    manifest.lost.extend(lost);
    manifest.replaces.clear();
    let folder = home.path().join("rollup");
    write(&folder, &manifest, &giving(&rollup), &[]).map_err(failed)?;
    std::fs::remove_dir_all(&parts).map_err(failed)?;
    for root in roots {
        archive_names::add(folder.clone(), root.clone());
    }
    Ok(EngineRollup { _home: home })
}

/// Sources without those that lie in another: what two name is read once.
fn outermost(roots: &[String]) -> Vec<String> {
    let plain = |root: &str| root.trim_end_matches('/').to_owned();
    let is_in =
        |root: &str, other: &str| plain(root).strip_prefix(&plain(other)).is_some_and(|below| below.starts_with('/'));
    let is_first = |at: usize| !roots[..at].iter().any(|other| plain(other) == plain(&roots[at]));
    let outer = |(at, root): &(usize, &String)| is_first(*at) && !roots.iter().any(|other| is_in(root, other));
    roots.iter().enumerate().filter(outer).map(|(_, root)| root.clone()).collect()
}

/// Writes a row where it belongs. What comes from an engine names no other place.
fn keep(parts: &Path, row: Row, unplaced: &mut Vec<Unplaced>) -> Result<(), Problem> {
    let odd = || Problem::damaged("a worker's row is not one of plimsoll's");
    if row.part.is_empty() {
        let own = (row.name == UNPLACED).then(|| serde_json::from_slice(&row.data).ok()).flatten();
        unplaced.push(own.ok_or_else(odd)?);
        return Ok(());
    }
    let is_time = row.part.bytes().all(|byte| byte.is_ascii_digit() || b"-T".contains(&byte));
    let is_name = row.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_time || !is_name || row.name.starts_with('.') {
        return Err(odd());
    }
    let path = parts.join(&row.part).join(&row.name);
    let written = || {
        fresh::folder(&parts.join(&row.part))?;
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        file.seek(SeekFrom::Start(row.index.saturating_mul(CHUNK_BYTES)))?;
        file.write_all(&row.data)
    };
    written().map_err(|error| Problem::io(&path, &error))
}

/// The manifests of all parts; a part without one is an error where it is opened.
fn manifests(parts: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !parts.exists() {
        return Ok(Vec::new());
    }
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(parts)?.map(|entry| Ok(entry?.path().join(MANIFEST))).collect::<std::io::Result<_>>()?;
    all.sort();
    Ok(all)
}

/// Sets parts aside that a wrong clock dated far away from all others (docs/rollup.md, section 3): each worker knows
/// one hour only.
fn without_stray(rolled: Vec<Rolled>) -> (Vec<Rolled>, Vec<Loss>) {
    let events = |rolled: &Rolled| -> u64 {
        rolled.manifest.streams.iter().flat_map(|own| own.events.values()).flat_map(BTreeMap::values).sum()
    };
    let mut days = Days::default();
    for own in &rolled {
        if let Some(first) = own.manifest.first {
            days.add_many(first, events(own));
        }
    }
    let kept = days.kept();
    let (rolled, stray): (Vec<Rolled>, Vec<Rolled>) =
        rolled.into_iter().partition(|own| own.manifest.first.is_none_or(|first| kept.takes(first)));
    let loss = |own: &Rolled| Loss {
        kind: LossKind::Stray,
        path: own.manifest.sources.first().map_or_else(String::new, |source| source.path.clone()),
        line: 0,
        offset: 0,
        count: events(own),
        detail: String::new(),
    };
    let lost = stray.iter().map(loss).collect();
    (rolled, lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_sources_name_is_read_once() {
        let of = |roots: &[&str]| outermost(&roots.iter().map(|root| (*root).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["s3a://b/audit/", "s3a://b/audit/cp-1/", "s3a://b/audit/cp-1/a.log"]), ["s3a://b/audit/"]);
        assert_eq!(of(&["s3a://b/audit", "s3a://b/audit-2", "s3a://b/"]), ["s3a://b/"]);
        assert_eq!(of(&["s3a://b/audit", "s3a://b/audit-2"]), ["s3a://b/audit", "s3a://b/audit-2"]);
        assert_eq!(of(&["s3a://b/audit", "s3a://b/audit/"]), ["s3a://b/audit"]);
    }
}
