//! What a person names (a path, a folder, an archive, a glob, `-`, a URL) as files.

use super::archive;
use super::archive_names;
use super::cgroup;
use super::open::{Place, SourceError};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Whether an argument is a URL.
pub fn is_url(argument: &str) -> bool {
    argument.starts_with("http://") || argument.starts_with("https://")
}

/// Whether an argument can be read once only: standard input, a pipe.
pub fn is_read_once(argument: &str) -> bool {
    let is_pipe = |meta: std::fs::Metadata| !meta.is_dir() && !meta.is_file();
    argument == "-" || std::fs::metadata(argument).is_ok_and(is_pipe)
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
    if argument.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "an empty name is that of no file");
        return Err(SourceError::Io { path: "''".to_owned(), error });
    }
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
            let mut files = matching(argument).map_err(|bad| io(io::Error::other(bad.to_string())))?;
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

/// The files that a pattern matches. Below `**` no links to folders are followed, as they may go round in circles.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, glob::PatternError> {
    if !pattern.contains("**") {
        return Ok(glob::glob(pattern)?.filter_map(Result::ok).filter(|path| path.is_file()).collect());
    }
    let parts = || Path::new(pattern).components().filter(|part| !matches!(part, Component::CurDir));
    let wanted = glob::Pattern::new(&parts().collect::<PathBuf>().to_string_lossy())?;
    let is_fixed = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let mut folders: Vec<PathBuf> = vec![parts().take_while(is_fixed).collect()];
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder.as_path() };
        // What can't be looked into holds nothing that matches.
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) if wanted.matches_path_with(&path, options) && path.is_file() => files.push(path),
                _ => {}
            }
        }
    }
    Ok(files)
}

/// All regular files below `folder`; hidden ones and links to folders are left out. A folder below it that can't be
/// looked into stands for what is in it: who would read it learns why.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, depth: u8) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth < 16 {
            if walk(&entry.path(), files, depth + 1).is_err() {
                files.push(entry.path());
            }
        } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
            files.push(entry.path());
        }
    }
    Ok(())
}
