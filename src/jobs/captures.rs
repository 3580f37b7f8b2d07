//! What is taken again and again: metrics pages by URL, and cgroups, as they are written into a bundle.

use crate::model::time::{Micros, SECOND};
use crate::sources::cgroup::Machine;
use crate::sources::find;
use crate::sources::wanted::Wanted;
use std::io::Read;
use std::path::Path;

/// Bytes of a metrics page that are taken.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A time as it stands in a file's name: Unix seconds and milliseconds.
pub(crate) fn stamp(at: Micros) -> String {
    format!("{}.{:03}", at / SECOND, at % SECOND / 1000)
}

/// A metrics page, and the instance that gave it.
pub(crate) fn page(url: &str, at: Micros) -> Result<(String, Vec<u8>), String> {
    let mut found = find::find(&[url.to_owned()], Wanted::Pages, at);
    if let Some(error) = found.errors.first() {
        return Err(error.to_string());
    }
    let folder = found.pages.pop().ok_or_else(|| format!("{url}: not a metrics page"))?;
    let mut page = folder.pages.into_iter().next().ok_or_else(|| format!("{url}: not a metrics page"))?;
    let mut bytes = Vec::new();
    let reader = page.source.reader().map_err(|error| error.to_string())?;
    reader.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(|error| format!("{url}: {error}"))?;
    Ok((folder.instance, bytes))
}

/// The files of a cgroup, as one text.
pub(crate) fn group(folder: &str) -> Result<String, String> {
    let machine = Machine::find(Path::new("/")).map_err(|error| error.to_string())?;
    let below = machine.below(Path::new(folder)).ok_or_else(|| format!("{folder}: no longer a cgroup"))?;
    machine.group(&below).copy().map_err(|error| format!("{folder}: {error}"))
}
