//! What is read live, as a bundle that grows: whatever reads bundles reads it. It lies in a folder that only the user
//! may read, holds no more than it may, and is deleted when the program ends.

use crate::actions::bundle::{BundleWriter, part, private};
use crate::actions::fresh::folder as private_folder;
use crate::jobs::captures::stamp;
use crate::model::time::{self, Micros, SECOND};
use crate::sources::audit::strip::{self, Stripped};
use crate::sources::clock::now;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A log is cut into files of this length, in time and in bytes, so that its beginning can be let go.
const CUT: Micros = 10 * SECOND;
const MAX_LINE_BYTES: u64 = 16 << 20;

/// How many of those are kept of which only the latest matter.
const LATEST: usize = 12;

/// A file of a log that is being written.
#[derive(Debug)]
struct Log {
    file: File,
    since: Micros,
    place: usize,
}

/// The bundle.
#[derive(Debug)]
pub(super) struct Spool {
    /// Where it lies.
    pub(super) folder: PathBuf,
    /// Bytes that it may hold.
    most: u64,
    bytes: u64,
    /// Files below it with when they were written and how long they are, the oldest first.
    files: VecDeque<(String, Micros, u64)>,
    /// How many files were let go.
    gone: usize,
    logs: HashMap<String, Log>,
    is_removed: bool,
}

impl Spool {
    /// A new one, below `folder`.
    pub(super) fn create(folder: &Path, most: u64) -> io::Result<Self> {
        let name = format!("plimsoll-{}-{}", std::process::id(), now());
        let folder = folder.join(name);
        private_folder(&folder)?;
        Ok(Self { folder, most, bytes: 0, files: VecDeque::new(), gone: 0, logs: HashMap::new(), is_removed: false })
    }

    /// What it says of itself.
    pub(super) fn describe(&self, cluster: &str, version: Option<&str>, instances: &[String]) -> io::Result<()> {
        let mut about = serde_json::json!({
            "cluster": cluster, "kubernetes_version": version, "instances": instances,
            "time": "file names are Unix seconds, UTC",
            "collected": { "by": concat!("plimsoll ", env!("CARGO_PKG_VERSION")), "from": time::format(now()) },
        });
        if let Some(members) = about.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        let text = serde_yaml_ng::to_string(&about).map_err(io::Error::other)?;
        private(&self.folder.join("bundle.yaml"))?.write_all(text.as_bytes())
    }

    /// Adds a file: `kind/of/STAMP.txt`.
    pub(super) fn add(&mut self, kind: &str, of: &str, prefix: &str, at: Micros, bytes: &[u8]) -> io::Result<()> {
        if self.is_removed {
            return Ok(());
        }
        let name = format!("{kind}/{}/{prefix}{}.txt", part(of), stamp(at));
        let path = self.folder.join(&name);
        private_folder(path.parent().unwrap_or(&self.folder))?;
        // What is being written is no page yet: who reads folders leaves out what is hidden.
        let temporary = path.with_file_name(format!(".{}", path.file_name().unwrap_or_default().to_string_lossy()));
        private(&temporary)?.write_all(bytes)?;
        fs::rename(&temporary, &path)?;
        self.files.push_back((name, at, bytes.len() as u64));
        self.bytes += bytes.len() as u64;
        self.let_go();
        Ok(())
    }

    /// Adds a folder that was written beside, as a whole: files below it with their lengths.
    pub(super) fn adopt(&mut self, hidden: &Path, name: &str, at: Micros, files: Vec<(String, u64)>) -> io::Result<()> {
        if self.is_removed {
            return Ok(());
        }
        fs::rename(hidden, self.folder.join(name))?;
        self.bytes += files.iter().map(|file| file.1).sum::<u64>();
        self.files.extend(files.into_iter().map(|(file, bytes)| (format!("{name}/{file}"), at, bytes)));
        self.let_go();
        Ok(())
    }

    /// Adds a file of which only the latest matter.
    pub(super) fn add_short(&mut self, kind: &str, of: &str, prefix: &str, at: Micros, bytes: &[u8]) -> io::Result<()> {
        self.add(kind, of, prefix, at, bytes)?;
        let own = format!("{kind}/{}/{prefix}", part(of));
        let mine: Vec<String> =
            self.files.iter().filter(|file| file.0.starts_with(&own)).map(|file| file.0.clone()).collect();
        for name in mine.iter().take(mine.len().saturating_sub(LATEST)) {
            // Its place in the list stays: others are known by theirs.
            let _ = fs::remove_file(self.folder.join(name));
            if let Some(file) = self.files.iter_mut().find(|file| file.0 == *name) {
                self.bytes -= std::mem::take(&mut file.2);
                file.0.clear();
            }
        }
        Ok(())
    }

    /// Adds whole lines of an audit log.
    pub(super) fn lines(&mut self, of: &str, lines: &[u8]) -> io::Result<()> {
        if self.is_removed {
            return Ok(());
        }
        let at = now();
        let is_over = |log: &Log| {
            at - log.since >= CUT
                || self.files.get(log.place.wrapping_sub(self.gone)).is_none_or(|file| file.2 >= MAX_LINE_BYTES)
        };
        if self.logs.get(of).is_none_or(is_over) {
            // Numbered as rotated files are: together they are one log, in the order of their events.
            let name = format!("audit/{}/audit.log.{}", part(of), self.gone + self.files.len());
            let path = self.folder.join(&name);
            private_folder(path.parent().unwrap_or(&self.folder))?;
            let log = Log { file: private(&path)?, since: at, place: self.gone + self.files.len() };
            self.files.push_back((name, at, 0));
            self.logs.insert(of.to_owned(), log);
        }
        let Some(log) = self.logs.get_mut(of) else { return Ok(()) };
        log.file.write_all(lines)?;
        if let Some(file) = self.files.get_mut(log.place.wrapping_sub(self.gone)) {
            file.2 += lines.len() as u64;
            self.bytes += lines.len() as u64;
        }
        self.let_go();
        Ok(())
    }

    /// Removes the oldest files where there is too much. What is written last stays.
    fn let_go(&mut self) {
        while self.bytes > self.most && self.files.len() > 1 {
            let Some((name, _, bytes)) = self.files.pop_front() else { break };
            // A reader that has it open reads on.
            if !name.is_empty() {
                let _ = fs::remove_file(self.folder.join(&name));
            }
            self.bytes -= bytes;
            self.gone += 1;
        }
    }

    /// When the oldest that is still there was written.
    pub(super) fn since(&self) -> Option<Micros> {
        self.files.front().map(|(_, at, _)| *at)
    }

    /// Writes all of it as a bundle that stays.
    pub(super) fn save(&self, target: &Path, with_bodies: bool) -> io::Result<(u64, Stripped)> {
        let mut stripped = Stripped::default();
        let mut writer = BundleWriter::create(target)?;
        let about = self.folder.join("bundle.yaml");
        let named = self
            .files
            .iter()
            .filter(|file| !file.0.is_empty())
            .map(|(name, at, _)| (name.as_str(), *at))
            .chain(about.is_file().then(|| ("bundle.yaml", now())));
        for (name, at) in named {
            let mut file = match File::open(self.folder.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if name.starts_with("audit/") && !with_bodies {
                // Parts of a log are some megabytes at most.
                let mut plain = Vec::new();
                stripped += strip::log(io::BufReader::new(&mut file), &mut plain)?;
                writer.add(name, at, &plain)?;
                continue;
            }
            let length = file.metadata()?.len();
            writer.add_from(name, at, length, &mut file)?;
        }
        let files = writer.files;
        writer.finish()?;
        Ok((files, stripped))
    }
}

impl Spool {
    /// Removes all of it. What comes later is not kept.
    pub(super) fn remove(&mut self) {
        self.is_removed = true;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.remove();
    }
}
