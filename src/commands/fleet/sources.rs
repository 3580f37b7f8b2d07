//! Which clusters are meant: arguments, and the folders in those that hold one cluster each.

use crate::model::dataset::{KEYSPACE, QUOTAS};
use crate::model::rollup::MANIFEST;
use crate::sources::clusters::partitions;
use crate::sources::store::Store;
use std::path::{Path, PathBuf};

/// What is read of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) struct NamedCluster {
    /// What the command line calls it; `None`: what its data does.
    pub(super) name: Option<String>,
    pub(in crate::commands) sources: Vec<String>,
    /// What to call the sources, where their paths say nothing.
    pub(super) shown: Option<String>,
    /// Why there is nothing to read.
    pub(super) problem: Option<String>,
    /// What is missing from the sources.
    pub(super) losses: Vec<String>,
}

impl NamedCluster {
    fn new(name: Option<&str>, sources: Vec<String>) -> Self {
        let name = name.map(str::to_owned);
        Self { name, sources, shown: None, problem: None, losses: Vec::new() }
    }

    /// What is read, in words.
    pub(in crate::commands) fn shown(&self) -> String {
        self.shown.clone().unwrap_or_else(|| self.sources.join(" "))
    }
}

/// The clusters that arguments name, in their order: `NAME=SOURCE`, several of one name being one cluster; a folder of
/// clusters stands for each of them.
pub(super) fn clusters(arguments: &[String]) -> Vec<NamedCluster> {
    let mut all: Vec<NamedCluster> = Vec::new();
    for argument in arguments {
        let meant = match named(argument) {
            Some((name, source)) => vec![NamedCluster::new(Some(name), vec![source.to_owned()])],
            None => within(argument),
        };
        for own in meant {
            match all.iter_mut().find(|other| own.name.is_some() && other.name == own.name) {
                Some(other) => other.sources.extend(own.sources),
                None => all.push(own),
            }
        }
    }
    all
}

/// The clusters that arguments name, where these say that there are several: by a name before a source, or by a folder
/// that holds a cluster in each of its folders, or partitions of several. Of other arguments nothing says so: they may
/// be of one cluster.
pub(in crate::commands) fn several(arguments: &[String]) -> Option<Vec<NamedCluster>> {
    let says = |argument: &String| named(argument).is_some() || within(argument).len() > 1;
    arguments.iter().any(says).then(|| clusters(arguments))
}

/// A name in front of a source. A path that holds `=` is a path where there is one.
fn named(argument: &str) -> Option<(&str, &str)> {
    let (name, source) = argument.split_once('=')?;
    let is_name = !name.is_empty() && !name.contains(['/', '\\']) && !source.is_empty();
    (is_name && !Path::new(argument).exists()).then_some((name, source))
}

/// The clusters behind an argument: those in it where it is a folder of clusters, or a dataset of several.
fn within(argument: &str) -> Vec<NamedCluster> {
    let folder = Path::new(argument);
    let itself = || vec![NamedCluster::new(None, vec![argument.to_owned()])];
    if !folder.is_dir() || is_cluster(folder) {
        return itself();
    }
    let text = |path: PathBuf| path.display().to_string();
    let partitions = partitions(folder);
    if partitions.len() > 1 {
        // Of a dataset, key spaces and quotas are for SQL alone.
        let is_read = |folder: &PathBuf| {
            let above = folder.parent().and_then(Path::file_name).unwrap_or_default();
            ![KEYSPACE.name, QUOTAS.name].iter().any(|table| above == *table)
        };
        let one = |(name, mut folders): (String, Vec<PathBuf>)| {
            if folders.iter().any(is_read) {
                folders.retain(is_read);
            }
            let name = Some(name.as_str()).filter(|name| !name.is_empty());
            NamedCluster::new(name, folders.into_iter().map(text).collect())
        };
        return partitions.into_iter().map(one).collect();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| is_cluster(path) || is_archive(path)).collect();
    found.sort();
    match found.is_empty() {
        true => itself(),
        false => found.into_iter().map(|path| NamedCluster::new(None, vec![text(path)])).collect(),
    }
}

/// Whether a folder says of itself that it is of one cluster: a bundle, a store, a roll-up.
fn is_cluster(folder: &Path) -> bool {
    folder.join("bundle.yaml").is_file() || folder.join(MANIFEST).is_file() || Store::is_store(folder)
}

/// Whether a file is called like a packed bundle.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.is_file() && [".tar", ".tar.zst", ".tar.gz", ".tgz"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_clusters_stand_for_each() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for name in ["b", "a", "plain"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("a").join("bundle.yaml"), "cluster: a").unwrap();
        std::fs::write(path("b").join(MANIFEST), "{}").unwrap();
        std::fs::write(path("c.tar.zst"), "").unwrap();
        std::fs::write(path("x=y.log"), "").unwrap();
        let text = |name: &str| path(name).display().to_string();
        let sources = |arguments: &[String]| -> Vec<String> {
            clusters(arguments).into_iter().flat_map(|own| own.sources).collect()
        };
        assert_eq!(sources(&[home.path().display().to_string()]), [text("a"), text("b"), text("c.tar.zst")]);
        assert_eq!(sources(&[text("a"), text("plain")]), [text("a"), text("plain")]);
        assert_eq!(clusters(&[text("x=y.log")])[0].name, None);
        let of_one = clusters(&["prod=logs".to_owned(), "test=x".to_owned(), "prod=metrics".to_owned()]);
        assert_eq!(of_one.len(), 2);
        let are_several = |arguments: &[String]| several(arguments).map(|all| all.len());
        assert_eq!(are_several(&["prod=logs".to_owned(), text("a")]), Some(2));
        assert_eq!(are_several(&[home.path().display().to_string()]), Some(3));
        assert_eq!(are_several(&[text("a"), text("plain"), text("c.tar.zst")]), None);
        assert_eq!((of_one[0].name.as_deref(), of_one[0].sources.join(" ")), (Some("prod"), "logs metrics".to_owned()));
        let dataset = path("events");
        for part in ["audit/cluster=eu", "audit/cluster=us", "metrics/cluster=us", "quotas/cluster=us"] {
            std::fs::create_dir_all(dataset.join(part)).unwrap();
        }
        let of_dataset = clusters(&[text("events"), "eu=more".to_owned()]);
        let named: Vec<_> = of_dataset.iter().map(|own| (own.name.as_deref().unwrap(), own.sources.len())).collect();
        assert_eq!(named, [("eu", 2), ("us", 2)]);
        assert_eq!(are_several(&[text("events")]), Some(2));
        assert_eq!(
            clusters(&["=logs".to_owned(), "prod=".to_owned()]).iter().filter(|own| own.name.is_some()).count(),
            0
        );
    }
}
