//! Audit events as rows of typed columns, as datasets hold them (docs/dataset.md).

mod rows;

pub use rows::{Keep, RowReader};
