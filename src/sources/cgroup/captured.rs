//! Copies of a group's files: one text with a `== NAME` line before each file's content, or a folder that holds the
//! files under their own names; and series of them, whose files are called by the time at which they were taken.

use super::files;
use super::group::{self, Group};
use crate::model::input::LossKind;
use crate::model::memory::Sample;
use crate::model::stray::Days;
use crate::model::time::{self, Micros};
use crate::sources::open::SourceError;
use crate::sources::pages::{modified, time_in};
use crate::sources::{archive, archive_names};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A copy may not be longer.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Samples of one group in order of time.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// What the group is called.
    pub name: String,
    /// Where they were read.
    pub place: String,
    pub samples: Vec<Sample>,
    /// Bytes read.
    pub bytes: u64,
    /// How many groups it lies below the one that was found.
    pub depth: u64,
}

/// The sample in a text of sections; `None` if it is not one.
pub fn read_text(text: &str, name: &str, at: Micros) -> Option<Sample> {
    let mut sample = Sample { path: name.to_owned(), at, ..Sample::default() };
    let mut section: Option<(&str, usize)> = None;
    let mut place = 0;
    let mut put = |section: Option<(&str, usize)>, end: usize| {
        if let Some((file, start)) = section
            && files::is_wanted(file)
        {
            files::put(&mut sample, file, &text[start..end]);
        }
    };
    for line in text.split_inclusive('\n') {
        // `==> NAME <==` is how head and tail write it.
        if let Some(rest) = line.strip_prefix("== ").or_else(|| line.strip_prefix("==> ")) {
            put(section, place);
            section = Some((rest.trim().trim_end_matches("<==").trim(), place + line.len()));
        }
        place += line.len();
    }
    put(section, text.len());
    if sample.is_empty() {
        return None;
    }
    sample.version = files::version(&sample);
    Some(sample)
}

fn read_file(path: &Path, now: Micros) -> Result<Option<(Sample, u64)>, SourceError> {
    let io = |error| SourceError::Io { path: archive_names::shown(path), error };
    let mut source = crate::sources::open::recognise(&crate::sources::open::Place::File(path.to_owned()))?;
    let mut text = Vec::new();
    source.reader()?.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(io)?;
    let text = String::from_utf8_lossy(&text);
    let parent = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let at = path.file_name().and_then(|name| time_in(&name.to_string_lossy()));
    let name = if at.is_some() { parent } else { stem };
    Ok(read_text(&text, &name, at.unwrap_or(now)).map(|sample| (sample, text.len() as u64)))
}

/// The sample on standard input.
pub fn stdin(now: Micros) -> Result<Series, SourceError> {
    let mut text = String::new();
    let io = |error| SourceError::Io { path: "-".to_owned(), error };
    std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(io)?;
    let sample = read_text(&text, "-", now).ok_or_else(|| no_sample("-"))?;
    Ok(Series {
        name: "-".to_owned(),
        place: "-".to_owned(),
        bytes: text.len() as u64,
        samples: vec![sample],
        depth: 0,
    })
}

fn no_sample(path: &str) -> SourceError {
    let error = std::io::Error::other(
        "no cgroup memory files here; plimsoll reads a cgroup's folder, a folder with copies of memory.stat and its \
         siblings, or one file with a line '== NAME' before each",
    );
    SourceError::Io { path: path.to_owned(), error }
}

/// When the file of a copy was written whose name has no time.
pub fn written(series: &Series) -> Option<Micros> {
    modified(Path::new(&series.place))
}

/// The copies behind a path: a file, a folder of copied files, or a folder (a bundle) with any number of these below
/// it; of copied groups also those below them if `with_below`.
pub fn open(path: &Path, now: Micros, with_below: bool) -> Result<Vec<Series>, SourceError> {
    let shown = path.display().to_string();
    let path = &archive::place(path);
    if path.is_file() {
        let (sample, bytes) = read_file(path, now)?.ok_or_else(|| no_sample(&shown))?;
        return Ok(vec![Series { name: sample.path.clone(), place: shown, samples: vec![sample], bytes, depth: 0 }]);
    }
    let mut found: BTreeMap<PathBuf, Series> = BTreeMap::new();
    walk(path, (now, with_below), 0, &mut found)?;
    if found.is_empty() {
        return Err(no_sample(&shown));
    }
    let mut all: Vec<Series> = found.into_values().collect();
    for series in &mut all {
        series.samples.sort_by_key(|sample| sample.at);
        set_stray_aside(&mut series.samples);
    }
    Ok(all)
}

/// Takes out samples that a wrong clock dated far away from all others.
fn set_stray_aside(samples: &mut Vec<Sample>) {
    let mut days = Days::default();
    samples.iter().for_each(|sample| days.add(sample.at));
    let kept = days.kept();
    let (what, _) = LossKind::Stray.explain();
    let warning = |sample: Sample| format!("a sample is dated {}, which {what}", time::format(sample.at));
    let stray: Vec<String> = samples.extract_if(.., |sample| !kept.takes(sample.at)).map(warning).collect();
    if let Some(last) = samples.last_mut() {
        last.problems.extend(stray);
    }
}

fn walk(
    folder: &Path,
    (now, with_below): (Micros, bool),
    depth: u8,
    found: &mut BTreeMap<PathBuf, Series>,
) -> Result<(), SourceError> {
    let io = |error| SourceError::Io { path: archive_names::shown(folder), error };
    if group::has_memory(folder) {
        let top = Group::copied(folder);
        // `<group>/<time>/memory.stat` is a series as well.
        let at = folder.file_name().and_then(|name| time_in(&name.to_string_lossy()));
        let key = if at.is_some() { folder.parent().unwrap_or(folder) } else { folder };
        let name = key.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut unread = Vec::new();
        for group in if with_below { top.tree() } else { vec![top] } {
            let below = group.folder.strip_prefix(folder).unwrap_or(Path::new("")).to_owned();
            let depth = below.components().count() as u64;
            let sample = match group.read(now) {
                Ok(sample) => sample,
                Err(error) if depth == 0 => return Err(io(error)),
                Err(_) if !group::has_memory(&group.folder) => continue,
                Err(error) => {
                    unread.push(format!("{}: {error}", below.display()));
                    continue;
                }
            };
            let path = if depth == 0 { name.clone() } else { format!("{name}/{}", below.display()) };
            // Which inode the copy has says nothing of the group.
            let sample = Sample { path: path.clone(), at: at.unwrap_or(now), inode: None, ..sample };
            let place = key.join(&below);
            let new = || Series { name: path, place: archive_names::shown(&place), depth, ..Series::default() };
            found.entry(place.clone()).or_insert_with(new).samples.push(sample);
        }
        if let Some(sample) = found.get_mut(key).and_then(|series| series.samples.last_mut()) {
            sample.problems.extend(unread);
        }
        return Ok(());
    }
    let mut entries: Vec<_> = std::fs::read_dir(folder).map_err(io)?.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth < 16 {
            walk(&path, (now, with_below), depth + 1, found)?;
        } else if kind.is_file() && looks_like(&path) {
            let Some((sample, bytes)) = read_file(&path, now)? else { continue };
            // Copies with no time in their names are groups of their own.
            let key = if path.file_stem().is_some_and(|stem| *stem == *sample.path) {
                path.clone()
            } else {
                folder.to_owned()
            };
            let place = archive_names::shown(&key);
            let series =
                found.entry(key).or_insert_with(|| Series { name: sample.path.clone(), place, ..Series::default() });
            series.samples.push(sample);
            series.bytes += bytes;
        }
    }
    Ok(())
}

/// Whether a file begins like a copy, so that large logs beside it are not read.
fn looks_like(path: &Path) -> bool {
    let mut head = [0; 4];
    match std::fs::File::open(path).and_then(|mut file| file.read(&mut head)) {
        Ok(read) => {
            head[..read].starts_with(b"==")
                || head[..read].starts_with(&[0x1f, 0x8b]) && small(path)
                || head[..read].starts_with(&[0x28, 0xb5]) && small(path)
        }
        Err(_) => false,
    }
}

/// A packed copy is a few kB.
fn small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() < 64 << 10) && path.to_string_lossy().contains("cgroup")
}
