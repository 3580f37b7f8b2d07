//! What there is to look at: sources by kind.

use crate::model::cause::Source;
use crate::model::time::{Bounds, Span};

/// What kinds of sources there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceKinds {
    /// Of each kind, the arguments that hold it.
    pub holders: Vec<(Source, String)>,
    /// Arguments that hold dump pages of API Priority and Fairness.
    pub dumps: Vec<String>,
    /// The first and the last database of etcd, where there are two.
    pub ends: Vec<String>,
    /// Stores and files with series in time.
    pub history: Vec<String>,
    /// Of these the stores that record keeps: they show how fast quotas fill, too.
    pub stores: Vec<String>,
    /// What the sources cover in time.
    pub span: Option<Span>,
    /// Whether objects are listed again and again.
    pub lists_objects: bool,
    /// What they say they are about: from when, to when.
    pub bounds: Bounds,
    /// Of a fleet: they are those of the cluster that was opened so many-th.
    pub opened: u64,
}

/// A cluster of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetCluster {
    /// Its sources, as the table of the fleet names them.
    pub shown: String,
    pub sources: Vec<String>,
    /// Those with series in time, and others that have some.
    pub history: Vec<String>,
}

impl SourceKinds {
    /// The arguments that hold something of these kinds, each once.
    pub fn of(&self, kinds: &[Source]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (kind, holder) in &self.holders {
            if kinds.contains(kind) && !all.contains(holder) {
                all.push(holder.clone());
            }
        }
        all
    }

    /// The argument that holds the database which is looked at: of several arguments the last database.
    pub(super) fn database(&self) -> Option<String> {
        match self.of(&[Source::Etcd]).as_slice() {
            [one] => Some(one.clone()),
            many => self.ends.last().or(many.last()).cloned(),
        }
    }

    /// Whether there is anything of this kind.
    pub fn has(&self, kind: Source) -> bool {
        self.holders.iter().any(|(held, _)| *held == kind)
    }
}
