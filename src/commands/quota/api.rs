//! `plimsoll quota propose --api`: quotas for the API itself.

use crate::analysis::answer::Answer;
use crate::analysis::flow::fence::{level_object, schema_object};
use crate::analysis::flow::seats::{ServerSeats, nominal};
use crate::analysis::quota::api::{self, ApiQuota, Demands, Observer};
use crate::analysis::quota::report;
use crate::cli::{Context, Error};
use crate::inputs::rollup::{self, Chosen};
use crate::inputs::selection::Selection;
use crate::inputs::{flow, found};
use crate::model::question;
use crate::sources::find;
use crate::views::{Format, objects};

/// Answers the question.
pub(super) fn answer(question: &question::QuotaPropose, context: &mut Context<'_>) -> Result<Answer, Error> {
    let sources = &question.source.sources;
    let (since, until) = question::up_to(question.source.at, question.source.bounds);
    if sources.is_empty() {
        return Err(Error::Usage(
            "--api counts each user's requests: give audit logs, or a bundle with some".to_owned(),
        ));
    }
    let found = find::audit_logs(sources);
    let is_some = !found.streams.is_empty();
    let found = found::usable(found, is_some, context)?;
    let mut clusters: Vec<&str> = found.streams.iter().map(|stream| stream.stream.cluster.as_str()).collect();
    clusters.dedup();
    if clusters.len() > 1 {
        return Err(Error::Usage(format!(
            "the logs are of several clusters ({}), and priority levels belong to one; choose one",
            clusters.join(", ")
        )));
    }
    let cluster = clusters.first().map(|name| (*name).to_owned()).unwrap_or_default();
    let given = flow::FlowFlags { flow_schemas: question.flow_schemas.clone() };
    let matched = flow::matched(&given, sources, context)?;
    let Some((set, _)) = matched.sets.of(&cluster) else { return Err(Error::Input("no FlowSchemas".to_owned())) };
    let selection = Selection { since, until, ..Selection::default() };
    let make = || Chosen {
        observer: Observer::new(&matched.sets),
        selection: &selection,
        event: Observer::event,
        flush: Observer::flush,
    };
    let (demands, outcome) = rollup::pass(found.streams, &selection, make, Demands::default, Demands::merge, context)?;
    let rows = api::propose(&demands, set, question.headroom, question.clients);
    let seats = question.server_seats.map_or(ServerSeats::Default, ServerSeats::Given);
    let levels = api::objects(&rows, set, seats.number()).map_err(|why| Error::Usage(why.to_string()))?;
    let Some(levels) = levels else {
        return Err(Error::Usage(format!(
            "these users together need half of an apiserver's seats ({}) or more, which leaves too few for others; \
             choose fewer with --clients, or set --server-seats",
            seats.in_words()
        )));
    };
    if context.settings.format == Format::Yaml {
        let mut documents = Vec::new();
        for (level, schema) in &levels {
            let row = rows
                .iter()
                .filter(|row| row.without.is_empty())
                .zip(&levels)
                .find(|(_, (own, _))| own.name == level.name)
                .map(|(row, _)| row);
            let comments = row.map(about).unwrap_or_default();
            documents.push((comments, level_object(level)));
            documents.push((Vec::new(), schema_object(schema)));
        }
        return Ok(Answer::Manifests(objects::documents(&documents)));
    }
    let mut all = set.levels.clone();
    all.extend(levels.iter().map(|(level, _)| level.clone()));
    let granted: Vec<(String, u32, u32)> = levels
        .iter()
        .map(|(level, _)| (level.name.clone(), level.shares, nominal(seats.number(), level, &all)))
        .collect();
    let mut note = vec![format!(
        "Seats of an apiserver: {}. A LIST may use more than one seat (up to 10 from the cache), a write holds its \
         seat slightly longer; both are counted as one.",
        seats.in_words()
    )];
    note.extend(matched.note.clone());
    let shown = (context.settings.top, note);
    Ok(Answer::of(report::api(&rows, &granted, &demands, outcome.inputs, shown)))
}

/// What stands above a manifest.
fn about(row: &ApiQuota) -> Vec<String> {
    vec![
        format!(
            "{}: peak {:.1} requests/s and {:.2} seats over ten seconds, at {}",
            row.user,
            row.peak_rps,
            row.peak_seats,
            crate::model::time::format(row.peak_at)
        ),
        format!("{} seats; further requests queue", row.proposed_seats),
    ]
}
