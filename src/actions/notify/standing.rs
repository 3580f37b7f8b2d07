//! Alerts that still stand: Alertmanager forgets them unless they are sent again.

use crate::model::alert::Alert;
use crate::model::time::Micros;
use std::collections::BTreeMap;

/// What Alertmanager is to go on knowing, by owner, and which channels those owners have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    pub cluster: String,
    /// What time it is.
    pub at: Micros,
    /// Alerts by owner.
    pub alerts: BTreeMap<String, Vec<Alert>>,
    /// Channels by owner.
    pub channels: BTreeMap<String, Vec<String>>,
}
