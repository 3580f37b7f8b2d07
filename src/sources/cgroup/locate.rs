//! From what a person names to groups: a path, a process, a unit, a component, the id of a pod or a container.

use super::group::Group;
use super::machine::Machine;
use crate::sources::open::SourceError;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A path below the hierarchy, or a folder in it.
    Path(String),
    /// The id of a pod or of a container (at least eight characters of it), or a unit's name.
    Name(String),
    /// The group of this process.
    Pid(u32),
    /// A systemd unit, with or without `.service`.
    Unit(String),
    /// The groups of all processes of this program: a static pod's containers, or a unit.
    Component(String),
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "cgroup {path}"),
            Self::Name(name) => write!(f, "pod, container or unit {name}"),
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Unit(unit) => write!(f, "unit {unit}"),
            Self::Component(name) => write!(f, "component {name}"),
        }
    }
}

/// The groups meant, at least one.
pub fn locate(machine: &Machine, wanted: &Wanted) -> Result<Vec<Group>, SourceError> {
    let fail = |error: io::Error| SourceError::Io { path: wanted.to_string(), error };
    let found = match wanted {
        Wanted::Path(path) => {
            let group = machine.group(path);
            let path = if group.folder.is_dir() { Some(group.path) } else { machine.below(Path::new(path)) };
            path.map(|path| machine.group(&path)).into_iter().collect()
        }
        Wanted::Pid(pid) => vec![machine.group(&machine.path_of(*pid).map_err(fail)?)],
        Wanted::Unit(unit) => named(machine, |name| is_unit(name, unit)),
        Wanted::Component(program) => {
            let paths: BTreeSet<String> = processes(machine)
                .filter(|(_, name)| name == program)
                .filter_map(|(pid, _)| machine.path_of(pid).ok())
                .collect();
            match paths.is_empty() {
                true => named(machine, |name| is_unit(name, program)),
                false => paths.iter().map(|path| machine.group(path)).collect(),
            }
        }
        Wanted::Name(name) => {
            let pod = name.replace('-', "_");
            named(machine, |own| {
                let id = own.strip_suffix(".scope").unwrap_or(own);
                let id = id.rsplit_once('-').map_or(id, |(_, id)| id);
                is_unit(own, name)
                    || own == name
                    || name.len() >= 8
                        && (id.starts_with(name.as_str())
                            || own.contains(&format!("pod{name}"))
                            || own.contains(&format!("pod{pod}")))
            })
        }
    };
    if found.is_empty() {
        return Err(fail(io::Error::other(
            "no such cgroup on this machine; plimsoll memory show / --recursive lists all",
        )));
    }
    Ok(found)
}

fn is_unit(own: &str, unit: &str) -> bool {
    own == unit || [".service", ".scope", ".slice"].iter().any(|kind| own.strip_suffix(kind) == Some(unit))
}

/// Groups whose own name is accepted; of nested ones the outermost.
fn named(machine: &Machine, accept: impl Fn(&str) -> bool) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    for group in machine.group("/").tree() {
        let name = group.path.rsplit('/').next().unwrap_or_default();
        let inside = |outer: &Group| group.folder.starts_with(&outer.folder);
        if !name.is_empty() && accept(name) && !found.iter().any(inside) {
            found.push(group);
        }
    }
    found
}

/// Every process and the name of its program.
fn processes(machine: &Machine) -> impl Iterator<Item = (u32, String)> {
    let entries = std::fs::read_dir(machine.root.join("proc")).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, program(&entry.path())?))
    })
}

/// The program's name from its arguments: the kernel's own name for it ends after 15 characters.
fn program(process: &Path) -> Option<String> {
    let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let first = String::from_utf8_lossy(arguments.split(|&b| b == 0).next().unwrap_or_default()).into_owned();
    let name = first.rsplit('/').next().unwrap_or_default().to_owned();
    if !name.is_empty() {
        return Some(name);
    }
    std::fs::read_to_string(process.join("comm")).ok().map(|name| name.trim().to_owned())
}

/// The names of all programs that run in a group or below it; `?` for those that can't be seen from here.
pub fn process_names(machine: &Machine, group: &Group) -> BTreeSet<String> {
    let pids =
        group.tree().into_iter().filter_map(|group| std::fs::read_to_string(group.folder.join("cgroup.procs")).ok());
    let pids: Vec<String> =
        pids.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    // A process of another PID namespace is reported as 0: nobody knows what it is.
    let name =
        |pid: &String| if pid == "0" { Some("?".to_owned()) } else { program(&machine.root.join("proc").join(pid)) };
    pids.iter().filter_map(name).collect()
}
