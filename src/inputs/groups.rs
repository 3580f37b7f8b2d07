//! Which cgroups: from flags and names to live groups and captured copies.

use crate::cli::{Context, Error};
use crate::model::memory::Sample;
use crate::model::question::MemoryShow;
use crate::model::units::parse_bytes;
use crate::sources::cgroup::{self, Group, Machine, Series, Wanted};
use crate::sources::clock;
use crate::views::text::plain;
use std::path::{Path, PathBuf};

/// Which cgroups.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cgroups")]
pub(crate) struct GroupFlags {
    /// Where the machine's root file system is: /host in a container that mounts it there.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// The cgroup of this process.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// The cgroup of this systemd unit.
    #[arg(long, value_name = "UNIT")]
    unit: Vec<String>,
    /// The cgroups of this control-plane component, a static pod or a unit: kube-apiserver, etcd.
    #[arg(long, value_name = "NAME")]
    component: Vec<String>,
    /// The machine's memory, where a copy does not have it: 64GiB.
    #[arg(long, value_name = "SIZE", value_parser = some_size)]
    pub(crate) host_memory: Option<u64>,
}

/// Reads a size of at least a byte.
fn some_size(text: &str) -> Result<u64, String> {
    size(text).and_then(|size| if size > 0 { Ok(size) } else { Err("write a size above zero, as 64GiB".to_owned()) })
}

/// Reads an amount of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "a size in bytes or with a unit: 64MiB, 2G, 500MB".to_owned())
}

/// What is meant.
#[derive(Debug, Default)]
pub(crate) struct SelectedGroups {
    /// Groups of this machine.
    pub(crate) live: Vec<Group>,
    /// Copies.
    pub(crate) copies: Vec<Series>,
    /// The machine, if it was looked at.
    pub(crate) machine: Option<Machine>,
}

fn failed(error: &impl std::fmt::Display) -> Error {
    Error::Input(plain(&error.to_string()).into_owned())
}

impl From<&MemoryShow> for GroupFlags {
    fn from(question: &MemoryShow) -> Self {
        Self {
            root: PathBuf::from(&question.root),
            pid: question.pids.clone(),
            unit: question.units.clone(),
            component: question.components.clone(),
            host_memory: question.host_memory,
        }
    }
}

impl GroupFlags {
    /// A question about the groups that the flags name.
    pub(crate) fn question(&self) -> MemoryShow {
        MemoryShow {
            root: self.root.display().to_string(),
            pids: self.pid.clone(),
            units: self.unit.clone(),
            components: self.component.clone(),
            host_memory: self.host_memory,
            ..MemoryShow::default()
        }
    }

    /// Finds what `sources` and the flags name; without any, the top of the hierarchy.
    /// Of copies also the groups below them if `with_below`.
    pub(crate) fn find(
        &self,
        sources: &[String],
        with_below: bool,
        context: &mut Context<'_>,
    ) -> Result<SelectedGroups, Error> {
        let mut wanted: Vec<Wanted> = self.pid.iter().map(|pid| Wanted::Pid(*pid)).collect();
        wanted.extend(self.unit.iter().cloned().map(Wanted::Unit));
        wanted.extend(self.component.iter().cloned().map(Wanted::Component));
        let mut meant = SelectedGroups::default();
        let machine = Machine::find(&self.root);
        for source in sources {
            let path = Path::new(source);
            let below = machine.as_ref().ok().and_then(|machine| {
                let is_path = source.starts_with('/') && machine.group(source).folder.is_dir();
                if is_path { Some(source.clone()) } else { machine.below(path) }
            });
            if source == "-" {
                meant.copies.push(cgroup::stdin(context.io.now).map_err(|error| failed(&error))?);
            } else if let Some(below) = below {
                wanted.push(Wanted::Path(below));
            } else if path.exists() {
                match cgroup::open(path, context.io.now, with_below) {
                    Ok(series) => meant.copies.extend(series),
                    Err(error) if sources.len() == 1 => return Err(failed(&error)),
                    Err(error) => context.lost(error)?,
                }
            } else if source.contains('/') {
                wanted.push(Wanted::Path(source.clone()));
            } else {
                wanted.push(Wanted::Name(source.clone()));
            }
        }
        if wanted.is_empty() && meant.copies.is_empty() {
            wanted.push(Wanted::Path("/".to_owned()));
        }
        if wanted.is_empty() {
            return Ok(meant);
        }
        let machine = machine.map_err(|error| failed(&error))?;
        for wanted in &wanted {
            meant.live.extend(cgroup::locate(&machine, wanted).map_err(|error| failed(&error))?);
        }
        meant.live.dedup_by(|a, b| a.path == b.path);
        meant.machine = Some(machine);
        Ok(meant)
    }
}

/// Reads a live group; says what in it could not be understood.
pub(crate) fn read(group: &Group, context: &mut Context<'_>) -> Result<Option<Sample>, Error> {
    let now = clock::now();
    match group.read(now) {
        Ok(sample) => {
            warn_unknown(&group.path, &sample, context)?;
            Ok(Some(sample))
        }
        Err(error) => {
            context.lost(format!("{}: {error}", group.path))?;
            Ok(None)
        }
    }
}

/// Says what in a sample could not be understood.
pub(crate) fn warn_unknown(place: &str, sample: &Sample, context: &mut Context<'_>) -> Result<(), Error> {
    sample
        .problems
        .iter()
        .take(10)
        .try_for_each(|problem| context.lost(format!("{place}: {problem}; the rest was used")))
}
