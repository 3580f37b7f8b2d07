//! API Priority and Fairness: which requests belong together (FlowSchema), and how many of them an apiserver works on
//! at a time (PriorityLevelConfiguration). Field for field as in the API group `flowcontrol.apiserver.k8s.io`.

/// A FlowSchema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSchema {
    /// `metadata.name`.
    pub name: String,
    /// `matchingPrecedence`: the schema with the smallest one is asked first.
    pub precedence: i32,
    /// The name of its priority level.
    pub level: String,
    /// What makes a flow of its own within the schema.
    pub distinguisher: Option<Distinguisher>,
    /// A request matches the schema if it matches one of these.
    pub rules: Vec<Rule>,
}

/// What makes requests of one FlowSchema different flows, which are queued apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distinguisher {
    User,
    /// The namespace of the object.
    Namespace,
}

/// A rule: who, and asking for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// One of these must be the caller.
    pub subjects: Vec<Subject>,
    /// Of requests for resources, one of these must match.
    pub resources: Vec<ResourceRule>,
    /// Of all other requests, one of these must match.
    pub paths: Vec<PathRule>,
}

/// Who a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A user by name; `*` is every user.
    User(String),
    /// All members of a group; `*` is every group.
    Group(String),
    ServiceAccount {
        namespace: String,
        /// Its name; `*` is every one of the namespace.
        name: String,
    },
}

/// Requests for resources. A list that is just `*` matches everything; anywhere else `*` has no meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceRule {
    pub verbs: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// Resources; of subresources `pods/log`.
    pub resources: Vec<String>,
    /// Whether requests without a namespace match.
    pub cluster_scope: bool,
    /// Namespaces of requests that have one.
    pub namespaces: Vec<String>,
}

/// Requests for paths that are no resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRule {
    pub verbs: Vec<String>,
    pub paths: Vec<String>,
}

/// A PriorityLevelConfiguration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityLevel {
    /// `metadata.name`.
    pub name: String,
    /// `nominalConcurrencyShares`: its part of the apiserver's seats, against the sum over all levels.
    pub shares: u32,
    /// Per cent of its seats that other levels may borrow.
    pub lendable_percent: u32,
    /// Per cent of its seats that it may borrow beyond them; `None`: any number.
    pub borrowing_limit_percent: Option<u32>,
    /// What happens to a request for which there is no seat.
    pub limit: Limit,
}

/// What happens to a request that finds no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// There is no limit.
    Exempt,
    /// It is refused with 429.
    Reject,
    /// It waits in one of `queues`.
    Queue {
        /// Queues of the level.
        queues: u32,
        /// How many of them a flow may use.
        hand_size: u32,
        /// Requests that may wait in one queue.
        queue_length_limit: u32,
    },
}

/// The FlowSchemas and priority levels of one cluster, or a part of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowConfig {
    /// FlowSchemas.
    pub schemas: Vec<FlowSchema>,
    pub levels: Vec<PriorityLevel>,
}

impl FlowConfig {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty() && self.levels.is_empty()
    }
}
