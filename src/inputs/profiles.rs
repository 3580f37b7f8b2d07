//! Which heap profiles are read: of files, of folders the latest, of a moment, of a live cluster.

use crate::cli::{Context, Error, KubeFlags};
use crate::inputs::moment;
use crate::model::time::{Bounds, Micros, is_within};
use crate::sources::open::Source;
use crate::sources::pprof::{Group, Profile, ProfileDiscovery, find};
use crate::views::text::plain;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A profile, and the process that it is of.
pub(crate) struct Taken {
    pub(crate) instance: String,
    pub(crate) profile: Arc<Profile>,
}

/// Profiles that were read, by path, where several questions are about the same ones.
#[derive(Debug, Default)]
pub struct Memo(BTreeMap<String, Arc<Profile>>);

/// Reads a profile, or remembers it.
fn profile(file: Source, context: &mut Context<'_>) -> Result<Arc<Profile>, String> {
    let path = file.path.clone();
    if let Some(known) = context.shared.get::<Memo>().and_then(|memo| memo.0.get(&path)) {
        return Ok(Arc::clone(known));
    }
    let read = Arc::new(Profile::read(file).map_err(|error| error.to_string())?);
    if let Some(memo) = context.shared.get_mut::<Memo>() {
        memo.0.insert(path, Arc::clone(&read));
    }
    Ok(read)
}

/// Which profile of a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    /// The last that can be read.
    Last,
}

/// The profiles behind `sources`; without one, those of a live cluster.
pub(crate) fn profiles(
    sources: &[String],
    instance: Option<&str>,
    kube: Option<&KubeFlags>,
    which: Which,
    context: &mut Context<'_>,
) -> Result<Vec<Taken>, Error> {
    match kube.filter(|_| sources.is_empty()) {
        Some(kube) => live(kube, instance, context),
        None => read(chosen(sources, instance, context)?, which, context),
    }
}

/// The profiles that are asked for: of each folder the latest, or the newest at or before a moment.
pub(crate) fn at(
    moment: Option<Micros>,
    sources: &[String],
    instance: Option<&str>,
    kube: Option<&KubeFlags>,
    context: &mut Context<'_>,
) -> Result<Vec<Taken>, Error> {
    let Some(moment) = moment else { return profiles(sources, instance, kube, Which::Last, context) };
    if sources.is_empty() {
        return Err(Error::Usage("--at: a live cluster has only the present; give profiles".to_owned()));
    }
    let groups = moment::of_profiles(chosen(sources, instance, context)?, moment, context)?;
    read(groups, Which::Last, context)
}

/// The first and the last profile of a folder.
pub(crate) fn both(
    sources: &[String],
    instance: Option<&str>,
    context: &mut Context<'_>,
) -> Result<(Vec<Taken>, Vec<Taken>), Error> {
    let groups = chosen(sources, instance, context)?;
    if let Some(group) = groups.iter().find(|group| group.files.len() < 2) {
        let one = group.files.first().map_or("", |file| file.path.as_str());
        return Err(Error::Input(format!("{one}: only one profile to compare; give two, or a folder with several")));
    }
    let mut last = Vec::new();
    let mut first = Vec::new();
    for mut group in groups {
        let Group { cluster, instance, .. } = &group;
        let (cluster, instance) = (cluster.clone(), instance.clone());
        last.push(Group { cluster, instance, files: group.files.pop().into_iter().collect() });
        first.push(group);
    }
    Ok((read(first, Which::First, context)?, read(last, Which::Last, context)?))
}

/// The profiles behind `sources`, of each folder the latest, for other commands. Without `asked` it is not an error if
/// there are none.
pub(crate) fn latest(sources: &[String], asked: bool, context: &mut Context<'_>) -> Result<Vec<Taken>, Error> {
    let found = find(sources);
    if found.groups.is_empty() && !asked {
        return Ok(Vec::new());
    }
    read(groups(found, context)?, Which::Last, context)
}

/// How many profiles of one process there are behind `sources`: of that which has most.
pub(crate) fn count(sources: &[String]) -> usize {
    find(sources).groups.iter().map(|group| group.files.len()).max().unwrap_or(0)
}

/// Of each process the last profile of a window; none where there are none.
pub(crate) fn within(sources: &[String], bounds: Bounds, context: &mut Context<'_>) -> Result<Vec<Taken>, Error> {
    let found = find(sources);
    if found.groups.is_empty() {
        return Ok(Vec::new());
    }
    let mut taken = Vec::new();
    for Group { instance, files, .. } in groups(found, context)? {
        for file in files.into_iter().rev() {
            match profile(file, context) {
                Ok(profile) if profile.stacks.at.is_none_or(|at| is_within(bounds, at)) => {
                    taken.push(Taken { instance, profile });
                    break;
                }
                Ok(_) => {}
                Err(error) => context.lost(error)?,
            }
        }
    }
    Ok(taken)
}

/// What was found, at least one; reports what could not be used.
fn groups(
    ProfileDiscovery { groups, errors }: ProfileDiscovery,
    context: &mut Context<'_>,
) -> Result<Vec<Group>, Error> {
    if groups.is_empty() {
        return Err(Error::inputs(&errors));
    }
    for error in &errors {
        context.lost(error)?;
    }
    Ok(groups)
}

/// The profiles behind `sources` that `--instance` leaves.
fn chosen(sources: &[String], instance: Option<&str>, context: &mut Context<'_>) -> Result<Vec<Group>, Error> {
    let mut groups = groups(find(sources), context)?;
    if let Some(wanted) = &instance {
        let mut names: Vec<String> = groups.iter().map(|group| group.instance.clone()).collect();
        groups.retain(|group| group.instance == *wanted);
        if groups.is_empty() {
            names.sort();
            names.dedup();
            return Err(no_instance(wanted, &names));
        }
    }
    Ok(groups)
}

fn no_instance(wanted: &str, names: &[String]) -> Error {
    let names: Vec<&str> = names.iter().filter(|name| !name.is_empty()).map(String::as_str).collect();
    let there = if names.is_empty() {
        "no profile here has a process name".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    Error::Usage(plain(&format!("--instance {wanted}: {there}")).into_owned())
}

/// Reads a profile of each group.
fn read(groups: Vec<Group>, which: Which, context: &mut Context<'_>) -> Result<Vec<Taken>, Error> {
    let mut taken = Vec::new();
    let mut errors = Vec::new();
    for Group { instance, files, .. } in groups {
        // A profile that is broken does not stand in the way of the one before it.
        let mut files: Vec<Source> = files;
        if which == Which::Last {
            files.reverse();
        }
        for file in files {
            match profile(file, context) {
                Ok(profile) => {
                    taken.push(Taken { instance, profile });
                    break;
                }
                Err(error) => errors.push(error),
            }
        }
    }
    if taken.is_empty() {
        return Err(Error::inputs(&errors));
    }
    for error in errors {
        context.lost(error)?;
    }
    Ok(taken)
}

/// The heaps of a live cluster's apiservers.
#[cfg(feature = "live")]
fn live(kube: &KubeFlags, instance: Option<&str>, context: &mut Context<'_>) -> Result<Vec<Taken>, Error> {
    use crate::sources::pprof::HEAP;
    let cluster = crate::inputs::live::connect(kube, context)?;
    let wanted = |name: &String| instance.as_ref().is_none_or(|instance| instance == name);
    let names: Vec<String> = cluster.apiservers().iter().map(|server| server.name.clone()).collect();
    if !names.iter().any(wanted) {
        return Err(no_instance(instance.unwrap_or_default(), &names));
    }
    let mut taken = Vec::new();
    let mut errors = Vec::new();
    for (number, name) in names.iter().enumerate().filter(|(_, name)| wanted(name)) {
        let page = cluster.get(number, HEAP).map_err(|error| error.to_string());
        let path = format!("{name}{HEAP}");
        let profile = page.and_then(|page| {
            let mut profile = Profile::read(Source::of_bytes(path, page.body)).map_err(|error| error.to_string())?;
            profile.stacks.at = profile.stacks.at.or(Some(page.at));
            Ok(profile)
        });
        match profile {
            Ok(profile) => taken.push(Taken { instance: name.clone(), profile: Arc::new(profile) }),
            Err(error) => errors.push(error),
        }
    }
    if taken.is_empty() {
        return Err(Error::inputs(errors));
    }
    for error in errors {
        context.lost(error)?;
    }
    Ok(taken)
}

#[cfg(not(feature = "live"))]
fn live(_: &KubeFlags, _: Option<&str>, _: &mut Context<'_>) -> Result<Vec<Taken>, Error> {
    Err(KubeFlags::unavailable())
}
