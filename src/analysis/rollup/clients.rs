//! Who the clients are: versions, groups, nodes, pods, apiservers.

use super::keys::Keys;
use super::observe::{About, CallerSeen};
use super::rows::md5_128;
use crate::model::symbols::Symbol;
use crate::model::time::{Micros, together};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Members of a set that are kept: those whose MD5 is smallest.
const MEMBERS: usize = 64;

/// Nodes of a client that are counted one by one.
const NODES: usize = 65_536;

/// Clients that are kept apart.
const MAX_CLIENTS: usize = 100_000;

/// A set that keeps its members with the smallest MD5.
#[derive(Debug, Default, Clone)]
pub struct Sample(BTreeMap<u128, String>);

impl Sample {
    /// The sample of `members`.
    pub fn of<'t>(members: impl Iterator<Item = &'t str>) -> Self {
        let mut sample = Self::default();
        members.for_each(|text| sample.add(text));
        sample
    }

    fn add(&mut self, text: &str) {
        if text.is_empty() || self.0.values().any(|member| member == text) {
            return;
        }
        self.0.insert(md5_128(text), text.to_owned());
        if self.0.len() > MEMBERS {
            self.0.pop_last();
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.values().for_each(|text| self.add(text));
    }

    /// The members, by text.
    pub fn members(&self) -> Vec<&str> {
        let mut members: Vec<&str> = self.0.values().map(String::as_str).collect();
        members.sort_unstable();
        members
    }
}

/// A row of `clients`.
#[derive(Debug, Default, Clone)]
pub struct Client {
    /// Requests, open ones left out.
    pub requests: u64,
    /// First and last `at`.
    pub span: Option<(Micros, Micros)>,
    /// `NS:NAME`.
    pub service_account: String,
    /// Agent versions.
    pub versions: Sample,
    pub groups: Sample,
    pub pods: Sample,
    /// Apiservers.
    pub instances: Sample,
    /// Nodes with their requests.
    pub nodes: HashMap<Symbol, u64>,
}

impl Client {
    fn node(&mut self, node: Symbol, requests: u64) {
        if self.nodes.len() < NODES || self.nodes.contains_key(&node) {
            *self.nodes.entry(node).or_default() += requests;
        }
    }
}

/// Cluster, user, agent.
pub type ClientKey = [Symbol; 3];

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    rows: HashMap<ClientKey, Client>,
    /// What is in the samples of a client already, by apiserver and place in memory, which it keeps: blocks show it
    /// again and again.
    sampled: HashMap<(ClientKey, Symbol, usize), Arc<About>>,
    /// Bytes that these hold, roughly.
    sampled_bytes: usize,
}

/// Bytes of callers whose samples are remembered to be taken; beyond, all are forgotten and taken again.
const MAX_SAMPLED: usize = 32 << 20;

impl Clients {
    fn row(&mut self, key: ClientKey, other: ClientKey) -> &mut Client {
        let full = self.rows.len() >= MAX_CLIENTS && !self.rows.contains_key(&key);
        self.rows.entry(if full { other } else { key }).or_default()
    }

    /// Whether the samples of a client do not hold this yet, as far as is remembered.
    fn is_new(&mut self, place: (ClientKey, Symbol, usize), about: &Arc<About>) -> bool {
        if self.sampled.contains_key(&place) {
            return false;
        }
        if self.sampled_bytes >= MAX_SAMPLED {
            self.sampled.clear();
            self.sampled_bytes = 0;
        }
        self.sampled_bytes += about.bytes();
        self.sampled.insert(place, Arc::clone(about));
        true
    }

    /// Takes what a block reported a caller; `key` is its traffic key among `keys`.
    pub fn take(&mut self, seen: &CallerSeen, key: u32, keys: &mut Keys) {
        let traffic = *keys.traffic.get(key);
        let subject = *keys.subjects.get(traffic.subject);
        let about = &seen.about;
        let key = [subject.cluster, subject.user, subject.agent];
        let is_new = !seen.is_known || self.is_new((key, traffic.instance, Arc::as_ptr(about) as usize), about);
        let node = (!about.node.is_empty()).then(|| keys.intern(&about.node));
        let row = self.row(key, other(keys));
        row.requests += seen.requests;
        row.span = together(row.span, Some(seen.span));
        if let Some(node) = node {
            row.node(node, seen.requests);
        }
        if is_new {
            row.service_account.clone_from(&about.service_account);
            row.versions.add(&about.version);
            about.groups.iter().for_each(|group| row.groups.add(group));
            row.pods.add(&about.pod);
            row.instances.add(keys.symbols.get(traffic.instance));
        }
    }

    /// Takes in a client.
    pub fn add(&mut self, key: ClientKey, client: Client, keys: &Keys) {
        let row = self.row(key, other(keys));
        row.requests += client.requests;
        row.span = together(row.span, client.span);
        row.service_account = client.service_account;
        row.versions.merge(&client.versions);
        row.groups.merge(&client.groups);
        row.pods.merge(&client.pods);
        row.instances.merge(&client.instances);
        client.nodes.into_iter().for_each(|(node, requests)| row.node(node, requests));
    }

    /// Adds requests from a node to a client that is there.
    pub fn add_node(&mut self, key: ClientKey, node: Symbol, requests: u64) {
        if let Some(client) = self.rows.get_mut(&key) {
            client.node(node, requests);
        }
    }

    /// All rows.
    pub fn into_rows(self) -> impl Iterator<Item = (ClientKey, Client)> {
        self.rows.into_iter()
    }
}

fn other(keys: &Keys) -> ClientKey {
    let subject = keys.subjects.get(0);
    [subject.cluster, subject.user, subject.agent]
}
