//! From metrics pages to facts, for all commands that read them.

use super::kept_pages::{KeptPages, Page};
use super::logs;
use crate::analysis::metrics::facts::{Facts, Folded};
use crate::analysis::metrics::{Fold, Retention, SeriesTable};
use crate::cli::{Context, Error, Progress};
use crate::model::input::{InputReport, Loss, LossKind};
use crate::model::sample::Sample;
use crate::model::time::{Bounds, Micros, is_within};
use crate::model::units::counted;
use crate::sources::pages::{self, Clock, PageFile, PageFolder, PageWorker, PagesRead};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

/// Bytes of pages that are kept to be folded again; of more they are read again.
const MAX_KEPT_BYTES: usize = 64 << 20;

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
#[derive(Debug)]
pub struct Folding {
    table: SeriesTable,
    fold: Fold,
}

impl Folding {
    /// A fold that keeps this.
    pub fn new(kept: Retention) -> Self {
        Self { table: SeriesTable::default(), fold: Fold::new(kept) }
    }

    /// What it came to, of a folder that is called `name`.
    pub fn folded<'f>(&'f self, cluster: &'f str, name: &'f str) -> Folded<'f> {
        Folded { cluster, name, table: &self.table, fold: &self.fold }
    }
}

impl PageWorker for Folding {
    fn begin(&mut self, _: &str, _: Micros) {
        self.table.begin();
    }
    #[inline]
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.table.sample(sample);
    }
    fn end(&mut self, at: Micros) {
        self.fold.page(self.table.page(), &self.table, at);
    }
}

/// Leaves out pages outside of the bounds. Where one page of a process is within, the one before it stays: what
/// happened since is known, and not only what happened since the process started.
pub fn keep(folders: &mut Vec<PageFolder>, since: Option<Micros>, until: Option<Micros>) {
    for folder in folders.iter_mut() {
        let within: Vec<usize> =
            (0..folder.pages.len()).filter(|number| is_within((since, until), folder.pages[*number].at)).collect();
        let kept = match within[..] {
            [only] => only.saturating_sub(1)..only + 1,
            [first, .., last] => first..last + 1,
            [] => 0..0,
        };
        folder.pages.truncate(kept.end);
        folder.pages.drain(..kept.start);
    }
    folders.retain(|folder| !folder.pages.is_empty());
}

/// Leaves out pages outside of the bounds, each of which says how things are at its time.
pub fn keep_moments(folders: &mut Vec<PageFolder>, bounds: Bounds) {
    for folder in folders.iter_mut() {
        folder.pages.retain(|page| is_within(bounds, page.at));
    }
    folders.retain(|folder| !folder.pages.is_empty());
}

/// Pages that were read, for a command that lets others read the same ones; and those that others wait for.
#[derive(Debug, Default)]
pub struct Memo {
    known: HashMap<Key, CachedPages>,
    waiting: Vec<(Key, Retention, Vec<PageFolder>)>,
    /// By folder: the pages that were read for those that waited, to be folded again.
    kept: BTreeMap<Name, (SeriesTable, KeptPages)>,
    /// What reading all of these gave.
    read: PagesRead,
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

fn name(folder: &PageFolder) -> Name {
    (folder.cluster.clone(), folder.place.clone())
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
pub fn quiet_facts(folders: Vec<PageFolder>, kept: Retention, context: &mut Context<'_>) -> Result<Facts, Error> {
    Ok(facts_without_warnings(folders, kept, context)?.0)
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
    // Read for all who ask later, too.
    memo.waiting.push((key.clone(), Retention::Incident, folders));
    answer(context);
    let known = context.shared.get_mut::<Memo>().and_then(|memo| memo.known.get_mut(&key));
    let known = known.ok_or(Error::Unanswered)?;
    known.is_passing = false;
    Ok(known.outcome.clone())
}

/// Forgets what was heard among others.
pub(crate) fn forget(context: &mut Context<'_>) {
    if let Some(memo) = context.shared.get_mut::<Memo>() {
        memo.known.retain(|_, known| !known.is_passing);
    }
}

/// Answers those who wait for pages, each of which is read once, and never again; whether there were any.
pub(crate) fn answer(context: &mut Context<'_>) -> bool {
    let Some(memo) = context.shared.get_mut::<Memo>() else { return false };
    let waiting = std::mem::take(&mut memo.waiting);
    if waiting.is_empty() {
        return false;
    }
    let (mut kept, mut read) = (std::mem::take(&mut memo.kept), std::mem::take(&mut memo.read));
    let sets: Vec<(Key, Retention)> = waiting.iter().map(|(key, kept, _)| (key.clone(), *kept)).collect();
    // Each page once, in the folder in which it lies.
    let mut all: BTreeMap<Name, PageFolder> = BTreeMap::new();
    let mut met: HashSet<(Name, Page)> = HashSet::new();
    for folder in waiting.into_iter().flat_map(|(.., folders)| folders) {
        let name = name(&folder);
        let PageFolder { cluster, instance, place, pages } = folder;
        let is_new = |page: &PageFile| met.insert((name.clone(), (page.source.path.clone(), page.at)));
        let new: Vec<PageFile> = pages.into_iter().filter(is_new).collect();
        let into = all.entry(name).or_insert_with(|| PageFolder { cluster, instance, place, pages: Vec::new() });
        into.pages.extend(new);
        into.pages.sort_by(|a, b| (a.at, &a.source.path).cmp(&(b.at, &b.source.path)));
    }
    let undated: HashSet<String> = (all.values().flat_map(|folder| &folder.pages))
        .filter(|page| page.clock == Clock::Modified)
        .map(|page| page.source.path.clone())
        .collect();
    let mut folded: BTreeMap<Name, Vec<Fold>> = BTreeMap::new();
    for (name, folder) in &all {
        let Some((table, pages)) = kept.get(name) else { continue };
        let known: HashSet<&Page> = pages.pages().collect();
        if folder.pages.iter().all(|page| known.contains(&(page.source.path.clone(), page.at))) {
            let own = own(&sets, name);
            let mut folds: Vec<Fold> = sets.iter().map(|(_, kept)| Fold::new(*kept)).collect();
            pages.replay(table, &mut folds, |set, page| own[set].contains(page));
            folded.insert(name.clone(), folds);
        }
    }
    all.retain(|name, _| !folded.contains_key(name));
    let each = || all.values().flat_map(|folder| &folder.pages);
    let paths: HashSet<String> = each().map(|page| page.source.path.clone()).collect();
    let progress = Progress::bytes(each().map(|page| page.source.size).sum(), context.settings.progress);
    let of: Vec<Name> = all.keys().cloned().collect();
    let most = MAX_KEPT_BYTES / of.len().max(1);
    let make = |folder: &PageFolder| SideBySide {
        table: SeriesTable::default(),
        sets: own(&sets, &name(folder))
            .into_iter()
            .zip(&sets)
            .map(|(own, (_, kept))| (own, Fold::new(*kept)))
            .collect(),
        page: Page::default(),
        kept: KeptPages::default(),
        most,
    };
    let (workers, fresh) = pages::read(all.into_values().collect(), context.settings.threads, make, &progress);
    progress.finish();
    for (name, mut worker) in of.into_iter().zip(workers) {
        worker.kept.close();
        folded.insert(name.clone(), worker.sets.into_iter().map(|(_, fold)| fold).collect());
        kept.insert(name, (worker.table, worker.kept));
    }
    read.inputs.retain(|input| !paths.contains(&input.path));
    read.losses.retain(|loss| !paths.contains(&loss.path));
    read.inputs.extend(fresh.inputs);
    read.losses.extend(fresh.losses);
    for (number, (key, retention)) in sets.into_iter().enumerate() {
        let own = |(name, instance, _): &'_ (Name, String, Vec<Page>)| {
            let (table, fold) = (&kept.get(name)?.0, folded.get(name)?.get(number)?);
            Some((name.0.clone(), instance.clone(), table, fold))
        };
        let own: Vec<_> = key.iter().filter_map(own).collect();
        let folded: Vec<Folded<'_>> =
            own.iter().map(|(cluster, name, table, fold)| Folded { cluster, name, table, fold }).collect();
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
            memo.known.insert(key, CachedPages { kept: retention, outcome: (facts, report), is_passing: true });
        }
    }
    if let Some(memo) = context.shared.get_mut::<Memo>() {
        (memo.kept, memo.read) = (kept, read);
    }
    true
}

/// Of each set of pages, those that lie in a folder.
fn own(sets: &[(Key, Retention)], name: &Name) -> Vec<HashSet<Page>> {
    let own = |(key, _): &(Key, Retention)| {
        key.iter().filter(|(other, ..)| other == name).flat_map(|(.., pages)| pages.clone()).collect()
    };
    sets.iter().map(own).collect()
}

/// Folds of several sets of pages, each of which takes those of its own.
struct SideBySide {
    table: SeriesTable,
    sets: Vec<(HashSet<Page>, Fold)>,
    /// The page that is read.
    page: Page,
    kept: KeptPages,
    /// Bytes that may be kept.
    most: usize,
}

impl PageWorker for SideBySide {
    fn begin(&mut self, path: &str, at: Micros) {
        self.page = (path.to_owned(), at);
        self.table.begin();
    }
    #[inline]
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.table.sample(sample);
    }
    fn end(&mut self, at: Micros) {
        for (_, fold) in self.sets.iter_mut().filter(|(pages, _)| pages.contains(&self.page)) {
            fold.page(self.table.page(), &self.table, at);
        }
        self.kept.keep(std::mem::take(&mut self.page), at, &self.table, self.most);
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
    let (folds, read) = pages::read(folders, threads, |_| Folding::new(kept), progress);
    let folded: Vec<Folded<'_>> =
        names.iter().zip(&folds).map(|((cluster, name), folding)| folding.folded(cluster, name)).collect();
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
