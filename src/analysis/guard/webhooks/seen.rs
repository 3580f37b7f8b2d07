//! What a log holds of requests that webhooks are asked about.

use super::asked::{AdmissionRequest, Answer, Namespaces, asks, operation};
use crate::analysis::failure::Fault;
use crate::analysis::guard::group::is_done;
use crate::analysis::rollup::notable::is_control_plane;
use crate::model::event::Timed;
use crate::model::time::{Micros, together};
use crate::model::uri::api_version;
use crate::model::webhooks::Webhook;
use hashbrown::HashMap;

/// Requests of a log that one webhook is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookCalls {
    /// It is asked for certain.
    pub sure: u64,
    /// It may be asked.
    pub perhaps: u64,
    /// Of both, those of the control plane and of kubelets.
    pub control_plane: u64,
    /// Calls that failed, by the apiserver's message.
    pub failed: u64,
    /// By who asked: user and agent.
    pub clients: HashMap<(String, String), u64>,
    /// By what was asked for: resource with its group.
    pub resources: HashMap<String, u64>,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// By webhook, in their order.
    pub met: Vec<WebhookCalls>,
    /// Requests that change something, and were done.
    pub writes: u64,
    /// From the first event to the last.
    pub span: Option<(Micros, Micros)>,
}

impl Seen {
    /// Adds what another thread counted.
    pub fn merge(&mut self, other: Self) {
        self.writes += other.writes;
        self.span = together(self.span, other.span);
        self.met.resize(self.met.len().max(other.met.len()), WebhookCalls::default());
        for (mine, theirs) in self.met.iter_mut().zip(other.met) {
            mine.sure += theirs.sure;
            mine.perhaps += theirs.perhaps;
            mine.control_plane += theirs.control_plane;
            mine.failed += theirs.failed;
            theirs.clients.into_iter().for_each(|(key, count)| *mine.clients.entry(key).or_default() += count);
            theirs.resources.into_iter().for_each(|(key, count)| *mine.resources.entry(key).or_default() += count);
        }
    }
}

/// The version in a path: `v1` of `/apis/apps/v1/…`.
fn version(uri: &str) -> String {
    let version = api_version(uri);
    version.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Counts events.
#[derive(Debug)]
pub struct Counter<'w> {
    webhooks: &'w [Webhook],
    namespaces: &'w Namespaces,
    /// What each is asked: requests are many, what they ask for is little.
    known: HashMap<AdmissionRequest, Vec<(usize, Answer)>>,
    seen: Seen,
}

/// Kinds of requests that are remembered; beyond, they are looked up again.
const KNOWN: usize = 100_000;

impl<'w> Counter<'w> {
    /// Nothing yet.
    pub fn new(webhooks: &'w [Webhook], namespaces: &'w Namespaces) -> Self {
        let seen = Seen { met: vec![WebhookCalls::default(); webhooks.len()], ..Seen::default() };
        Self { webhooks, namespaces, known: HashMap::new(), seen }
    }

    /// Takes an event.
    pub fn event(&mut self, timed: &Timed<'_, '_>) {
        self.seen.span = together(self.seen.span, Some((timed.at, timed.at)));
        let event = timed.event;
        if !timed.stage.is_terminal() || event.resource.is_empty() {
            return;
        }
        if let Some((Fault::WebhookFailed, name)) = Fault::of(timed) {
            self.failed_call(&name);
        }
        let (verb, subresource) = (event.verb.decode(), event.subresource.decode());
        let Some(operation) = operation(&verb, &subresource, event.code) else { return };
        // What was not done would not have been, with the webhook or without.
        if !is_done(event.code) {
            return;
        }
        self.seen.writes += 1;
        let asked = AdmissionRequest {
            operation,
            group: event.group.decode().into_owned(),
            version: version(&event.uri.decode()),
            resource: event.resource.decode().into_owned(),
            subresource: subresource.into_owned(),
            namespace: if event.resource.decode() == "namespaces" {
                event.name.decode().into_owned()
            } else {
                event.namespace.decode().into_owned()
            },
        };
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        let (webhooks, namespaces) = (self.webhooks, self.namespaces);
        let of = self.known.entry(asked).or_insert_with_key(|asked| {
            let answers = webhooks.iter().map(|webhook| asks(webhook, asked, namespaces));
            answers.enumerate().filter(|(_, answer)| *answer != Answer::No).collect()
        });
        if of.is_empty() {
            return;
        }
        let user = event.user.decode();
        let is_control_plane = is_control_plane(&user) || user.starts_with("system:node:");
        let folded = if user.starts_with("system:node:") { "system:node:*" } else { &user };
        let agent = event.agent.decode();
        let product = agent.split(['/', ' ']).next().unwrap_or_default();
        let dot = if event.group.is_empty() { "" } else { "." };
        let resource = format!("{}{dot}{}", event.resource.decode(), event.group.decode());
        for (webhook, answer) in of.iter() {
            let met = &mut self.seen.met[*webhook];
            *(if *answer == Answer::Yes { &mut met.sure } else { &mut met.perhaps }) += 1;
            met.control_plane += u64::from(is_control_plane);
            *met.clients.entry((folded.to_owned(), product.to_owned())).or_default() += 1;
            *met.resources.entry(resource.clone()).or_default() += 1;
        }
    }

    /// A request failed because a webhook could not be called; of several of one name, one that fails requests.
    fn failed_call(&mut self, name: &str) {
        let is_closed = self.webhooks.iter().any(|webhook| webhook.name == name && webhook.fails_closed);
        for (webhook, met) in self.webhooks.iter().zip(&mut self.seen.met) {
            met.failed += u64::from(webhook.name == name && (webhook.fails_closed || !is_closed));
        }
    }

    /// What was counted since the last time.
    pub fn flush(&mut self) -> Seen {
        let fresh = Seen { met: vec![WebhookCalls::default(); self.webhooks.len()], ..Seen::default() };
        std::mem::replace(&mut self.seen, fresh)
    }
}
