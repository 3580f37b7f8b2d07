//! What a person names (a path, a folder, an archive, a glob, `-`, a URL) as files.

use super::archive;
use super::archive_names;
use super::cgroup;
use super::open::{Place, SourceError};
use std::io;
use std::path::{Path, PathBuf};

/// Whether an argument is a URL.
pub fn is_url(argument: &str) -> bool {
    argument.starts_with("http://") || argument.starts_with("https://")
}

/// Whether an argument is asked for what is now, rather than read from files.
pub fn is_live(argument: &str) -> bool {
    is_url(argument) || cgroup::is_live(Path::new(argument))
}

/// The files that an argument names, and whether it named a folder, or an archive of one; of an archive all but its
/// databases.
pub fn expand(argument: &str) -> Result<(Vec<Place>, bool), SourceError> {
    expand_for(argument, false)
}

/// The same, with the databases of archives if they are wanted.
pub(super) fn expand_for(argument: &str, databases: bool) -> Result<(Vec<Place>, bool), SourceError> {
    if argument == "-" {
        return Ok((vec![Place::Once(PathBuf::from("/dev/stdin"))], false));
    }
    if is_url(argument) {
        return Ok((vec![Place::Url(argument.to_owned())], false));
    }
    let path = Path::new(argument);
    let io = |error| SourceError::Io { path: argument.to_owned(), error };
    let below = |folder: &Path| -> Result<Vec<Place>, SourceError> {
        let mut files = Vec::new();
        walk(folder, &mut files, 0).map_err(io)?;
        files.sort();
        Ok(files.into_iter().map(Place::File).collect())
    };
    if let Some(folder) = archive_names::folder_of(argument) {
        return Ok((below(&folder)?, true));
    }
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok((below(path)?, true)),
        Ok(meta) if meta.is_file() => match archive::unpacked(path, databases)? {
            Some(folder) => Ok((below(&folder)?, true)),
            None => Ok((vec![Place::File(path.to_owned())], false)),
        },
        Ok(_) => Ok((vec![Place::Once(path.to_owned())], false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && argument.contains(['*', '?', '[']) => {
            let matches = glob::glob(argument).map_err(|bad| io(io::Error::other(bad.to_string())))?;
            let mut files: Vec<PathBuf> = matches.filter_map(Result::ok).filter(|p| p.is_file()).collect();
            files.sort();
            if files.is_empty() {
                return Err(SourceError::NoMatch(argument.to_owned()));
            }
            let (mut all, mut has_archive) = (Vec::new(), false);
            for file in files {
                let folder = archive::unpacked(&file, databases)?;
                has_archive |= folder.is_some();
                match folder {
                    Some(folder) => all.extend(below(&folder)?),
                    None => all.push(Place::File(file)),
                }
            }
            Ok((all, has_archive))
        }
        Err(error) => match archive::member(path)? {
            Some(folder) if folder.is_dir() => Ok((below(&folder)?, true)),
            Some(file) => Ok((vec![Place::File(file)], false)),
            None => Err(io(error)),
        },
    }
}

/// All regular files below `folder`; hidden ones and links to folders are left out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, depth: u8) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth < 16 {
            walk(&entry.path(), files, depth + 1)?;
        } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
            files.push(entry.path());
        }
    }
    Ok(())
}
