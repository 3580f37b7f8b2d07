//! A group's folder, live or copied.

use super::files;
use crate::model::memory::Sample;
use crate::model::time::Micros;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A file of a group may not be longer.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Groups may not lie deeper.
const DEEPEST: usize = 64;

/// A group.
#[derive(Debug, Clone)]
pub struct Group {
    pub folder: PathBuf,
    /// Its path below the hierarchy: `/` for the top.
    pub path: String,
    /// Its folder in a v2 hierarchy beside v1, which shows the pressure.
    pub beside: Option<PathBuf>,
    /// `/proc/meminfo` of its machine.
    pub meminfo: Option<PathBuf>,
    /// The top of its hierarchy.
    pub(super) top: PathBuf,
}

/// Whether a folder holds a memory controller's files, live or copied.
pub(super) fn has_memory(folder: &Path) -> bool {
    ["memory.stat", "memory.current", "memory.usage_in_bytes"].iter().any(|file| folder.join(file).is_file())
}

impl Group {
    /// A folder of copied files. Folders above it that hold copies too are the groups above.
    pub(super) fn copied(folder: &Path) -> Self {
        let mut top = folder;
        while let Some(above) = top.parent().filter(|above| has_memory(above)) {
            top = above;
        }
        let meminfo = folder.ancestors().take(4).map(|above| above.join("meminfo")).find(|path| path.is_file());
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let below = folder.strip_prefix(top).unwrap_or(Path::new("")).display().to_string();
        let path = if below.is_empty() { name } else { format!("/{below}") };
        Self { folder: folder.to_owned(), path, beside: None, meminfo, top: top.to_owned() }
    }

    /// The group's files, those of the groups above, and what is kept free below.
    pub fn read(&self, now: Micros) -> io::Result<Sample> {
        let mut sample = self.read_one(now)?;
        if let Some(meminfo) = &self.meminfo
            && let Some(text) = text(meminfo)
        {
            files::put(&mut sample, "meminfo", &text);
        }
        let above = self.folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.top)).take(DEEPEST);
        for folder in above.filter(|folder| has_memory(folder)) {
            let path = match folder.strip_prefix(&self.top) {
                Ok(below) => format!("/{}", below.display()),
                Err(_) => folder.display().to_string(),
            };
            let group = Self { folder: folder.to_owned(), path, beside: None, meminfo: None, top: self.top.clone() };
            // A group that goes away while it is read shows nothing of those below it.
            sample.above.extend(group.read_one(now));
        }
        let minimum =
            |group: Self| text(&group.folder.join("memory.min")).and_then(|text| text.trim().parse::<u64>().ok());
        sample.protected_below = self.children().into_iter().filter_map(minimum).sum();
        Ok(sample)
    }

    fn read_one(&self, now: Micros) -> io::Result<Sample> {
        let mut sample = Sample { path: self.path.clone(), at: now, inode: inode(&self.folder), ..Sample::default() };
        for (name, text) in self.files()? {
            files::put(&mut sample, &name, &text);
        }
        if sample.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the cgroup has no memory controller, or was removed"));
        }
        sample.version = files::version(&sample);
        Ok(sample)
    }

    /// The group's own files that are read, by name. Some can't be read at all, such as `cgroup.procs` of a threaded
    /// group.
    fn files(&self) -> io::Result<Vec<(String, String)>> {
        let mut names: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if files::is_wanted(&name) && name != "meminfo" {
                names.push(name);
            }
        }
        names.sort();
        let mut found: Vec<(String, String)> =
            names.into_iter().filter_map(|name| text(&self.folder.join(&name)).map(|text| (name, text))).collect();
        if let Some(text) = self.beside.as_ref().and_then(|folder| text(&folder.join("memory.pressure"))) {
            found.push(("memory.pressure".to_owned(), text));
        }
        Ok(found)
    }

    /// The group as one text, as [`super::read_text`] reads it: its own files and its machine's memory, a line `==
    /// NAME` before each.
    pub fn copy(&self) -> io::Result<String> {
        let machine = self.meminfo.as_deref().and_then(text).map(|text| ("meminfo".to_owned(), text));
        let all: Vec<(String, String)> = self.files()?.into_iter().chain(machine).collect();
        Ok(all.iter().map(|(name, text)| format!("== {name}\n{}\n", text.trim_end())).collect())
    }

    /// The groups directly below, by name.
    pub fn children(&self) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut children: Vec<Self> = folders
            .map(|entry| {
                let name = entry.file_name();
                Self {
                    folder: entry.path(),
                    path: format!("{}/{}", self.path.trim_end_matches('/'), name.to_string_lossy()),
                    beside: self.beside.as_ref().map(|beside| beside.join(&name)),
                    meminfo: self.meminfo.clone(),
                    top: self.top.clone(),
                }
            })
            .filter(|group| has_memory(&group.folder))
            .collect();
        children.sort_by(|a, b| a.path.cmp(&b.path));
        children
    }

    /// This group and all below, those above first.
    pub fn tree(&self) -> Vec<Self> {
        let mut all = vec![self.clone()];
        let mut next = 0;
        while next < all.len() && all.len() < 100_000 {
            let children = all[next].children();
            all.extend(children);
            next += 1;
        }
        all
    }
}

/// The content of a file; nothing if it can't be read.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(unix)]
fn inode(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(folder).ok().map(|meta| meta.ino())
}

#[cfg(not(unix))]
fn inode(_: &Path) -> Option<u64> {
    None
}
