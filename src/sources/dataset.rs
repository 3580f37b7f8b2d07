//! Datasets (docs/dataset.md): what one says of itself, and the files that are part of it.

#[cfg(feature = "history")]
mod lines;
#[cfg(feature = "history")]
mod pages;
#[cfg(feature = "history")]
mod parquet;

#[cfg(feature = "history")]
pub(super) use {lines::lines, pages::page, parquet::part};

use crate::model::dataset::{ABOUT, AUDIT, DESCRIPTION, Description, SCHEMA, log_and_byte, table_names};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What a dataset says of itself, and the number of its last addition; nothing where it is not there yet.
pub fn description(folder: &Path) -> io::Result<(Description, u64)> {
    let about = folder.join(ABOUT);
    let mut all = match fs::read(about.join(DESCRIPTION)) {
        Ok(text) => parsed(DESCRIPTION, &text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Description { schema: SCHEMA.to_owned(), ..Description::default() }
        }
        Err(error) => return Err(error),
    };
    let mut added = BTreeMap::new();
    for entry in fs::read_dir(&about)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(number) = addition_number(&name) {
            added.insert(number, parsed(&name, &fs::read(entry.path())?)?);
        }
    }
    let last = added.keys().last().copied().unwrap_or(0);
    for one in added.into_values() {
        all.logs.extend(one.logs);
        all.clusters.extend(one.clusters);
        for (table, files) in one.captures {
            all.captures.entry(table).or_default().extend(files);
        }
    }
    Ok((all, last))
}

/// The number of an addition by its file's name; `None` where it is another file.
pub fn addition_number(name: &str) -> Option<u64> {
    name.strip_prefix("added-")?.strip_suffix(".json")?.parse().ok()
}

fn parsed(name: &str, text: &[u8]) -> io::Result<Description> {
    let read = serde_json::from_slice::<Description>(text)
        .map_err(|error| io::Error::other(format!("{ABOUT}/{name}: {error}")))?;
    if read.schema != SCHEMA {
        let what =
            format!("{ABOUT}/{name}: its schema is {:?}, and this plimsoll reads and writes {SCHEMA}", read.schema);
        return Err(io::Error::other(what + "; use the plimsoll that wrote it"));
    }
    Ok(read)
}

/// Whether a dataset holds the file of this name in a table; `None` where the file is somebody else's.
pub fn is_held(all: &Description, table: &str, name: &str) -> Option<bool> {
    let (of, from) = log_and_byte(name)?;
    Some(match table {
        AUDIT => all.logs.get(of).is_some_and(|log| from < log.to),
        _ => all.captures.get(table).is_some_and(|files| files.contains_key(of)),
    })
}

/// Whether a folder is a dataset, or a copy of its tables without what it says of itself.
pub fn is_dataset(folder: &Path) -> bool {
    let has_partitions = |table: &str| {
        let mut entries = fs::read_dir(folder.join(table)).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("cluster="))
    };
    folder.join(ABOUT).is_dir() || has_partitions(AUDIT)
}

/// The dataset that a path lies in, if it is one of its tables or lies below one.
pub fn around(path: &Path) -> Option<PathBuf> {
    let full = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok()?;
    let is_table = |folder: &Path| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        table_names().any(|table| table == name)
    };
    let tables = full.ancestors().filter(|folder| is_table(folder));
    tables.filter_map(Path::parent).find(|folder| folder.join(ABOUT).is_dir()).map(Path::to_owned)
}

/// The Parquet files of a table that are part of a dataset, in the order of their paths. Where it says nothing of
/// itself, all of them.
pub fn files(folder: &Path, table: &str) -> io::Result<Vec<PathBuf>> {
    let about = if folder.join(ABOUT).is_dir() { Some(description(folder)?.0) } else { None };
    let mut files = Vec::new();
    let mut folders = vec![folder.join(table)];
    while let Some(next) = folders.pop() {
        let entries = match fs::read_dir(&next) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", next.display()))),
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".parquet") && !name.starts_with('.') {
                let is_its = about.as_ref().is_none_or(|about| is_held(about, table, &name) != Some(false));
                files.extend(is_its.then_some(path));
            }
        }
    }
    files.sort();
    let has_some = |about: &Description| match table {
        AUDIT => about.logs.values().any(|log| log.events > 0),
        table => about.captures.contains_key(table),
    };
    match files.is_empty() && about.as_ref().is_some_and(has_some) {
        true => Err(io::Error::other(format!("the files of its table {table} are missing; build it again elsewhere"))),
        false => Ok(files),
    }
}

/// Where Parquet can't be read, no file is one of a dataset.
#[cfg(not(feature = "history"))]
mod none {
    use crate::model::dataset::{PageRows, Part};
    use std::io::{self, Read};
    use std::path::Path;

    pub(in crate::sources) fn part(_: &Path) -> io::Result<Option<Part>> {
        Ok(None)
    }

    pub(in crate::sources) fn lines(_: &Path, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::sources) fn page(_: &Path, _: PageRows) -> io::Result<Box<dyn Read + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(feature = "history"))]
pub(super) use none::{lines, page, part};
