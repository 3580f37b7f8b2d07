//! What happened: whether there was an incident, when, who caused it, with which confidence (docs/commands/report.md).

pub mod answers;
pub mod calm;
pub mod cards;
pub mod causes;
pub mod charts;
pub mod episode_report;
pub mod episodes;
pub mod pulse;
pub mod redact;
pub mod redact_files;
pub mod report;
pub mod steps;
pub mod summary;
pub mod suspects;
pub mod timeline;
pub mod watch;
