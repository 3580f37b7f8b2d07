//! API Priority and Fairness at one moment: the rows of an apiserver's pages `/debug/api_priority_and_fairness/dump_*`.
//!
//! What a page of an older apiserver lacks is `None`.

use super::time::Micros;

/// A priority level (`dump_priority_levels`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    pub name: String,
    /// Queues that hold a request.
    pub active_queues: Option<u64>,
    /// Whether nothing waits or executes.
    pub idle: Option<bool>,
    /// Whether it is no longer configured, and waits for its last requests.
    pub quiescing: Option<bool>,
    /// Requests that wait in its queues.
    pub waiting: Option<u64>,
    /// Requests that execute.
    pub executing: Option<u64>,
    /// Requests that began to execute since the level began.
    pub dispatched: Option<u64>,
    /// Requests that were rejected since then, as the queue was full or there was no seat.
    pub rejected: Option<u64>,
    /// Requests that waited too long since then.
    pub timed_out: Option<u64>,
    /// Requests whose caller left while they waited.
    pub cancelled: Option<u64>,
}

/// A queue of a priority level (`dump_queues`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// The level's name.
    pub level: String,
    /// Which of its queues, from 0.
    pub index: Option<u64>,
    /// Requests that wait.
    pub waiting: Option<u64>,
    /// Requests that execute.
    pub executing: Option<u64>,
    /// Seats that are held, also by writes whose watchers are still being notified.
    pub seats: Option<u64>,
}

/// A request that waits or executes (`dump_requests`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Its priority level.
    pub level: String,
    /// The FlowSchema that it matched.
    pub flow_schema: String,
    /// What distinguishes its flow from others of the schema: the user or the namespace, as the schema says; mostly
    /// empty where it says nothing.
    pub flow: String,
    /// When it arrived.
    pub arrived: Micros,
    /// When it began to execute; `None` while it waits.
    pub started: Option<Micros>,
    /// Whether it executes.
    pub executes: bool,
    /// Seats that it holds or waits for: the larger of those for executing and those for what comes after. Pages of
    /// Kubernetes 1.21 and older have no seats, as each request took one.
    pub seats: u64,
    /// Who asks for what, on pages that were taken with `?includeRequestDetails=1`.
    pub details: Option<Details>,
}

/// Who asks for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    pub user: String,
    /// The verb, in small letters.
    pub verb: String,
    /// The path of the URL, without its query.
    pub path: String,
    /// The namespace, if it is about one.
    pub namespace: String,
    /// The object's name, if it is about one.
    pub name: String,
    /// Group and version.
    pub version: String,
    pub resource: String,
    pub subresource: String,
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// Priority levels.
    Levels(Vec<Level>),
    Queues(Vec<Queue>),
    Requests {
        requests: Vec<Request>,
        /// Whether it says who asks for what.
        details: bool,
        /// Whether it lists those that execute: those of older apiservers have only those that wait.
        executing: bool,
    },
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Levels(rows) => rows.len(),
            Self::Queues(rows) => rows.len(),
            Self::Requests { requests, .. } => requests.len(),
        }
    }
}

/// How the moment of a page is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// By the page itself: the request for it executes, and is the last that began.
    Page,
    /// By its file's name.
    Name,
    /// It was read at that time, by this machine's clock.
    Read,
    /// By the last arrival on it: it may have been taken later.
    Arrival,
    /// By its file's modification time.
    Modified,
}

impl Moment {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Name => "name",
            Self::Read => "read",
            Self::Arrival => "arrival",
            Self::Modified => "modified",
        }
    }
}

/// A page, whose it is, and when it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpPage {
    /// The cluster, if a bundle names it.
    pub cluster: String,
    /// The apiserver.
    pub instance: String,
    /// Its file or URL.
    pub path: String,
    /// When it was taken.
    pub at: Micros,
    /// How that is known.
    pub moment: Moment,
    /// What it holds.
    pub rows: Rows,
}
