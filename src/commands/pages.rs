//! From metrics pages to facts, for all commands that read them.

use crate::analysis::metrics::facts::{Facts, Folded};
use crate::analysis::metrics::{Fold, Kept};
use crate::cli::{Context, Error, Progress};
use crate::model::input::{InputReport, Loss, LossKind};
use crate::model::sample::Sample;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::pages::{self, Clock, PageFolder, PageWorker, PagesRead};
use std::collections::{BTreeMap, HashMap};

/// Messages about one kind of damage.
const MESSAGES: usize = 5;

/// What was read, beside the facts.
#[derive(Debug, Clone, Default)]
pub struct PagesTold {
    /// One per page.
    pub inputs: Vec<InputReport>,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Pages whose time is only that of their file.
    pub undated: usize,
}

/// The fold of analysis as a worker of the source's pass.
pub struct Folding(pub Fold);

impl PageWorker for Folding {
    fn begin(&mut self) {
        self.0.begin();
    }
    #[inline]
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.0.sample(sample);
    }
    fn end(&mut self, at: Micros) {
        self.0.end(at);
    }
}

/// Leaves out pages outside of the bounds.
pub fn keep(folders: &mut Vec<PageFolder>, since: Option<Micros>, until: Option<Micros>) {
    for folder in folders.iter_mut() {
        folder
            .pages
            .retain(|page| since.is_none_or(|since| page.at >= since) && until.is_none_or(|until| page.at < until));
    }
    folders.retain(|folder| !folder.pages.is_empty());
}

/// Pages that were read, for a command that lets others read the same ones: by where they lie and when they were taken.
#[derive(Debug, Default)]
pub struct Memo(HashMap<Vec<(String, Micros)>, (Facts, PagesTold)>);

/// Reads all pages, or gives what they came to before; says what was lost.
pub fn facts(folders: Vec<PageFolder>, kept: Kept, context: &mut Context<'_>) -> Result<(Facts, PagesTold), Error> {
    let Some(memo) = &context.pages else { return fresh(folders, kept, context) };
    let key: Vec<(String, Micros)> =
        folders.iter().flat_map(|folder| &folder.pages).map(|page| (page.source.path.clone(), page.at)).collect();
    if let Some((facts, told)) = memo.0.get(&key) {
        return Ok((facts.clone(), told.clone()));
    }
    let read = fresh(folders, Kept::Incident, context)?;
    if let Some(memo) = &mut context.pages {
        memo.0.insert(key, read.clone());
    }
    Ok(read)
}

/// Reads all pages; says what was lost.
pub fn fresh(folders: Vec<PageFolder>, kept: Kept, context: &mut Context<'_>) -> Result<(Facts, PagesTold), Error> {
    let all = || folders.iter().flat_map(|folder| &folder.pages);
    let undated = all().filter(|page| page.clock == Clock::Modified).count();
    let progress = Progress::bytes(all().map(|page| page.source.size).sum(), context.settings.progress);
    let (facts, read) = fold(folders, kept, context.settings.threads, &progress);
    progress.finish();
    tell(&read.losses, context)?;
    Ok((facts, PagesTold { inputs: read.inputs, losses: read.losses, undated }))
}

/// The facts of pages of which nothing need be told.
pub fn quiet_facts(folders: Vec<PageFolder>, threads: usize) -> Facts {
    fold(folders, Kept::Requests, threads, &Progress::bytes(0, false)).0
}

fn fold(folders: Vec<PageFolder>, kept: Kept, threads: usize, progress: &Progress) -> (Facts, PagesRead) {
    let names: Vec<(String, String)> =
        folders.iter().map(|folder| (folder.cluster.clone(), folder.instance.clone())).collect();
    let (folds, read) = pages::read(folders, threads, |_| Folding(Fold::new(kept)), progress);
    let folded: Vec<Folded<'_>> =
        names.iter().zip(&folds).map(|((cluster, name), fold)| (cluster.as_str(), name.as_str(), &fold.0)).collect();
    (Facts::new(&folded), read)
}

/// Says what was lost. What is wrong with one page is mostly wrong with all of them.
fn tell(losses: &[Loss], context: &mut Context<'_>) -> Result<(), Error> {
    let mut told: BTreeMap<LossKind, usize> = BTreeMap::new();
    for loss in losses {
        let told = told.entry(loss.kind).or_default();
        *told += 1;
        if *told <= MESSAGES {
            context.lost(loss)?;
        }
    }
    for (kind, pages) in told.into_iter().filter(|(_, pages)| *pages > MESSAGES) {
        context.lost(format!(
            "{} more with a part that {}",
            counted((pages - MESSAGES) as u64, "page"),
            kind.explain().0
        ))?;
    }
    Ok(())
}
