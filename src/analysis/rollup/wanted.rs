//! What of a stored roll-up is read.

use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::model::problem::Problem;
use crate::model::rollup::{TABLES, TableSpec};
use crate::model::time::Micros;

/// What of a stored roll-up is taken.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// From here on; the tile that it lies in is taken whole.
    pub since: Option<Micros>,
    /// Before this; likewise.
    pub until: Option<Micros>,
    /// Clients that meet all conditions.
    pub filters: Vec<Filter>,
    /// Whether what further parts are joined by is wanted.
    pub with_seams: bool,
    /// Which tables are read.
    pub tables: Tables,
}

/// Which tables of a stored roll-up are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tables {
    /// Those that report clients, as `clients`, `balance` and `compare` need them.
    #[default]
    Clients,
    /// Those of requests alone, and of all of them by class of code.
    Requests,
    /// All of them.
    All,
    /// Those of dangerous operations.
    Operations,
    /// The same, and requests by client.
    OperationsOfSome,
    /// Writes to leases.
    Leases,
    /// What quotas refused.
    Refusals,
    /// Load by apiserver.
    Load,
    /// Who writes one object again and again, and who overwrites whom.
    Writers,
}

impl Tables {
    /// Their names.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Clients => &[
                "traffic",
                "pulse",
                "sequences",
                "sources",
                "objects",
                "notable",
                "clients",
                "nodes",
                "deprecated",
                "writes",
                "alternations",
                "load",
                "failures",
            ],
            Self::Requests => &["traffic", "pulse", "load"],
            Self::All => &[],
            Self::Operations => &["load", "operations", "omitted", "cascades", "created"],
            Self::OperationsOfSome => &["traffic", "operations", "omitted", "cascades", "created"],
            Self::Leases => &["leases"],
            Self::Refusals => &["refusals"],
            Self::Load => &["load"],
            Self::Writers => &["writes", "alternations"],
        }
    }

    /// The tables.
    pub fn specs(self) -> impl Iterator<Item = &'static TableSpec> {
        TABLES.iter().filter(move |spec| self == Self::All || self.names().contains(&spec.name))
    }

    /// Whether a roll-up without the table answers all the same; what is made of it then lacks the table too.
    pub fn can_lack(self, spec: &TableSpec) -> bool {
        match self {
            Self::All => true,
            Self::Clients => matches!(spec.name, "load" | "failures") || Self::Writers.names().contains(&spec.name),
            Self::Requests => spec.name == "load",
            _ => false,
        }
    }

    /// Whether what happened shortly before a window shows what happens in it.
    pub fn look_back(self) -> bool {
        matches!(self, Self::Operations | Self::OperationsOfSome)
    }

    /// Whether parts of one log are joined by their seams for it.
    pub fn has_seams(self) -> bool {
        matches!(self, Self::Clients | Self::Requests | Self::All | Self::OperationsOfSome | Self::Load)
    }

    /// Whether facts between events of different parts are made for it.
    pub fn has_facts(self) -> bool {
        matches!(self, Self::Clients | Self::All)
    }
}

/// Dimensions of conditions that every table can be judged by.
const EVERYWHERE: [Dim; 4] = [Dim::User, Dim::ServiceAccount, Dim::Agent, Dim::Cluster];

/// Whether a condition can be answered from clients alone; if not, what it would take.
pub fn is_answered(filter: &Filter) -> Result<(), Problem> {
    match EVERYWHERE.contains(&filter.dim) {
        true => Ok(()),
        false => Err(Problem::unanswered(format!(
            "--where {}: not all tables of a roll-up have it; use conditions on {}, or name the log itself",
            filter.dim.name(),
            EVERYWHERE.map(Dim::name).join(", ")
        ))),
    }
}
