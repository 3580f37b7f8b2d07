//! From sources of every kind to a dataset.

use super::building::{Added, Building, failed, units};
use super::captures;
use crate::actions::dataset::DatasetWriter;
use crate::cli::{Context, Error};
use crate::model::dataset::AUDIT;
use crate::model::time::Micros;
use crate::sources::find;
use crate::sources::found::Discovery;
use crate::sources::open::{Place, Source, SourceError};
use crate::sources::wanted::Wanted;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Adds to a dataset what sources hold for the tables that are wanted.
pub(super) fn build(
    sources: &[String],
    to: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
    context: &mut Context<'_>,
) -> Result<Added, Error> {
    let captures = captures::find(sources, is_wanted, context);
    let found = find::find(sources, Wanted::Both, context.io.now);
    let Discovery { streams, pages, errors, .. } = found;
    let streams = if is_wanted(AUDIT) { streams } else { Vec::new() };
    let is_other = |error: &&SourceError| !captures.explains(error);
    if streams.is_empty() && captures.is_empty() && (pages.is_empty() || !is_wanted("metrics")) {
        let errors: Vec<String> = errors.iter().filter(is_other).map(ToString::to_string).collect();
        return Err(match errors.is_empty() {
            true => Error::Input(format!("{}: nothing for a dataset found", sources.join(", "))),
            false => Error::inputs(errors),
        });
    }
    if let Some(file) = streams.iter().filter(|own| own.is_rolled()).flat_map(|own| &own.files).next() {
        return Err(Error::Usage(format!("{}: a roll-up holds no single events; give the log itself", file.path)));
    }
    if let Some(file) = streams.iter().filter(|own| own.is_of_dataset()).flat_map(|own| &own.files).next() {
        return Err(Error::Usage(format!("{}: is of a dataset already; copy its folder", file.path)));
    }
    errors.iter().filter(is_other).try_for_each(|error| context.lost(error))?;
    let is_file = |source: &&Source| matches!(source.place, Place::File(_));
    let paged = pages.iter().filter(|_| is_wanted("metrics")).flat_map(|folder| &folder.pages);
    let mut all = streams.iter().flat_map(|stream| &stream.files).chain(paged.map(|page| &page.source));
    if let Some(source) = all.find(|source| !is_file(source)) {
        let why = "a dataset is built from files, so that nothing is in it twice; write it to a file";
        return Err(Error::Usage(format!("{}: {why}", source.path)));
    }
    let mut writer = DatasetWriter::begin(to).map_err(|error| failed(&to.display(), &error))?;
    let paged = pages.iter().flat_map(|folder| &folder.pages).map(|page| &page.source);
    let files = streams.iter().flat_map(|stream| &stream.files).chain(paged);
    let folder = |source: &Source| match &source.place {
        Place::File(path) => std::path::absolute(path).ok()?.parent().map(Path::to_owned),
        Place::Once(_) | Place::Url(_) => None,
    };
    let folders: BTreeSet<PathBuf> = files.filter_map(folder).collect();
    folders.iter().filter_map(|folder| find::bundle_around(folder)).for_each(|bundle| writer.know(bundle));
    let mut building = Building { to, writer, added: Added::default() };
    for stream in streams {
        // Late is what lies before what the files before it had already.
        let mut latest = Micros::MIN;
        for unit in units(stream) {
            building.add(unit, &mut latest, context)?;
        }
    }
    if is_wanted("metrics") {
        building.add_pages(pages, context)?;
    }
    building.add_captures(captures, context)?;
    building.writer.fold().map_err(|error| building.unwritten(&error))?;
    Ok(building.added)
}
