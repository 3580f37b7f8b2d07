//! Causes that are somebody's requests: a client that asks for more, LISTs, writes, what follows a deletion.

use super::super::suspects::{Line, Suspect, added, added_by, is_control_plane};
use super::super::timeline::name;
use super::{Case, Draft, OF_A_KIND, WITH, named};
use crate::analysis::compare::noise::{Measured, Verdict};
use crate::analysis::compare::{self, Area};
use crate::analysis::dims::{account, short_user};
use crate::analysis::flow::fence::{refusal, risk};
use crate::model::incident::{Source, change, quote};
use crate::model::report::{Finding, Severity};
use crate::model::time::{Micros, SECOND, clock};
use crate::model::units::{counted, percent, significant};

/// A part of the added work below this is nobody's incident.
const SMALL: f64 = 0.05;
/// Who added less was not alone.
const LITTLE: f64 = 0.2;
/// A cascade of fewer objects is small.
const MANY: f64 = 20.0;

/// `LIST pods`, `create events`; nothing that is not named.
pub fn request(line: &Line) -> String {
    let [verb, _, resource, subresource] = &line.what;
    let slash = if subresource.is_empty() { "" } else { "/" };
    let what = if resource.is_empty() { "other paths" } else { resource };
    let verb = if verb == "list" { "LIST" } else { verb };
    format!("{verb} {what}{slash}{subresource}")
}

/// Findings on a client within the window.
fn findings_on<'k>(case: &Case<'k>, who: &'k [String; 2]) -> impl Iterator<Item = &'k Finding> {
    let all = case.known.answers.findings("clients").filter(|finding| finding.severity >= Severity::Warning);
    all.filter(move |finding| {
        let is = |field: &str, value: &str| finding.subject.get(field).is_some_and(|own| own == value);
        is("user", &who[0]) && (is("agent", &who[1]) || !finding.subject.contains_key("agent"))
    })
}

/// Clients that ask for more than before.
pub(super) fn surges(case: &Case<'_>) -> Vec<Draft> {
    named(case).filter(|suspect| suspect.share >= SMALL).take(OF_A_KIND).map(|suspect| surge(case, suspect)).collect()
}

fn surge(case: &Case<'_>, suspect: &Suspect) -> Draft {
    let [user, agent] = &suspect.who;
    let who = name(&suspect.who);
    let most = suspect.lines.first().filter(|line| line.added > 0.0);
    let what = most.map_or_else(|| "requests".to_owned(), request);
    let times = match suspect.times() {
        Some(times) => format!("{} times as many requests as before", significant(times)),
        None => format!("{} requests a second, and none before", significant(suspect.rps[1])),
    };
    let summary = format!("{who} sent {times}, mostly {what}");
    let mut draft = Draft::new("client-surge", vec![("user", user.clone()), ("agent", agent.clone())], summary);
    let price = most.map_or_else(String::new, |line| {
        let each = if line.price > 0.0 {
            format!(", each {} ms of work in calm times", significant(line.price * 1e3))
        } else {
            String::new()
        };
        format!(": {what}, {}{each}", change(line.rps))
    });
    let share = format!("{} of the work that came on top with the incident is its{price}", percent(suspect.share));
    draft.says(Source::Audit, 3.0 * suspect.share, share);
    if suspect.share < LITTLE {
        draft.says(Source::Audit, if suspect.share < LITTLE / 2.0 { -1.5 } else { -0.75 }, "others added much more");
    }
    let is_it = |row: &&compare::Row| {
        let is = |field: &str, value: &str| row.pair.field(field) == value;
        row.pair.area == Area::Clients && row.pair.metric == "rps" && is("user", user) && is("agent", agent)
    };
    if let Some(row) = case.known.answers.changes.iter().find(is_it) {
        let low = row.bounds.map_or_else(String::new, |(low, _)| format!(", at least {} times", significant(low)));
        match row.verdict {
            Verdict::Up => draft.says(
                Source::Audit,
                1.0,
                format!("its rate rose beyond what chance explains{low} (95 % confidence for all clients at once)"),
            ),
            Verdict::New => draft.says(Source::Audit, 1.0, "it was not there before"),
            Verdict::Noise => {
                draft.says(Source::Audit, -0.5, "its rate goes up and down so much on its own that this may be chance")
            }
            Verdict::Unsure => draft.says(
                Source::Audit,
                -0.25,
                "its rate rose for too short a time, or in too few bursts, to rule out chance",
            ),
            _ => {}
        }
    }
    let mut found: Vec<&Finding> = findings_on(case, &suspect.who).collect();
    found.sort_by(|a, b| a.graver(b));
    for finding in found.iter().take(3) {
        draft.says(Source::Audit, 0.5, finding.summary.clone());
    }
    when(case, suspect, &mut draft);
    if suspect.is_control_plane() {
        draft.says(
            Source::Audit,
            -2.5,
            "it is a part of the control plane, or a kubelet: it mostly does what others make it do",
        );
    }
    draft.cause.now.extend(slow_down(user, &case.sources));
    draft.cause.later.extend(found.iter().take(3).map(|finding| finding.remedy.clone()));
    draft.cause.later.dedup();
    draft
}

/// Whether it began and ended with the window.
fn when(case: &Case<'_>, suspect: &Suspect, draft: &mut Draft) {
    let Some((from, to)) = suspect.rose else { return };
    let late = from - case.window.0;
    let seconds = |micros: Micros| format!("{:.0}", micros as f64 / SECOND as f64);
    let beside = |late: Micros| match late {
        0 => "with the incident".to_owned(),
        1.. => format!("{} s after the incident did", seconds(late)),
        _ => format!("{} s before the incident did", seconds(-late)),
    };
    let weight = match late {
        _ if late.abs() <= WITH => 0.75,
        1.. => -1.0,
        _ => -0.25,
    };
    draft.says(Source::Audit, weight, format!("it began at {}, {}", clock(from), beside(late)));
    if (to - case.window.1).abs() <= WITH {
        draft.says(Source::Audit, 0.5, format!("it ended at {}, {}", clock(to), beside(to - case.window.1)));
    } else if to > case.window.1 + WITH {
        draft.says(Source::Audit, -0.5, format!("it went on until {}, when the incident was over", clock(to)));
    }
}

/// What to do about a client while it goes on.
fn slow_down(user: &str, sources: &str) -> Vec<String> {
    let mut steps = Vec::new();
    if let Some((namespace, account)) = account(user) {
        steps.push(format!(
            "find what runs as {}, and scale that down or roll it back: kubectl get pods -n {} --field-selector spec.serviceAccountName={}",
            short_user(user),
            quote(namespace),
            quote(account)
        ));
    }
    if refusal(user).or(risk(user, &[])).is_some() {
        return steps;
    }
    steps.push(format!(
        "fence {} off meanwhile, so that nobody else waits: plimsoll clients {sources} --emit fence --client {}",
        short_user(user),
        quote(user)
    ));
    steps
}

/// Without audit logs: a kind of request that nobody can be named for.
pub(super) fn requests(case: &Case<'_>) -> Vec<Draft> {
    let unnamed = case.known.suspects.iter().filter(|suspect| suspect.who[0].is_empty());
    let Some(line) = unnamed.flat_map(|suspect| suspect.lines.first().map(|line| (suspect, line))).next() else {
        return Vec::new();
    };
    let (suspect, line) = line;
    if line.added <= 0.0 {
        return Vec::new();
    }
    let share = line.added / suspect.added;
    let what = request(line);
    let summary = format!("{what} rose, {}; who sent them is not known without audit logs", change(line.rps));
    let subject =
        vec![("verb", line.what[0].clone()), ("group", line.what[1].clone()), ("resource", line.what[2].clone())];
    let mut draft = Draft::new("request-surge", subject, summary);
    draft.says(
        Source::Metrics,
        3.0 * share,
        format!("{} of the work that came on top with the incident is theirs", percent(share)),
    );
    draft.cause.now.push(
        "turn on audit logging at level Metadata, and look who it is: plimsoll traffic AUDIT --by user,agent"
            .to_owned(),
    );
    draft.cause.now.push("see who holds the seats of API Priority and Fairness: plimsoll clients --seats".to_owned());
    vec![draft]
}

/// LISTs of one resource.
pub(super) fn lists(case: &Case<'_>) -> Vec<Draft> {
    let all = added(case.known.suspects);
    let source = source_of(case);
    let of = |line: &Line| (line.what[0] == "list").then(|| (line.what[1].clone(), line.what[2].clone()));
    let Some(((group, resource), added, rps)) = added_by(case.known.suspects, of).into_iter().next() else {
        let mut draft = Draft::new("expensive-lists", Vec::new(), "LISTs were too many or too large".to_owned());
        draft.says(source, -1.0, "LISTs did not rise");
        return vec![draft];
    };
    let share = if all > 0.0 { added / all } else { 0.0 };
    let summary = format!("LISTs of {resource} rose, {}", change(rps));
    let mut draft = Draft::new("expensive-lists", vec![("group", group), ("resource", resource.clone())], summary);
    if share >= SMALL {
        draft.says(
            source,
            2.5 * share,
            format!("{} of the work that came on top with the incident is LISTs of {resource}", percent(share)),
        );
    } else {
        draft.says(
            source,
            -1.5,
            format!("LISTs of {resource}, which rose most, are only {} of the work that came on top", percent(share)),
        );
    }
    let dear =
        ["client-full-list", "client-fan-out", "client-etcd-lists", "client-repeated-list", "client-relist-storm"];
    let found = case.known.answers.findings("clients").filter(|finding| dear.contains(&finding.id.as_str()));
    let found: Vec<&Finding> =
        found.filter(|finding| finding.subject.get("resource").is_some_and(|own| *own == resource)).collect();
    for finding in found.iter().take(2) {
        draft.says(Source::Audit, 0.4, finding.summary.clone());
    }
    draft.cause.later.extend(found.iter().take(2).map(|finding| finding.remedy.clone()));
    draft.cause.later.dedup();
    vec![draft]
}

/// What the work that was added is told by.
pub(super) fn source_of(case: &Case<'_>) -> Source {
    if case.read.contains(&Source::Audit) { Source::Audit } else { Source::Metrics }
}

const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// Whether it writes to etcd; reviews are created and not kept.
fn is_write(line: &Line) -> bool {
    WRITES.contains(&line.what[0].as_str()) && !line.what[2].ends_with("reviews") && line.what[3] != "token"
}

/// Writes.
pub(super) fn writes(case: &Case<'_>) -> Vec<Draft> {
    let all = added(case.known.suspects);
    let source = source_of(case);
    let sums = added_by(case.known.suspects, |line| is_write(line).then_some(()));
    let (own, rps) = sums.first().map_or((0.0, [0.0; 2]), |(_, added, rps)| (*added, *rps));
    let share = if all > 0.0 { own / all } else { 0.0 };
    let mut draft = Draft::new("write-burst", Vec::new(), format!("writes rose, {}", change(rps)));
    if share >= SMALL && rps[1] > rps[0] {
        draft.says(
            source,
            2.5 * share,
            format!("{} of the work that came on top with the incident is writes", percent(share)),
        );
        let kinds = added_by(case.known.suspects, |line| is_write(line).then(|| request(line)));
        if let Some((kind, added, rps)) = kinds.into_iter().next() {
            draft.says(
                source,
                0.2,
                format!("most of it {kind}: {}, {} of what came on top", change(rps), percent(added / all)),
            );
        }
    } else {
        draft.says(
            source,
            -1.5,
            format!("writes are only {} of the work that came on top with the incident", percent(share)),
        );
    }
    let changes = case.known.answers.changes.iter();
    let grown = changes.filter(|row| row.pair.area == Area::Objects && row.moved() > 0.0);
    let most = grown.max_by(|a, b| a.moved().total_cmp(&b.moved()));
    // How many there are is counted now and then: what was made before is not of the incident, and logs tell.
    let seconds = (case.window.1 - case.window.0) as f64 / SECOND as f64;
    let is_made = |row: &&compare::Row| {
        let named = |line: &Line| match line.what[1].as_str() {
            "" => line.what[2].clone(),
            group => format!("{}.{group}", line.what[2]),
        };
        let lines = case.known.suspects.iter().flat_map(|suspect| &suspect.lines);
        let made = lines
            .filter(|line| line.what[0] == "create" && named(line) == row.pair.field("resource"))
            .map(|line| line.rps[1] * seconds);
        source == Source::Metrics || made.sum::<f64>() >= row.moved() / 2.0
    };
    if let Some(row) = most.filter(|row| row.change().unwrap_or(0.0) >= 0.1 && is_made(row)) {
        let count = |side: &Measured| side.value().unwrap_or(0.0) as u64;
        let text = format!(
            "objects of {}: {} (baseline {})",
            row.pair.field("resource"),
            count(&row.pair.after),
            count(&row.pair.before)
        );
        draft.says(Source::Metrics, 0.3, text);
    }
    draft.cause.later.push(format!(
        "let those who write most write only what changes, and less often: plimsoll clients {}, plimsoll etcd history {}",
        case.sources, case.sources
    ));
    vec![draft]
}

const CASCADES: [&str; 5] = ["delete-namespace", "delete-crd", "delete-collection", "delete-node", "delete-pod"];

/// What went with a namespace, a definition, a collection.
pub(super) fn cascades(case: &Case<'_>) -> Vec<Draft> {
    let all = added(case.known.suspects);
    let deletes = |line: &&Line| line.what[0].starts_with("delete");
    let own = case
        .known
        .suspects
        .iter()
        .filter(|suspect| is_control_plane(&suspect.who[0]))
        .flat_map(|suspect| &suspect.lines);
    let added: f64 = own.filter(deletes).map(|line| line.added).sum();
    let share = if all > 0.0 { added / all } else { 0.0 };
    let mut drafts = Vec::new();
    for group in &case.known.answers.operations {
        let at = group.first.at;
        if !(case.window.0 - 120 * SECOND..case.window.1).contains(&at) {
            continue;
        }
        let gone = group.cascade.total().max(group.count) as f64;
        if !CASCADES.contains(&group.first.kind) || group.done == 0 || gone < MANY {
            continue;
        }
        let subject = vec![("user", group.first.user.clone())];
        let mut draft = Draft::new("cascade-delete", subject, format!("{} {}", group.who(), group.what()));
        draft.says(
            Source::Audit,
            0.5 + (gone / 1000.0).min(1.5),
            format!("{} went with it", counted(gone as u64, "object")),
        );
        if share >= SMALL {
            draft.says(
                Source::Audit,
                3.0 * share,
                format!("{} of the work that came on top is deletions by controllers", percent(share)),
            );
        } else {
            draft.says(
                Source::Audit,
                -1.0,
                format!("deletions by controllers are only {} of the work that came on top", percent(share)),
            );
        }
        let late = at - case.window.0;
        if late > WITH {
            draft.says(
                Source::Audit,
                -1.5,
                format!("it was done at {}, {} s after the incident began", clock(at), late / SECOND),
            );
        } else {
            draft.says(
                Source::Audit,
                1.0,
                format!("it was done at {}, just before the incident or as it began", clock(at)),
            );
        }
        draft.cause.later.extend(group.stopped_by());
        drafts.push(draft);
    }
    drafts.truncate(OF_A_KIND);
    drafts
}
