//! From metrics pages to facts, for all commands that read them.

use super::logs;
use crate::analysis::metrics::facts::{Facts, Folded};
use crate::analysis::metrics::{Fold, Retention};
use crate::cli::{Context, Error, Progress};
use crate::model::input::{InputReport, Loss, LossKind};
use crate::model::sample::Sample;
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::pages::{self, Clock, PageFolder, PageWorker, PagesRead};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Messages about one kind of damage.
const MESSAGES: usize = 5;

/// What was read, beside the facts.
#[derive(Debug, Clone, Default)]
pub struct PagesReport {
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
    fn begin(&mut self, _: &str, _: Micros) {
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

/// Pages that were read, for a command that lets others read the same ones; and those that others wait for.
#[derive(Debug, Default)]
pub struct Memo {
    known: HashMap<Key, CachedPages>,
    waiting: Vec<(Key, Retention, Vec<PageFolder>)>,
}

/// What pages came to.
#[derive(Debug)]
struct CachedPages {
    kept: Retention,
    outcome: (Facts, PagesReport),
    /// Whether it was heard among others, which are done when all have their answers.
    is_passing: bool,
}

/// Which pages: by folder what it is called, where they lie, and when they were taken.
type Key = Vec<(Name, String, Vec<Page>)>;

/// Cluster of a folder, and where it lies.
type Name = (String, PathBuf);

/// A page: its path, and when it was taken.
type Page = (String, Micros);

fn name(folder: &PageFolder) -> Name {
    let place = folder.pages.first().and_then(|page| Path::new(&page.source.path).parent()).unwrap_or(Path::new(""));
    (folder.cluster.clone(), place.to_owned())
}

fn key(folders: &[PageFolder]) -> Key {
    let pages = |folder: &PageFolder| folder.pages.iter().map(|page| (page.source.path.clone(), page.at)).collect();
    folders.iter().map(|folder| (name(folder), folder.instance.clone(), pages(folder))).collect()
}

/// Reads all pages, or gives what they came to before; says what was lost.
pub fn facts(
    folders: Vec<PageFolder>,
    kept: Retention,
    context: &mut Context<'_>,
) -> Result<(Facts, PagesReport), Error> {
    let (facts, report) = facts_without_warnings(folders, kept, context)?;
    warn_losses(&report.losses, context)?;
    Ok((facts, report))
}

/// The facts of pages of which nothing need be reported.
pub fn quiet_facts(folders: Vec<PageFolder>, context: &mut Context<'_>) -> Result<Facts, Error> {
    Ok(facts_without_warnings(folders, Retention::Requests, context)?.0)
}

fn facts_without_warnings(
    folders: Vec<PageFolder>,
    kept: Retention,
    context: &mut Context<'_>,
) -> Result<(Facts, PagesReport), Error> {
    let is_collecting = logs::is_collecting(context);
    let Some(memo) = context.shared.get_mut::<Memo>() else { return Ok(fresh(folders, kept, context)) };
    let key = key(&folders);
    // Whatever is kept, what is counted of requests is.
    let has =
        |known: &&CachedPages| known.kept == Retention::Incident || known.kept == kept || kept == Retention::Requests;
    if let Some(known) = memo.known.get(&key).filter(has) {
        return Ok(known.outcome.clone());
    }
    if is_collecting {
        match memo.waiting.iter_mut().find(|(other, ..)| *other == key) {
            Some((_, other, _)) if *other == kept || kept == Retention::Requests => {}
            Some((_, other, _)) => *other = if *other == Retention::Requests { kept } else { Retention::Incident },
            None => memo.waiting.push((key, kept, folders)),
        }
        return Err(Error::Unanswered);
    }
    let outcome = fresh(folders, Retention::Incident, context);
    if let Some(memo) = context.shared.get_mut::<Memo>() {
        memo.known.insert(key, CachedPages { kept: Retention::Incident, outcome: outcome.clone(), is_passing: false });
    }
    Ok(outcome)
}

/// Forgets what was heard among others.
pub(crate) fn forget(context: &mut Context<'_>) {
    if let Some(memo) = context.shared.get_mut::<Memo>() {
        memo.known.retain(|_, known| !known.is_passing);
    }
}

/// Reads the pages that somebody waits for, each of them once; whether there were any.
pub(crate) fn answer(context: &mut Context<'_>) -> bool {
    let waiting = context.shared.get_mut::<Memo>().map(|memo| std::mem::take(&mut memo.waiting)).unwrap_or_default();
    if waiting.is_empty() {
        return false;
    }
    let keys: Vec<(Key, Retention)> = waiting.iter().map(|(key, kept, _)| (key.clone(), *kept)).collect();
    // Each page once, in the folder in which it lies.
    let mut all: BTreeMap<Name, PageFolder> = BTreeMap::new();
    let mut met: HashSet<Page> = HashSet::new();
    for folder in waiting.into_iter().flat_map(|(.., folders)| folders) {
        let name = name(&folder);
        let PageFolder { cluster, instance, pages } = folder;
        let into = all.entry(name).or_insert_with(|| PageFolder { cluster, instance, pages: Vec::new() });
        into.pages.extend(pages.into_iter().filter(|page| met.insert((page.source.path.clone(), page.at))));
        into.pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
    }
    let each = || all.values().flat_map(|folder| &folder.pages);
    let undated: HashSet<String> =
        each().filter(|page| page.clock == Clock::Modified).map(|page| page.source.path.clone()).collect();
    let progress = Progress::bytes(each().map(|page| page.source.size).sum(), context.settings.progress);
    let of: Vec<Name> = all.keys().cloned().collect();
    let make = |folder: &PageFolder| {
        let name = name(folder);
        let own =
            |key: &Key| key.iter().filter(|(other, ..)| *other == name).flat_map(|(.., pages)| pages.clone()).collect();
        let sets = keys.iter().map(|(key, kept)| (own(key), Fold::new(*kept))).collect();
        SideBySide { sets, begun: Vec::new() }
    };
    let (workers, read) = pages::read(all.into_values().collect(), context.settings.threads, make, &progress);
    progress.finish();
    for (number, (key, kept)) in keys.iter().enumerate() {
        let fold = |name: &Name| of.iter().position(|other| other == name).map(|place| &workers[place].sets[number].1);
        let folded: Vec<Folded<'_>> = key
            .iter()
            .filter_map(|(name, instance, _)| Some((name.0.as_str(), instance.as_str(), fold(name)?)))
            .collect();
        let facts = Facts::new(&folded);
        let pages = || key.iter().flat_map(|(.., pages)| pages).map(|(path, _)| path.as_str());
        let places: HashMap<&str, usize> = pages().zip(0..).collect();
        // As they were named.
        let mut inputs: Vec<InputReport> =
            read.inputs.iter().filter(|input| places.contains_key(input.path.as_str())).cloned().collect();
        inputs.sort_by_key(|input| places.get(input.path.as_str()).copied());
        let losses = read.losses.iter().filter(|loss| places.contains_key(loss.path.as_str())).cloned().collect();
        let report = PagesReport { inputs, losses, undated: pages().filter(|path| undated.contains(*path)).count() };
        if let Some(memo) = context.shared.get_mut::<Memo>() {
            memo.known.insert(key.clone(), CachedPages { kept: *kept, outcome: (facts, report), is_passing: true });
        }
    }
    true
}

/// Folds of several sets of pages, each of which takes those of its own.
struct SideBySide {
    sets: Vec<(HashSet<Page>, Fold)>,
    /// Those that take the page that is read.
    begun: Vec<usize>,
}

impl PageWorker for SideBySide {
    fn begin(&mut self, path: &str, at: Micros) {
        let page = (path.to_owned(), at);
        self.begun = (0..self.sets.len()).filter(|number| self.sets[*number].0.contains(&page)).collect();
        self.begun.iter().for_each(|number| self.sets[*number].1.begin());
    }
    #[inline]
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.begun.iter().for_each(|number| self.sets[*number].1.sample(sample));
    }
    fn end(&mut self, at: Micros) {
        self.begun.iter().for_each(|number| self.sets[*number].1.end(at));
    }
}

/// Reads all pages.
fn fresh(folders: Vec<PageFolder>, kept: Retention, context: &Context<'_>) -> (Facts, PagesReport) {
    let all = || folders.iter().flat_map(|folder| &folder.pages);
    let undated = all().filter(|page| page.clock == Clock::Modified).count();
    let progress = Progress::bytes(all().map(|page| page.source.size).sum(), context.settings.progress);
    let (facts, read) = fold(folders, kept, context.settings.threads, &progress);
    progress.finish();
    (facts, PagesReport { inputs: read.inputs, losses: read.losses, undated })
}

fn fold(folders: Vec<PageFolder>, kept: Retention, threads: usize, progress: &Progress) -> (Facts, PagesRead) {
    let names: Vec<(String, String)> =
        folders.iter().map(|folder| (folder.cluster.clone(), folder.instance.clone())).collect();
    let (folds, read) = pages::read(folders, threads, |_| Folding(Fold::new(kept)), progress);
    let folded: Vec<Folded<'_>> =
        names.iter().zip(&folds).map(|((cluster, name), fold)| (cluster.as_str(), name.as_str(), &fold.0)).collect();
    (Facts::new(&folded), read)
}

/// Says what was lost. What is wrong with one page is mostly wrong with all of them.
fn warn_losses(losses: &[Loss], context: &mut Context<'_>) -> Result<(), Error> {
    let mut counts: BTreeMap<LossKind, usize> = BTreeMap::new();
    for loss in losses {
        let count = counts.entry(loss.kind).or_default();
        *count += 1;
        if *count <= MESSAGES {
            context.lost(loss)?;
        }
    }
    for (kind, pages) in counts.into_iter().filter(|(_, pages)| *pages > MESSAGES) {
        context.lost(format!(
            "{} more, each with a part that {}",
            counted((pages - MESSAGES) as u64, "page"),
            kind.explain().0
        ))?;
    }
    Ok(())
}
