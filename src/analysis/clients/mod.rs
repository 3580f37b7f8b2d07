//! Client profiles from the roll-up, their findings ([`detect`]), and the report.
//!
//! A client is a user with an agent product in a cluster; all kubelets are one.

pub mod cost;
pub mod detect;
pub mod gateway;
mod minutes;
pub mod named;
pub mod report;
pub mod sizes;
pub mod watch_cache;

use super::list_route::{Minor, Route, route};
use super::peak::peak_rps;
use super::rollup::Rollup;
use super::rollup::read::{Addresses, ClientRow, DeprecatedRow, ObjectRow, PulseRow, TrafficRow, What, Who};
use super::rollup::{AlternationRow, Fact, Op, WritesRow};
use crate::model::histogram::Histogram;
use crate::model::time::{Micros, SECOND};
use cost::{Cost, SizeContext};
use minutes::Minutes;
use std::collections::BTreeMap;

/// All clients of a log.
#[derive(Debug)]
pub struct Clients<'r> {
    /// First and last `at`, in µs.
    pub span: (Micros, Micros),
    /// The length of a tile in seconds.
    pub(super) tile: i64,
    /// Requests of all clients, also of those that are not kept apart.
    pub requests: u64,
    /// The apiservers' version, where it is known.
    pub server: Option<Minor>,
    /// What is known of the size of LISTs.
    pub known: &'r SizeContext,
    /// Whether that is anything, or the log itself holds responses.
    pub is_cost_known: bool,
    /// Whether the roll-up has the tables `writes` and `alternations`.
    pub has_writers: bool,
    /// Who overwrites whom in turns.
    alternations: Vec<AlternationRow<'r>>,
    /// The clients, those with most requests first.
    pub list: Vec<Profile<'r>>,
}

/// What one client did.
#[derive(Debug)]
pub struct Profile<'r> {
    pub who: Who<'r>,
    /// What else is known of it.
    pub about: ClientRow<'r>,
    /// Requests, open ones included.
    pub requests: u64,
    /// Requests by the second (from 6 h on: tile) in which they arrived.
    arrivals: BTreeMap<i64, u64>,
    /// Where its requests came from.
    pub(super) addresses: Addresses,
    /// What it did with each resource.
    pub uses: BTreeMap<What<'r>, Use<'r>>,
    /// What it sent to deprecated APIs.
    pub(super) deprecated: Vec<DeprecatedRow<'r>>,
    /// What its LISTs return.
    pub cost: Cost,
}

/// What a client did with one resource.
#[derive(Debug, Default)]
pub struct Use<'r> {
    pub(super) rows: Vec<TrafficRow<'r>>,
    /// Tile, fact, and gaps in µs.
    pub(super) facts: Vec<(i64, Fact, &'r Histogram)>,
    addresses: Addresses,
    objects: Vec<ObjectRow<'r>>,
    /// Minutes in which it wrote one object again and again.
    pub(super) written: Vec<WritesRow<'r>>,
    /// Requests by the second (from 6 h on: tile) in which they arrived.
    arrivals: Vec<(i64, u64)>,
    lists_at_once: AtOnce,
}

/// How many requests were on their way at the same time.
#[derive(Debug, Default)]
struct AtOnce {
    second: i64,
    now: u64,
    ended: u64,
    most: u64,
}

impl AtOnce {
    /// Takes a row of pulse, in the order of time. What ends within a second is taken to last for all of it.
    fn add(&mut self, row: PulseRow) {
        if row.second != self.second {
            self.now = self.now.saturating_sub(std::mem::take(&mut self.ended));
            self.second = row.second;
        }
        self.now += row.starts;
        self.ended += row.ends;
        self.most = self.most.max(self.now);
    }
}

impl<'r> Clients<'r> {
    /// The profiles that a roll-up holds; `server` is the apiservers' version, `known` shows how large LISTs are.
    pub fn new(rollup: &'r Rollup, server: Option<Minor>, known: &'r SizeContext) -> Self {
        let mut profiles: BTreeMap<Who<'r>, Profile<'r>> = BTreeMap::new();
        for about in rollup.clients() {
            let (who, requests) = (about.who, 0);
            let (arrivals, addresses, uses, deprecated, cost) = Default::default();
            profiles.insert(who, Profile { who, about, requests, arrivals, addresses, uses, deprecated, cost });
        }
        // Rows name client and resource by number.
        let subjects = rollup.subjects();
        let mut uses: Vec<Use<'r>> = subjects.iter().map(|_| Use::default()).collect();
        let mut requests = rollup.folded();
        for row in rollup.traffic() {
            requests += row.requests;
            uses[row.subject].rows.push(row);
        }
        for row in rollup.pulse() {
            let one = &mut uses[row.subject];
            match one.arrivals.last_mut() {
                Some(last) if last.0 == row.second => last.1 += row.starts,
                _ if row.starts > 0 => one.arrivals.push((row.second, row.starts)),
                _ => {}
            }
            if row.op == Op::List {
                one.lists_at_once.add(row);
            }
        }
        for (tile, subject, fact, gaps) in rollup.facts() {
            uses[subject].facts.push((tile, fact, gaps));
        }
        for (_, subject, addresses) in rollup.addresses() {
            uses[subject].addresses.merge(&addresses);
        }
        for object in rollup.objects() {
            uses[object.subject].objects.push(object);
        }
        for minute in rollup.writes() {
            uses[minute.subject].written.push(minute);
        }
        for (one, (who, what)) in uses.into_iter().zip(subjects) {
            let Some(profile) = profiles.get_mut(&who).filter(|_| !one.is_empty()) else { continue };
            profile.requests += one.rows.iter().map(|row| row.requests).sum::<u64>();
            one.arrivals.iter().for_each(|(second, starts)| *profile.arrivals.entry(*second).or_default() += starts);
            profile.addresses.merge(&one.addresses);
            one.rows.iter().for_each(|row| profile.cost.add(known, who.cluster, row));
            profile.uses.insert(what, one);
        }
        for row in rollup.deprecated() {
            if let Some(profile) = profiles.get_mut(&row.who) {
                profile.deprecated.push(row);
            }
        }
        let is_cost_known = known.is_any() || profiles.values().any(|profile| profile.cost.bytes[0] > 0);
        let mut list: Vec<Profile<'r>> = profiles.into_values().filter(|profile| profile.requests > 0).collect();
        list.sort_by(|a, b| b.requests.cmp(&a.requests).then(a.who.cmp(&b.who)));
        Self {
            span: rollup.span.unwrap_or_default(),
            tile: rollup.tile_seconds(),
            requests,
            server,
            known,
            is_cost_known,
            has_writers: !rollup.without().any(|table| matches!(table.as_str(), "writes" | "alternations")),
            alternations: rollup.alternations().collect(),
            list,
        }
    }

    /// The time that the log covers, in seconds; at least one.
    pub fn seconds(&self) -> f64 {
        ((self.span.1 - self.span.0) as f64 / SECOND as f64).max(1.0)
    }

    /// The seconds of an entry of [`Profile::arrivals`].
    fn pulse(&self) -> i64 {
        if self.tile > 10 { self.tile } else { 1 }
    }
}

impl<'r> Profile<'r> {
    /// How many addresses its requests came from.
    pub fn sources(&self) -> u64 {
        self.addresses.count()
    }

    /// All rows, whatever the resource.
    pub(super) fn rows(&self) -> impl Iterator<Item = &TrafficRow<'r>> {
        self.uses.values().flat_map(|one| &one.rows)
    }

    /// Seconds that apiservers worked on its requests, or let them wait; watches left out.
    pub fn server_seconds(&self) -> f64 {
        self.rows().filter(|row| row.verb != "watch").map(|row| row.latency().sum as f64 / SECOND as f64).sum()
    }

    /// Whether it is a part of kube-apiserver itself, whose requests follow from its work.
    fn is_apiserver(&self) -> bool {
        self.who.user == "system:apiserver"
    }

    /// Whether it is a part of the control plane or of every node: what it writes follows from what others asked for.
    fn is_control_plane(&self) -> bool {
        gateway::protected(self.who.user).is_some()
    }

    /// Whether it stands for all kubelets.
    fn is_kubelets(&self) -> bool {
        self.who.user == "system:node:*"
    }

    /// Whether it is a part of Kubernetes, and changes with it.
    fn is_kubernetes(&self) -> bool {
        let user = self.who.user;
        self.is_kubelets() || user.starts_with("system:kube-") || user.starts_with("system:serviceaccount:kube-system:")
    }

    /// Nodes that send three times as many requests as the one in the middle, and a hundred or more; of five nodes or
    /// more.
    pub fn uneven_nodes(&self) -> Vec<(&'r str, u64)> {
        let (count, heaviest) = &self.about.nodes;
        let is_uneven =
            |(_, requests): &&(&str, u64)| *count >= 5 && *requests >= 100 && *requests >= 3 * self.about.median_node;
        heaviest.iter().filter(is_uneven).copied().collect()
    }

    /// Most requests that arrived in any ten seconds, by the second.
    fn peak_rps(&self, clients: &Clients<'_>) -> f64 {
        let length = clients.pulse();
        if length >= 10 {
            return self.arrivals.values().copied().max().unwrap_or(0) as f64 / length as f64;
        }
        peak_rps(self.arrivals.iter().map(|(second, starts)| (*second, *starts)))
    }
}

impl<'r> Use<'r> {
    fn is_empty(&self) -> bool {
        let is_idle = self.rows.is_empty() && self.facts.is_empty() && self.arrivals.is_empty();
        is_idle && self.objects.is_empty() && self.written.is_empty()
    }

    /// Requests of the rows for which `is` holds.
    fn sum(&self, is: impl Fn(&TrafficRow<'r>) -> bool) -> u64 {
        self.rows.iter().filter(|row| is(row)).map(|row| row.requests).sum()
    }

    /// The same by minute.
    fn minutes(&self, clients: &Clients<'_>, is: impl Fn(&TrafficRow<'r>) -> bool) -> Minutes {
        Minutes::of(clients.tile, self.rows.iter().filter(|row| is(row)).map(|row| (row.tile, row.requests)))
    }

    /// Gaps of a fact, all together.
    fn gaps(&self, wanted: Fact) -> Histogram {
        let mut all = Histogram::default();
        self.facts.iter().filter(|(_, fact, _)| *fact == wanted).for_each(|(_, _, gaps)| all.merge(gaps));
        all
    }

    /// How often a fact was found, by minute.
    fn fact_minutes(&self, clients: &Clients<'_>, wanted: Fact) -> Minutes {
        let found = self.facts.iter().filter(|(_, fact, _)| *fact == wanted);
        Minutes::of(clients.tile, found.map(|(tile, _, gaps)| (*tile, gaps.count())))
    }

    /// Lifetimes of the watches that ended and for which `is` holds.
    fn lifetimes(&self, is: impl Fn(&TrafficRow<'r>) -> bool) -> Histogram {
        let mut all = Histogram::default();
        self.rows
            .iter()
            .filter(|row| row.verb == "watch" && is(row))
            .filter_map(|row| row.lifetime())
            .for_each(|one| all.merge(one));
        all
    }

    /// How many copies of the client did this, at least one: by addresses; kubelets also by nodes, as several may stand
    /// behind one address.
    fn copies(&self, profile: &Profile<'_>) -> u64 {
        let nodes = if profile.is_kubelets() { profile.about.nodes.0 as u64 } else { 0 };
        self.addresses.count().max(nodes).max(1)
    }
}

/// Whether the request was done.
fn succeeded(row: &TrafficRow<'_>) -> bool {
    row.code.is_none_or(|code| code < 400)
}

/// What kind of LIST a row is; `None` if it is none.
pub(super) fn listing(row: &TrafficRow<'_>, server: Option<Minor>) -> Option<Listing> {
    let shape = row.shape.filter(|_| row.verb == "list")?;
    let (group, resource) = row.what;
    Some(Listing {
        full: !shape.limit && !shape.continued,
        further_page: shape.continued,
        route: route(&shape, group, resource, server),
    })
}

/// The same of a LIST that does not go on where another one ended.
fn first_page(row: &TrafficRow<'_>, server: Option<Minor>) -> Option<Listing> {
    listing(row, server).filter(|list| !list.further_page)
}

/// Whether a request was answered without a look at what is stored: it was malformed, not allowed, or throttled.
fn is_turned_away(code: Option<u16>) -> bool {
    matches!(code, Some(400 | 401 | 403 | 404 | 405 | 406 | 415 | 422 | 429))
}

/// What kind of LIST a request is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    /// Asked for all objects at once.
    pub(super) full: bool,
    /// A page that is not the first.
    pub(super) further_page: bool,
    /// Who answers.
    route: Route,
}
