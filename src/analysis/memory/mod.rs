//! Memory of cgroups: its parts, rates and verdicts. (Formulas: docs/commands/memory.md.)

pub mod account;
pub mod findings;
pub mod heap;
pub mod plan;
pub mod rates;
pub mod reclaimed;
pub mod report;
pub mod seen;
pub mod verdict;
