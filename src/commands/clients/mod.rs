//! `plimsoll clients`: client profiles.

mod analysed;
mod emit;
mod fence;
mod gateway;
mod seats;
mod watch_cache;
#[cfg(test)]
mod write_tests;

use crate::analysis::answer::Answer;
use crate::analysis::clients::cost::{Metered, SizeContext};
use crate::analysis::clients::report::{MEASURES, Read, report};
use crate::analysis::clients::{Clients, detect};
use crate::analysis::list_route::Minor;
use crate::analysis::metrics::Retention;
use crate::cli::{Context, Error, FailOn, KubeFlags, TimeFlags};
use crate::commands::show;
use crate::inputs::rollup;
use crate::inputs::selection::Selection;
use crate::inputs::{found, pages};
use crate::model::question::{self, Form};
use crate::model::time::Micros;
use crate::sources::wanted::Wanted;
use analysed::Analysed;
use serde_json::json;

/// Arguments of `plimsoll clients`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  plimsoll clients audit.log
  plimsoll clients bundle/ --fail-on warning
  # what their LISTs cost
  plimsoll clients audit.log --objects snapshot.db
  plimsoll clients /var/log/kubernetes/ --since -1h --where agent=node-agent
  # read it, then kubectl apply -f fence.yaml
  plimsoll clients bundle/ --emit flowschema > fence.yaml
  plimsoll clients /var/log/kubernetes/ --emit fence \\
    --client system:serviceaccount:ci:bot --ramp 3
  # live: who holds the seats of priority levels now
  plimsoll clients --seats
  # the same by dump pages of API Priority and Fairness
  plimsoll clients bundle/ --seats
  # limits for a gateway before the apiservers
  plimsoll clients /var/log/kubernetes/ --emit gateway --gateway envoy
  # seconds of history in watch caches, and who falls out
  plimsoll clients bundle/ --emit watch-cache
  plimsoll clients /var/log/kubernetes/ -o json \\
    | jq '.findings[] | {id, subject, summary}'

A client is a user with an agent (the user agent up to the first / or blank); all kubelets are one. What \
each finding means, from which
threshold on, and when it may be wrong: docs/findings.md. What --emit prints, and how it was replayed: \
docs/flowcontrol.md.")]
pub struct Args {
    /// Audit logs: files (plain, .gz, .zst), folders, globs, bundles, datasets, URLs, - for stdin. With --seats: dump
    /// pages of API Priority and Fairness, and audit logs beside them; none: the cluster that the kubeconfig names.
    #[arg(value_name = "SOURCE", required_unless_present = "seats")]
    sources: Vec<String>,
    /// Consider only requests that meet the condition (repeatable, all must hold): DIM=VALUE, !=, =~REGEX, !~, >, >=,
    /// <, <=. DIM is who or what: user, serviceaccount, agent, source-ip, node, cluster, instance, group, resource,
    /// namespace.
    #[arg(long = "where", value_name = "EXPR")]
    filters: Vec<String>,
    /// Show who holds and who waits for the seats of each priority level; reads
    /// /debug/api_priority_and_fairness/dump_requests, dump_queues and dump_priority_levels.
    #[arg(long, conflicts_with = "objects")]
    seats: bool,
    /// etcd snapshot or copied database, for the sizes of listed objects; a file, or a folder that holds one.
    #[arg(long, value_name = "FILE.db")]
    objects: Option<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// The apiservers' version, for example v1.34; decides whether cache or etcd answers a LIST (default: the
    /// bundle's).
    #[arg(long, value_name = "VERSION", env = "PLIMSOLL_K8S_VERSION")]
    k8s_version: Option<String>,
    #[command(flatten)]
    emit: emit::EmitFlags,
    #[command(flatten)]
    kube: KubeFlags,
}

impl Args {
    /// What the flags ask.
    pub fn question(&self, now: Micros) -> Result<question::Clients, Error> {
        Ok(question::Clients {
            sources: self.sources.clone(),
            filters: self.filters.clone(),
            seats: self.seats,
            objects: self.objects.clone(),
            bounds: self.time.resolve(now).map_err(Error::Usage)?,
            k8s_version: self.k8s_version.clone(),
            emit: self.emit.question(),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let question = args.question(context.io.now)?;
    let answer = match args.seats && args.sources.is_empty() {
        true => seats::live(&question, &args.kube, context)?,
        false => answer(&question, context)?,
    };
    show(answer, FailOn::Never, context)
}

/// Which events a question is about.
fn selection(question: &question::Clients) -> Result<Selection, Error> {
    let filters = rollup::conditions_on_clients(&question.filters, "clients are judged by all that they do; ")?;
    let (since, until) = question.bounds;
    Ok(Selection { since, until, filters, ..Selection::default() })
}

/// Answers the question.
pub(super) fn answer(question: &question::Clients, context: &mut Context<'_>) -> Result<Answer, Error> {
    emit::check(question)?;
    let selection = selection(question)?;
    if question.emit.form == Some(Form::WatchCache) {
        return watch_cache::answer(question, &selection, context).map(Answer::of);
    }
    if question.seats {
        return seats::answer(question, selection, context);
    }
    let sort_by = context.sort_by(&MEASURES)?;
    let found = found::find(&question.sources, Wanted::Both, context)?;
    if found.streams.is_empty() {
        let (folder, _) = found.without_logs.first().cloned().unwrap_or_else(|| (question.sources.join(", "), 0));
        return Err(Error::Input(format!("{folder}: no audit log; metrics alone are read by plimsoll traffic")));
    }
    let server = found::server_version(question.k8s_version.as_deref(), found.bundle.as_ref())?;
    let facts = pages::quiet_facts(found.pages, Retention::Requests, context)?;
    let (rollup, outcome) = rollup::read(found.streams, &selection, context)?;
    let metrics = Metered::new(&facts);
    let snapshot =
        question.objects.as_deref().map(|source| crate::inputs::etcd::sizes::sizes(source, context)).transpose()?;
    let known = SizeContext { snapshot, metrics };
    let clients = Clients::new(&rollup, server.as_ref().and_then(|(version, _)| Minor::parse(version)), &known);
    let findings = detect::all(&clients, context.settings.threads);
    if let Some(form) = question.emit.form {
        let analysed = Analysed {
            question,
            selection: &selection,
            clients: &clients,
            findings: &findings,
            facts: &facts,
            outcome,
        };
        return emit::answer(form, analysed, context);
    }
    let mut coverage = serde_json::Map::new();
    coverage.insert("kubernetes_version".to_owned(), json!(server.as_ref().map(|(version, _)| version)));
    coverage.insert("list_sizes".to_owned(), json!(known.snapshot.as_ref().map(|sizes| &sizes.source)));
    coverage.insert("objects_of_unknown_size".to_owned(), json!(known.snapshot.as_ref().map(|sizes| sizes.unread)));
    coverage.insert("late_events".to_owned(), json!(rollup.late));
    // Of a roll-up all are known at once, of some of its clients by their rows.
    let open = match selection.filters.is_empty() {
        true => rollup.open,
        false => rollup.traffic().map(|row| row.open()).sum(),
    };
    coverage.insert("open_requests".to_owned(), json!(open));
    coverage.insert("folded_requests".to_owned(), json!(rollup.folded()));
    let total = outcome.total();
    let covered = total.first.zip(total.last);
    let logged = total.within(selection.since, selection.until);
    let folded = rollup.folded_in_words();
    let read = Read { inputs: outcome.inputs, coverage, folded, logged, covered, top: context.settings.top, sort_by };
    let report = report(&clients, &findings, read);
    // Mostly the program ends soon, and giving back row by row what the roll-up holds would take a tenth of the time.
    if !context.is_composing() {
        std::mem::forget(clients);
        std::mem::forget(rollup);
    }
    Ok(Answer::of(report))
}
