//! An instance that hands its roll-ups to another: it reads logs, and neither counts nor judges them.

use crate::actions::hand_over::Recipient;
use crate::actions::store::RollupsWriter;
use crate::cli::{Context, Error};
use crate::inputs::recording::{Gained, Recording, failed};
use crate::sources::rolled::Rolled;
use crate::sources::store::Store;

/// From so many parts on that wait, each is of a longer time: the recipient is away.
const MAX_WAITING: usize = 20;

/// What is handed over, and to whom.
pub(super) struct HandOver {
    recipient: Recipient,
    /// Whether the recipient has reported which lines it has.
    has_positions: bool,
    /// Parts that wait.
    pub(super) waiting: usize,
}

impl HandOver {
    pub(super) fn new(recipient: Recipient) -> Self {
        Self { recipient, has_positions: false, waiting: 0 }
    }

    /// Reads on. Until the recipient was reached once nothing is read: only it knows where a log was left if this store
    /// is new.
    pub(super) fn read(
        &mut self,
        logs: &mut Recording,
        sources: &[String],
        store: &Store,
        context: &mut Context<'_>,
    ) -> Result<Option<Gained>, Error> {
        if !self.has_positions {
            let positions = self.recipient.positions().map_err(|why| self.unsent(&why))?;
            let Some(mut writer) = RollupsWriter::begin(store).map_err(failed)? else { return Ok(None) };
            writer.skip_to(&positions).map_err(failed)?;
            self.has_positions = true;
        }
        logs.round(sources, store, self.waiting < MAX_WAITING, context)
    }

    /// Hands over what waits.
    pub(super) fn give(&mut self, store: &Store) -> Result<(), Error> {
        let parts = in_order(store)?;
        self.waiting = parts.len();
        for part in parts {
            self.recipient.give(&part).map_err(|why| self.unsent(&why))?;
            if let Some(mut writer) = RollupsWriter::begin(store).map_err(failed)? {
                writer.drop_parts(&[&part]).map_err(failed)?;
                self.waiting -= 1;
            }
        }
        Ok(())
    }

    fn unsent(&self, why: &str) -> Error {
        Error::Input(format!("--hand-to {}: {why}", self.recipient.url))
    }
}

/// Parts of one log one after the other.
fn in_order(store: &Store) -> Result<Vec<Rolled>, Error> {
    let mut parts = store.rollups().map_err(failed)?.parts;
    parts.sort_by(|a, b| (a.manifest.recorded, a.manifest.start()).cmp(&(b.manifest.recorded, b.manifest.start())));
    Ok(parts)
}
