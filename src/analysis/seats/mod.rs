//! Holders of seats and waiting requests of priority levels, from an apiserver's dump pages.
//!
//! Of each apiserver the last page of requests counts, and beside it the pages of levels and queues that are nearest in
//! time.

mod findings;
pub mod report;

use super::metrics::catalogue::Metric;
use super::metrics::facts::Facts;
use crate::model::apf::{DumpPage, Level, Moment, Queue, Request, Rows};
use crate::model::time::{MINUTE, Micros};
use std::collections::{BTreeMap, BTreeSet};

/// A page that says who asks for what is preferred to a later one that does not, if it is not older by more than this;
/// and pages that are further apart than this do not report one moment.
const BESIDE: Micros = MINUTE;

/// What a user of a FlowSchema holds and waits for.
#[derive(Debug, Clone, Default)]
pub struct SeatUse {
    /// Requests that execute.
    pub executing: u64,
    /// Requests that wait.
    pub queued: u64,
    /// Seats of those that execute.
    pub seats: u64,
    /// Seats that those that wait will take.
    pub seats_queued: u64,
    /// How long the oldest of those that wait has waited, in µs.
    pub oldest_wait: Option<Micros>,
    /// How long the oldest of those that execute has executed, in µs.
    pub longest_run: Option<Micros>,
    /// Flows, as queues see them.
    pub flows: BTreeSet<String>,
    /// Requests by verb and resource (group, resource and subresource, or the path of what is no resource).
    pub asks: BTreeMap<(String, String), u64>,
}

impl SeatUse {
    /// Seats held and waited for.
    pub fn demand(&self) -> u64 {
        self.seats + self.seats_queued
    }

    fn add(&mut self, request: &Request, at: Micros) {
        let since = |from: Micros| Some((at - from).max(0));
        if request.executes {
            self.executing += 1;
            self.seats += request.seats;
            self.longest_run = self.longest_run.max(request.started.and_then(since));
        } else {
            self.queued += 1;
            self.seats_queued += request.seats;
            self.oldest_wait = self.oldest_wait.max(since(request.arrived));
        }
        self.flows.insert(request.flow.clone());
        if let Some(details) = &request.details {
            let group = details.version.rsplit_once('/').map_or("", |(group, _)| group);
            let mut what = details.resource.clone();
            match what.is_empty() {
                true => what.clone_from(&details.path),
                false if !group.is_empty() => what = format!("{what}.{group}"),
                false => {}
            }
            if !details.subresource.is_empty() {
                what = format!("{what}/{}", details.subresource);
            }
            *self.asks.entry((details.verb.clone(), what)).or_default() += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.executing += other.executing;
        self.queued += other.queued;
        self.seats += other.seats;
        self.seats_queued += other.seats_queued;
        self.oldest_wait = self.oldest_wait.max(other.oldest_wait);
        self.longest_run = self.longest_run.max(other.longest_run);
        self.flows.extend(other.flows.iter().cloned());
        for (ask, count) in &other.asks {
            *self.asks.entry(ask.clone()).or_default() += count;
        }
    }
}

/// Who holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub cluster: String,
    /// The priority level.
    pub level: String,
    /// The FlowSchema.
    pub flow_schema: String,
    /// The user, or the flow where the page does not say who asks.
    pub user: String,
    /// Whether it is the user.
    pub is_user: bool,
}

/// A priority level of an apiserver.
#[derive(Debug, Clone, Default)]
pub struct LevelNow {
    /// What the page of levels says of it.
    pub reported: Level,
    /// Requests that execute.
    pub executing: u64,
    /// Requests that wait.
    pub queued: u64,
    /// Seats of those that execute; `None` where no page shows.
    pub seats: Option<u64>,
    /// Seats that those that wait will take.
    pub seats_queued: Option<u64>,
    /// How long the oldest of those that wait has waited, in µs.
    pub oldest_wait: Option<Micros>,
    /// Seats that it may use, by its configuration, and now that levels have lent and borrowed; by a metrics page.
    pub limits: [Option<f64>; 2],
    /// Requests rejected, or given up as they waited too long, since the first page of levels, and µs since then.
    pub refused: Option<(u64, Micros)>,
    /// Who holds and waits, by FlowSchema and user.
    pub by: BTreeMap<(String, String), SeatUse>,
}

/// What an apiserver's pages say.
#[derive(Debug, Clone)]
pub struct Capture {
    pub cluster: String,
    /// The apiserver.
    pub instance: String,
    /// The moment.
    pub at: Micros,
    /// How that is known.
    pub moment: Moment,
    /// Whether its page of requests says who asks for what; `None` without such a page.
    pub details: Option<bool>,
    /// Whether it lists requests that execute.
    pub lists_executing: bool,
    /// Pages of requests that were left out as there is a later one.
    pub left_out: u64,
    /// Its priority levels, by name.
    pub levels: BTreeMap<String, LevelNow>,
}

/// Everything that the pages say.
#[derive(Debug, Default)]
pub struct Seats {
    /// By apiserver.
    pub captures: Vec<Capture>,
    /// Who holds, over all apiservers: those who hold and wait for most first. With the apiservers.
    pub holders: Vec<(Holder, SeatUse, BTreeSet<String>)>,
}

/// A page with the moment that it shows, as well as that can be known.
fn dated(mut page: DumpPage) -> DumpPage {
    let Rows::Requests { requests, executing, .. } = &page.rows else { return page };
    let latest = requests.iter().flat_map(|one| [Some(one.arrived), one.started]).flatten().max();
    if let Some(latest) = latest {
        // Whoever asks for the page executes while it is made. That time is by the apiserver's clock, as all others on
        // the page are.
        if *executing {
            (page.at, page.moment) = (latest, Moment::Page);
        } else if page.moment == Moment::Modified || latest > page.at {
            (page.at, page.moment) = (latest, Moment::Arrival);
        }
    }
    page
}

impl Seats {
    /// What `pages` say. Limits are those of `facts`, by cluster and instance.
    pub fn new(pages: Vec<DumpPage>, facts: &Facts) -> Self {
        let mut by_instance: BTreeMap<(String, String), Vec<DumpPage>> = BTreeMap::new();
        for page in pages {
            by_instance.entry((page.cluster.clone(), page.instance.clone())).or_default().push(dated(page));
        }
        let alone = by_instance.len() == 1;
        let captures: Vec<Capture> = by_instance
            .into_iter()
            .map(|((cluster, instance), mut pages)| {
                pages.sort_by_key(|page| page.at);
                let mut capture = capture(cluster, instance, &pages);
                limit(&mut capture, facts, alone);
                capture
            })
            .collect();
        let mut holders: BTreeMap<Holder, (SeatUse, BTreeSet<String>)> = BTreeMap::new();
        for capture in &captures {
            for (level, now) in &capture.levels {
                for ((flow_schema, user), held) in &now.by {
                    let holder = Holder {
                        cluster: capture.cluster.clone(),
                        level: level.clone(),
                        flow_schema: flow_schema.clone(),
                        user: user.clone(),
                        is_user: capture.details == Some(true),
                    };
                    let (all, instances) = holders.entry(holder).or_default();
                    all.merge(held);
                    instances.insert(capture.instance.clone());
                }
            }
        }
        let mut holders: Vec<_> =
            holders.into_iter().map(|(holder, (held, instances))| (holder, held, instances)).collect();
        holders.sort_by_key(|(_, held, _)| std::cmp::Reverse((held.demand(), held.executing + held.queued)));
        Self { captures, holders }
    }

    /// Demand of a level over all apiservers of a cluster: seats held, and seats held and waited for.
    fn totals(&self, cluster: &str, level: &str) -> (u64, u64) {
        let of = self.holders.iter().filter(|(holder, ..)| holder.cluster == cluster && holder.level == level);
        of.fold((0, 0), |(seats, demand), (_, held, _)| (seats + held.seats, demand + held.demand()))
    }
}

/// What the pages of one apiserver say, which are in order of time.
fn capture(cluster: String, instance: String, pages: &[DumpPage]) -> Capture {
    let of_requests = || pages.iter().filter(|page| matches!(page.rows, Rows::Requests { .. }));
    let last = of_requests().next_back();
    let detailed = of_requests().rfind(|page| matches!(page.rows, Rows::Requests { details: true, .. }));
    let chosen = match (detailed, last) {
        (Some(detailed), Some(last)) if last.at - detailed.at <= BESIDE => Some(detailed),
        _ => last,
    };
    let (at, moment) = chosen.or(pages.last()).map_or((0, Moment::Modified), |page| (page.at, page.moment));
    let nearest = |wanted: fn(&Rows) -> bool| {
        let near = pages.iter().filter(|page| wanted(&page.rows) && (page.at - at).abs() <= BESIDE);
        near.min_by_key(|page| (page.at - at).abs())
    };
    let mut capture = Capture {
        cluster,
        instance,
        at,
        moment,
        details: None,
        lists_executing: false,
        left_out: of_requests().count().saturating_sub(1) as u64,
        levels: BTreeMap::new(),
    };
    if let Some(DumpPage { rows: Rows::Levels(levels), at: told_at, .. }) =
        nearest(|rows| matches!(rows, Rows::Levels(_)))
    {
        let first = pages.iter().find_map(|page| match &page.rows {
            Rows::Levels(levels) if page.at < *told_at => Some((levels, page.at)),
            _ => None,
        });
        for level in levels {
            let now = capture.levels.entry(level.name.clone()).or_default();
            (now.executing, now.queued) = (level.executing.unwrap_or_default(), level.waiting.unwrap_or_default());
            now.refused = first.and_then(|(before, since)| {
                refused(before.iter().find(|b| b.name == level.name)?, level, told_at - since)
            });
            now.reported = level.clone();
        }
    }
    if let Some(DumpPage { rows: Rows::Queues(queues), .. }) = nearest(|rows| matches!(rows, Rows::Queues(_))) {
        queued(&mut capture, queues);
    }
    if let Some(DumpPage { rows: Rows::Requests { requests, details, executing }, .. }) = chosen {
        (capture.details, capture.lists_executing) = (Some(*details), *executing);
        requested(&mut capture, requests);
    }
    capture
}

/// Requests that were refused between two pages; `None` if the level began again.
fn refused(before: &Level, now: &Level, micros: Micros) -> Option<(u64, Micros)> {
    let sum = |level: &Level| Some(level.rejected? + level.timed_out?);
    Some((sum(now)?.checked_sub(sum(before)?)?, micros))
}

/// What only queues show where the page of requests is missing, or is an older apiserver's.
fn queued(capture: &mut Capture, queues: &[Queue]) {
    for queue in queues {
        let now = capture.levels.entry(queue.level.clone()).or_default();
        if let Some(seats) = queue.seats {
            *now.seats.get_or_insert_default() += seats;
        }
    }
}

fn requested(capture: &mut Capture, requests: &[Request]) {
    // What the page of requests counts itself is of one moment, and fits its rows.
    for now in capture.levels.values_mut() {
        (now.queued, now.seats_queued) = (0, Some(0));
        if capture.lists_executing {
            (now.executing, now.seats) = (0, Some(0));
        }
    }
    for request in requests {
        let now = capture.levels.entry(request.level.clone()).or_default();
        let user = request.details.as_ref().map_or(&request.flow, |details| &details.user);
        now.by.entry((request.flow_schema.clone(), user.clone())).or_default().add(request, capture.at);
        if request.executes {
            now.executing += 1;
            *now.seats.get_or_insert_default() += request.seats;
        } else {
            now.queued += 1;
            *now.seats_queued.get_or_insert_default() += request.seats;
        }
    }
    for now in capture.levels.values_mut() {
        now.oldest_wait = now.by.values().filter_map(|held| held.oldest_wait).max();
    }
}

/// Limits by the metrics page of the same apiserver. Where there is one apiserver with dump pages and one with metrics,
/// names need not agree.
fn limit(capture: &mut Capture, facts: &Facts, alone: bool) {
    let fits = |number: usize| {
        let of = &facts.instances[number];
        (of.cluster == capture.cluster || of.cluster.is_empty() || capture.cluster.is_empty())
            && (of.name == capture.instance || alone && facts.instances.len() == 1)
    };
    for (at, metric) in [Metric::LevelNominal, Metric::LevelLimit].into_iter().enumerate() {
        for fact in facts.of(metric).iter().filter(|fact| fits(fact.instance)) {
            if let Some(now) = capture.levels.get_mut(facts.text(fact.labels[0])) {
                now.limits[at] = fact.last;
            }
        }
    }
}
