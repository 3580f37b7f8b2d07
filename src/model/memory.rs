//! What the kernel reports a cgroup's memory, as it stands in its files.

use crate::model::time::Micros;

/// Named numbers in the order of their file.
pub type Fields = Vec<(String, u64)>;

/// Which interface of the kernel a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// `memory.usage_in_bytes` and its like.
    V1,
    /// `memory.current` and its like.
    #[default]
    V2,
    /// Memory by v1, pressure by a v2 hierarchy beside it.
    Hybrid,
}

impl Version {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
        }
    }

    /// Whether memory is taken from v2's files.
    pub fn is_v2(self) -> bool {
        self == Self::V2
    }
}

/// The content of a file that holds one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Of(u64),
    /// `max`, `-1`, or so large that it means neither.
    Max,
}

impl Amount {
    /// From here on v1 means "no limit": its largest is 2^63 less a page, whatever the page's size.
    const NONE: u64 = 1 << 62;

    /// A number as limits are written.
    pub fn of(number: u64) -> Self {
        if number >= Self::NONE { Self::Max } else { Self::Of(number) }
    }

    /// The number, if there is one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Of(number) => Some(number),
            Self::Max => None,
        }
    }
}

/// One line of a pressure file: per cent of the last 10, 60 and 300 seconds, and microseconds in all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stall {
    /// Per cent of the last 10 s.
    pub avg10: f64,
    /// Per cent of the last 60 s.
    pub avg60: f64,
    /// Per cent of the last 300 s.
    pub avg300: f64,
    /// Microseconds since the group was made.
    pub total_us: u64,
}

/// `memory.pressure`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    /// Some tasks waited for memory.
    pub some: Stall,
    /// All of them did.
    pub full: Option<Stall>,
}

/// A group's files at one moment. What a file does not say is absent, never 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// What the group is called: its path below the hierarchy, or what the copy's folder is called.
    pub path: String,
    /// Which files it has.
    pub version: Version,
    /// When it was read.
    pub at: Micros,
    /// Notifies a group from another of the same name, made later.
    pub inode: Option<u64>,
    /// `memory.stat`, every field.
    pub stat: Fields,
    /// Files that hold one number, by name.
    pub values: Vec<(String, Amount)>,
    /// Files of named numbers other than `memory.stat`, by name: `memory.events`, `memory.oom_control`.
    pub tables: Vec<(String, Fields)>,
    /// `memory.pressure`.
    pub pressure: Option<Pressure>,
    /// `memory.numa_stat`: names, and their numbers by node as they stand there.
    pub numa: Vec<(String, String)>,
    /// `/proc/meminfo`, in bytes.
    pub host: Fields,
    /// Processes in the group itself.
    pub processes: Option<u64>,
    /// Sum of `memory.min` over the groups below, where they could be read.
    pub protected_below: u64,
    /// The groups above, from the nearest.
    pub above: Vec<Sample>,
    /// What could not be understood: file, line, why.
    pub problems: Vec<String>,
}

fn field(fields: &Fields, name: &str) -> Option<u64> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
}

impl Sample {
    /// A field of `memory.stat`.
    pub fn stat(&self, name: &str) -> Option<u64> {
        field(&self.stat, name)
    }

    /// The content of a file that holds one number.
    pub fn value(&self, file: &str) -> Option<Amount> {
        self.values.iter().find(|(own, _)| own == file).map(|(_, value)| *value)
    }

    /// The number in a file that holds one.
    pub fn number(&self, file: &str) -> Option<u64> {
        self.value(file).and_then(Amount::number)
    }

    /// A field of another file of named numbers.
    pub fn table(&self, file: &str, name: &str) -> Option<u64> {
        self.tables.iter().find(|(own, _)| own == file).and_then(|(_, fields)| field(fields, name))
    }

    /// A field of `/proc/meminfo`, in bytes.
    pub fn host(&self, name: &str) -> Option<u64> {
        field(&self.host, name)
    }

    /// Whether any file of a memory controller was there.
    pub fn is_empty(&self) -> bool {
        self.stat.is_empty() && self.values.is_empty()
    }

    /// Whether this is the top of a hierarchy, which the kernel accounts in another way.
    pub fn is_root(&self) -> bool {
        self.path == "/"
    }
}
