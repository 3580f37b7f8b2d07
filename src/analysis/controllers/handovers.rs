//! Leaders that change, from the writes to their leases in audit logs.

use crate::model::event::Timed;
use crate::model::json::cut;
use crate::model::time::{Micros, SECOND};
use crate::model::walk::member;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Without a leader (µs) from here on it is a finding: a lease lasts 15 s by default, and others look every 2 to 4.4 s.
pub const GAP: f64 = 30e6;

/// A lease: cluster, namespace, name.
pub type Lease = (String, String, String);

/// Who holds a lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// What it calls itself (`holderIdentity`); empty where the log has no bodies.
    pub identity: String,
    pub user: String,
    /// Product of the user agent.
    pub agent: String,
    /// Address.
    pub source: String,
}

/// Who can be distinguished from another by its name, else by where it writes from.
pub trait Holds {
    /// Whether it is the same.
    fn is(&self, other: &Self) -> bool;
}

impl Holds for Holder {
    fn is(&self, other: &Self) -> bool {
        if self.identity.is_empty() || other.identity.is_empty() {
            (&self.user, &self.agent, &self.source) == (&other.user, &other.agent, &other.source)
        } else {
            self.identity == other.identity
        }
    }
}

impl Holder {
    /// What it is called: by itself, else by its address.
    pub fn name(&self) -> &str {
        let names = [&self.identity, &self.source, &self.user];
        names.into_iter().find(|name| !name.is_empty()).map_or("an unknown holder", String::as_str)
    }
}

/// Writes of one holder that follow one another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run<H = Holder> {
    /// Who.
    pub holder: H,
    /// When the first write arrived.
    pub first: Micros,
    /// When the last was answered.
    pub last: Micros,
    /// How many.
    pub writes: u64,
    /// The longest time between two of them (µs).
    pub longest: Micros,
    /// Whether the last gave the lease up.
    pub is_released: bool,
    /// How long the lease lasts after a renewal (`leaseDurationSeconds`), where a body says so (µs).
    pub lasts: Option<Micros>,
}

/// Renewals that show how often they come, where no body says how long a lease lasts.
const RENEWALS: u64 = 3;

/// For how long a lease had run out at `until`; `None` where it was held, given up, or where nothing says how long it
/// lasts.
pub fn ran_out(run: &Run, until: Micros) -> Option<Micros> {
    // By its own lease an apiserver says that it is there; a new process has a new one.
    let is_identity = run.holder.user == "system:apiserver";
    if run.is_released || is_identity || run.lasts.is_none() && run.writes < RENEWALS {
        return None;
    }
    // Whoever was slow before may only be slow now.
    let limit = run.lasts.unwrap_or(GAP as Micros).max(2 * run.longest);
    Some(until - run.last).filter(|since| *since > limit)
}

/// Runs by lease.
pub type Runs = HashMap<Lease, Vec<Run>>;

/// Watches writes to leases, on one thread.
#[derive(Debug, Default)]
pub struct Watcher {
    runs: Runs,
}

/// What a body says of who holds the lease.
enum HolderField {
    /// Nothing, as the log has no body.
    Nothing,
    /// That it is about something else.
    Else,
    /// The holder's name; empty where the lease is given up.
    Holder(String),
}

/// `spec.leaseDurationSeconds` of a lease.
fn lasts(body: &[u8]) -> Option<Micros> {
    let seconds: i64 = serde_json::from_slice(member(member(body, "spec")?, "leaseDurationSeconds")?).ok()?;
    (1..=1_000_000).contains(&seconds).then_some(seconds * SECOND)
}

/// `spec.holderIdentity` of a whole lease.
fn holder(body: &[u8]) -> HolderField {
    if body.is_empty() {
        return HolderField::Nothing;
    }
    let Some(spec) = member(body, "spec") else { return HolderField::Else };
    let holder =
        member(spec, "holderIdentity").and_then(|holder| serde_json::from_slice::<Option<String>>(holder).ok());
    HolderField::Holder(holder.flatten().unwrap_or_default())
}

/// What a patch, as an object or in steps, says of it.
fn patched(body: &[u8]) -> HolderField {
    if body.is_empty() {
        return HolderField::Nothing;
    }
    if let Ok(serde_json::Value::Array(steps)) = serde_json::from_slice(body) {
        let of = |path: &str| steps.iter().find(|step| step["path"] == path);
        let holder = of("/spec/holderIdentity").map(|step| step["value"].as_str().unwrap_or_default().to_owned());
        return holder.map_or(
            if of("/spec/renewTime").is_some() { HolderField::Nothing } else { HolderField::Else },
            HolderField::Holder,
        );
    }
    let Some(spec) = member(body, "spec") else { return HolderField::Else };
    match member(spec, "holderIdentity") {
        Some(holder) => {
            HolderField::Holder(serde_json::from_slice::<Option<String>>(holder).ok().flatten().unwrap_or_default())
        }
        // A renewal need not repeat the name.
        None if member(spec, "renewTime").is_some() => HolderField::Nothing,
        None => HolderField::Else,
    }
}

/// A write to a lease that was done, as a run of its own: namespace, name and run.
pub fn write(event: &Timed<'_, '_>) -> Option<(String, String, Run)> {
    let e = event.event;
    let is_write = e.verb.is("update") || e.verb.is("patch") || e.verb.is("create");
    let is_done = event.stage.is_terminal() && e.code.is_some_and(|code| (200..300).contains(&code));
    // A node's lease says that it lives; nobody is elected.
    if !e.resource.is("leases") || !is_write || !is_done || e.namespace.is("kube-node-lease") {
        return None;
    }
    let text = |text: crate::model::json::JsonStr<'_>| cut(&text.decode()).into_owned();
    // What came of it says more than what was asked for, which may be a patch; but a label is no renewal.
    let asked = if e.verb.is("patch") { patched(e.request_body) } else { holder(e.request_body) };
    let named = match (asked, holder(e.response_body)) {
        (HolderField::Else, _) => return None,
        (_, HolderField::Holder(holder)) | (HolderField::Holder(holder), _) => Some(holder),
        _ => None,
    };
    // A created lease is named in its body only.
    let name = if e.name.is("") {
        created(e.response_body).or_else(|| created(e.request_body)).unwrap_or_default()
    } else {
        text(e.name)
    };
    let is_released = named.as_deref() == Some("");
    let identity = named.map(|named| cut(&named).into_owned()).unwrap_or_default();
    let holder =
        Holder { identity, user: text(e.user), agent: cut(&e.agent_product()).into_owned(), source: text(e.source) };
    let lasts = lasts(e.response_body).or_else(|| lasts(e.request_body));
    let run = Run { holder, first: event.received_or_at(), last: event.at, writes: 1, longest: 0, is_released, lasts };
    Some((text(e.namespace), name, run))
}

impl Watcher {
    /// Looks at an event.
    pub fn event(&mut self, event: &Timed<'_, '_>) {
        // Logs of several apiservers hold writes to one lease in turns: they are put together when all are there.
        if let Some((namespace, name, run)) = write(event) {
            self.runs.entry((event.cluster().to_owned(), namespace, name)).or_default().push(run);
        }
    }

    /// What was seen since the last time.
    pub fn flush(&mut self) -> Runs {
        std::mem::take(&mut self.runs)
    }
}

fn created(body: &[u8]) -> Option<String> {
    serde_json::from_slice(member(member(body, "metadata")?, "name")?).ok()
}

/// Adds a run behind others: to the last one, if it is of the same holder.
pub(in crate::analysis) fn join<H: Holds>(runs: &mut Vec<Run<H>>, run: Run<H>) {
    match runs.last_mut() {
        // Whoever gives a lease up held it: no matter what it is called, as it is not called anything any more. But a
        // run that ends so is its holder's.
        Some(last) if !last.is_released && (last.holder.is(&run.holder) || run.is_released && run.writes == 1) => {
            last.longest = last.longest.max(run.longest).max(run.first - last.last);
            last.last = last.last.max(run.last);
            last.writes += run.writes;
            last.is_released = run.is_released;
            last.lasts = run.lasts.or(last.lasts);
        }
        // Who comes back after giving up is a new run of its own; giving up what is free shows nothing.
        Some(last) if last.is_released && run.is_released && run.writes == 1 => last.writes += 1,
        _ => runs.push(run),
    }
}

/// Puts what threads saw together, in the order of time.
pub fn together(all: Vec<Runs>) -> BTreeMap<Lease, Vec<Run>> {
    let mut by_lease: BTreeMap<Lease, Vec<Run>> = BTreeMap::new();
    for (lease, runs) in all.into_iter().flatten() {
        by_lease.entry(lease).or_default().extend(runs);
    }
    for runs in by_lease.values_mut() {
        runs.sort_by(|a, b| (a.last, a.first, &a.holder).cmp(&(b.last, b.first, &b.holder)));
        let mut joined = Vec::new();
        runs.drain(..).for_each(|run| join(&mut joined, run));
        *runs = joined;
    }
    by_lease
}

/// A lease that changed hands, or that nobody held for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Handover {
    /// When the first write of the new holder arrived.
    pub at: Micros,
    pub lease: Lease,
    /// Who held it.
    pub from: Holder,
    /// Who holds it from then on.
    pub to: Holder,
    /// From the last write of the one to the first of the other (µs): so long nobody is known to have led.
    pub gap: Micros,
    /// Whether it was given up; where the log has no bodies, that is not known.
    pub is_released: Option<bool>,
}

/// Changes of hands, in the order of time.
pub fn handovers(leases: &BTreeMap<Lease, Vec<Run>>) -> Vec<Handover> {
    let mut all: Vec<Handover> = Vec::new();
    for (lease, runs) in leases {
        // Who gives it up and takes it again was no leader in between.
        let changes = runs.windows(2).filter(|two| two[0].is_released || !two[0].holder.is(&two[1].holder));
        all.extend(changes.map(|two| Handover {
            at: two[1].first,
            lease: lease.clone(),
            from: two[0].holder.clone(),
            to: two[1].holder.clone(),
            gap: (two[1].first - two[0].last).max(0),
            is_released: (!two[0].holder.identity.is_empty()).then_some(two[0].is_released),
        }));
    }
    all.sort_by(|a, b| (a.at, &a.lease).cmp(&(b.at, &b.lease)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_that_gives_up_is_of_whoever_held() {
        let run = |identity: &str, first: Micros, writes: u64, is_released: bool| {
            let holder = Holder { identity: identity.to_owned(), user: identity.to_owned(), ..Holder::default() };
            Run { holder, first, last: first + 5, writes, is_released, ..Run::default() }
        };
        let joined = |all: Vec<Run>| {
            let mut runs = Vec::new();
            all.into_iter().for_each(|run| join(&mut runs, run));
            runs.into_iter().map(|run| (run.holder.identity, run.writes, run.is_released)).collect::<Vec<_>>()
        };
        let is = |identity: &str, writes, is_released| (identity.to_owned(), writes, is_released);
        assert_eq!(joined(vec![run("a", 0, 2, false), run("", 10, 1, true)]), [is("a", 3, true)]);
        // As long tiles of roll-ups have it: all that the second holder wrote, and its handover.
        let two = vec![run("a", 0, 2, false), run("b", 10, 7, true)];
        assert_eq!(joined(two), [is("a", 2, false), is("b", 7, true)]);
    }
}
