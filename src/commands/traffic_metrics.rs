//! `plimsoll traffic` on metrics pages.

use super::traffic_flags::{dims, interval_for, shape};
use crate::analysis::metrics::Retention;
use crate::analysis::metrics::facts::Facts;
use crate::analysis::metrics::report::{self as metrics_report, Read};
use crate::analysis::metrics::traffic::{self, Dim, Query};
use crate::analysis::traffic::report::{self, Measured};
use crate::cli::{Context, Error};
use crate::inputs::pages::{self, PagesReport};
use crate::model::question;
use crate::model::report::Report;
use crate::model::units::duration;
use crate::sources::found::Discovery;

/// Answers by the pages that were found.
pub(super) fn answer(
    question: &question::Traffic,
    mut found: Discovery,
    base: Option<Discovery>,
    context: &mut Context<'_>,
) -> Result<Report, Error> {
    let mut query = query(question)?;
    pages::keep(&mut found.pages, question.bounds.0, question.bounds.1);
    let series = question.series || question.interval.is_some();
    let (facts, read) =
        pages::facts(found.pages, if series { Retention::Latencies } else { Retention::Requests }, context)?;
    check(&facts, &read)?;
    let base = base.map(|base| pages::facts(base.pages, Retention::Requests, context)).transpose()?;
    let base =
        base.map(|(facts, read)| check(&facts, &read).map(|()| traffic::measured(&facts, &query))).transpose()?;
    let shortest = traffic::shortest_interval(&facts);
    if let Some(interval) = question.interval.filter(|interval| *interval < shortest) {
        return Err(Error::Usage(format!(
            "--interval {}: pages are so far apart that shorter intervals than {} show nothing; choose a longer one",
            duration(interval),
            duration(shortest)
        )));
    }
    if series {
        query.interval = Some(question.interval.unwrap_or_else(|| interval_for(facts.span())));
    }
    let read =
        Read { inputs: read.inputs, losses: read.losses, undated: read.undated, without_logs: found.without_logs };
    Ok(report(&facts, &query, base.as_ref(), read, question.health, context))
}

/// What the flags ask for.
pub(super) fn query(question: &question::Traffic) -> Result<Query, Error> {
    let (by, filters) = dims::<Dim>(question)?;
    let query = Query { by, filters, interval: None };
    query.check().map_err(Error::usage)?;
    Ok(query)
}

/// The report of facts, against a baseline if there is one.
pub(super) fn report(
    facts: &Facts,
    query: &Query,
    base: Option<&Measured>,
    read: Read,
    health: bool,
    context: &Context<'_>,
) -> Report {
    let measured = traffic::measured(facts, query);
    let input = metrics_report::traffic_input(facts, &measured, read, health);
    report::report(measured, base, input, &shape(context))
}

/// Whether there is an apiserver's page among them.
fn check(facts: &Facts, read: &PagesReport) -> Result<(), Error> {
    if facts.has_requests() {
        return Ok(());
    }
    let first = read.inputs.first().map_or("", |input| input.path.as_str());
    let pages = match read.inputs.len() {
        0 => return Err(Error::Input("no metrics page between --since and --until".to_owned())),
        1 => format!("{first}: this page does not hold"),
        count => format!("{first} and {} more: no page holds", count - 1),
    };
    let next = "give pages of kube-apiserver's /metrics (not of /metrics/slis or another path below it); etcd's are \
         read by plimsoll etcd health";
    Err(Error::Input(format!("{pages} apiserver_request_total; {next}")))
}
