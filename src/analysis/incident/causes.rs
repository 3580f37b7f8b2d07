//! What may have caused an episode, in words: each feature that moved a candidate is a piece of evidence, with its
//! numbers.

use super::answers::Answers;
use super::steps::steps;
use super::suspects::{Line, Suspect};
use crate::analysis::dims::{short_user, shown_user};
use crate::analysis::judge::Episode;
use crate::analysis::judge::candidates::{Candidate, ETCD_SLOW_MS, Feature, SLOWEST, WEBHOOK_SLOW_MS};
use crate::analysis::judge::requests::IN_NAMESPACE;
use crate::analysis::judge::vitals::Start;
use crate::analysis::judge::weights::weight;
use crate::model::cause::{Cause, Evidence, Source};
use crate::model::incident::change;
use crate::model::time::clock;
use crate::model::units::{counted, percent, significant};

/// Less than this of log-odds is not worth a line.
const MIN_WEIGHT: f64 = 0.15;
/// Without anything that speaks for it, a candidate is no more than a name.
const UNSUPPORTED: f64 = 0.05;
/// Candidates that are kept.
const CANDIDATES: usize = 12;

/// What words are made of.
#[derive(Clone, Copy)]
pub struct Words<'w> {
    pub episode: &'w Episode,
    /// Who asked for more in it.
    pub suspects: &'w [Suspect],
    /// What other questions came to.
    pub answers: &'w Answers,
    /// What was read, as the words of a command.
    pub sources: &'w str,
    /// Which kinds of sources were read.
    pub read: &'w [Source],
}

/// `LIST pods`, `create events`; nothing that is not named.
pub fn request(line: &Line) -> String {
    let [verb, _, resource, subresource] = &line.what;
    let slash = match subresource.as_str() {
        "" => "",
        IN_NAMESPACE => " ",
        _ => "/",
    };
    let what = if resource.is_empty() { "other paths" } else { resource };
    let verb = if verb == "list" { "LIST" } else { verb };
    format!("{verb} {what}{slash}{subresource}")
}

/// A client that sends fewer requests than so many times its baseline did not add load by their number.
const MORE_TIMES: f64 = 1.1;
/// From this part on what a client added is mostly what others did about it.
const MOSTLY: f64 = 0.5;
/// From here on load is as before, by how flat it is.
const AS_BEFORE: f64 = 0.75;

/// `node-agent (monitoring:node-agent)`; apiservers do not know the user of what they answer with 401.
pub fn name(who: &[String; 2]) -> String {
    let user = shown_user(short_user(&who[0]));
    if who[1].is_empty() { user.to_owned() } else { format!("{} ({user})", who[1]) }
}

/// What kinds of sources would show that others don't.
fn missing(source: Source) -> &'static str {
    match source {
        Source::Audit => "audit logs: who sent the requests, and what people did",
        Source::Metrics => {
            "metrics: whether apiservers restarted or rejected requests, and how fast etcd and webhooks were"
        }
        Source::Etcd => "a database of etcd: what filled the key space",
        Source::Cgroup => "memory.stat of the apiservers' cgroups: whether memory was short, and of what",
        Source::Heap => "heap profiles: what the apiservers held in memory",
        Source::Objects => "Kubernetes objects: owners, quotas, webhooks",
    }
}

/// Logarithm of how many times more watches start, from which on clients connect again.
const MORE_WATCHES: f64 = 0.7;
/// Logarithm of how many times longer writes take, from which on they are slow.
const SLOWER: f64 = 0.4;
/// Restarts that a sentence names.
const STARTS_NAMED: usize = 4;

/// A feature that goes up to `most`: what is more is not told apart.
fn capped(value: f64, most: f64) -> String {
    let more = if value >= most { " or more" } else { "" };
    format!("{}{more}", percent(value))
}

/// The causes of an episode, likeliest first.
pub fn causes(words: Words<'_>) -> Vec<Cause> {
    let mut all: Vec<Cause> =
        words.episode.causes.iter().take(CANDIDATES).map(|candidate| cause(words, candidate)).collect();
    // Those for which nothing speaks are behind the others.
    all.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    all
}

fn cause(words: Words<'_>, candidate: &Candidate) -> Cause {
    let (mut supports, mut contradicts) = (Vec::new(), Vec::new());
    for feature in &candidate.features {
        let moves = weight(candidate.kind, feature.name) * feature.value;
        if moves.abs() < MIN_WEIGHT {
            continue;
        }
        let Some(text) = evidence(words, candidate, feature) else { continue };
        let one = Evidence { text, source: feature.source, weight: moves };
        if moves > 0.0 { supports.push(one) } else { contradicts.push(one) }
    }
    let strongest = |a: &Evidence, b: &Evidence| b.weight.abs().total_cmp(&a.weight.abs());
    supports.sort_by(strongest);
    contradicts.sort_by(strongest);
    let is_name = supports.is_empty();
    let capped = |confidence: f64| if is_name { confidence.min(UNSUPPORTED) } else { confidence };
    let confidence = capped(candidate.confidence);
    let (now, later) = steps(words.sources, words.read, words.answers, candidate);
    let missing = Source::ALL.into_iter().filter(|source| !words.read.contains(source)).map(missing);
    Cause {
        kind: candidate.kind,
        subject: subject(candidate),
        summary: summary(words, candidate),
        confidence,
        confidence_if_complete: capped(candidate.confidence_if_complete()),
        features: candidate.features.iter().map(|own| (own.name, own.value)).collect(),
        supports,
        contradicts,
        missing: missing.map(str::to_owned).collect(),
        now,
        later,
        manifests: Vec::new(),
    }
}

fn subject(candidate: &Candidate) -> Vec<(&'static str, String)> {
    let mut subject = Vec::new();
    if let Some([user, agent]) = &candidate.caller {
        subject.push(("user", user.clone()));
        subject.push(("agent", agent.clone()));
    }
    if let Some(name) = &candidate.name {
        let field = match candidate.kind {
            "webhook-drag" => "webhook",
            "memory" => "cgroup",
            "api-unavailable" => "api_group",
            "controllers-down" => "controller",
            "writes-refused" => "rule",
            "request-surge" | "expensive-lists" => "request",
            _ => "instance",
        };
        subject.push((field, name.clone()));
    }
    subject
}

fn suspect<'w>(words: Words<'w>, candidate: &Candidate) -> Option<&'w Suspect> {
    let who = candidate.caller.as_ref()?;
    words.suspects.iter().find(|suspect| suspect.who == *who)
}

fn summary(words: Words<'_>, candidate: &Candidate) -> String {
    let named = |what: &str| candidate.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| what.to_owned());
    match candidate.kind {
        "client-surge" | "write-burst" => {
            let Some(suspect) = suspect(words, candidate) else { return "a client sent more requests".to_owned() };
            let (who, reactions) = (name(&suspect.who), candidate.feature("reactions"));
            let is_more = suspect.times().is_none_or(|times| times >= MORE_TIMES);
            if !is_more && reactions >= MOSTLY * candidate.feature("share") {
                return format!(
                    "{who} wrote objects that the control plane sent {} of the added load for",
                    percent(reactions)
                );
            }
            let what = suspect.lines.first().map_or_else(|| "requests".to_owned(), request);
            if let (false, Some(line)) = (is_more, suspect.lines.first()) {
                return format!("{who} sent costlier requests: {what} {}", change(line.rps));
            }
            let times = match suspect.times() {
                Some(times) if times < 1000.0 => format!("{} times its baseline rate", significant(times)),
                // Without another time nothing is known of before.
                _ if words.episode.counted[1].is_empty() => format!("{}/s", significant(suspect.rps[1])),
                _ => format!("{}/s (none before)", significant(suspect.rps[1])),
            };
            format!("{who} sent requests at {times}, mostly {what}")
        }
        "expensive-lists" => {
            let clients = counted(candidate.feature("callers") as u64, "client");
            format!("LISTs of {} increased, sent by {clients}", named("one resource"))
        }
        "request-surge" if candidate.feature("unlogged") > 0.0 => {
            format!("{} increased; the audit policy leaves them out, so nobody can be named", named("requests"))
        }
        "request-surge" => format!("{} increased; audit logs would show who sends them", named("requests")),
        "load-surge" => "most clients sent more requests than before".to_owned(),
        "slow-etcd" if candidate.feature("member_alone") > 0.0 => {
            format!("the member {} of etcd restarted or did not answer", named("of several"))
        }
        "slow-etcd" if candidate.feature("store_full") > 0.0 => {
            "etcd refused writes: its database reached its quota (NOSPACE)".to_owned()
        }
        "slow-etcd" if candidate.feature("defragmented") > 0.0 => {
            format!("{} answered nothing while it was defragmented", named("etcd"))
        }
        "slow-etcd" if candidate.feature("etcd_away") > 0.0 => "etcd restarted or did not answer".to_owned(),
        "slow-etcd" if candidate.feature("leader") > 0.0 => "etcd lost or changed its leader".to_owned(),
        "slow-etcd" if candidate.feature("writes_stop") > 0.0 => "etcd stalled or was very slow".to_owned(),
        "slow-etcd" if candidate.feature("named") > 0.5 && candidate.feature("drag_writes") < SLOWER => {
            "requests failed because etcd could not be reached, or did not answer in time".to_owned()
        }
        "slow-etcd" => "etcd was slow".to_owned(),
        "webhook-drag"
            if candidate.feature("webhook_errors") > 0.0
                || candidate.feature("failing").max(candidate.feature("named") * 0.5) > 0.2 =>
        {
            format!(
                "{} failed",
                candidate
                    .name
                    .as_ref()
                    .map_or_else(|| "an admission webhook".to_owned(), |name| format!("the admission webhook {name}"),)
            )
        }
        "webhook-drag" => match &candidate.name {
            Some(name) => format!("requests waited for the admission webhook {name}"),
            None => "requests waited for an admission webhook".to_owned(),
        },
        "api-unavailable" => {
            format!("the API group {} was unavailable, others were not", named("of another server"))
        }
        "relist-storm" => match words.episode.starts.first() {
            Some(_) => {
                let mut all: Vec<(&str, Vec<String>)> = Vec::new();
                for start in starts_of(words.episode, candidate.name.as_deref()).take(STARTS_NAMED) {
                    match all.iter_mut().find(|own| own.0 == start.instance) {
                        Some(own) => own.1.push(clock(start.at)),
                        None => all.push((&start.instance, vec![clock(start.at)])),
                    }
                }
                let named = |name: &str| if name.is_empty() { "an apiserver".to_owned() } else { name.to_owned() };
                let all: Vec<String> =
                    all.iter().map(|own| format!("{} restarted at {}", named(own.0), own.1.join(", "))).collect();
                format!("{}, and its clients reconnected", all.join(", "))
            }
            // The clients of one that stood still wait, and stay.
            None if candidate.feature("away").max(candidate.feature("stood_still")) > 0.0
                && candidate.feature("watches") < MORE_WATCHES =>
            {
                format!("{} did not answer", named(apiservers(candidate)))
            }
            None if candidate.feature("all_away") > 0.0 => {
                "the apiservers were unavailable or restarted, and their clients reconnected".to_owned()
            }
            None => format!("{} was unavailable or restarted, and its clients reconnected", named("an apiserver")),
        },
        "cascade-delete" => {
            let who = candidate.caller.as_ref().map_or_else(|| "somebody".to_owned(), name);
            format!("{who} deleted objects, and controllers deleted what belonged to them")
        }
        "imbalance" => format!("{} received more of the requests than the others", named("one apiserver")),
        "nodes-lost" => {
            let nodes = counted(candidate.feature("nodes") as u64, "node");
            format!("the kubelets of {nodes} did not answer, and the nodes were marked NotReady")
        }
        "writes-refused" => match candidate.caller.as_ref() {
            Some(who) => format!("{} changed rules that refuse writes of many clients{}", name(who), rule(candidate)),
            None if candidate.name.is_some() => format!("a rule refused writes of many clients{}", rule(candidate)),
            None => "rules of the cluster refused writes of many clients (400, 403, 422)".to_owned(),
        },
        "credentials-invalid" => {
            "requests of many clients had no valid credentials (401): a key, a certificate or their tokens changed \
             or expired"
                .to_owned()
        }
        "encryption-failing" => {
            "what is stored encrypted could not be read or written: the key service (KMS) failed, or a key is missing"
                .to_owned()
        }
        "too-few-seats" => {
            let what = match () {
                () if candidate.feature("throttled_flat") > 0.0 => "requests were throttled (429)",
                () if candidate.feature("queued_flat").max(candidate.feature("queued_alone")) > 0.0 => {
                    "requests waited in queues"
                }
                () => "requests took longer",
            };
            match candidate.caller.as_ref().map(name) {
                Some(who) => format!("{what} after {who} changed priority and fairness"),
                None if candidate.feature("flat") < AS_BEFORE => {
                    format!("{what}: a priority level has too few seats for what is asked for")
                }
                None => format!("{what} though load was as before: a priority level has too few seats"),
            }
        }
        "apiserver-slow" => format!("{} was slow, the others were not", named("one apiserver")),
        "controllers-down" => {
            let what = if candidate.feature("unbound") > 0.0 { "bound no pods" } else { "sent no requests" };
            let who = named("a controller");
            let it = if who.contains(" and ") { "they" } else { "it" };
            format!("{who} {what} under its own name: {it} had stopped, could not connect, or had other credentials")
        }
        "memory" => format!("the cgroup of {} ran out of memory", named("an apiserver")),
        other => other.to_owned(),
    }
}

fn evidence(words: Words<'_>, candidate: &Candidate, feature: &Feature) -> Option<String> {
    let value = feature.value;
    let times = |value: f64| significant(value.exp());
    Some(match (candidate.kind, feature.name) {
        ("client-surge" | "write-burst", "share") => {
            let line = suspect(words, candidate).and_then(|own| own.lines.first()).filter(|line| line.added > 0.0);
            let what = line.map_or_else(String::new, |line| {
                format!(
                    ": {}, {}, each {} ms at baseline",
                    request(line),
                    change(line.rps),
                    significant(line.price * 1e3)
                )
            });
            let reactions = candidate.feature("reactions");
            let with = if reactions >= 0.01 {
                format!(
                    " ({} of it is what the control plane did about objects that it wrote)",
                    percent(reactions / value)
                )
            } else {
                String::new()
            };
            format!("caused {} of the added load{with}{what}", percent(value))
        }
        (_, "leads") => "no client added more load".to_owned(),
        (_, "grown") => format!("request time rose, {} of the rise by this client", percent(value)),
        (_, "share_rps") => format!("sent {} of the added requests", percent(value)),
        // The feature is damped where there were hardly any before: for people what was counted.
        (_, "times") => match suspect(words, candidate) {
            Some(own) => format!("requests: {}", change(own.rps)),
            None => format!("requests rose to {} times their baseline", times(value)),
        },
        (_, "size") => format!("added requests equal {} of all requests at baseline", capped(value, 3.0)),
        (_, "onset") => "rose when the episode began".to_owned(),
        (_, "throttled") => format!("{} of its requests were throttled (429)", percent(value)),
        (_, "control_plane") => "part of the control plane or a kubelet, which mostly react to others".to_owned(),
        ("request-surge" | "expensive-lists", "share") => {
            let what = candidate.name.as_deref().unwrap_or("these requests");
            format!("{} of the added load is {what}", percent(value))
        }
        (_, "load") => format!("requested work grew by {}: more load on etcd", capped(value, 3.0)),
        (_, "growth") => format!("requested work grew by {}", capped(value, 4.0)),
        (_, "top") => format!("one client caused {} of the added load", percent(value)),
        ("client-surge" | "write-burst", "breadth") => {
            format!("other clients rose too: those with {} of the requests at baseline sent more", percent(value))
        }
        ("request-surge", "breadth") => {
            format!("request types with {} of the baseline requests rose", percent(value))
        }
        (_, "breadth") => format!("clients with {} of the baseline requests sent more", percent(value)),
        ("slow-etcd" | "webhook-drag", "flat") => "requested work hardly grew".to_owned(),
        (_, "flat") => "total requested work hardly grew".to_owned(),
        (_, "drag_writes") => format!("writes take {} times as long as in quiet intervals", times(value)),
        ("webhook-drag", "drag_reads") => {
            format!("reads, which call no webhook, take {} times as long as in quiet intervals", times(value))
        }
        (_, "drag_reads") => format!("reads take {} times as long as in quiet intervals", times(value)),
        (_, "breadth_writes") => format!("{} of the writes are of types that became much slower", percent(value)),
        (_, "narrow") if value < 0.5 => "slow writes concentrate a little on one resource".to_owned(),
        (_, "narrow") => "slow writes concentrate on one resource".to_owned(),
        (_, "failing") => format!("{} of the writes of one resource fail, reads do not", percent(value)),
        (_, "narrow_errors") => "failed writes concentrate on one resource".to_owned(),
        ("relist-storm", "writes_stop") => "writes stopped on all apiservers, not on one".to_owned(),
        (_, "writes_stop") => "hardly any write completed for a time".to_owned(),
        (_, "spent_etcd") => format!("slow requests spent {} of their time in etcd", percent(value)),
        (_, "spent_webhook") => format!("slow requests spent {} of their time in webhooks", percent(value)),
        (_, "etcd_requests") => format!("requests from apiservers to etcd take {} times their baseline", times(value)),
        (_, "etcd_requests_slow") => {
            format!("requests from apiservers to etcd take {} on average", milliseconds(value, ETCD_SLOW_MS))
        }
        (_, "etcd_disk") => format!("etcd's commits or log writes take {} times their baseline", times(value)),
        (_, "leader") => "etcd's leader was lost or changed".to_owned(),
        (_, "defragmented") => "etcd was defragmented for a second or longer".to_owned(),
        ("slow-etcd", "member_alone") => "users hardly noticed it: the other members went on".to_owned(),
        (_, "store_full") => "etcd's database reached its quota, and writes failed".to_owned(),
        (_, "etcd_away") => "etcd restarted, or its metrics could not be read".to_owned(),
        (_, "webhook_times") => format!("the webhook takes {} times its baseline", times(value)),
        (_, "webhook_slow") => format!("the webhook takes {} on average", milliseconds(value, WEBHOOK_SLOW_MS)),
        (_, "webhook_errors") => "calls of the webhook failed".to_owned(),
        (_, "etcd_fast") => "etcd answered the apiservers as fast as before".to_owned(),
        (_, "webhook_fast") => "admission webhooks answered as fast as before".to_owned(),
        (_, "no_webhook") => "no admission webhook was called".to_owned(),
        (_, "one_group") => format!("{} of the failures are of this API group, reads too", percent(value)),
        (_, "others_fail") => format!("{} of all other requests failed, too", percent(value)),
        (_, "api_alone") => "nothing else is wrong".to_owned(),
        (_, "leases_failing") => format!("{} of the writes of leases fail, which call no webhook", percent(value)),
        (_, "one_apiserver") => "one apiserver is much slower than the others".to_owned(),
        (_, "api_unavailable") => "its APIService was unavailable".to_owned(),
        ("slow-etcd", "elsewhere") => "slow requests were hardly in etcd, by their annotations".to_owned(),
        (_, "elsewhere") => "slow requests were hardly in webhooks, by their annotations".to_owned(),
        (_, "named") => format!("{} of the failed requests whose message names a part of it name this", percent(value)),
        (_, "named_other") => format!("the messages of {} of them name another part", percent(value)),
        (_, "unauthorized") => format!("{} of the requests were answered with 401", percent(value)),
        ("writes-refused", "refused") => {
            format!("{} of the writes were refused, leases and events not counted", percent(value))
        }
        ("writes-refused", "rules_changed") => {
            "policies, webhooks, roles or quotas were written as it began, or shortly before".to_owned()
        }
        ("apiserver-slow" | "too-few-seats", "away") => "an apiserver was away".to_owned(),
        ("imbalance", "away") => "another apiserver was unavailable, and the others took over its load".to_owned(),
        (_, "away") => {
            let name = candidate.name.as_deref().unwrap_or("one apiserver");
            format!("{name} answered hardly any requests for some time, while others did")
        }
        (_, "started") => match starts_of(words.episode, candidate.name.as_deref()).next() {
            Some(start) => format!("its process started at {}", clock(start.at)),
            None => "its process started".to_owned(),
        },
        ("client-surge" | "write-burst", "began_late") => "requests suffered before this load began".to_owned(),
        (_, "began_late") => "the episode began before the restart".to_owned(),
        (_, "none_started") => "no apiserver started in the episode or the two minutes before".to_owned(),
        (_, "watches") => format!("watches began at {} times their baseline rate", times(value)),
        (_, "watchers") => format!("{} of the clients began watches", percent(value)),
        (_, "objects") if value >= 2.0 => "1,000 objects or more were deleted with it".to_owned(),
        (_, "objects") => format!("{:.0} objects were deleted with it", value * 500.0),
        (_, "deletes") => format!("{} of the added load is deletions by controllers", percent(value)),
        ("nodes-lost", "late") => "the episode began before the nodes were lost".to_owned(),
        ("nodes-lost", "impact") => "requests suffered too: kubelets may be cut off by the control plane".to_owned(),
        (_, "reads_fail") => {
            format!("{} of the reads of this resource fail, too, which call no webhook", percent(value))
        }
        (_, "stood_still") => {
            "nothing was answered for a time, not even what needs no etcd (reviews, health checks)".to_owned()
        }
        (_, "no_slower") => "what was served took no longer than before".to_owned(),
        (_, "throttled_flat") => "requests were throttled, though hardly more work was requested".to_owned(),
        (_, "one_caller") => format!("{} of the throttled requests are of one client", percent(value)),
        (_, "queued_alone") => {
            "slow requests spent their time in priority-and-fairness queues, hardly any in etcd or webhooks".to_owned()
        }
        (_, "queued_flat") => "requests waited longer in queues, though hardly more work was requested".to_owned(),
        (_, "limits_changed") => "a FlowSchema or PriorityLevelConfiguration was changed".to_owned(),
        (_, "one_slower") => format!("its requests took {} times as long as before", times(value)),
        (_, "rest_slower") => format!("requests to the others took {} times as long, too", times(value)),
        (_, "load_here") => format!("the work asked of it grew by {}", capped(value, 0.5)),
        (_, "unbound") => {
            "pods were created, none was bound to a node, and hardly any had its status written".to_owned()
        }
        (_, "silent") => "it did not even renew its lease, or ask for it".to_owned(),
        ("controllers-down", "late") => "the episode began before it stopped".to_owned(),
        ("controllers-down", "impact") => "requests suffered too, and it ends when it can't renew its lease".to_owned(),
        ("nodes-lost", "marked") => {
            format!("the node controller marked {:.0} nodes NotReady", candidate.feature("nodes"))
        }
        (_, "late") => "it happened after the episode began".to_owned(),
        (_, "spent_queue") => {
            format!("slow requests spent {} of their time in priority-and-fairness queues", percent(value))
        }
        (_, "moved") => "the requested work hardly grew, but more of it arrived here".to_owned(),
        (_, "nearly_all") => "nearly all clients sent more".to_owned(),
        (_, "shift") => format!("its share of all requests rose by {}", percent(value)),
        (_, "skew") => format!("it received {} more than an even share", percent(value)),
        ("relist-storm", "killed") => "the kernel killed it because it ran out of memory (OOM): that is why it \
             restarted"
            .to_owned(),
        (_, "killed") => "the kernel killed one of its processes because memory ran out (OOM)".to_owned(),
        (_, "no_audit") => "audit logs are missing: they might show another cause".to_owned(),
        (_, "no_metrics") => "metrics are missing: they might show another cause".to_owned(),
        (_, "only_away") => "no request was slow or failed beyond that an apiserver was away".to_owned(),
        (_, "full") => "its memory was near the limit".to_owned(),
        _ => return None,
    })
}

/// A mean that stands in a feature in such a unit, which counts no further than [`SLOWEST`] of them.
fn milliseconds(value: f64, unit: f64) -> String {
    let more = if value >= SLOWEST { " or more" } else { "" };
    format!("{} ms{more}", significant(value * unit))
}

/// `: require-cost-center`; nothing where none is named.
fn rule(candidate: &Candidate) -> String {
    candidate.name.as_ref().map_or_else(String::new, |name| format!(": {name}"))
}

/// One apiserver without a name, or all of several.
fn apiservers(candidate: &Candidate) -> &'static str {
    if candidate.feature("all_away") > 0.0 { "the apiservers" } else { "an apiserver" }
}

/// Starts of apiservers in an episode in order of time, those of the one that is named before others.
fn starts_of<'e>(episode: &'e Episode, name: Option<&str>) -> impl Iterator<Item = &'e Start> {
    let mut all: Vec<&Start> = episode.starts.iter().collect();
    all.sort_by_key(|start| (name != Some(start.instance.as_str()), start.at));
    all.into_iter()
}
