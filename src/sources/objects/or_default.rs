//! How serde reads `null` in objects.

use serde::{Deserialize, Deserializer};

/// `null` as what is not there: the apiserver writes some lists and maps so.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
