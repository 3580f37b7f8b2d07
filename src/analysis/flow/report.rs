//! A fence and its replay as a report, and as comments above the manifests.

use super::fence::{Client, Fence, level_object, schema_object};
use super::matching::Set;
use super::queues::Fate;
use super::replay::Replayed;
use super::seats::{ServerSeats, nominal};
use crate::model::flowcontrol::{Limit, PriorityLevel};
use crate::model::input::InputReport;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::time::Micros;
use crate::model::units::{counted, duration, grouped, percent};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// All that is said of a fence.
#[derive(Debug)]
pub struct Proposal<'p> {
    /// The sets in force and with the fence.
    pub sets: (&'p Set, &'p Set),
    pub fence: &'p Fence,
    /// Who is fenced, in the order of the fence's schemas.
    pub clients: &'p [Client],
    /// Users that were found and are not fenced, and why.
    pub refused: &'p [(String, String)],
    /// The apiserver's seats.
    pub seats: ServerSeats,
    /// What the replay gave: the first scenario is without the fence, the second with it.
    pub replayed: &'p Replayed,
    /// Where the FlowSchemas come from, in words.
    pub source: String,
    /// Length of the log.
    pub span: Micros,
    /// Steps in which the fence is to be opened again.
    pub ramp: u32,
}

const FIELDS: [&str; 12] = [
    "flow_schema",
    "priority_level",
    "seats",
    "requests",
    "requests_with_fence",
    "throttled",
    "queued_now",
    "rejected_now",
    "max_wait_now_ms",
    "queued",
    "rejected",
    "max_wait_ms",
];

impl Proposal<'_> {
    /// Fates by name of FlowSchema, of a scenario.
    fn fates(&self, scenario: usize, set: &Set) -> BTreeMap<String, Fate> {
        let fates = self.replayed.fates.get(scenario).into_iter().flatten();
        set.schemas.iter().zip(fates).map(|(schema, fate)| (schema.name.clone(), *fate)).collect()
    }

    /// What became of all requests, in a scenario.
    fn total(&self, scenario: usize) -> Fate {
        let mut all = Fate::default();
        self.replayed.fates.get(scenario).into_iter().flatten().for_each(|fate| all.merge(fate));
        all
    }

    fn level(&self, schema: &str) -> Option<&PriorityLevel> {
        let (_, then) = self.sets;
        then.schemas.iter().find(|one| one.name == schema).and_then(|one| then.level(&one.level))
    }

    fn level_seats(&self, level: &PriorityLevel) -> u32 {
        nominal(self.seats.number(), level, &self.sets.1.levels)
    }

    /// The rows: each FlowSchema that some request matches, in the order in which they are asked.
    fn table(&self) -> Table {
        let (now, then) = (self.fates(0, self.sets.0), self.fates(1, self.sets.1));
        let refused: BTreeMap<&str, u64> = self
            .sets
            .0
            .schemas
            .iter()
            .zip(&self.replayed.refused)
            .map(|(schema, count)| (schema.name.as_str(), *count))
            .collect();
        let ms = |fate: &Fate| Value::from(fate.max_wait as f64 / 1e3);
        let row = |name: &String| {
            let (before, after) =
                (now.get(name).copied().unwrap_or_default(), then.get(name).copied().unwrap_or_default());
            let level = self.level(name);
            let is_limited = level.is_some_and(|level| level.limit != Limit::Exempt);
            vec![
                Value::Text(name.clone()),
                level.map_or(Value::None, |level| Value::Text(level.name.clone())),
                if is_limited { level.map(|level| u64::from(self.level_seats(level))).into() } else { Value::None },
                before.requests.into(),
                after.requests.into(),
                refused.get(name.as_str()).copied().unwrap_or(0).into(),
                before.queued.into(),
                before.rejected().into(),
                ms(&before),
                after.queued.into(),
                after.rejected().into(),
                ms(&after),
            ]
        };
        let met = |name: &&String| {
            now.get(*name).is_some_and(|fate| fate.requests > 0)
                || then.get(*name).is_some_and(|fate| fate.requests > 0)
        };
        let names: Vec<String> = self.sets.1.schemas.iter().map(|schema| schema.name.clone()).collect();
        Table {
            name: "flow_schemas".to_owned(),
            title: String::new(),
            columns: FIELDS.map(str::to_owned).to_vec(),
            rows: names.iter().filter(met).map(row).collect(),
            ..Table::default()
        }
    }

    /// The manifests, each with what is to be read before it is applied.
    pub fn manifests(&self) -> Vec<(Vec<String>, Map<String, Json>)> {
        let mut all = vec![(self.head(), level_object(&self.fence.level))];
        for (schema, client) in self.fence.schemas.iter().zip(self.clients) {
            all.push((self.about(&schema.name, schema.precedence, client), schema_object(schema)));
        }
        all
    }

    /// What is said of the whole.
    fn head(&self) -> Vec<String> {
        let level = &self.fence.level;
        let seats = self.level_seats(level);
        let total: u32 = self.sets.1.levels.iter().map(|level| level.shares).sum();
        let verb = if self.fence.schemas.len() == 1 {
            "1 client".to_owned()
        } else {
            format!("{} clients", self.fence.schemas.len())
        };
        let mut lines = vec![
            format!("Throttles {verb}; generated by plimsoll from audit logs. Review, then: kubectl apply -f FILE"),
            self.undo(),
            format!(
                "Seats: {} on each apiserver, from shares {} of {total}; none are lent or borrowed.",
                grouped(seats.into()),
                level.shares
            ),
            format!("An apiserver's seats: {}.", self.seats.in_words()),
            format!("FlowSchemas in force: {}.", self.source),
        ];
        lines.extend(self.others());
        match level.limit {
            Limit::Queue { queues, hand_size, queue_length_limit } => lines.push(format!(
                "A client uses {hand_size} of {queues} queues: up to {} requests wait up to 15 s each; further ones \
                 get 429.",
                hand_size * queue_length_limit
            )),
            _ if seats == 0 => lines.push(
                "Without seats the level still serves one request at a time; all others get 429 at once.".to_owned(),
            ),
            _ => lines.push(format!(
                "At most {} at a time on each apiserver; all others get 429 at once.",
                counted(seats.into(), "request")
            )),
        }
        lines.extend(self.simulated());
        for (user, why) in self.refused {
            lines.push(format!("Not throttled: {user}: {why}."));
        }
        lines
    }

    /// How it is taken away again: the schemas first.
    fn undo(&self) -> String {
        let schemas: Vec<&str> = self.fence.schemas.iter().map(|schema| schema.name.as_str()).collect();
        format!(
            "Undo: kubectl delete flowschema {} && kubectl delete prioritylevelconfiguration {}",
            schemas.join(" "),
            self.fence.level.name
        )
    }

    /// What the other levels lose.
    fn others(&self) -> Option<String> {
        let (now, then) = self.sets;
        let changed = now.levels.iter().filter_map(|level| {
            let before = nominal(self.seats.number(), level, &now.levels);
            let after = then.level(&level.name).map(|level| self.level_seats(level))?;
            (after < before && level.name != self.fence.level.name)
                .then(|| format!("{} {before} to {after}", level.name))
        });
        let changed: Vec<String> = changed.collect();
        (!changed.is_empty()).then(|| format!("The seats come from the other levels: {}.", changed.join(", ")))
    }

    /// What the replay says.
    fn simulated(&self) -> Vec<String> {
        let then = self.fates(1, self.sets.1);
        let (before, after) = (self.total(0), self.total(1));
        let logged: u64 = self.replayed.refused.iter().sum();
        let mut lines = vec![
            format!(
                "Replayed: {} that arrived within {} at {}, with one seat per request and without borrowing:",
                counted(before.requests, "request"),
                duration(self.span),
                counted(self.replayed.instances, "apiserver"),
            ),
            format!("  now: {}; rejected in the log: {}", fate_in_words(&before), grouped(logged)),
            format!("  throttled: {}", fate_in_words(&after)),
        ];
        for schema in &self.fence.schemas {
            let fate = then.get(&schema.name).copied().unwrap_or_default();
            lines.push(format!(
                "    {}: {} of {}",
                schema.name,
                fate_in_words(&fate),
                counted(fate.requests, "request")
            ));
        }
        let fenced: Fate = self.fence.schemas.iter().filter_map(|schema| then.get(&schema.name)).fold(
            Fate::default(),
            |mut all, fate| {
                all.merge(fate);
                all
            },
        );
        lines.push(format!("    all others: rejected {}", grouped(after.rejected() - fenced.rejected())));
        if fenced.requests > 0 && (fenced.rejected() as f64) < MIN_BINDING * fenced.requests as f64 {
            lines.push(format!(
                "The limit has little effect: it rejects {} of the requests that it applies to, since they rarely \
                 arrive together. It caps concurrent requests, not their rate: to lower the load, fix the client or \
                 stop it.",
                percent(fenced.rejected() as f64 / fenced.requests as f64)
            ));
        }
        lines.push(
            "Not modelled by the replay (docs/flowcontrol.md): retries of rejected clients, seats of large LISTs."
                .to_owned(),
        );
        lines
    }

    /// How the fence is opened again: shares, seats and command of each step, each with twice the shares.
    fn steps(&self) -> Vec<(u32, u32, String)> {
        let level = &self.fence.level;
        let mut shares = level.shares;
        let step = |_| {
            shares = shares.saturating_mul(2).max(1);
            let wider = PriorityLevel { shares, ..level.clone() };
            let levels: Vec<PriorityLevel> = self
                .sets
                .1
                .levels
                .iter()
                .map(|one| if one.name == wider.name { wider.clone() } else { one.clone() })
                .collect();
            let patch = json!({"spec": {"limited": {"nominalConcurrencyShares": shares}}});
            let command = format!("kubectl patch prioritylevelconfiguration {} --type merge -p '{patch}'", level.name);
            (shares, nominal(self.seats.number(), &wider, &levels), command)
        };
        (0..self.ramp).map(step).collect()
    }

    /// The steps for people. They are commands, not documents: whoever applies the whole file gets the fence, not its
    /// end.
    pub fn opening(&self) -> Vec<String> {
        let steps = self.steps();
        let mut lines = Vec::new();
        for (at, (_, seats, command)) in steps.iter().enumerate() {
            let seats = counted(u64::from(*seats), "seat");
            lines.push(format!("Step {} of {}, {seats} on each apiserver: {command}", at + 1, steps.len()));
        }
        if !lines.is_empty() {
            lines.insert(
                0,
                "To lift the limit step by step, while the apiservers and the client's 429s stay normal:".to_owned(),
            );
            lines.push(self.undo().replacen("Undo:", "Then:", 1));
        }
        lines
    }

    /// What is said of one client.
    fn about(&self, schema: &str, precedence: i32, client: &Client) -> Vec<String> {
        let fate = self.fates(1, self.sets.1).get(schema).copied().unwrap_or_default();
        let mut lines = vec![match client.findings.is_empty() {
            true => format!("{}: named by --client", client.user),
            false => format!("{}: {}", client.user, client.findings.join(", ")),
        }];
        let share = |requests: u64| percent(requests as f64 / client.requests.max(1) as f64);
        let others: Vec<String> = client
            .agents
            .iter()
            .filter(|agent| !agent.2)
            .map(|(agent, requests, _)| format!("{agent} {}", share(*requests)))
            .collect();
        if !others.is_empty() && client.agents.iter().any(|agent| agent.2) {
            lines.push(format!(
                "Priority and Fairness can't match agents: {} of its requests are throttled.",
                listed(&others)
            ));
        } else if client.agents.len() > 1 {
            let all: Vec<String> =
                client.agents.iter().map(|(agent, requests, _)| format!("{agent} {}", share(*requests))).collect();
            lines.push(format!("All its agents are throttled: {}.", listed(&all)));
        }
        let matches: Vec<String> = client
            .matches
            .iter()
            .map(|(name, requests)| {
                let one = self.sets.0.schemas.iter().find(|schema| schema.name == *name);
                let at =
                    one.map(|schema| format!(" ({}, level {})", schema.precedence, schema.level)).unwrap_or_default();
                format!("{name}{at} {}", grouped(*requests))
            })
            .collect();
        if !matches.is_empty() {
            lines.push(format!(
                "Its requests match now: {}. The new FlowSchema has precedence {precedence} and matches before these.",
                listed(&matches)
            ));
        }
        lines.push(format!(
            "Throttled: {} of its {} in the log.",
            grouped(fate.requests),
            counted(client.requests, "request")
        ));
        lines
    }

    /// The report.
    pub fn report(&self, inputs: Vec<InputReport>, window: Window, mut coverage: Map<String, Json>) -> Report {
        let table = self.table();
        let objects = self.manifests();
        let columns = ["apiVersion", "kind", "metadata", "spec"];
        let manifests = Table {
            name: "manifests".to_owned(),
            title: String::new(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: objects
                .iter()
                .map(|(_, object)| {
                    columns.map(|name| Value::Json(object.get(name).cloned().unwrap_or_default())).to_vec()
                })
                .collect(),
            ..Table::default()
        };
        let step = |(shares, seats, command): (u32, u32, String)| {
            vec![u64::from(shares).into(), u64::from(seats).into(), Value::Text(command)]
        };
        let steps = Table {
            name: "steps".to_owned(),
            title: String::new(),
            columns: ["shares", "seats", "command"].map(str::to_owned).to_vec(),
            rows: self.steps().into_iter().map(step).collect(),
            ..Table::default()
        };
        let (before, after) = (self.total(0), self.total(1));
        coverage.insert("late_requests".to_owned(), json!(self.replayed.late));
        coverage.insert("watches_without_start".to_owned(), json!(self.replayed.unseen));
        coverage.insert(
            "not_fenced".to_owned(),
            json!(self.refused.iter().map(|(user, why)| json!({"user": user, "why": why})).collect::<Vec<_>>()),
        );
        let (text, number) = (|name: &str| name.to_owned(), |count: u64| Value::from(count));
        Report {
            schema: "plimsoll.clients.flowschema/v1".to_owned(),
            inputs,
            window,
            coverage,
            totals: vec![
                (text("requests"), number(before.requests)),
                (text("throttled"), number(self.replayed.refused.iter().sum())),
                (text("rejected_now"), number(before.rejected())),
                (text("rejected"), number(after.rejected())),
                (text("server_seats"), number(self.seats.number().into())),
                (text("fence_seats"), number(self.level_seats(&self.fence.level).into())),
            ],
            table,
            tables: if self.ramp > 0 { vec![manifests, steps] } else { vec![manifests] },
            people: Some(vec![self.table()]),
            lead: self.head().into_iter().filter(|line| !line.is_empty()).collect(),
            ..Report::default()
        }
    }
}

/// A limit that rejects less than this part of what it meets lowers nobody's load.
const MIN_BINDING: f64 = 0.1;

fn fate_in_words(fate: &Fate) -> String {
    let mut parts = vec![format!("rejected {}", grouped(fate.rejected()))];
    for (count, why) in
        [(fate.queue_full, "full queue"), (fate.timed_out, "waited too long"), (fate.no_seat, "no seat")]
    {
        if count > 0 && count < fate.rejected() {
            parts.push(format!("{} {why}", grouped(count)));
        }
    }
    if fate.queued > 0 {
        parts.push(format!("queued {}, longest {}", grouped(fate.queued), duration(fate.max_wait)));
    }
    parts.join(", ")
}

/// Some of a list, and how many more there are.
fn listed(items: &[String]) -> String {
    const MAX_NAMED: usize = 5;
    match items.len() {
        0..=MAX_NAMED => items.join(", "),
        more => format!("{} and {} more", items[..MAX_NAMED].join(", "), more - MAX_NAMED),
    }
}
