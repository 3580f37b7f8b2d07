//! Many clusters side by side: a row for each, clients that offend on several of them, and clusters that differ from
//! those of their size.

mod offenders;
mod outliers;
mod recorded;
pub mod report;
mod state;

pub use recorded::Recorded;
pub use state::{ClusterInput, ClusterState, Outlook, Usage};

use crate::model::series::DAY;
use crate::model::time::Micros;

/// How long a cluster is looked at where nothing else is asked for: the last day of its data.
pub const LOOKED_AT: Micros = DAY;
