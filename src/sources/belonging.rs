//! What a file is part of, by where it lies and how it is called: its bundle, cluster, apiserver and log.

use super::archive;
use super::open::Place;
use crate::model::bundle::Bundle;
use crate::model::uri::decoded_path;
use regex::Regex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Folder names that say what lies in them, not which apiserver wrote it.
pub(super) const PLAIN_FOLDERS: [&str; 17] = [
    "apf",
    "dumps",
    "heap",
    "heaps",
    "pprof",
    "profiles",
    "audit",
    "audits",
    "log",
    "logs",
    "metrics",
    "scrapes",
    "apiserver",
    "kube-apiserver",
    "kubernetes",
    "forms",
    "damage",
];

/// What files are part of, by argument and folder, as far as these were looked at: folders may have thousands of files.
#[derive(Debug, Default)]
pub(super) struct Bundles(HashMap<(String, PathBuf), Belonging>);

/// What a file is part of.
#[derive(Debug, Clone, Default)]
pub(super) struct Belonging {
    /// The bundle around it.
    pub bundle: Option<Bundle>,
    /// The cluster that the bundle, or a folder `cluster=NAME`, names.
    pub cluster: String,
    /// The folder that it lies in.
    pub folder: PathBuf,
    /// That of all of its stream, above the folders of its partitions; below it what these call its instance.
    pub whole: PathBuf,
    /// The family (name without what rotation adds) of its stream.
    pub family: String,
    /// The instance that its folder names.
    pub instance: String,
}

impl Bundles {
    /// Derives them from a file's path.
    pub(super) fn belongs(&mut self, place: &Place, argument: &str, from_folder: bool) -> Belonging {
        let Place::File(path) = place else {
            let folder = PathBuf::from(argument);
            return Belonging { whole: folder.clone(), folder, ..Belonging::default() };
        };
        let family = family(&path.file_name().unwrap_or_default().to_string_lossy());
        let key = (argument.to_owned(), path.parent().unwrap_or(Path::new("")).to_owned());
        let own =
            self.0.entry(key).or_insert_with_key(|(_, folder)| Belonging::of_folder(folder, argument, from_folder));
        Belonging { family, ..own.clone() }
    }
}

impl Belonging {
    /// What all files in a folder are part of.
    fn of_folder(folder: &Path, argument: &str, from_folder: bool) -> Self {
        // In full, so that a bundle around a relative path is found.
        let file = std::path::absolute(folder.join("file")).unwrap_or_else(|_| folder.join("file"));
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let root = std::path::absolute(archive::place(Path::new(argument))).unwrap_or_default();
        let root: PathBuf = root.components().collect();
        // Partitions of a log are no logs of their own, and no apiservers.
        let mut whole = folder.as_path();
        while is_partition(whole) && whole != root {
            whole = whole.parent().unwrap_or(Path::new(""));
        }
        let below_root = from_folder && whole != root;
        // What a folder is for says nothing of whose it is: `cp-1/audit` and `cp-1/metrics` are cp-1's.
        let is_plain = |path: &Path| PLAIN_FOLDERS.contains(&name(path).as_str());
        let mut owner = whole;
        while below_root && is_plain(owner) && owner != root && !owner.join("bundle.yaml").exists() {
            owner = owner.parent().unwrap_or(Path::new(""));
        }
        let is_owned = below_root && owner != whole && owner != root && !owner.join("bundle.yaml").exists();
        let known_place = whole.parent().is_some_and(|above| PLAIN_FOLDERS.contains(&name(above).as_str()));
        let instance = name(whole);
        let is_instance = (below_root || known_place) && !PLAIN_FOLDERS.contains(&instance.as_str());
        let instance = match (is_instance, is_owned) {
            (true, _) => instance,
            (false, true) => name(owner),
            (false, false) => String::new(),
        };
        let bundle = bundle_around(&folder);
        let cluster = bundle.as_ref().map(|bundle| bundle.cluster.clone()).filter(|name| !name.is_empty());
        let cluster = cluster.or_else(|| value_of(&folder, "cluster")).unwrap_or_default();
        let named = value_of(&folder, "instance");
        // Logs of several that are called alike are several, whatever partitions lie around or below.
        let whole = named.as_ref().map_or(whole.to_owned(), |name| whole.join(format!("instance={name}")));
        let instance = named.unwrap_or(instance);
        Self { bundle, cluster, folder, whole, family: String::new(), instance }
    }
}

/// The cluster that a file is of, as the bundle or a folder `cluster=NAME` around it says; else empty.
pub fn cluster_of(file: &Path) -> String {
    Belonging::of_folder(file.parent().unwrap_or(Path::new("")), "", false).cluster
}

/// The bundle that a folder is in, or is.
pub fn bundle_around(folder: &Path) -> Option<Bundle> {
    folder.ancestors().take(4).find_map(|above| {
        let text = std::fs::read_to_string(above.join("bundle.yaml")).ok()?;
        serde_yaml_ng::from_str(&text).ok()
    })
}

/// Whether a folder holds a part of a log, as exports to object stores have them: `date=2026-11-20`, `2026/11/20/09`.
fn is_partition(folder: &Path) -> bool {
    static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = "^20[0-9]{2}([-_]?(0[1-9]|1[0-2])([-_]?(0[1-9]|[12][0-9]|3[01])([-_T]?[012][0-9])?)?)?$";
        Regex::new(pattern).ok()
    });
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if name.split_once('=').is_some_and(|(key, _)| !key.is_empty()) {
        return true;
    }
    let is_short = name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_digit());
    DATE.as_ref().is_some_and(|date| date.is_match(&name)) || is_short && folder.parent().is_some_and(is_partition)
}

/// What a folder `KEY=VALUE` around a file says, as in a URL.
pub(super) fn value_of(folder: &Path, key: &str) -> Option<String> {
    let names = folder.ancestors().filter_map(|above| above.file_name()?.to_str());
    let value = names.filter_map(|name| name.split_once('=')).find(|(own, _)| *own == key)?.1;
    (value != NO_VALUE).then(|| decoded_path(value).into_owned())
}

/// How Hive calls a partition without a value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A log's name without what rotation, packing and exports to object stores add to it.
pub(super) fn family(name: &str) -> String {
    static ROTATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        // lumberjack -2006-01-02T15-04-05.000 before the extension; logrotate .1 or -20060102 after it, or -2006010215
        // to the second.
        let pattern = r"(?x) (-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:-]+(\.[0-9]+)?(Z|[-+][0-9]{2}:?[0-9]{2})?)
            | (\.(gz|zst|zstd))$ | (\.[0-9]+)(\.(gz|zst|zstd))?$
            | (-[0-9]{8}([0-9]{2}){0,3}(-[0-9]+)?)(\.(gz|zst|zstd))?$ | [-_.]old(\.log)?$";
        Regex::new(pattern).ok()
    });
    // What exports to object stores add: UUIDs, times, Google's shards, numbers of parts (they begin with zeros), Unix
    // time, and what Fluent Bit ends its names with. Other numbers are those of apiservers.
    static OBJECT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = r"(?x) [-_.]?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}
            | [-_.]?20[0-9]{2}[-_]?(0[1-9]|1[0-2])[-_]?([0-2][0-9]|3[01])
                ([-_T][0-2][0-9]([-_:.]?[0-5][0-9]){1,2}(\.[0-9]+)?(Z|[-+][0-9]{2}:?[0-9]{2})?
                | [0-2][0-9]([0-5][0-9]){0,2})?
            | [-_.]?[0-2][0-9](:[0-5][0-9]){2}(_[SA][0-9]+(:[0-9]+)?)?
            | (^|[-_.])(0[0-9]{4,}|[0-9]{10,}) | -object[0-9A-Za-z]{8}";
        Regex::new(pattern).ok()
    });
    let (Some(rotation), Some(object)) = (&*ROTATION, &*OBJECT) else { return name.to_owned() };
    let stem = rotation.replace_all(name, "");
    let stem = object.replace_all(&stem, "");
    stem.strip_suffix(".log").unwrap_or(&stem).to_owned()
}

/// A log's name without the number of its part, and that number: what `split`, and logrotate with an extension, leave
/// of a log in one folder. `None` where the number is rather that of a machine.
pub(super) fn part_of(family: &str) -> Option<(String, u64)> {
    static PART: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = r"(?x) (^ | [-_.\ ]\(? | \( | [-_.\ ]?(?i:part)[-_.]?) (?<number>[0-9]{1,9}) \)?
            (?<rest>(\.[A-Za-z]+)*)$ | (^x | \.log\.) (?<letters>[a-z]{2,3})$";
        Regex::new(pattern).ok()
    });
    static MACHINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let pattern = r"(?xi) (^|[^-.0-9][-.]?)[0-9]{1,3}([-.][0-9]{1,3}){2}$
            | (apiserver|server|master|node|host|plane|instance|replica|member|ip|cp)$";
        Regex::new(pattern).ok()
    });
    let found = PART.as_ref()?.captures(family)?;
    let before = &family[..found.get(0)?.start()];
    let number = match (found.name("number"), found.name("letters")) {
        (Some(_), _) if MACHINE.as_ref()?.is_match(before) => return None,
        (Some(number), _) => number.as_str().parse().ok()?,
        (None, letters) => letters?.as_str().bytes().fold(0, |all, letter| all * 26 + u64::from(letter - b'a')),
    };
    let rest = found.name("rest").map_or("", |rest| rest.as_str());
    let stem = format!("{before}{rest}");
    Some((stem.strip_suffix(".log").unwrap_or(&stem).to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_of_one_log() {
        let belongs = |path: &str| {
            let own = Bundles::default().belongs(&Place::File(PathBuf::from(path)), "/exports", true);
            (own.cluster, own.whole.display().to_string(), own.instance)
        };
        let is = |cluster: &str, folder: &str, instance: &str| (cluster.into(), folder.into(), instance.into());
        // As Firehose writes them, and as Hive reads them.
        assert_eq!(belongs("/exports/2026/11/20/09/a.gz"), is("", "/exports", ""));
        assert_eq!(belongs("/exports/cp-1/2026-11-20/a.gz"), is("", "/exports/cp-1", "cp-1"));
        assert_eq!(
            belongs("/exports/cluster=eu%2F1/instance=cp-2/date=2026-11-20/a"),
            is("eu/1", "/exports/instance=cp-2", "cp-2")
        );
        let (one, other) = ("/exports/date=2026-11-20/instance=a/x", "/exports/date=2026-11-21/instance=a/x");
        assert_eq!(belongs(one), belongs(other));
        assert_eq!(
            belongs("/exports/cluster=__HIVE_DEFAULT_PARTITION__/cp-2/a"),
            is("", "/exports/cluster=__HIVE_DEFAULT_PARTITION__/cp-2", "cp-2")
        );
        // Numbers alone are apiservers, too.
        assert_eq!(belongs("/exports/01/audit.log"), is("", "/exports/01", "01"));
    }

    #[test]
    fn parts_have_numbers() {
        for (name, stem, number) in [
            ("audit.2.log.gz", "audit", 2),
            ("audit.000.json.zst", "audit.json", 0),
            ("audit.12.json", "audit.json", 12),
            ("audit.part3.json", "audit.json", 3),
            ("audit (1).log", "audit", 1),
            ("batch-0.json", "batch.json", 0),
            ("xab", "", 1),
            ("audit.log.ba", "audit", 26),
            ("audit-1.log", "audit", 1),
            ("audit-10.0.0.5.2.log", "audit-10.0.0.5", 2),
        ] {
            assert_eq!(part_of(&family(name)), Some((stem.to_owned(), number)), "{name}");
        }
        for name in ["audit.log", "audit-10.0.0.5.log", "ip-10-0-1-12.log", "kube-apiserver-1.log", "master1-audit.log"]
        {
            assert_eq!(part_of(&family(name)), None, "{name}");
        }
    }

    #[test]
    fn rotated_files_are_one_family() {
        for name in [
            "audit.log",
            "audit.log.gz",
            "audit-2026-11-20T09-37-56.438.log",
            "audit-2026-11-20T09-37-56.438.log.zst",
            "audit.log.1",
            "audit.log.12.gz",
            "audit.log-20261120",
            "audit.log-20261120.gz",
            "audit.log.old",
            "audit_old.log",
            "audit.log-2026112009",
            "audit.log-202611200937.gz",
            "audit-20261120093756.log",
            "audit-2026-11-20T09:37:56+00:00.log",
            "audit-2026-11-20T09:37:56.123-0500.log.gz",
        ] {
            assert_eq!(family(name), "audit", "{name}");
        }
        assert_ne!(family("audit-master-0.log"), family("audit-master-1.log"));
        assert_ne!(family("ip-10-0-1-12.log"), family("ip-10-0-1-13.log"));
        assert_ne!(family("node-10001_A1.log"), family("node-10002_A2.log"));
        // Firehose, CloudWatch, Google's sinks, Vector, Spark, Fluent Bit.
        for (one, other) in [
            (
                "audit-1-2026-11-20-09-00-12-0b8c1f8e-4a39-4d0a-9a3c-1f2e3d4c5b6a.gz",
                "audit-1-2026-11-20-10-05-13-1b8c1f8e-4a39-4d0a-9a3c-1f2e3d4c5b6b.gz",
            ),
            ("000000.gz", "000001.gz"),
            ("09:00:00_09:59:59_S0.json", "10:00:00_10:59:59_A3:1763632800.json"),
            (
                "1763629049-0b8c1f8e-4a39-4d0a-9a3c-1f2e3d4c5b6a.log.gz",
                "1763629349-1b8c1f8e-4a39-4d0a-9a3c-1f2e3d4c5b6b.log.gz",
            ),
            ("part-00000.json.gz", "part-00001.json.gz"),
            ("audit-object0aBcDeFg.gz", "audit-object9ZyXwVuT.gz"),
        ] {
            assert_eq!(family(one), family(other), "{one} {other}");
        }
    }
}
