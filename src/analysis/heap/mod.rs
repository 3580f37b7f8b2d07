//! Heap profiles: from stacks to functions with flat and cumulative values as pprof counts them; to groups by purpose;
//! to a flame graph; and to the difference of two profiles.

mod findings;
pub mod flame;
pub mod groups;
pub mod measure;
pub mod report;
pub mod select;
pub mod top;
