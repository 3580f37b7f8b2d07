//! What messages of failed and denied requests name (docs/rollup.md, section 4), from stored tables, and as analyses
//! read it.

use super::extra_rows::Failures;
use super::keys::{FailureKey, OTHER};
use super::stored::Loader;
use super::tables::Rollup;
use super::tiles::{OTHER_KEY, Row};
use crate::analysis::failure::Fault;
use crate::model::rollup::Cells;

impl Loader {
    pub(super) fn failures(&mut self, cells: &[Cells<'_>], row: usize) -> Result<(), &'static str> {
        let Some(at) = self.tile(cells, row) else { return Ok(()) };
        let [cluster, instance, user, agent, group, resource, fault, name] =
            std::array::from_fn(|column| cells[column + 1].text(row));
        let Some(subject) = self.subject([cluster, user, agent, group, resource]) else { return Ok(()) };
        let key = if fault == OTHER {
            OTHER_KEY
        } else {
            let fault = Some(Fault::ALL.into_iter().find(|known| known.name() == fault).ok_or("fault")?);
            let [instance, name] = [instance, name].map(|text| self.symbol(text));
            u64::from(self.part.keys.failures.number(FailureKey { subject, instance, fault, name }))
        };
        let read = Failures { count: cells[9].count(row), span: Some((cells[10].number(row), cells[11].number(row))) };
        self.part.failures.stored(self.tile, at, key, &self.part.keys).merge(read, &self.part.keys);
        Ok(())
    }
}

/// Requests of one client and resource, in one tile, that failed or were denied for one reason.
#[derive(Debug, Clone, Copy)]
pub struct FailureRow<'r> {
    /// Start of the tile, in s.
    pub tile: i64,
    /// Cluster, user, agent, group, resource.
    pub subject: [&'r str; 5],
    pub fault: Fault,
    /// The webhook, API group, policy or quota; may be empty.
    pub name: &'r str,
    pub count: u64,
}

impl Rollup {
    /// What the messages of failed and denied requests name, in order of time; without what was folded.
    pub fn failures(&self) -> impl Iterator<Item = FailureRow<'_>> {
        self.failures.iter().filter_map(|(tile, key, row)| {
            let own = *self.keys.failures.get(*key as u32);
            Some(FailureRow {
                tile: *tile,
                subject: self.keys.subject_text(own.subject),
                fault: own.fault?,
                name: self.keys.symbols.get(own.name),
                count: row.count,
            })
        })
    }
}
