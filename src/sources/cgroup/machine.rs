//! Where a machine's memory hierarchy is: at the default places below a root, else as its mount table says.

use super::group::{Group, has_memory};
use crate::sources::open::SourceError;
use std::io;
use std::path::{Path, PathBuf};

/// A machine, seen through the folder where its root file system is.
#[derive(Debug, Clone)]
pub struct Machine {
    /// `/`, or where a container has the host's root.
    pub root: PathBuf,
    /// The top of the hierarchy that has the memory controller.
    memory: PathBuf,
    /// The top of a v2 hierarchy beside it.
    unified: Option<PathBuf>,
}

impl Machine {
    /// Finds the hierarchies below `root`.
    pub fn find(root: &Path) -> Result<Self, SourceError> {
        let usual = root.join("sys/fs/cgroup");
        let (mut memory, mut unified) = (Vec::new(), vec![usual.join("unified")]);
        if usual.join("cgroup.controllers").is_file() {
            memory.push(usual.clone());
        }
        memory.push(usual.join("memory"));
        for mount in mounts(root) {
            match mount {
                (at, true) => {
                    memory.push(at.clone());
                    unified.push(at);
                }
                (at, false) => memory.insert(0, at),
            }
        }
        let memory = memory.into_iter().find(|folder| has_memory(folder)).ok_or_else(|| SourceError::Io {
            path: root.display().to_string(),
            error: io::Error::other(
                "no cgroup memory hierarchy here (looked in sys/fs/cgroup and in the mount table); give a captured \
                 copy, or the host's root with --root",
            ),
        })?;
        let unified =
            unified.into_iter().find(|folder| *folder != memory && folder.join("cgroup.controllers").is_file());
        Ok(Self { root: root.to_owned(), memory, unified })
    }

    /// The group at a path below the hierarchy.
    pub fn group(&self, path: &str) -> Group {
        let below = path.trim_matches('/');
        let at = |top: &Path| if below.is_empty() { top.to_owned() } else { top.join(below) };
        Group {
            folder: at(&self.memory),
            path: format!("/{below}"),
            beside: self.unified.as_deref().map(at),
            meminfo: Some(self.root.join("proc/meminfo")),
            top: self.memory.clone(),
        }
    }

    /// The path below the hierarchy of a folder in it.
    pub fn below(&self, folder: &Path) -> Option<String> {
        let folder = folder.canonicalize().ok()?;
        let top = self.memory.canonicalize().ok()?;
        folder.strip_prefix(top).ok().map(|below| format!("/{}", below.display()))
    }

    /// The path of a process's group, from the lines of its `/proc/<pid>/cgroup`.
    pub fn path_of(&self, pid: u32) -> io::Result<String> {
        let text = std::fs::read_to_string(self.root.join(format!("proc/{pid}/cgroup")))?;
        let lines = || text.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
        let v1 = lines().find(|[_, controllers, _]: &[&str; 3]| controllers.split(',').any(|name| name == "memory"));
        let v2 = || lines().find(|[number, _, _]: &[&str; 3]| *number == "0");
        match v1.or_else(v2) {
            Some([_, _, path]) if path.contains("/..") => {
                Err(io::Error::other("its cgroup is outside of this cgroup namespace; run on the host, or give --root"))
            }
            Some([_, _, path]) => Ok(path.trim_end_matches(" (deleted)").to_owned()),
            None => Err(io::Error::other("it is in no memory cgroup")),
        }
    }
}

/// Mount points of memory hierarchies below `root`, and whether they are v2.
fn mounts(root: &Path) -> Vec<(PathBuf, bool)> {
    #[cfg(target_os = "linux")]
    if root == Path::new("/") {
        return own_mounts();
    }
    // The host's init sees the host's mounts; the paths are those of the host.
    let Ok(text) = std::fs::read_to_string(root.join("proc/1/mountinfo")) else { return Vec::new() };
    let line = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let at = root.join(place.split(' ').nth(4)?.trim_start_matches('/'));
        let mut kind = kind.split(' ');
        let name = kind.next()?;
        let is_memory = name == "cgroup" && kind.nth(1)?.split(',').any(|option| option == "memory");
        (name == "cgroup2" || is_memory).then_some((at, name == "cgroup2"))
    };
    text.lines().filter_map(line).collect()
}

/// The same for this process's own mounts.
#[cfg(target_os = "linux")]
fn own_mounts() -> Vec<(PathBuf, bool)> {
    use cgroups_rs::hierarchies::mountinfo_self;
    let memory = |mount: &cgroups_rs::hierarchies::Mountinfo| match mount.fs_type.0.as_str() {
        "cgroup2" => Some(true),
        "cgroup" if mount.super_opts.iter().any(|option| option == "memory") => Some(false),
        _ => None,
    };
    mountinfo_self().into_iter().filter_map(|mount| Some((mount.mount_point.clone(), memory(&mount)?))).collect()
}
