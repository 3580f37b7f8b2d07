//! Which kinds of input a command reads.

use super::content::Content;

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Audit logs.
    Logs,
    /// Metrics pages.
    Pages,
    /// Live and history.
    Both,
    /// etcd's database.
    Databases,
    /// Go profiles; `sources::pprof` finds them.
    Profiles,
    /// Dump pages of API Priority and Fairness, and what can be read beside them: logs and metrics pages.
    Dumps,
}

impl Wanted {
    pub(super) fn wants(self, content: Content) -> bool {
        match content {
            Content::AuditLines | Content::AuditDocument | Content::Blank | Content::Rollup => {
                matches!(self, Self::Logs | Self::Both | Self::Dumps)
            }
            Content::Metrics => matches!(self, Self::Pages | Self::Both | Self::Dumps),
            Content::Dump => self == Self::Dumps,
            Content::Database => self == Self::Databases,
            // An empty log is a log without events; a page is never empty.
            // Of a log that is cut off so early whoever reads it says where.
            Content::Empty | Content::CUT => matches!(self, Self::Logs | Self::Both),
            Content::Profile | Content::Archive(_) | Content::Other(_) => false,
        }
    }
}
