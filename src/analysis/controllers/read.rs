//! What was read of controllers: metrics, writes to leases, objects.

use super::classes::Classes;
use super::handovers::{Lease, Run, ran_out};
use crate::analysis::metrics::facts::Facts;
use crate::model::input::InputReport;
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// Metrics.
    pub facts: Facts,
    /// Writes to leases, by lease; `None` without audit logs.
    pub leases: Option<BTreeMap<Lease, Vec<Run>>>,
    /// From the first event that was read to the last.
    pub logged: Option<(Micros, Micros)>,
    /// By cluster: until when all of its logs reach. What comes later may be missing in one of them.
    pub logged_until: BTreeMap<String, Micros>,
    /// Pods that wait; `None` without objects.
    pub classes: Option<Classes>,
    /// When the objects were taken.
    pub taken: Option<Micros>,
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Pages whose time is that of their file's last change.
    pub undated: usize,
    /// Rows of each table that people asked for; then they are shown what hardly matters, too.
    pub top: Option<usize>,
    /// Whether people want all columns.
    pub wide: bool,
}

impl Read {
    /// Leases that had run out when the logs of their cluster end, each with its last holder and for how long.
    pub fn ran_out(&self) -> impl Iterator<Item = (&Lease, &Run, Micros)> {
        self.leases.iter().flatten().filter_map(|(lease, runs)| {
            let run = runs.last()?;
            Some((lease, run, ran_out(run, *self.logged_until.get(&lease.0)?)?))
        })
    }
}
