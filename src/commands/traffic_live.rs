//! `plimsoll traffic` on what is live: pages of a cluster's apiservers, or of URLs, taken again and again.

use super::traffic_flags::{Args, interval_for};
use super::traffic_metrics::{query, report};
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::{Facts, Folded};
use crate::analysis::metrics::report::Read;
use crate::cli::repeat::{print_again, stop_signal};
use crate::cli::{Context, Error, FailOn};
use crate::inputs::pages::Folding;
use crate::model::input::{InputReport, Loss};
use crate::model::question::{self, Kind};
use crate::sources::arguments::is_url;
use crate::sources::clock;
use crate::sources::find;
#[cfg(feature = "live")]
use crate::sources::live::Cluster;
use crate::sources::pages::{PageBuffer, PageFile, PagesRead, read_page};
use crate::sources::wanted::Wanted;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often to look whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether the arguments name something live: nothing at all, which is the kubeconfig's cluster, or URLs that are to be
/// read more than once.
pub(super) fn is_live(args: &Args) -> bool {
    args.sources.is_empty() || args.sources.iter().all(|source| is_url(source)) && args.follow.is_timed()
}

/// Runs the command.
pub(super) fn run(args: &Args, question: &question::Traffic, context: &mut Context<'_>) -> Result<(), Error> {
    if args.from == Some(Kind::Audit) || question.bounds != (None, None) {
        return Err(Error::Usage(
            "--from audit, --since and --until require a SOURCE: a live cluster gives only current metrics".to_owned(),
        ));
    }
    let mut query = query(question)?;
    let every = args.follow.every()?;
    let length = args.follow.length()?;
    let stop = stop_signal()?;
    let mut live = Live::connect(args, context)?;
    let began = Instant::now();
    let mut end = length.or_else(|| (!args.follow.wanted()).then_some(every)).map(|length| began + length);
    let mut next = began;
    let mut printed = 0;
    loop {
        live.round(if args.series { Retention::Latencies } else { Retention::Requests }, context)?;
        // An apiserver may have asked to be left alone first: between its pages lies no less for that.
        if length.is_none() && !args.follow.wanted() {
            let late = Instant::now().saturating_duration_since(next);
            (next, end) = (next + late, end.map(|end| end + late));
        }
        let over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| next + every > end);
        if args.follow.wanted() && !over() {
            let facts = live.facts();
            print_again(&report(&facts, &query, None, live.read(), args.health, context), printed, context)?;
            printed += 1;
        }
        if over() {
            break;
        }
        next += every;
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let facts = live.facts();
    if !facts.has_requests() {
        return Err(Error::Input("no page of an apiserver was read; see the messages above".to_owned()));
    }
    if args.series {
        query.interval = Some(question.interval.unwrap_or_else(|| interval_for(facts.span())));
    }
    let report = report(&facts, &query, None, live.read(), args.health, context);
    if args.follow.wanted() { print_again(&report, printed, context) } else { context.print(&report, FailOn::Never) }
}

/// Where pages come from.
enum From<'a> {
    #[cfg(feature = "live")]
    Cluster(Box<Cluster>),
    Urls(&'a [String]),
}

/// What was read so far.
struct Live<'a> {
    from: From<'a>,
    cluster: String,
    folds: BTreeMap<String, Folding>,
    inputs: BTreeMap<String, InputReport>,
    losses: Vec<Loss>,
    warned: HashSet<String>,
}

impl<'a> Live<'a> {
    fn connect(args: &'a Args, context: &mut Context<'_>) -> Result<Self, Error> {
        let (from, cluster) =
            if args.sources.is_empty() { connect(args, context)? } else { (From::Urls(&args.sources), String::new()) };
        Ok(Self {
            from,
            cluster,
            folds: BTreeMap::new(),
            inputs: BTreeMap::new(),
            losses: Vec::new(),
            warned: HashSet::new(),
        })
    }

    /// Takes a page of each.
    fn round(&mut self, kept: Retention, context: &mut Context<'_>) -> Result<(), Error> {
        let mut errors: Vec<String> = Vec::new();
        let mut pages: Vec<(String, PageFile)> = Vec::new();
        match &self.from {
            #[cfg(feature = "live")]
            From::Cluster(cluster) => {
                for page in cluster.scrape() {
                    match page {
                        Ok(page) => pages.push((
                            page.instance.clone(),
                            PageFile::read(format!("{}/metrics", page.instance), page.at, page.body),
                        )),
                        Err(error) => errors.push(error.to_string()),
                    }
                }
            }
            From::Urls(urls) => {
                let found = find::find(urls, Wanted::Pages, clock::now());
                errors.extend(found.errors.iter().map(ToString::to_string));
                pages.extend(
                    found
                        .pages
                        .into_iter()
                        .flat_map(|folder| folder.pages.into_iter().map(move |page| (folder.instance.clone(), page))),
                );
            }
        }
        let mut buffer = PageBuffer::default();
        for (instance, page) in pages {
            let fold = self.folds.entry(instance).or_insert_with(|| Folding::new(kept));
            let mut read = PagesRead::default();
            read_page(page, &mut buffer, fold, &mut read, &());
            for input in read.inputs {
                let known = self.inputs.entry(input.path.clone()).or_insert_with(|| InputReport {
                    bytes: 0,
                    records: 0,
                    skipped: 0,
                    ..input.clone()
                });
                known.bytes += input.bytes;
                known.records += input.records;
                known.skipped += input.skipped;
                known.first_error = known.first_error.take().or(input.first_error);
            }
            errors.extend(read.losses.iter().map(ToString::to_string));
            for loss in read.losses {
                match self.losses.iter_mut().find(|known| (known.kind, &known.path) == (loss.kind, &loss.path)) {
                    Some(known) => known.count += loss.count,
                    None => self.losses.push(loss),
                }
            }
        }
        for error in errors {
            // An apiserver that is down stays down for many rounds: it is reported once.
            if self.warned.insert(error.clone()) {
                context.lost(error)?;
            }
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        let folded: Vec<Folded<'_>> =
            self.folds.iter().map(|(name, folding)| folding.folded(&self.cluster, name)).collect();
        Facts::new(&folded)
    }

    fn read(&self) -> Read {
        Read { inputs: self.inputs.values().cloned().collect(), losses: self.losses.clone(), ..Read::default() }
    }
}

#[cfg(feature = "live")]
fn connect<'a>(args: &Args, context: &mut Context<'_>) -> Result<(From<'a>, String), Error> {
    let cluster = crate::inputs::live::connect(&args.kube, context)?;
    let name = cluster.name().to_owned();
    Ok((From::Cluster(Box::new(cluster)), name))
}

#[cfg(not(feature = "live"))]
fn connect<'a>(_: &Args, _: &mut Context<'_>) -> Result<(From<'a>, String), Error> {
    Err(crate::cli::KubeFlags::unavailable())
}
