//! Folders that hold several clusters, each in folders `cluster=NAME`: datasets, exports to object stores.

use super::belonging::value_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The key of the folders that name a cluster.
const KEY: &str = "cluster";

/// The folders of each cluster in a folder, by what they call it; those of a cluster without a name under the empty
/// one. Empty where no folder in it, or one below, is called `cluster=NAME`.
pub fn partitions(folder: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut all: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut add = |folder: PathBuf| {
        let name = folder.file_name().unwrap_or_default();
        if name.to_string_lossy().split_once('=').is_some_and(|(key, _)| key == KEY) {
            let cluster = value_of(Path::new(name), KEY).unwrap_or_default();
            all.entry(cluster).or_default().push(folder);
            return true;
        }
        false
    };
    for own in folders(folder) {
        if !add(own.clone()) {
            folders(&own).into_iter().for_each(|below| _ = add(below));
        }
    }
    all
}

/// The folders in a folder, in the order of their names.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_told_apart_in_any_table() {
        let home = tempfile::tempdir().unwrap();
        let folders = [
            "audit/cluster=b%2F1",
            "audit/cluster=a",
            "metrics/cluster=a",
            "metrics/cluster=__HIVE_DEFAULT_PARTITION__",
            "other/x",
        ];
        folders.iter().for_each(|name| std::fs::create_dir_all(home.path().join(name)).unwrap());
        let of = |folder: &Path| -> Vec<(String, usize)> {
            partitions(folder).into_iter().map(|(name, own)| (name, own.len())).collect()
        };
        let text = |name: &str| name.to_owned();
        assert_eq!(of(home.path()), [(text(""), 1), (text("a"), 2), (text("b/1"), 1)]);
        assert_eq!(of(&home.path().join("audit")), [(text("a"), 1), (text("b/1"), 1)]);
        assert!(of(&home.path().join("audit/cluster=a")).is_empty());
    }
}
