//! Roll-ups that other instances hand over: each file piece by piece into a folder beside the store's own, its manifest
//! last. Then it is on disk and acknowledged; the next reading takes it into the store, where it counts once.

use super::is_plain_name;
use crate::actions::fresh;
use crate::actions::store::RollupsWriter;
use crate::actions::web::WebAnswer;
use crate::cli::{Context, Error};
use crate::inputs::recording::failed;
use crate::model::rollup::MANIFEST;
use crate::model::uri::parameters;
use crate::sources::rolled::{Rolled, open};
use crate::sources::store::Store;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Folder in the store's; hidden, since it is no source of its own.
const FOLDER: &str = ".incoming";

/// Longest name of a part or file.
const MAX_NAME_BYTES: usize = 100;

/// What nobody added to for so long was left by an instance that died.
const LEFT: Duration = Duration::from_secs(3600);

/// Parts that arrive.
pub(super) struct Incoming {
    folder: PathBuf,
    store: Store,
    /// One writes at a time.
    writing: Mutex<()>,
}

impl Incoming {
    /// Opens the folder, made if need be.
    pub(super) fn open(store: &Store) -> Result<Self, Error> {
        let folder = store.folder.join(FOLDER);
        fresh::folder(&folder).map_err(|error| Error::Input(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder, store: store.clone(), writing: Mutex::default() })
    }

    /// Up to where each log is here, so that an instance knows where to read on.
    pub(super) fn positions(&self) -> WebAnswer {
        let Ok(mut all) = RollupsWriter::positions(&self.store) else {
            return WebAnswer::text(503, "the store can't be read just now");
        };
        self.complete().0.iter().flat_map(|part| &part.manifest.files).for_each(|file| file.advance(&mut all));
        match serde_json::to_vec(&all) {
            Ok(body) => WebAnswer::new(200, "application/json", body),
            Err(error) => WebAnswer::text(500, error.to_string()),
        }
    }

    /// Takes a piece of a file of a part: `PART/FILE`, with `from` in the query.
    pub(super) fn take(&self, path: &str, query: &str, body: &[u8]) -> WebAnswer {
        let is_plain = |name: &str| is_plain_name(name, MAX_NAME_BYTES);
        let names = path.trim_start_matches('/').split_once('/');
        let Some((part, file)) = names.filter(|(part, file)| is_plain(part) && is_plain(file)) else {
            return WebAnswer::text(
                400,
                "write /parts/PART/FILE?from=BYTES: names have letters, digits, '.', '_', '-'",
            );
        };
        if file != MANIFEST && !file.ends_with(".parquet") {
            return WebAnswer::text(400, format!("{file}: a part has Parquet files and {MANIFEST}"));
        }
        let from =
            parameters(query).into_iter().find(|(name, _)| name == "from").and_then(|(_, text)| text.parse().ok());
        let Some(from) = from else { return WebAnswer::text(400, "from: where the piece begins, in bytes") };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.folder.join(part);
        // Whoever was not told that a part is whole sends it again.
        if folder.join(MANIFEST).is_file() {
            return WebAnswer::text(200, "held");
        }
        match write(&folder, file, from, body) {
            Ok(true) if file == MANIFEST => self.whole(&folder),
            Ok(true) => WebAnswer::text(200, "written"),
            Ok(false) => WebAnswer::text(409, format!("{file}: a piece at {from} does not follow what is here")),
            Err(error) => WebAnswer::text(507, format!("can't write the part: {error}")),
        }
    }

    /// Looks at all files of a part whose manifest came; only then it has a manifest.
    fn whole(&self, folder: &Path) -> WebAnswer {
        let (pending, manifest) = (folder.join(PENDING), folder.join(MANIFEST));
        let looked = open(&pending).and_then(|part| part.verify());
        let synced = || {
            for entry in fs::read_dir(folder)? {
                File::open(entry?.path())?.sync_all()?;
            }
            fs::rename(&pending, &manifest)?;
            File::open(folder)?.sync_all()?;
            File::open(&self.folder)?.sync_all()
        };
        match looked.map_err(|problem| problem.to_string()).and_then(|()| synced().map_err(|error| error.to_string())) {
            Ok(()) => WebAnswer::text(200, "held"),
            Err(why) => {
                let _ = fs::remove_dir_all(folder);
                WebAnswer::text(422, format!("not a whole part: {why}"))
            }
        }
    }

    /// Parts that are whole, and folders of others.
    fn complete(&self) -> (Vec<Rolled>, Vec<PathBuf>) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let (mut parts, mut others) = (Vec::new(), Vec::new());
        for folder in entries.map(|entry| entry.path()) {
            match open(&folder.join(MANIFEST)) {
                Ok(part) => parts.push(part),
                Err(_) => others.push(folder),
            }
        }
        // Of one log in its order: what lies behind a gap is read, what lies before is not any more.
        parts.sort_by(|a, b| (a.manifest.start(), &a.folder).cmp(&(b.manifest.start(), &b.folder)));
        (parts, others)
    }

    /// Takes parts that are whole into the store; those whose lines are there already are dropped.
    pub(super) fn adopt(&self, context: &mut Context<'_>) -> Result<Vec<Rolled>, Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, others) = self.complete();
        others
            .iter()
            .filter(|folder| fresh::is_older(folder, LEFT))
            .for_each(|folder| drop(fs::remove_dir_all(folder)));
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let Some(writer) = RollupsWriter::begin(&self.store).map_err(failed)? else { return Ok(Vec::new()) };
        let mut positions: BTreeMap<String, u64> = RollupsWriter::positions(&self.store).map_err(failed)?;
        let mut adopted = Vec::new();
        for part in parts {
            let files = &part.manifest.files;
            let here = |log: &str| positions.get(log).copied().unwrap_or_default();
            if files.iter().any(|file| file.from < here(&file.log)) {
                let is_held = files.iter().all(|file| file.to <= here(&file.log));
                let _ = fs::remove_dir_all(&part.folder);
                if !is_held {
                    let name = part.name().unwrap_or_default();
                    context.lost(format!(
                        "part {name} was handed over and holds lines that are in the store: not taken"
                    ))?;
                }
                continue;
            }
            let folder = match writer.adopt(&part).map_err(failed) {
                Ok(folder) => folder,
                // Those before it are in the store, and are counted; the next reading comes back to it.
                Err(_) if !adopted.is_empty() => break,
                Err(error) => return Err(error),
            };
            files.iter().for_each(|file| file.advance(&mut positions));
            adopted.push(Rolled { folder, manifest: part.manifest });
        }
        Ok(adopted)
    }
}

/// A manifest that has come and was not looked at yet.
const PENDING: &str = "manifest.pending";

/// Adds a piece to a file; `false` if it does not follow what is there. The first begins the file.
fn write(folder: &Path, name: &str, from: u64, body: &[u8]) -> io::Result<bool> {
    fresh::folder(folder)?;
    let path = folder.join(if name == MANIFEST { PENDING } else { name });
    let mut file = fresh::append(&path)?;
    if from == 0 {
        file.set_len(0)?;
    } else if file.metadata()?.len() != from {
        return Ok(false);
    }
    file.write_all(body)?;
    Ok(true)
}
