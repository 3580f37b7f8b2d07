//! Causes of an episode: what speaks for each, what against it, and which kind of source shows that.

/// Kinds of sources that a report can be made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Audit logs.
    Audit,
    /// Metrics pages of apiservers, etcd, controllers.
    Metrics,
    /// Databases of etcd.
    Etcd,
    /// Copies of cgroups.
    Cgroup,
    /// Heap profiles.
    Heap,
    /// Kubernetes objects.
    Objects,
}

impl Source {
    /// All.
    pub const ALL: [Self; 6] = [Self::Audit, Self::Metrics, Self::Etcd, Self::Cgroup, Self::Heap, Self::Objects];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Metrics => "metrics",
            Self::Etcd => "etcd",
            Self::Cgroup => "cgroup",
            Self::Heap => "heap",
            Self::Objects => "objects",
        }
    }

    /// What people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Audit => "audit logs",
            Self::Metrics => "metrics",
            Self::Etcd => "etcd database files",
            Self::Cgroup => "cgroup memory",
            Self::Heap => "heap profiles",
            Self::Objects => "objects",
        }
    }
}

/// Something that speaks for a cause or against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// One sentence, without its period.
    pub text: String,
    /// Where it comes from.
    pub source: Source,
    /// How much it moves the score; below 0 it speaks against it.
    pub weight: f64,
}

/// What may have caused the incident.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Which kind: `client-surge`, `expensive-lists`.
    pub kind: &'static str,
    /// What of it: a client, a resource, an apiserver; empty for the whole control plane.
    pub subject: Vec<(&'static str, String)>,
    /// One sentence, without its period, in plain words.
    pub summary: String,
    /// How likely it is that this is what it was, from 0 to 1.
    pub confidence: f64,
    /// The same if no kind of source were missing.
    pub confidence_if_complete: f64,
    /// What was measured of it, by the names of docs/judge.md.
    pub features: Vec<(&'static str, f64)>,
    /// What speaks for it.
    pub supports: Vec<Evidence>,
    /// What speaks against it.
    pub contradicts: Vec<Evidence>,
    /// What is missing to be sure.
    pub missing: Vec<String>,
    /// What to do while it goes on.
    pub now: Vec<String>,
    /// What to do so that it does not come back.
    pub later: Vec<String>,
    /// Objects that could be applied against it, as YAML: the command that writes them, its words, and what it writes.
    pub manifests: Vec<(Vec<String>, String)>,
}

impl Cause {
    /// From here on a candidate is called a cause.
    pub const LIKELY: f64 = 0.5;
    /// From here on it is possible.
    pub const POSSIBLE: f64 = 0.25;

    /// What of it: `subject_of("user")`; `None` where it is no part of the subject.
    pub fn subject_of(&self, field: &str) -> Option<&str> {
        self.subject.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_str())
    }

    /// The first two steps against it; empty where none is known.
    pub fn remedy(&self) -> String {
        self.now.iter().chain(&self.later).take(2).cloned().collect::<Vec<_>>().join("; ")
    }

    /// How likely it is, in words.
    pub fn words(&self) -> &'static str {
        match self.confidence {
            x if x >= 0.8 => "very likely",
            x if x >= Self::LIKELY => "likely",
            x if x >= Self::POSSIBLE => "possible",
            _ => "unlikely",
        }
    }
}
