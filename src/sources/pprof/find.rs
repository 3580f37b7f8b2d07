//! From arguments to profiles: those that are named, and of each folder all that there are, by time.

use super::Profile;
use crate::model::time::Micros;
use crate::sources::arguments::expand;
use crate::sources::belonging::{Belonging, Bundles};
use crate::sources::content::Content;
use crate::sources::open::{Place, Source, SourceError, recognise};
use crate::sources::packing::Packing;
use crate::sources::pages::{modified, time_in};
use crate::sources::wanted::Wanted;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Profiles of one process: those of one folder, or one that was named.
#[derive(Debug)]
pub struct Group {
    /// The cluster, if a bundle names it.
    pub cluster: String,
    /// What the folder calls the instance.
    pub instance: String,
    /// Oldest first.
    pub files: Vec<Source>,
}

/// What was found behind the arguments.
#[derive(Debug, Default)]
pub struct ProfileDiscovery {
    /// The profiles.
    pub groups: Vec<Group>,
    /// What could not be used.
    pub errors: Vec<SourceError>,
}

/// Finds the profiles behind `arguments`.
pub fn find(arguments: &[String]) -> ProfileDiscovery {
    let mut found = ProfileDiscovery::default();
    let mut bundles = Bundles::default();
    for argument in arguments {
        let (places, from_folder) = match expand(argument) {
            Ok(found) => found,
            Err(error) => {
                found.errors.push(error);
                continue;
            }
        };
        let files = places.len();
        let mut folders: BTreeMap<PathBuf, Group> = BTreeMap::new();
        for place in places {
            let source = match recognise(&place) {
                Ok(source) => source,
                Err(error) => {
                    found.errors.push(error);
                    continue;
                }
            };
            // Of a file that was named and is no text, the reader can say better what is wrong with it.
            let cut_off = source.content.is_nothing() && source.packing != Packing::None;
            let is_one =
                source.content == Content::Profile || !from_folder && (source.content == Content::BINARY || cut_off);
            if !is_one {
                if !from_folder {
                    let looks = source.content.in_words();
                    found.errors.push(SourceError::NotWanted { path: source.path, looks, wanted: Wanted::Profiles });
                }
                continue;
            }
            let Belonging { cluster, folder, instance, .. } = bundles.belongs(&place, argument, from_folder);
            if from_folder {
                let new = || Group { cluster, instance, files: Vec::new() };
                folders.entry(folder).or_insert_with(new).files.push(source);
            } else {
                found.groups.push(Group { cluster, instance, files: vec![source] });
            }
        }
        if from_folder && folders.is_empty() {
            found.errors.push(SourceError::NothingHere { folder: argument.clone(), files, wanted: Wanted::Profiles });
        }
        for mut group in folders.into_values() {
            in_order(&mut group.files);
            found.groups.push(group);
        }
    }
    found
}

/// Sorts by time: by that in the names if all have one, else by that in the profiles.
fn in_order(files: &mut [Source]) {
    let all_named = files.len() < 2 || files.iter().all(|file| named_time(file).is_some());
    files.sort_by_cached_key(|file| {
        let at = if all_named { named_time(file) } else { inner_time(&file.place).or_else(|| named_time(file)) };
        (at, file.path.clone())
    });
}

/// The time in a file's name: `heap-1795166606-incident.pb.gz`.
pub(super) fn named_time(file: &Source) -> Option<Micros> {
    let Place::File(path) = &file.place else { return None };
    let name = path.file_name()?.to_string_lossy();
    time_in(&name).or_else(|| name.split(['-', '_', '.']).find_map(time_in))
}

/// When a profile was taken: by its file's name, else as it says itself, else by when the file was written.
pub fn taken(file: &Source) -> Option<Micros> {
    let written = || if let Place::File(path) = &file.place { modified(path) } else { None };
    named_time(file).or_else(|| inner_time(&file.place)).or_else(written)
}

/// The time that a profile says it was taken.
fn inner_time(place: &Place) -> Option<Micros> {
    Profile::read(recognise(place).ok()?).ok()?.stacks.at
}
