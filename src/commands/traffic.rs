//! `plimsoll traffic`: who sends what.

use super::traffic_flags::{Args, dims, interval_for, shape};
use super::{show, traffic_follow, traffic_live, traffic_metrics};
use crate::analysis::answer::{Answer, ClientRate, Rows};
use crate::analysis::dims::Dim;
use crate::analysis::filter::Filter;
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::reconcile::Windows;
use crate::analysis::traffic::report::{self, BASE_FIELDS, FIELDS, Line, Measured};
use crate::analysis::traffic::{Query, logs};
use crate::cli::{Context, Error, FailOn};
use crate::inputs::breakdown::read;
use crate::inputs::flow::{self, FlowFlags, Matched};
use crate::inputs::found::{Version, find, server_version};
use crate::inputs::pages;
use crate::inputs::pulse::in_tiles;
use crate::model::bundle::Bundle;
use crate::model::question::{self, Kind};
use crate::model::time::{Bounds, MINUTE};
use crate::sources::audit::settle;
use crate::sources::found::LogStream;
use crate::sources::wanted::Wanted;
use std::sync::Arc;

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.question(context.io.now)?;
    check_sort_field(&question, context)?;
    if traffic_live::is_live(args) {
        return traffic_live::run(args, &question, context);
    }
    if args.follow.is_timed() && !args.follow.wanted() {
        return Err(Error::Usage(
            "--every and --for require --follow, or a live source: a cluster or URLs of /metrics".to_owned(),
        ));
    }
    if args.follow.wanted() {
        return follow(args, &question, context);
    }
    show(answer(&question, context)?, FailOn::Never, context)
}

/// Counts while logs are written.
fn follow(args: &Args, question: &question::Traffic, context: &mut Context<'_>) -> Result<(), Error> {
    if question.from == Some(Kind::Metrics) {
        return Err(Error::Usage("--follow requires audit logs or a live source: a cluster or URLs".to_owned()));
    }
    if question.health {
        return Err(Error::Usage(HEALTH.to_owned()));
    }
    let counted = Counted::of(question)?;
    let matched = counted.matched(&question.flow_schemas, &question.sources, context)?;
    let version = |bundle: Option<&Bundle>| server_version(question.k8s_version.as_deref(), bundle);
    let query = |server: &Option<Version>| counted.query(server, &matched);
    let flow = counted.by_flow().then(|| (matched.coverage.clone(), matched.note.clone()));
    traffic_follow::run(&question.sources, &args.follow, query, version, flow, context)
}

const HEALTH: &str = "--health needs metrics pages; add --from metrics if there are any";

/// What is counted of audit logs, and by what.
struct Counted {
    by: Vec<Dim>,
    filters: Vec<Filter<Dim>>,
    bounds: Bounds,
}

impl Counted {
    fn of(question: &question::Traffic) -> Result<Self, Error> {
        let (by, filters) = dims::<Dim>(question)?;
        Ok(Self { by, filters, bounds: question.bounds })
    }

    /// Whether requests are matched with FlowSchemas.
    fn by_flow(&self) -> bool {
        self.by.iter().chain(self.filters.iter().map(|filter| &filter.dim)).any(|dim| dim.is_flow())
    }

    fn matched(&self, schemas: &[String], sources: &[String], context: &mut Context<'_>) -> Result<Matched, Error> {
        let flags = FlowFlags { flow_schemas: schemas.to_vec() };
        if self.by_flow() { flow::matched(&flags, sources, context) } else { Ok(Matched::default()) }
    }

    fn query(&self, server: &Option<Version>, matched: &Matched) -> Query {
        Query {
            by: self.by.clone(),
            filters: self.filters.clone(),
            since: self.bounds.0,
            until: self.bounds.1,
            interval: None,
            server: server.as_ref().and_then(|(version, _)| Minor::parse(version)),
            flow: self.by_flow().then(|| Arc::clone(&matched.sets)),
        }
    }
}

/// Answers the question.
pub(super) fn answer(question: &question::Traffic, context: &mut Context<'_>) -> Result<Answer, Error> {
    let wanted = match question.from {
        Some(Kind::Audit) => Wanted::Logs,
        Some(Kind::Metrics) => Wanted::Pages,
        None => Wanted::Both,
    };
    let mut found = find(&question.sources, wanted, context)?;
    if found.streams.is_empty() || question.from == Some(Kind::Metrics) {
        let has_baseline = !question.baseline.is_empty();
        let base = has_baseline.then(|| find(&question.baseline, Wanted::Pages, context)).transpose()?;
        return traffic_metrics::answer(question, found, base, context).map(Answer::of);
    }
    if question.health {
        return Err(Error::Usage(HEALTH.to_owned()));
    }
    let (since, until) = question.bounds;
    let counted = Counted::of(question)?;
    let matched = counted.matched(&question.flow_schemas, &question.sources, context)?;
    let server = server_version(question.k8s_version.as_deref(), found.bundle.as_ref())?;
    let mut query = counted.query(&server, &matched);
    let base = match question.baseline.is_empty() {
        true => None,
        // The bounds are those of the log that is looked at; the baseline is taken whole.
        false => {
            let flow = match counted.by_flow() {
                true => Some(counted.matched(&question.flow_schemas, &question.baseline, context)?.sets),
                false => None,
            };
            let query = Query { since: None, until: None, flow, ..query.clone() };
            let found = find(&question.baseline, Wanted::Logs, context)?;
            let (breakdown, _) = read(&query, found, None, false, context)?;
            Some(logs::measured(&query, breakdown))
        }
    };
    if question.series {
        query.interval = Some(question.interval.unwrap_or_else(|| {
            let stored = || found.rolled_span().map(|(first, last)| last - first);
            let length = settle::length(&found.streams)
                .or_else(stored)
                .filter(|length| *length > 0)
                .map_or(MINUTE, interval_for);
            in_tiles(&found, length)
        }));
    }
    // How much the log shows is known where there are metrics of the same instances.
    pages::keep(&mut found.pages, since, until);
    let facts = if found.pages.is_empty() {
        Facts::default()
    } else {
        pages::facts(std::mem::take(&mut found.pages), Retention::Requests, context)?.0
    };
    // A roll-up does not hold what metrics of the same seconds are compared with.
    let is_rolled = found.streams.iter().any(LogStream::is_rolled);
    let windows = if is_rolled { None } else { Windows::new(found.streams.iter().map(|s| &s.stream), &facts) };
    let metrics = windows.map(|windows| (Arc::new(windows), &facts));
    let (breakdown, mut reading) = read(&query, found, metrics, !context.is_composing(), context)?;
    reading.server = server;
    reading.flow = counted.by_flow().then_some((matched.coverage, matched.note));
    let input = logs::traffic_input(&breakdown, reading);
    let measured = logs::measured(&query, breakdown);
    let rates = match (counted.by.as_slice(), context.is_composing()) {
        ([Dim::User, Dim::Agent], true) => Rows::Rates(rates(&measured)),
        _ => Rows::Other,
    };
    let report = report::report(measured, base.as_ref(), input, &shape(context));
    Ok(Answer::Report(Box::new(report), rates))
}

/// Requests a second of each client, of a breakdown by user and agent.
fn rates(measured: &Measured) -> Vec<ClientRate> {
    let rate = |line: &Line| {
        let [user, agent] = line.dims.as_slice() else { return None };
        Some(ClientRate { user: user.clone(), agent: agent.clone(), rps: line.measures.rps? })
    };
    measured.rows.iter().filter_map(rate).collect()
}

fn check_sort_field(args: &question::Traffic, context: &Context<'_>) -> Result<(), Error> {
    let dims = args.by.iter().map(String::as_str);
    let base = BASE_FIELDS.iter().copied().filter(|_| !args.baseline.is_empty());
    let time = args.series.then_some("time");
    let mut fields: Vec<&str> = time.into_iter().chain(dims).chain(FIELDS).chain(base).collect();
    fields.dedup();
    context.sort_by(&fields).map(drop)
}
