//! `--emit flowschema` and `--emit fence`: a fence around clients, and what would have become of the log's requests
//! with it.

use super::analysed::{Analysed, writes_manifests};
use crate::analysis::answer::Answer;
use crate::analysis::clients::named;
use crate::analysis::dims::Dim;
use crate::analysis::flow::Set;
use crate::analysis::flow::fence::{self, Client, Strength};
use crate::analysis::flow::replay::{Batch, Durations, Medians, Observer, Plan, Replay, Replayed, Scenario};
use crate::analysis::flow::report::Proposal;
use crate::analysis::flow::seats::{ServerSeats, nominal};
use crate::analysis::list_route::Minor;
use crate::analysis::traffic::{Plan as Breaking, Query, Traffic};
use crate::cli::{Context, Error};
use crate::inputs::breakdown::Counting;
use crate::inputs::flow::{self, FlowFlags, Matched};
use crate::inputs::log_question::{only_logs, progress};
use crate::inputs::selection::Selection;
use crate::model::event::{Stage, Timed};
use crate::model::question::{Emit, Form};
use crate::model::report::Window;
use crate::model::units::counted;
use crate::sources::arguments::is_url;
use crate::sources::audit::pass::{self, Delivery, Worker};
use crate::sources::find;
use crate::sources::found::LogStream;
use crate::sources::objects::flowcontrol::built_in;
use crate::sources::wanted::Wanted;
use crate::views::objects;
use crate::views::text::plain;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Clients that are fenced unless they are named: who fences more has other problems than these clients.
const WORST: usize = 20;

/// The objects, or a report about them.
pub(super) fn answer(form: Form, analysed: Analysed<'_, '_>, context: &mut Context<'_>) -> Result<Answer, Error> {
    let flags = &analysed.question.emit;
    let cluster = one_cluster(&analysed)?;
    let given = FlowFlags { flow_schemas: flags.flow_schemas.clone() };
    let matched = flow::matched(&given, &analysed.question.sources, context)?;
    let own = built_in().map_err(|error| Error::Input(error.to_string()))?;
    let Some((now, _)) = matched.sets.of(&cluster) else { return Err(Error::Input("no FlowSchemas".to_owned())) };
    let (users, refused) = users(flags, &analysed, &cluster)?;
    let (clients, refused, medians) = fenced(users, refused, &analysed, &cluster, &matched, context)?;
    if clients.is_empty() {
        for (user, why) in &refused {
            context.notice(format!("not throttled: {user}: {why}"))?;
        }
        context
            .notice("no client to throttle: none has a warning or critical finding; choose one with --client USER")?;
        return Ok(Answer::Manifests(String::new()));
    }
    let seats = server_seats(&analysed, &cluster, now);
    let strength = strength(form, flags, &analysed)?;
    let fence = fence::fence(now, &clients, strength).map_err(|why| Error::Usage(why.to_string()))?;
    let then = fence::with(now, &fence, &own);
    let replayed = replay(&analysed, &cluster, (now, &then), (seats, medians), context)?;
    if clients.iter().any(|client| client.requests > 0)
        && !fence.schemas.iter().any(|schema| replayed.has_requests(&then, schema))
    {
        return Err(Error::Usage(format!(
            "--client {}: none of its requests in the log would be throttled: they impersonate another user, or \
             match an earlier FlowSchema",
            plain(&clients.iter().map(|client| client.user.as_str()).collect::<Vec<_>>().join(", "))
        )));
    }
    let span = analysed.clients.span;
    let proposal = Proposal {
        sets: (now, &then),
        fence: &fence,
        clients: &clients,
        refused: &refused,
        seats,
        replayed: &replayed,
        source: source(&matched),
        span: span.1 - span.0,
        ramp: flags.ramp.unwrap_or(0),
    };
    if writes_manifests(context) {
        let opening: String = proposal.opening().into_iter().map(|line| format!("# {line}\n")).collect();
        return Ok(Answer::Manifests(objects::documents(&proposal.manifests()) + &opening));
    }
    let window = Window { seconds: analysed.clients.seconds(), ..Window::of(Some(span)) };
    let mut coverage = Map::new();
    coverage.insert("flow_schemas".to_owned(), matched.coverage.clone());
    coverage.insert("server_seats".to_owned(), json!(seats.in_words()));
    let inputs = analysed.outcome.inputs;
    Ok(Answer::of(proposal.report(inputs, window, coverage)))
}

/// The flags that make no sense together, and inputs that can't be read several times.
pub(super) fn check(form: Form, flags: &Emit, sources: &[String]) -> Result<(), Error> {
    if form == Form::Fence && flags.clients.len() != 1 {
        return Err(Error::Usage("--emit fence applies to one client: give --client USER".to_owned()));
    }
    if form != Form::Fence && flags.ramp.is_some() {
        return Err(Error::Usage("--ramp requires --emit fence".to_owned()));
    }
    let once =
        |source: &&String| Path::new(source.as_str()).metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
    let is_stream = |source: &&String| *source == "-" || is_url(source) || once(source);
    match sources.iter().find(is_stream) {
        Some(source) => Err(Error::Usage(format!(
            "{source}: --emit reads the logs several times, and a pipe can be read once; \
                 write it to a file first"
        ))),
        None => Ok(()),
    }
}

/// A fence is for one cluster.
fn one_cluster(analysed: &Analysed<'_, '_>) -> Result<String, Error> {
    let clusters: BTreeSet<&str> = analysed.clients.list.iter().map(|profile| profile.who.cluster).collect();
    match clusters.len() {
        0 | 1 => Ok(clusters.first().map(|name| (*name).to_owned()).unwrap_or_default()),
        _ => Err(Error::Usage(format!(
            "the logs are of several clusters ({}); choose one with --where cluster=NAME",
            clusters.into_iter().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Whom to fence, and whom not and why.
type Users = (Vec<String>, Refused);

/// Users that are not fenced, and why.
type Refused = Vec<(String, String)>;

/// Those who are named, else those with findings.
fn users(flags: &Emit, analysed: &Analysed<'_, '_>, cluster: &str) -> Result<Users, Error> {
    let risk = |user: &str| {
        let agents = fence::client(analysed.clients, analysed.findings, cluster, user).agents;
        fence::risk(user, &agents).filter(|_| !flags.force)
    };
    if !flags.clients.is_empty() {
        let mut users: Vec<String> = Vec::new();
        for asked in &flags.clients {
            let refused =
                |user: &str, why: &str| Error::Usage(format!("--client {}: not throttled: {why}", plain(user)));
            // Nodes are one client in the profiles: what is refused is refused by its own name.
            if let Some(why) = fence::refusal(asked) {
                return Err(refused(asked, why));
            }
            let user = named::resolve(analysed.clients, asked)
                .map_err(|why| Error::Usage(plain(&format!("--client {asked}: {why}")).into_owned()))?;
            if let Some(why) = fence::refusal(user) {
                return Err(refused(user, why));
            }
            if let Some(what) = risk(user) {
                return Err(refused(
                    user,
                    &format!("it looks like {what}, without which nodes or pods fail; --force overrides this"),
                ));
            }
            if !users.iter().any(|known| known == user) {
                users.push(user.to_owned());
            }
        }
        return Ok((users, Vec::new()));
    }
    let all = fence::culprits(analysed.clients, analysed.findings, cluster);
    let mut refused: Refused = Vec::new();
    let mut users: Vec<String> = Vec::new();
    for user in all {
        let at_risk = || risk(&user).map(|what| format!("it looks like {what}; --force overrides this"));
        match fence::refusal(&user).map(str::to_owned).or_else(at_risk) {
            Some(why) => refused.push((user, why)),
            None => users.push(user),
        }
    }
    if users.len() > WORST {
        let more = counted((users.len() - WORST) as u64, "more client");
        refused.push((
            format!("{more} with findings"),
            format!(
                "only the {WORST} worst are included; --client adds \
             others"
            ),
        ));
        users.truncate(WORST);
    }
    Ok((users, refused))
}

/// What is known of the users, with the FlowSchemas that they match: one more pass.
fn fenced(
    users: Vec<String>,
    mut refused: Refused,
    analysed: &Analysed<'_, '_>,
    cluster: &str,
    matched: &Matched,
    context: &mut Context<'_>,
) -> Result<(Vec<Client>, Refused, Medians), Error> {
    let cluster_only = format!("cluster={cluster}").parse().map_err(Error::usage)?;
    let Selection { since, until, .. } = *analysed.selection;
    let query = Query {
        by: vec![Dim::User, Dim::FlowSchema],
        filters: vec![cluster_only],
        since,
        until,
        flow: Some(Arc::clone(&matched.sets)),
        ..Query::default()
    };
    let plan = Breaking::new(query);
    let mut traffic = Traffic::default();
    let streams = streams(analysed)?;
    let progress = progress(&streams, context);
    let make = || LimitWorker {
        counting: Counting(plan.fold(), None),
        durations: Durations::default(),
        selection: analysed.selection,
    };
    let (workers, _) = pass::run(streams, context.settings.reading(), &progress, make, |delivery| {
        if let Delivery::Block { batch, .. } = delivery {
            traffic.take(batch);
        }
    });
    progress.finish();
    let (folds, durations): (Vec<_>, Vec<_>) =
        workers.into_iter().map(|worker| (worker.counting.0, worker.durations)).unzip();
    let medians = Durations::medians(durations.into_iter());
    let breakdown = traffic.finish(&plan, &folds);
    let rows = breakdown.rows.into_iter().filter_map(|row| {
        let [user, schema]: [String; 2] = row.dims.try_into().ok()?;
        Some((user, schema, row.stats.requests))
    });
    let mut matches = fence::matches(rows);
    let Some((set, _)) = matched.sets.of(cluster) else { return Ok((Vec::new(), refused, medians)) };
    let mut clients = Vec::new();
    for user in users {
        let mut client = fence::client(analysed.clients, analysed.findings, cluster, &user);
        client.matches = matches.remove(&user).unwrap_or_default();
        if client.matches.is_empty() {
            // Nothing is known of it: what an ordinary user or service account would match.
            let name = if user.starts_with("system:serviceaccount:") { "service-accounts" } else { "global-default" };
            client.matches.push((name.to_owned(), 0));
        }
        match fence::fence(set, std::slice::from_ref(&client), Strength { shares: 1, queues: true }) {
            Ok(_) => clients.push(client),
            Err(why) if analysed.question.emit.clients.is_empty() => refused.push((user, why.to_string())),
            Err(why) => return Err(Error::Usage(why.to_string())),
        }
    }
    Ok((clients, refused, medians))
}

/// The logs once more.
fn streams(analysed: &Analysed<'_, '_>) -> Result<Vec<LogStream>, Error> {
    let found = find::find(&analysed.question.sources, Wanted::Logs, 0);
    if found.streams.is_empty() {
        return Err(Error::Input("the logs were deleted while they were read".to_owned()));
    }
    // What the first pass found to be stray.
    let kept = analysed.outcome.total().days.kept().within(analysed.selection.since, analysed.selection.until);
    only_logs(&found.streams, "requests that match a throttled level")?;
    Ok(found.streams.into_iter().map(|stream| LogStream { kept: kept.clone(), ..stream }).collect())
}

fn strength(form: Form, flags: &Emit, analysed: &Analysed<'_, '_>) -> Result<Strength, Error> {
    if flags.shares == Some(0) && analysed.clients.server.is_some_and(|server| server < Minor(29)) {
        return Err(Error::Usage("--shares 0: before Kubernetes 1.29 a priority level has at least 1".to_owned()));
    }
    // Without any seat a client can't even show that it has been mended: that has to be asked for.
    Ok(match form {
        Form::Flowschema => Strength { shares: flags.shares.unwrap_or(5), queues: true },
        _ => Strength { shares: flags.shares.unwrap_or(1), queues: false },
    })
}

/// The apiservers' seats: as given, else the smallest number that an apiserver's metrics show, else the default.
fn server_seats(analysed: &Analysed<'_, '_>, cluster: &str, set: &Set) -> ServerSeats {
    let reported = || ServerSeats::of_facts(analysed.facts, cluster, &set.levels);
    analysed.question.emit.server_seats.map(ServerSeats::Given).or_else(reported).unwrap_or(ServerSeats::Default)
}

/// Counts by user and FlowSchema, and how long requests last.
struct LimitWorker<'p> {
    counting: Counting<'p>,
    durations: Durations,
    selection: &'p Selection,
}

impl Worker for LimitWorker<'_> {
    type Batch = <Counting<'static> as Worker>::Batch;
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.selection.is_within(&event) {
            self.durations.event(&event);
        }
        self.counting.event(event);
    }
    fn flush(&mut self) -> Self::Batch {
        self.counting.flush()
    }
}

/// The observer of analysis as a worker of the source's pass.
struct Replaying<'p> {
    observer: Observer<'p>,
    selection: &'p Selection,
}

impl Worker for Replaying<'_> {
    type Batch = Batch;
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.selection.is_within(&event) {
            self.observer.event(event);
        }
    }
    fn flush(&mut self) -> Batch {
        self.observer.flush()
    }
}

/// Serves the log's requests without the fence and with it.
fn replay(
    analysed: &Analysed<'_, '_>,
    cluster: &str,
    (now, then): (&Set, &Set),
    (seats, medians): (ServerSeats, Medians),
    context: &mut Context<'_>,
) -> Result<Replayed, Error> {
    let of = |set: &Set| set.levels.iter().map(|level| nominal(seats.number(), level, &set.levels)).collect();
    let scenarios = vec![Scenario { proposed: false, seats: of(now) }, Scenario { proposed: true, seats: of(then) }];
    let has_starts = analysed.outcome.total().events.iter().any(|stages| stages[Stage::ResponseStarted as usize] > 0);
    let plan = Plan::new(now.clone(), then.clone(), cluster.to_owned(), medians, has_starts);
    let mut replay = Replay::new(&plan, scenarios);
    let streams = streams(analysed)?;
    let progress = progress(&streams, context);
    let make = || Replaying { observer: plan.observer(), selection: analysed.selection };
    pass::run(streams, context.settings.reading(), &progress, make, |delivery| {
        if let Delivery::Block { batch, .. } = delivery {
            replay.take(batch);
        }
    });
    progress.finish();
    let replayed = replay.finish();
    if replayed.unseen > 0 {
        context
            .notice("the log lacks the starts of watches (stage ResponseStarted): they are left out of the replay")?;
    }
    Ok(replayed)
}

/// Where the FlowSchemas come from, in words.
fn source(matched: &Matched) -> String {
    let paths: Vec<&str> = matched.coverage["sets"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|set| set["paths"].as_array().into_iter().flatten())
        .filter_map(Json::as_str)
        .collect();
    match paths.is_empty() {
        true => "the defaults of kube-apiserver 1.36, as none were found (--flow-schemas gives others)".to_owned(),
        false => paths.join(", "),
    }
}
