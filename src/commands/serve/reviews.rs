//! Whom the cluster lets see what: TokenReview says who shows a token, SubjectAccessReview what they may do.
//!
//! A path is asked about as a non-resource URL, as of an apiserver's own `/metrics`. Who may not see all may see what
//! concerns a namespace, by `?namespace=`: if they may `get` the resource `requests` of the group `plimsoll.io` there.

use crate::actions::web::{Reviewer, Verdict};
use crate::model::uri::parameters;
use crate::sources::live::{Cluster, LiveError, Target};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long what the cluster decided holds: what it allowed, and what it did not.
const HOLDS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(10)];
/// Decisions that are kept at a time.
const MOST: usize = 4_096;
/// Longer tokens are nobody's, in bytes.
const LONGEST: usize = 64 << 10;

/// Paths that answer about one namespace, too.
pub(super) const BY_NAMESPACE: [&str; 2] = ["/api/v1/traffic", "/api/v1/guard/events"];

/// Decisions that hold for a time.
struct Decisions<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K: Eq + Hash, V: Clone> Decisions<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, holds: Duration) {
        let now = Instant::now();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MOST {
            held.retain(|_, (until, _)| now < *until);
        }
        // Whoever sends ever new tokens makes others be asked about once more.
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(key, (now + holds, value));
    }
}

impl<K, V> Default for Decisions<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// Hash of a token: tokens themselves are not kept.
type Token = [u8; 32];

/// What a SubjectAccessReview asks about: the group, resource and namespace, or a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Path { path: String, verb: String },
    Namespace(String),
}

impl Subject {
    fn attributes(&self) -> (&'static str, Value) {
        match self {
            Self::Path { path, verb } => ("nonResourceAttributes", json!({"path": path, "verb": verb})),
            Self::Namespace(namespace) => (
                "resourceAttributes",
                json!({"namespace": namespace, "verb": "get", "group": "plimsoll.io", "resource": "requests"}),
            ),
        }
    }
}

/// Asks a cluster.
pub(super) struct Reviews {
    target: Target,
    cluster: Mutex<Option<Arc<Cluster>>>,
    /// Who shows a token, as TokenReview describes users; `None` of tokens that nobody knows.
    users: Decisions<Token, Option<Value>>,
    allowed: Decisions<(Token, Subject), bool>,
}

impl Reviews {
    pub(super) fn new(target: Target) -> Self {
        Self { target, cluster: Mutex::default(), users: Decisions::default(), allowed: Decisions::default() }
    }

    fn cluster(&self) -> Result<Arc<Cluster>, LiveError> {
        let mut held = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some(cluster) => Ok(Arc::clone(cluster)),
            None => {
                let cluster = Arc::new(Cluster::connect(&self.target)?);
                *held = Some(Arc::clone(&cluster));
                Ok(cluster)
            }
        }
    }

    /// The status of a review.
    fn ask(&self, path: &str, kind: &str, spec: Value) -> Result<Value, String> {
        let version = path.trim_start_matches("/apis/").rsplit_once('/').map_or("", |(version, _)| version);
        let review = json!({"apiVersion": version, "kind": kind, "spec": spec});
        let answered = self.cluster().and_then(|cluster| cluster.review(path, &review)).inspect_err(|_| {
            // A certificate may have ended, an address have moved: the next one connects again.
            *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = None;
        });
        let page = answered.map_err(|error| error.to_string())?;
        let answer: Value =
            serde_json::from_slice(&page.body).map_err(|error| format!("{path}: the answer is no JSON: {error}"))?;
        Ok(answer["status"].clone())
    }

    fn user(&self, token: &str, hash: Token) -> Result<Option<Value>, String> {
        if let Some(user) = self.users.get(&hash) {
            return Ok(user);
        }
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let status = self.ask(path, "TokenReview", json!({"token": token}))?;
        let user =
            (status["authenticated"] == true && status["user"]["username"].is_string()).then(|| status["user"].clone());
        let holds = HOLDS[usize::from(user.is_none())];
        self.users.put(hash, user.clone(), holds);
        Ok(user)
    }

    fn may(&self, user: &Value, hash: Token, subject: Subject) -> Result<bool, String> {
        let key = (hash, subject);
        if let Some(allowed) = self.allowed.get(&key) {
            return Ok(allowed);
        }
        let (name, attributes) = key.1.attributes();
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let mut spec = json!({name: attributes, "user": user["username"]});
        for field in ["groups", "uid", "extra"] {
            if !user[field].is_null() {
                spec[field] = user[field].clone();
            }
        }
        let allowed = self.ask(path, "SubjectAccessReview", spec)?["allowed"] == true;
        let holds = HOLDS[usize::from(!allowed)];
        self.allowed.put(key, allowed, holds);
        Ok(allowed)
    }

    fn decide(&self, token: &str, method: &str, path: &str, query: &str) -> Result<Verdict, String> {
        let hash: Token = Sha256::digest(token.as_bytes()).into();
        let Some(user) = self.user(token, hash)? else { return Ok(Verdict::Unknown) };
        // HEAD is GET without a body.
        let verb = if method == "HEAD" { "get".to_owned() } else { method.to_ascii_lowercase() };
        if self.may(&user, hash, Subject::Path { path: path.to_owned(), verb: verb.clone() })? {
            return Ok(Verdict::Allowed);
        }
        let name = user["username"].as_str().unwrap_or_default();
        let all = format!("a ClusterRole with nonResourceURLs [{path}] and verbs [{verb}]");
        if !BY_NAMESPACE.contains(&path) {
            return Ok(Verdict::Denied(format!("{name} needs {all}")));
        }
        // Of several the answer is about the last one.
        let last = parameters(query).into_iter().rfind(|(name, _)| name == "namespace").map(|(_, value)| value);
        let role = "a Role with apiGroups [plimsoll.io], resources [requests] and verbs [get]";
        let Some(namespace) = last.filter(|namespace| !namespace.is_empty()) else {
            return Ok(Verdict::Denied(format!("{name} needs {all}; or add ?namespace=N, which needs {role} there")));
        };
        match self.may(&user, hash, Subject::Namespace(namespace.clone()))? {
            true => Ok(Verdict::AllowedIn(namespace)),
            false => Ok(Verdict::Denied(format!("{name} needs {role} in {namespace}, or {all}"))),
        }
    }
}

impl Reviewer for Reviews {
    fn review(&self, token: &str, method: &str, path: &str, query: &str) -> Verdict {
        if token.len() > LONGEST {
            return Verdict::Unknown;
        }
        self.decide(token, method, path, query).unwrap_or_else(Verdict::Unanswered)
    }
}
