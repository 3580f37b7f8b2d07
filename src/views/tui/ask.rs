//! What a tab shows is what a command prints: which command, with which words.

use super::Tab;
use super::state::State;
use crate::model::incident::{Source, Span, command_line};
use crate::model::time::{self, Micros};

/// What kinds of sources there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Of each kind, the arguments that hold it.
    pub holders: Vec<(Source, String)>,
    /// Arguments that hold dump pages of API Priority and Fairness.
    pub dumps: Vec<String>,
    /// The first and the last database of etcd, where there are two.
    pub ends: Vec<String>,
    /// Stores and files with series in time.
    pub history: Vec<String>,
    /// Of these the stores that record keeps: they tell how fast quotas fill, too.
    pub stores: Vec<String>,
    /// What the sources cover in time.
    pub span: Option<Span>,
    /// Whether objects are listed again and again.
    pub lists_objects: bool,
    /// What they say they are about: from when, to when.
    pub bounds: (Option<Micros>, Option<Micros>),
}

impl Found {
    /// The arguments that hold something of these kinds, each once.
    pub fn of(&self, kinds: &[Source]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for (kind, holder) in &self.holders {
            if kinds.contains(kind) && !all.contains(holder) {
                all.push(holder.clone());
            }
        }
        all
    }

    /// Whether there is anything of this kind.
    pub fn has(&self, kind: Source) -> bool {
        self.holders.iter().any(|(held, _)| *held == kind)
    }
}

/// One thing that is to be found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// What a command prints: its words, without the program's name.
    Command(Vec<String>),
    /// The load, memory and sizes in all of the time that these sources cover.
    Course(Vec<String>),
}

impl Want {
    /// It as one types it.
    pub fn line(&self) -> String {
        match self {
            Self::Command(words) => command_line(words),
            Self::Course(sources) => command_line(&[vec!["report".to_owned()], sources.clone()].concat()),
        }
    }
}

/// What a question is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// What a tab shows.
    View(Tab),
    /// The load in time.
    Course,
    /// What happened, by an incident report: marks in time, causes.
    Story,
    /// How it went in time with what a popup is about.
    Detail,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// A number, larger than that of all questions before it.
    pub number: u64,
    /// What it is for.
    pub role: Role,
    /// What is asked; answered together.
    pub wants: Vec<Want>,
    /// Whether a person waits for it.
    pub is_seen: bool,
}

fn command(words: &[&str], rest: &[Vec<String>]) -> Want {
    Want::Command(words.iter().map(|word| (*word).to_owned()).chain(rest.iter().flatten().cloned()).collect())
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// `--since` and `--until`.
fn within(span: Option<Span>) -> Vec<String> {
    let flags = |(from, to): Span| ["--since".to_owned(), time::format(from), "--until".to_owned(), time::format(to)];
    span.into_iter().flat_map(flags).collect()
}

/// What widths of the key space are: the command's word, and what it means.
pub(super) const WEIGHTS: [(&str, &str); 4] = [
    ("live", "bytes of the values that live"),
    ("history", "bytes that compaction would free"),
    ("keys", "keys that live"),
    ("revisions", "revisions"),
];

/// Why a tab has nothing to ask, and what would change that.
pub type Missing = &'static str;

impl State {
    /// What a tab shows, given what there is, the time that is looked at, and how one looks at it.
    pub fn wants(&self, tab: Tab) -> Result<Vec<Want>, Missing> {
        use Source::{Audit, Cgroup, Etcd, Heap, Metrics, Objects};
        let Some(found) = &self.found else { return Err("Looking at what there is …") };
        let all = words(&["--top", "0"]);
        let time = within(self.clock.asked());
        // What was captured now and then is shown as it was at the moment that is looked at.
        let at: Vec<String> =
            self.clock.moment().into_iter().flat_map(|moment| ["--at".to_owned(), time::format(moment)]).collect();
        match tab {
            Tab::Overview if found.has(Metrics) => {
                let how = words(&["--from", "metrics", "--health"]);
                Ok(vec![command(&["traffic"], &[found.of(&[Metrics]), how, time])])
            }
            Tab::Overview => Err("How the control plane does is told by metrics pages of apiservers: name some."),
            Tab::Traffic => {
                let kind = if found.has(Audit) && !self.by_metrics { Audit } else { Metrics };
                if !found.has(kind) {
                    return Err("Requests are told by audit logs, or by metrics pages of apiservers: name some.");
                }
                let mut how = words(&["--from", if kind == Audit { "audit" } else { "metrics" }]);
                how.push(format!("--by={}", self.pivot.by.join(",")));
                how.extend(self.pivot.filters.iter().flat_map(|filter| ["--where".to_owned(), filter.clone()]));
                Ok(vec![command(&["traffic"], &[found.of(&[kind]), how, time, all])])
            }
            Tab::Clients if found.has(Audit) => {
                Ok(vec![command(&["clients"], &[found.of(&[Audit, Metrics]), time, all])])
            }
            Tab::Clients if !found.dumps.is_empty() => {
                Ok(vec![command(&["clients"], &[found.dumps.clone(), words(&["--seats"]), time, all])])
            }
            Tab::Clients => {
                Err("Clients are told by audit logs, or by dump pages of API Priority and Fairness: name some.")
            }
            Tab::Keyspace if !found.has(Etcd) => {
                Err("The key space is told by a snapshot of etcd: name one (plimsoll etcd snapshot takes it).")
            }
            Tab::Keyspace => {
                let (own, weight) = (found.of(&[Etcd]), WEIGHTS[self.weight].0);
                match found.ends.as_slice() {
                    [first, last] if self.compares => Ok(vec![
                        command(&["etcd", "flame"], &[own, words(&["--weight", weight, "--diff", first])]),
                        command(&["etcd", "diff"], &[words(&[first, last]), all]),
                    ]),
                    _ => {
                        let how = words(&["--weight", weight]);
                        let flame = command(&["etcd", "flame"], &[own.clone(), how, at.clone()]);
                        Ok(vec![flame, command(&["etcd", "usage"], &[own, at, all])])
                    }
                }
            }
            Tab::Memory if found.has(Cgroup) => Ok(vec![command(&["memory", "show"], &[found.of(&[Cgroup]), at, all])]),
            Tab::Memory => Err("Memory is told by cgroups: name one (/sys/fs/cgroup/…), or copies of its files."),
            Tab::Heap if found.has(Heap) => {
                let own = found.of(&[Heap]);
                Ok(vec![
                    command(&["heap", "flame"], &[own.clone(), at.clone()]),
                    command(&["heap", "top"], &[own, at, all]),
                ])
            }
            Tab::Heap => Err("The heap is told by Go's heap profiles (/debug/pprof/heap): name some."),
            Tab::Quotas if found.has(Objects) => {
                let own = found.of(&[Objects]);
                let check = command(&["quota", "check"], &[own.clone(), found.stores.clone(), at.clone(), all.clone()]);
                Ok(vec![check, command(&["quota", "propose"], &[own, at, all])])
            }
            Tab::Quotas => {
                Err("Quotas are told by a cluster's objects (kubectl get -A -o json, or plimsoll collect): name some.")
            }
            Tab::Forecast if found.history.is_empty() => {
                Err("Forecasts are made of history: name a store that plimsoll record keeps, with --history.")
            }
            Tab::Forecast => {
                Ok(vec![command(&["forecast"], &[found.history.clone(), words(&["--chart", "12"]), at, all])])
            }
            Tab::Guard if found.has(Audit) => Ok(vec![command(&["guard", "events"], &[found.of(&[Audit]), time, all])]),
            Tab::Guard => Err("Dangerous operations are told by audit logs: name some."),
            Tab::Log => Err(""),
        }
    }

    /// What is asked beside the tabs: the load in time, and of what is no more being written, what happened when.
    pub fn beside(&self, role: Role) -> Option<Want> {
        let sources = self.found.as_ref()?.of(&Source::ALL);
        match role {
            _ if sources.is_empty() => None,
            Role::Course => Some(Want::Course(sources)),
            Role::Story if !self.is_live => Some(command(&["report"], &[sources])),
            Role::Story | Role::View(_) | Role::Detail => None,
        }
    }

    /// What is asked of a client whose details are looked at: its requests in time.
    pub fn course_of(&self, about: &[(String, String)]) -> Option<Want> {
        let found = self.found.as_ref().filter(|found| self.tab == Tab::Clients && found.has(Source::Audit))?;
        let who = ["user", "agent"].map(|dim| about.iter().find(|(name, value)| name == dim && !value.is_empty()));
        let [Some((_, user)), agent] = who else { return None };
        // All kubelets are one client.
        let user = if user.contains('*') { "user=~^system:node:".to_owned() } else { format!("user={user}") };
        let mut how = words(&["--from", "audit", "--series", "--by", "agent", "--where", &user]);
        // Some forty bars.
        let length = self.clock.window().map_or(60 * time::SECOND, |(from, to)| to - from);
        how.extend(["--interval".to_owned(), format!("{}s", (length / (40 * time::SECOND)).max(1))]);
        how.extend(agent.into_iter().flat_map(|(_, agent)| ["--where".to_owned(), format!("agent={agent}")]));
        Some(command(&["traffic"], &[found.of(&[Source::Audit]), how, within(self.clock.asked())]))
    }
}
