//! `--redact`: a bundle that was taken is written once more, with pseudonyms in place of names.

use super::taker::unpacked_name;
use crate::actions::bundle::BundleWriter;
use crate::actions::fresh::{Fresh, folder};
use crate::analysis::incident::redact::Names;
use crate::analysis::incident::redact_files::{SeenNames, meet_dump, meet_json, meet_line};
use crate::model::time::{Micros, SECOND};
use crate::sources::content::Content;
use crate::sources::open::{Place, Source, SourceError, recognise};
use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Dump pages are not longer (`sources::apf::MAX_PAGE_BYTES`), and neither are pages of lists.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A folder beside the bundle that nobody else may read, and that goes with this.
pub(super) struct StagingFolder(PathBuf);

impl StagingFolder {
    /// Where the bundle is put together first.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}.whole", std::process::id()));
        folder(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.join("bundle")
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What became of a bundle.
#[derive(Default)]
pub(super) struct Redacted {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Names that have a pseudonym.
    pub(super) names: usize,
    /// Files that were left out, since nobody knows where names stand in them.
    pub(super) left_out: Vec<String>,
}

/// How names stand in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A JSON value on each line.
    Lines,
    Json,
    Metrics,
    Dump,
    About,
    /// There are none in it.
    Nameless,
}

/// Writes the bundle in the folder `whole` as `target`.
pub(super) fn bundle(whole: &StagingFolder, target: &Path) -> io::Result<Redacted> {
    let top = whole.path();
    let (mut files, mut redacted, mut met) = (Vec::new(), Redacted::default(), SeenNames::new());
    walk(&top, &mut files)?;
    files.sort();
    let mut known = Vec::new();
    for path in files {
        let below = path.strip_prefix(&top).unwrap_or(&path).to_string_lossy().into_owned();
        match form(&path, &below)? {
            Some(form) => {
                meet(&path, form, &mut met)?;
                meet_line(&below, &mut met);
                known.push((path, below, form));
            }
            None => redacted.left_out.push(below),
        }
    }
    let names = Names::new(met);
    redacted.names = names.count();
    let mut writer = BundleWriter::create(target)?;
    for (path, below, form) in known {
        let mut fresh = Fresh::create(&whole.0.join("part"))?;
        let mut out = BufWriter::new(&mut fresh);
        rewrite(&path, form, &names, &mut out)?;
        out.flush()?;
        drop(out);
        let mut part = File::open(fresh.path())?;
        let at = modified(&path)?;
        writer.add_from(&names.redact_path(plain_name(&below, form)), at, part.metadata()?.len(), &mut part)?;
    }
    (redacted.files, redacted.bytes) = (writer.files, writer.bytes);
    writer.finish()?;
    Ok(redacted)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn modified(path: &Path) -> io::Result<Micros> {
    let at = jiff::Timestamp::try_from(fs::metadata(path)?.modified()?).map_err(io::Error::other)?;
    Ok(at.as_microsecond() - at.as_microsecond() % SECOND)
}

/// What is packed is written plain: the bundle is packed as a whole.
fn plain_name(below: &str, form: Form) -> &str {
    if form == Form::Nameless { below } else { unpacked_name(below) }
}

/// `None` where names may stand anywhere.
fn form(path: &Path, below: &str) -> io::Result<Option<Form>> {
    if below == "bundle.yaml" {
        return Ok(Some(Form::About));
    }
    let found = recognise(&Place::File(path.to_owned())).map_err(unread)?;
    Ok(match found.content {
        Content::AuditLines => Some(Form::Lines),
        Content::AuditDocument => Some(Form::Json),
        Content::Metrics => Some(Form::Metrics),
        Content::Dump => Some(Form::Dump),
        // Its tables would have to be, too.
        Content::Rollup => None,
        Content::Profile | Content::Empty | Content::Blank => Some(Form::Nameless),
        _ if below.starts_with("objects/") => Some(Form::Json),
        // The kernel's files name groups by the ids of pods.
        _ if below.starts_with("cgroup/") => Some(Form::Nameless),
        _ if unpacked_name(below).ends_with(".json") => Some(Form::Json),
        Content::Database | Content::Archive(_) | Content::Other(_) => None,
    })
}

fn unread(error: SourceError) -> io::Error {
    io::Error::other(error.to_string())
}

fn reader(path: &Path) -> io::Result<BufReader<Box<dyn Read + Send>>> {
    let mut source: Source = recognise(&Place::File(path.to_owned())).map_err(unread)?;
    Ok(BufReader::with_capacity(1 << 20, source.reader().map_err(unread)?))
}

/// Each JSON document of a file. What can't be read is left out: names could be in it.
fn documents(path: &Path, form: Form, mut each: impl FnMut(Json) -> io::Result<()>) -> io::Result<()> {
    if form == Form::Json {
        return serde_json::Deserializer::from_str(&text(path)?)
            .into_iter::<Json>()
            .map_while(Result::ok)
            .try_for_each(each);
    }
    let mut reader = reader(path)?;
    let mut line = Vec::new();
    while reader.by_ref().take(MAX_FILE_BYTES).read_until(b'\n', &mut line)? > 0 {
        // A host or a time may stand before an event: it is left out.
        let start = line.iter().position(|b| matches!(b, b'{' | b'[')).unwrap_or(line.len());
        if let Ok(value) = serde_json::from_slice(&line[start..]) {
            each(value)?;
        }
        line.clear();
    }
    Ok(())
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn meet(path: &Path, form: Form, met: &mut SeenNames) -> io::Result<()> {
    match form {
        Form::Lines | Form::Json => documents(path, form, |value| {
            meet_json(&value, met);
            Ok(())
        })?,
        Form::Metrics | Form::About => text(path)?.lines().for_each(|line| meet_line(line, met)),
        Form::Dump => meet_dump(&text(path)?, met),
        Form::Nameless => {}
    }
    Ok(())
}

fn rewrite(path: &Path, form: Form, names: &Names, out: &mut impl Write) -> io::Result<()> {
    match form {
        Form::Lines | Form::Json => documents(path, form, |mut value| {
            names.redact_json(&mut value);
            serde_json::to_writer(&mut *out, &value)?;
            out.write_all(b"\n")
        }),
        Form::Metrics => {
            text(path)?.split_inclusive('\n').try_for_each(|line| out.write_all(names.redact_line(line).as_bytes()))
        }
        Form::Dump => out.write_all(names.redact_dump(&text(path)?).as_bytes()),
        Form::About => out.write_all(names.text(&text(path)?).as_bytes()),
        Form::Nameless => io::copy(&mut File::open(path)?, out).map(drop),
    }
}
