//! What every report about a database begins with: the size of its file, what it shows, what is damaged.

use crate::model::input::InputReport;
use crate::model::report::Value;
use crate::model::units::{bytes, counted, percent};
use serde_json::{Map, Value as Json, json};

/// What is known of the file.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// What was read.
    pub inputs: Vec<InputReport>,
    /// Bytes that the database counts as its own.
    pub db_bytes: u64,
    /// Of these, in pages that hold something.
    pub in_use_bytes: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// The largest revision.
    pub revision: u64,
    /// The revision up to which history is compacted; 0 if nothing is.
    pub compacted: u64,
    /// Whether a compaction was asked for that has not ended.
    pub compacting: bool,
    /// The hash, as `etcdctl snapshot status` gives it; `None` if something could not be read.
    pub hash: Option<u32>,
    /// Entries by bucket.
    pub entries: Vec<(String, u64)>,
    /// What is damaged, in words, and how much there is.
    pub damages: (Vec<String>, u64),
    /// The quota, if known.
    pub quota: Option<u64>,
    /// Whether values were looked at.
    pub decoded: bool,
    /// Where in the log of writes the file stands.
    pub consistent_index: Option<u64>,
    pub term: Option<u64>,
    /// The version of the file's schema, from etcd 3.6 on.
    pub storage_version: Option<String>,
    /// Members: name, and where peers reach it.
    pub members: Vec<(String, String)>,
    /// Alarms: member, and what is wrong.
    pub alarms: Vec<(String, String)>,
    pub leases: u64,
}

impl File {
    /// Whether a part of it could not be read: what lies there is not known.
    pub fn is_damaged(&self) -> bool {
        self.damages.1 > 0
    }

    /// Bytes in pages that hold nothing; in a damaged file also those of pages that could not be reached.
    pub fn free_bytes(&self) -> u64 {
        self.db_bytes.saturating_sub(self.in_use_bytes)
    }

    /// Where it was read.
    pub fn path(&self) -> &str {
        self.inputs.first().map_or("", |input| input.path.as_str())
    }

    /// The sums that every report about a database has.
    pub fn totals(&self) -> Vec<(String, Value)> {
        let fragmentation = (self.db_bytes > 0).then(|| self.free_bytes() as f64 / self.db_bytes as f64);
        let totals: [(&str, Value); 8] = [
            ("db_bytes", self.db_bytes.into()),
            ("in_use_bytes", self.in_use_bytes.into()),
            ("free_bytes", self.free_bytes().into()),
            ("page_size", self.page_size.into()),
            ("fragmentation", fragmentation.into()),
            ("revision", self.revision.into()),
            ("compact_revision", self.compacted.into()),
            ("hash", self.hash.map(u64::from).into()),
        ];
        totals.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// What the file shows at all.
    pub fn coverage(&self) -> Map<String, Json> {
        let entries: Map<String, Json> =
            self.entries.iter().map(|(bucket, count)| (bucket.clone(), json!(count))).collect();
        let members: Vec<Json> =
            self.members.iter().map(|(name, url)| json!({"name": name, "peer_url": url})).collect();
        let alarms: Vec<Json> =
            self.alarms.iter().map(|(member, alarm)| json!({"member": member, "alarm": alarm})).collect();
        let value = json!({
            "source": "etcd", "entries": entries, "decoded": self.decoded, "damaged": self.damages.0,
            "damages": self.damages.1,
            "consistent_index": self.consistent_index, "term": self.term, "storage_version": self.storage_version,
            "compaction_under_way": self.compacting, "leases": self.leases, "members": members, "alarms": alarms,
        });
        if let Json::Object(map) = value { map } else { Map::new() }
    }

    /// The sentence about its size.
    pub fn size(&self) -> String {
        let free = if self.is_damaged() { "of pages that are free or can't be reached" } else { "of free pages" };
        let mut text = format!(
            "Database {}, including {} {free} ({})",
            bytes(self.db_bytes as f64),
            bytes(self.free_bytes() as f64),
            of(self.free_bytes(), self.db_bytes)
        );
        if let Some(quota) = self.quota.filter(|quota| *quota > 0) {
            text += &format!("; {} of the quota of {}", of(self.db_bytes, quota), bytes(quota as f64));
        }
        text + "."
    }

    /// What people are to know of damage.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_damaged() {
            notes.push(format!(
                "{} of the database damaged; only the readable parts are counted.",
                counted(self.damages.1, "place")
            ));
        }
        if self.compacting {
            notes.push(
                "A compaction was in progress when the file was taken: part of the history was already removed."
                    .to_owned(),
            );
        }
        notes
    }
}

/// A part as per cent; `-` of nothing.
pub fn of(part: u64, whole: u64) -> String {
    if whole > 0 { percent(part as f64 / whole as f64) } else { "-".to_owned() }
}
