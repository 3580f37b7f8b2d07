//! How each client behaves: profiles made from the roll-up, what is wrong with them ([`detect`]), and the report.
//!
//! A client is a user with an agent product in a cluster; all kubelets are one.

pub mod detect;
pub mod gateway;
mod minutes;
pub mod report;
pub mod sizes;
pub mod watch_cache;

use super::list_route::{Minor, Route, route};
use super::rollup::Rollup;
use super::rollup::read::{Addresses, ClientRow, ObjectRow, TrafficRow, What, Who};
use crate::analysis::rollup::Fact;
use crate::model::histogram::Histogram;
use crate::model::time::{Micros, SECOND};
use minutes::Minutes;
use sizes::Sizes;
use std::collections::BTreeMap;

/// All clients of a log.
#[derive(Debug)]
pub struct Clients<'r> {
    /// First and last `at`, in µs.
    pub span: (Micros, Micros),
    /// The length of a tile in seconds.
    tile: i64,
    /// Requests of all clients, also of those that are not kept apart.
    pub requests: u64,
    /// The apiservers' version, where it is known.
    pub server: Option<Minor>,
    /// How large objects are, where that is known.
    pub sizes: Option<&'r Sizes>,
    /// The clients, those with most requests first.
    pub list: Vec<Profile<'r>>,
}

/// What one client did.
#[derive(Debug)]
pub struct Profile<'r> {
    /// Who it is.
    pub who: Who<'r>,
    /// What else is known of it.
    pub about: ClientRow<'r>,
    /// Requests, open ones included.
    pub requests: u64,
    /// Requests by the second (from 6 h on: tile) in which they arrived.
    arrivals: BTreeMap<i64, u64>,
    /// Where its requests came from.
    addresses: Addresses,
    /// What it did with each resource.
    pub uses: BTreeMap<What<'r>, Use<'r>>,
}

/// What a client did with one resource.
#[derive(Debug, Default)]
pub struct Use<'r> {
    rows: Vec<TrafficRow<'r>>,
    facts: Vec<(i64, Fact, &'r Histogram)>,
    addresses: Addresses,
    objects: Vec<ObjectRow<'r>>,
}

impl<'r> Clients<'r> {
    /// The profiles that a roll-up holds; `server` is the apiservers' version, `sizes` how large objects are.
    pub fn new(rollup: &'r Rollup, server: Option<Minor>, sizes: Option<&'r Sizes>) -> Self {
        let mut profiles: BTreeMap<Who<'r>, Profile<'r>> = BTreeMap::new();
        for about in rollup.clients() {
            let (who, requests) = (about.who, 0);
            let (arrivals, addresses, uses) = Default::default();
            profiles.insert(who, Profile { who, about, requests, arrivals, addresses, uses });
        }
        let mut requests = rollup.folded();
        for row in rollup.traffic() {
            requests += row.requests;
            if let Some(profile) = profiles.get_mut(&row.who) {
                profile.requests += row.requests;
                profile.uses.entry(row.what).or_default().rows.push(row);
            }
        }
        for (second, who, _, _, starts) in rollup.arrivals() {
            if let Some(profile) = profiles.get_mut(&who) {
                *profile.arrivals.entry(second).or_default() += starts;
            }
        }
        for (tile, who, what, fact, gaps) in rollup.facts() {
            if let Some(profile) = profiles.get_mut(&who) {
                profile.uses.entry(what).or_default().facts.push((tile, fact, gaps));
            }
        }
        for (who, what, addresses) in rollup.addresses() {
            if let Some(profile) = profiles.get_mut(&who) {
                profile.addresses.merge(&addresses);
                profile.uses.entry(what).or_default().addresses.merge(&addresses);
            }
        }
        for object in rollup.objects() {
            if let Some(profile) = profiles.get_mut(&object.who) {
                profile.uses.entry(object.what).or_default().objects.push(object);
            }
        }
        let mut list: Vec<Profile<'r>> = profiles.into_values().filter(|profile| profile.requests > 0).collect();
        list.sort_by(|a, b| b.requests.cmp(&a.requests).then(a.who.cmp(&b.who)));
        Self { span: rollup.span.unwrap_or_default(), tile: rollup.tile_seconds(), requests, server, sizes, list }
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
    fn rows(&self) -> impl Iterator<Item = &TrafficRow<'r>> {
        self.uses.values().flat_map(|one| &one.rows)
    }

    /// Whether it is a part of kube-apiserver itself, whose requests follow from its work.
    fn is_apiserver(&self) -> bool {
        self.who.user == "system:apiserver"
    }

    /// Whether it stands for all kubelets.
    fn is_kubelets(&self) -> bool {
        self.who.user == "system:node:*"
    }

    /// Most requests that arrived in any ten seconds, by the second.
    fn peak_rps(&self, clients: &Clients<'_>) -> f64 {
        let length = clients.pulse();
        if length >= 10 {
            return self.arrivals.values().copied().max().unwrap_or(0) as f64 / length as f64;
        }
        let (mut best, mut sum, mut from) = (0, 0, self.arrivals.iter().peekable());
        for (second, starts) in &self.arrivals {
            sum += starts;
            while let Some((_, gone)) = from.next_if(|(earlier, _)| second - **earlier >= 10) {
                sum -= gone;
            }
            best = best.max(sum);
        }
        best as f64 / 10.0
    }
}

impl<'r> Use<'r> {
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
        self.rows.iter().filter(|row| row.verb == "watch" && is(row)).filter_map(|row| row.lifetime).for_each(|one| all.merge(one));
        all
    }

    /// How many copies of the client did this, at least one: by addresses; kubelets also by nodes, as several may stand behind one address.
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
fn listing(row: &TrafficRow<'_>, server: Option<Minor>) -> Option<Listing> {
    let shape = row.shape.filter(|_| row.verb == "list")?;
    let (group, resource) = row.what;
    Some(Listing { full: !shape.limit && !shape.continued, further_page: shape.continued, route: route(&shape, group, resource, server) })
}

/// The same of a LIST that does not go on where another one ended.
fn first_page(row: &TrafficRow<'_>, server: Option<Minor>) -> Option<Listing> {
    listing(row, server).filter(|list| !list.further_page)
}

/// What kind of LIST a request is.
#[derive(Debug, Clone, Copy)]
struct Listing {
    /// Asked for all objects at once.
    full: bool,
    /// A page that is not the first.
    further_page: bool,
    /// Who answers.
    route: Route,
}
