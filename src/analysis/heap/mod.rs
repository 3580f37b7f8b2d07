//! What a heap holds: from stacks to functions with what they and their callees hold, as pprof counts it; to groups of
//! an apiserver's work; to a flame graph; and to what has changed between two profiles.

mod findings;
pub mod flame;
pub mod groups;
pub mod measure;
pub mod report;
pub mod select;
pub mod top;
