//! What a bundle says of itself: the optional `bundle.yaml` beside its files.

use serde::{Deserialize, Serialize};

/// `bundle.yaml`. All of it is optional, and what is not known is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bundle {
    /// The cluster's name.
    pub cluster: String,
    /// The apiservers' version, e.g. `v1.36.0`.
    pub kubernetes_version: String,
    /// When what the bundle is about begins, RFC 3339; before it lies what was done to set it up.
    pub t0: String,
    /// When it ends.
    pub end: String,
    /// Who answers for the cluster.
    pub owner: String,
}
