//! The captures of cgroups, heaps and objects that show a moment: of each series the newest at or before it.

use crate::cli::{Context, Error};
use crate::model::moment::{Capture, too_early, up_to};
use crate::model::time::Micros;
use crate::sources::cgroup::{Series, written};
use crate::sources::objects::captures::Capture as Objects;
use crate::sources::pprof::{Group, taken};

/// Captures of several series: of each those up to the moment. What began later is left out; nothing left is an error,
/// which names the earliest capture.
pub(crate) struct UpTo<'w> {
    moment: Micros,
    what: &'w str,
    earliest: Option<(String, Micros)>,
    is_any: bool,
}

impl<'w> UpTo<'w> {
    /// Nothing was looked at yet; `what` is what a capture is of.
    pub(crate) fn new(moment: Micros, what: &'w str) -> Self {
        Self { moment, what, earliest: None, is_any: false }
    }

    /// Of one series what was taken up to the moment; the newest is what is shown. Nothing where it began later.
    pub(crate) fn of<T>(
        &mut self,
        all: Vec<T>,
        taken: impl Fn(&T) -> Micros,
        path: impl Fn(&T) -> String,
        context: &mut Context<'_>,
    ) -> Vec<T> {
        match up_to(self.moment, all, &taken) {
            Ok(all) => {
                self.is_any = true;
                if let Some(newest) = all.last() {
                    context.shows(Capture { path: path(newest), taken: taken(newest), moment: self.moment });
                }
                all
            }
            Err(earliest) => {
                let own = earliest.map(|one| (path(&one), taken(&one)));
                self.earliest = [self.earliest.take(), own].into_iter().flatten().min_by_key(|(_, at)| *at);
                Vec::new()
            }
        }
    }

    /// All were looked at.
    pub(crate) fn end(self) -> Result<(), Error> {
        let earliest = self.earliest.as_ref().map(|(path, at)| (path.as_str(), *at));
        if self.is_any { Ok(()) } else { Err(Error::Usage(too_early(self.moment, self.what, earliest))) }
    }
}

/// Samples of copied cgroups up to a moment.
pub(crate) fn of_groups(all: Vec<Series>, moment: Micros, context: &mut Context<'_>) -> Result<Vec<Series>, Error> {
    let mut shown = UpTo::new(moment, "copy of a cgroup");
    let mut kept = Vec::new();
    for mut series in all {
        // What has no time in its name was dated now.
        let undated = written(&series);
        for sample in series.samples.iter_mut().filter(|sample| sample.at == context.io.now) {
            sample.at = undated.unwrap_or(sample.at);
        }
        let place = series.place.clone();
        let samples = std::mem::take(&mut series.samples);
        series.samples = shown.of(samples, |sample| sample.at, |_| place.clone(), context);
        if !series.samples.is_empty() {
            kept.push(series);
        }
    }
    shown.end()?;
    Ok(kept)
}

/// Profiles up to a moment.
pub(crate) fn of_profiles(all: Vec<Group>, moment: Micros, context: &mut Context<'_>) -> Result<Vec<Group>, Error> {
    let mut shown = UpTo::new(moment, "heap profile");
    let mut kept = Vec::new();
    for group in all {
        let Group { cluster, instance, files } = group;
        let mut dated = Vec::new();
        for file in files {
            match taken(&file) {
                Some(at) => dated.push((at, file)),
                None => context.lost(format!("{}: its time is unknown", file.path))?,
            }
        }
        let dated = shown.of(dated, |(at, _)| *at, |(_, file)| file.path.clone(), context);
        if !dated.is_empty() {
            kept.push(Group { cluster, instance, files: dated.into_iter().map(|(_, file)| file).collect() });
        }
    }
    shown.end()?;
    Ok(kept)
}

/// Captures of objects up to a moment.
pub(crate) fn of_objects(all: Vec<Objects>, moment: Micros, context: &mut Context<'_>) -> Result<Vec<Objects>, Error> {
    let mut shown = UpTo::new(moment, "capture of objects");
    let kept = shown.of(all, |capture| capture.at, |capture| capture.path.clone(), context);
    shown.end()?;
    Ok(kept)
}
