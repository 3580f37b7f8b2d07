//! What a client may ask of the apiserver: a budget, and what became of it.

use super::time::Micros;

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// LISTs of all objects at once in any hour, but for the client's first minute.
    FullLists,
    /// LISTs in the client's first minute, of each copy.
    StartupLists,
    /// Watches without bookmarks that were opened in any hour.
    WatchesWithoutBookmarks,
    /// Requests in any minute.
    RequestsPerMinute,
    /// Updates and patches of one object in any minute.
    WritesPerObjectPerMinute,
    /// Requests for each item that its work queues handed out.
    RequestsPerReconcile,
    /// Updates and patches in any hour that left the object as it was.
    NoOpWrites,
    /// Retries in any hour within a second of a 429.
    EarlyRetries,
    /// Calls of deprecated API versions.
    DeprecatedApis,
}

impl Rule {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::FullLists,
        Self::StartupLists,
        Self::WatchesWithoutBookmarks,
        Self::RequestsPerMinute,
        Self::WritesPerObjectPerMinute,
        Self::RequestsPerReconcile,
        Self::NoOpWrites,
        Self::EarlyRetries,
        Self::DeprecatedApis,
    ];

    /// Its key among `limits`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullLists => "fullLists",
            Self::StartupLists => "startupLists",
            Self::WatchesWithoutBookmarks => "watchesWithoutBookmarks",
            Self::RequestsPerMinute => "requestsPerMinute",
            Self::WritesPerObjectPerMinute => "writesPerObjectPerMinute",
            Self::RequestsPerReconcile => "requestsPerReconcile",
            Self::NoOpWrites => "noOpWrites",
            Self::EarlyRetries => "earlyRetries",
            Self::DeprecatedApis => "deprecatedAPIs",
        }
    }

    /// The rule of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// What is counted, for people.
    pub fn what(self) -> &'static str {
        match self {
            Self::FullLists => "LISTs of all objects in an hour, after the first minute",
            Self::StartupLists => "LISTs in the first minute, of each copy",
            Self::WatchesWithoutBookmarks => "watches without bookmarks in an hour",
            Self::RequestsPerMinute => "requests in a minute",
            Self::WritesPerObjectPerMinute => "writes to one object in a minute",
            Self::RequestsPerReconcile => "requests for each reconciled item",
            Self::NoOpWrites => "writes in an hour that change nothing",
            Self::EarlyRetries => "retries in an hour within a second of a 429",
            Self::DeprecatedApis => "calls of deprecated API versions",
        }
    }

    /// What to change where it is exceeded.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::FullLists => "list once and watch (an informer), or page with limit and continue",
            Self::StartupLists => "share one informer factory or cache for each resource, and start only those needed",
            Self::WatchesWithoutBookmarks => "set allowWatchBookmarks=true, as client-go's informers do",
            Self::RequestsPerMinute => "read from the informer's cache, and set QPS and burst of the client",
            Self::WritesPerObjectPerMinute => "write only changes, and gather them (MaxConcurrentReconciles, requeue)",
            Self::RequestsPerReconcile => "read from the informer's cache, and write only changes",
            Self::NoOpWrites => "compare with the informer's copy before writing (equality.Semantic.DeepEqual)",
            Self::EarlyRetries => "honour Retry-After, and use exponential backoff with jitter",
            Self::DeprecatedApis => "call the version that replaces it",
        }
    }

    /// Whether it is counted by resource, so that exceptions may name one.
    pub fn is_by_resource(self) -> bool {
        !matches!(self, Self::RequestsPerReconcile)
    }
}

/// More of one rule for a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    pub rule: Rule,
    /// For this resource alone (`pods`, `deployments.apps`); `None`: for all.
    pub resource: Option<String>,
    pub max: f64,
    /// When it ends, in µs.
    pub until: Micros,
    /// The same as it was written.
    pub last_day: String,
    pub reason: String,
}

/// What one client may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// `metadata.name`, else the client's user.
    pub name: String,
    /// User, service account as `NAMESPACE:NAME`.
    pub user: String,
    /// Agent product; `None`: all of the user.
    pub agent: Option<String>,
    /// Name of the folder or file of the client's own metrics pages; `None`: of all but the control plane's.
    pub metrics: Option<String>,
    pub owner: Option<String>,
    pub limits: Vec<(Rule, f64)>,
    pub exceptions: Vec<Exception>,
}

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Within,
    /// Beyond the limit, and within an exception.
    Excepted,
    Exceeded,
    /// The sources do not show it.
    Unknown,
}

impl Verdict {
    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Excepted => "excepted",
            Self::Exceeded => "exceeded",
            Self::Unknown => "unknown",
        }
    }
}

/// A rule, or an exception to it for one resource, beside what was counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub budget: String,
    /// User as people read it, with the agent where the budget names one.
    pub client: String,
    pub owner: Option<String>,
    pub rule: Rule,
    /// Of an exception for one resource.
    pub resource: Option<String>,
    pub allowed: f64,
    /// What was counted, at least; `None` where nothing is known.
    pub used: Option<f64>,
    pub verdict: Verdict,
    /// Which resources it was, or what is missing to know.
    pub detail: String,
}
