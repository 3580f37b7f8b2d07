//! What etcd keeps beside the keys: how far it has applied and compacted, leases, members, alarms.
//! (Source: etcd server/storage/schema, server/lease/leasepb, api/etcdserverpb.)

use super::bolt::Element;
use super::mvcc::{Field, Fields, revision};
use std::collections::BTreeMap;

/// A member of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
}

/// What stands in the small buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// The last entry of the log that was applied.
    pub consistent_index: Option<u64>,
    pub term: Option<u64>,
    /// The revision at which the last compaction was asked for.
    pub scheduled_compact: Option<u64>,
    /// The revision up to which a compaction has ended.
    pub finished_compact: Option<u64>,
    /// The version of the file's schema, from etcd 3.6 on.
    pub storage_version: Option<String>,
    /// Leases by id: seconds to live, as they were granted.
    pub leases: BTreeMap<u64, u64>,
    /// Members, in the order of their ids.
    pub members: Vec<Member>,
    /// Alarms: the member, and what is wrong.
    pub alarms: Vec<(u64, &'static str)>,
    /// The pages of the stored free-list, if it is stored.
    pub free_list: Option<Vec<u64>>,
}

impl Store {
    /// Whether a compaction was asked for that has not ended.
    pub fn compaction_is_under_way(&self) -> bool {
        self.scheduled_compact.unwrap_or(0) > self.finished_compact.unwrap_or(0)
    }

    /// The revision of the last compaction that was asked for; 0 for none.
    pub fn compacting_to(&self) -> u64 {
        self.scheduled_compact.max(self.finished_compact).unwrap_or(0)
    }

    /// The revision up to which history is compacted; 0 if nothing is.
    pub fn compacted(&self) -> u64 {
        self.finished_compact.unwrap_or(0)
    }

    /// Takes an entry of a bucket.
    pub(super) fn take(&mut self, bucket: &str, element: &Element<'_>) {
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
        match (bucket, element.key) {
            ("meta", b"consistent_index") => self.consistent_index = number(element.value),
            ("meta", b"term") => self.term = number(element.value),
            ("meta", b"scheduledCompactRev") => self.scheduled_compact = revision(element.value).map(|(at, _)| at.main),
            ("meta", b"finishedCompactRev") => self.finished_compact = revision(element.value).map(|(at, _)| at.main),
            ("meta", b"storageVersion") => {
                self.storage_version = Some(String::from_utf8_lossy(element.value).into_owned())
            }
            ("lease", _) => {
                // Field 1 is the id, 2 the seconds.
                let mut lease = (0, 0);
                Fields::new(element.value).for_each(|field| match field {
                    (1, Field::Number(id)) => lease.0 = id,
                    (2, Field::Number(seconds)) => lease.1 = seconds,
                    _ => {}
                });
                self.leases.insert(lease.0, lease.1);
            }
            ("members", _) => self.members.extend(member(element.value)),
            ("alarm", key) => {
                let mut alarm = (0, 0);
                Fields::new(key).for_each(|field| match field {
                    (1, Field::Number(id)) => alarm.0 = id,
                    (2, Field::Number(kind)) => alarm.1 = kind,
                    _ => {}
                });
                let kind = match alarm.1 {
                    1 => "NOSPACE",
                    2 => "CORRUPT",
                    _ => "unknown",
                };
                self.alarms.push((alarm.0, kind));
            }
            _ => {}
        }
    }
}

fn member(value: &[u8]) -> Option<Member> {
    #[derive(serde::Deserialize)]
    struct Stored {
        id: u64,
        #[serde(default, rename = "peerURLs")]
        peer_urls: Vec<String>,
        #[serde(default)]
        name: String,
    }
    let stored: Stored = serde_json::from_slice(value).ok()?;
    Some(Member { id: stored.id, name: stored.name, peer_urls: stored.peer_urls })
}
