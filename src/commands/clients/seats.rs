//! `plimsoll clients --seats`: who holds the seats of priority levels, now or when dump pages were taken.

use super::selection;
use crate::analysis::answer::Answer;
use crate::analysis::clients::cost::SizeContext;
use crate::analysis::clients::{Clients, detect};
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::seats::Seats;
use crate::analysis::seats::report::{FIELDS, Read, report};
use crate::cli::{Context, Error, KubeFlags};
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages};
use crate::model::apf::{DumpPage, Moment};
use crate::model::input::{InputReport, Loss, LossKind};
use crate::model::question;
use crate::model::time::{MINUTE, Micros};
use crate::sources::apf;
use crate::sources::find;
use crate::sources::found::Discovery;
use crate::sources::open::SourceError;
use crate::sources::packing::Packing;
use crate::sources::pages::{Clock, PageFile, PageFolder};
use crate::sources::wanted::Wanted;
use std::io::Read as _;

/// Metrics pages farther from a dump page than this say nothing of its limits: levels lend and borrow seats every ten
/// seconds.
const BESIDE: Micros = MINUTE;

/// Answers by dump pages of the cluster that the kubeconfig names.
pub(super) fn live(question: &question::Clients, kube: &KubeFlags, context: &mut Context<'_>) -> Result<Answer, Error> {
    if question.bounds != (None, None) {
        return Err(Error::Usage(
            "--since and --until require a SOURCE: a live cluster has only the present".to_owned(),
        ));
    }
    context.sort_by(&FIELDS)?;
    make_report(question, selection(question)?, ask(kube, context)?, context)
}

/// Answers by dump pages that were taken.
pub(super) fn answer(
    question: &question::Clients,
    selection: Selection,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    context.sort_by(&FIELDS)?;
    make_report(question, selection, look(&question.sources, context)?, context)
}

fn make_report(
    question: &question::Clients,
    selection: Selection,
    mut found: Discovery,
    context: &mut Context<'_>,
) -> Result<Answer, Error> {
    let sort_by = context.sort_by(&FIELDS)?;
    pages::keep_moments(&mut found.dumps, (selection.since, selection.until));
    let mut inputs = Vec::new();
    let mut dumps = Vec::new();
    for folder in std::mem::take(&mut found.dumps) {
        for page in folder.pages {
            let owner = (folder.cluster.clone(), folder.instance.clone());
            dumps.extend(read(page, owner, &mut inputs, context)?);
        }
    }
    if dumps.is_empty() {
        return Err(Error::Input(
            "no dump page could be read: see the messages above, or --since and --until exclude all".to_owned(),
        ));
    }
    let limits = limits(std::mem::take(&mut found.pages), &dumps, context)?;
    let seats = Seats::new(dumps, &limits);
    let read = Read { inputs, sort_by, top: context.settings.top, ..Read::default() };
    if found.streams.is_empty() {
        return Ok(Answer::of(report(&seats, read)));
    }
    let server = found::server_version(question.k8s_version.as_deref(), found.bundle.as_ref())?;
    let (rollup, outcome) = rollup::read(found.streams, &selection, context)?;
    let known = SizeContext::default();
    let clients = Clients::new(&rollup, server.as_ref().and_then(|(version, _)| Minor::parse(version)), &known);
    let findings = detect::all(&clients, context.settings.threads);
    let mut inputs = read.inputs;
    inputs.extend(outcome.inputs);
    let read = Read { inputs, profiles: Some((&clients, &findings)), ..read };
    Ok(Answer::of(report(&seats, read)))
}

/// Finds dump pages, and logs and metrics pages beside them.
fn look(sources: &[String], context: &mut Context<'_>) -> Result<Discovery, Error> {
    let mut found = find::find(sources, Wanted::Dumps, context.io.now);
    if found.dumps.is_empty() && found.errors.is_empty() {
        let folder = sources.join(", ");
        found.errors.push(SourceError::NothingHere { folder, files: found.files, wanted: Wanted::Dumps });
    }
    let is_some = !found.dumps.is_empty();
    found::usable(found, is_some, context)
}

/// Reads a page; says what was lost of it.
fn read(
    mut page: PageFile,
    (cluster, instance): (String, String),
    inputs: &mut Vec<InputReport>,
    context: &mut Context<'_>,
) -> Result<Option<DumpPage>, Error> {
    let path = page.source.path.clone();
    let mut bytes = Vec::new();
    let mut losses: Vec<Loss> = Vec::new();
    let lost = |kind, offset, detail| Loss { kind, path: path.clone(), line: 0, offset, count: 1, detail };
    let taken = page.source.reader().map_err(|error| error.to_string());
    match taken
        .and_then(|reader| reader.take(apf::MAX_PAGE_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string()))
    {
        Ok(size) if size as u64 == apf::MAX_PAGE_BYTES => {
            losses.push(lost(LossKind::DumpTooLong, apf::MAX_PAGE_BYTES, String::new()))
        }
        Ok(_) => {}
        Err(detail) => {
            let kind = if page.source.packing == Packing::None { LossKind::Io } else { LossKind::Damaged };
            losses.push(lost(kind, bytes.len() as u64, detail));
        }
    }
    let rows = apf::read(&bytes, |apf::Fault { line, offset, what }| {
        match losses.iter_mut().find(|loss| loss.kind == LossKind::NotARow) {
            Some(loss) => loss.count += 1,
            None => losses.push(Loss {
                kind: LossKind::NotARow,
                path: path.clone(),
                line,
                offset,
                count: 1,
                detail: what.to_owned(),
            }),
        }
    });
    for loss in &losses {
        context.lost(loss)?;
    }
    inputs.push(InputReport {
        path: path.clone(),
        kind: "apf-dump",
        bytes: if page.source.size > 0 { page.source.size } else { bytes.len() as u64 },
        records: rows.as_ref().map_or(0, |rows| rows.count() as u64),
        skipped: losses.iter().map(|loss| loss.count).sum(),
        first_error: losses.first().map(Loss::to_string),
    });
    let moment = match page.clock {
        Clock::Name => Moment::Name,
        Clock::Read => Moment::Read,
        Clock::Samples | Clock::Modified => Moment::Modified,
    };
    if rows.is_none() && losses.is_empty() {
        context.lost(format!(
            "{path}: not a dump page of API Priority and Fairness; check that APF is on and that this user may read \
             /debug"
        ))?;
    }
    Ok(rows.map(|rows| DumpPage { cluster, instance, path, at: page.at, moment, rows }))
}

/// The limits of levels, by the metrics page of each folder that is nearest to a dump page.
fn limits(mut folders: Vec<PageFolder>, dumps: &[DumpPage], context: &mut Context<'_>) -> Result<Facts, Error> {
    let far = |page: &PageFile| dumps.iter().map(|dump| (dump.at - page.at).abs()).min().unwrap_or(Micros::MAX);
    for folder in &mut folders {
        let nearest = folder.pages.iter().map(far).min().unwrap_or(Micros::MAX).min(BESIDE);
        folder.pages.retain(|page| far(page) <= nearest);
        folder.pages.truncate(1);
    }
    folders.retain(|folder| !folder.pages.is_empty());
    if folders.is_empty() {
        return Ok(Facts::default());
    }
    Ok(pages::facts(folders, Retention::Requests, context)?.0)
}

/// Takes the pages of every apiserver of the cluster that the kubeconfig names.
#[cfg(feature = "live")]
fn ask(kube: &KubeFlags, context: &mut Context<'_>) -> Result<Discovery, Error> {
    let cluster = crate::inputs::live::connect(kube, context)?;
    let mut found = Discovery::default();
    let mut errors = Vec::new();
    for (number, server) in cluster.apiservers().iter().enumerate() {
        let (cluster_name, instance) = (cluster.name().to_owned(), server.name.clone());
        let place = std::path::PathBuf::from(&instance);
        let of = |pages| PageFolder {
            cluster: cluster_name.clone(),
            instance: instance.clone(),
            place: place.clone(),
            pages,
        };
        let mut folder = of(Vec::new());
        for path in apf::PATHS {
            match cluster.get(number, path) {
                Ok(page) => folder.pages.push(PageFile::read(format!("{instance}{path}"), page.at, page.body)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if folder.pages.is_empty() {
            continue;
        }
        found.dumps.push(folder);
        // Only limits stand there: without them the rest is as true.
        match cluster.get(number, "/metrics") {
            Ok(page) => {
                let pages = vec![PageFile::read(format!("{instance}/metrics"), page.at, page.body)];
                found.pages.push(of(pages));
            }
            Err(error) => context.notice(format!("{error}; the limits of levels are unknown"))?,
        }
    }
    if found.dumps.is_empty() {
        return Err(Error::inputs(errors));
    }
    for error in errors {
        context.lost(error)?;
    }
    Ok(found)
}

#[cfg(not(feature = "live"))]
fn ask(_: &KubeFlags, _: &mut Context<'_>) -> Result<Discovery, Error> {
    Err(KubeFlags::unavailable())
}
