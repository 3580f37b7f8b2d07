//! Objects of a live cluster: lists in pages, one kind after the other.

use crate::model::objects::Objects;
use crate::model::problem::Problem;
use crate::model::uri::percent_encode;
use crate::sources::live::{Cluster, LiveError};
use crate::sources::objects::read::{self, Taken};

/// Objects of a page. The apiserver reads a page from its cache from 1.31 on; older ones read etcd, in small bites.
const PAGE: u32 = 500;

/// Pages of one list: 5,000,000 objects.
pub const PAGES: usize = 10_000;

/// Lists that quotas and their history are made from, with the kind of what they hold.
pub const LISTS: [(&str, &str); 13] = [
    ("Namespace", "/api/v1/namespaces"),
    ("ResourceQuota", "/api/v1/resourcequotas"),
    ("LimitRange", "/api/v1/limitranges"),
    ("Pod", "/api/v1/pods"),
    ("Node", "/api/v1/nodes"),
    ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("Service", "/api/v1/services"),
    ("ReplicationController", "/api/v1/replicationcontrollers"),
    ("Deployment", "/apis/apps/v1/deployments"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("DaemonSet", "/apis/apps/v1/daemonsets"),
    ("Job", "/apis/batch/v1/jobs"),
    ("CronJob", "/apis/batch/v1/cronjobs"),
];

/// A list that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The apiserver did not give it.
    #[error("{path}: {error}")]
    Live {
        /// What was asked for.
        path: &'static str,
        /// What came of it.
        #[source]
        error: LiveError,
    },
    /// What it gave is no list.
    #[error("{path}: {what}")]
    Malformed {
        /// What was asked for.
        path: &'static str,
        /// Where and what.
        what: Problem,
    },
}

/// Takes all lists of `LISTS` whose kind is wanted. What can't be had is reported beside; of a list that breaks off
/// nothing is taken, since half of the pods look like a cluster that needs half.
pub fn take(cluster: &Cluster, is_wanted: &dyn Fn(&str) -> bool) -> (Objects, Vec<ListError>) {
    let mut objects = Objects::default();
    let mut errors = Vec::new();
    for (_, path) in LISTS.iter().filter(|(kind, _)| is_wanted(kind)) {
        errors.extend(list(cluster, path, &mut objects).err());
    }
    objects.settle();
    (objects, errors)
}

/// How often a list is begun again whose next page has expired (410).
const BEGINNINGS: usize = 3;

/// Takes one list, all of it or nothing. Items that can't be taken are an error once the others were.
fn list(cluster: &Cluster, path: &'static str, objects: &mut Objects) -> Result<(), ListError> {
    let mut own = Objects::default();
    let mut taken = pages(cluster, path, &mut own);
    for _ in 1..BEGINNINGS {
        if !matches!(taken, Err(ListError::Live { error: LiveError::Status { code: 410, .. }, .. })) {
            break;
        }
        own = Objects::default();
        taken = pages(cluster, path, &mut own);
    }
    let skipped = taken?;
    objects.merge(own);
    skipped.problem().map_or(Ok(()), |what| Err(ListError::Malformed { path, what }))
}

/// Takes a list page by page; what of it could not be taken.
fn pages(cluster: &Cluster, path: &'static str, objects: &mut Objects) -> Result<Taken, ListError> {
    let mut next: Option<String> = None;
    let mut skipped = Taken::default();
    let malformed = |what| ListError::Malformed { path, what };
    for _ in 0..PAGES {
        let page = cluster.get(0, &page_of(path, next.as_deref())).map_err(|error| ListError::Live { path, error })?;
        let (token, taken) = read::page(&page.body, objects).map_err(malformed)?;
        skipped.skipped.extend(taken.skipped);
        if token.is_some() && token == next {
            return Err(malformed(Problem::malformed("each page names itself as the next one")));
        }
        next = token;
        if next.is_none() {
            break;
        }
    }
    Ok(skipped)
}

/// The path of a list's first page, or of the one that a token stands for.
pub fn page_of(path: &str, token: Option<&str>) -> String {
    token.map_or_else(
        || format!("{path}?limit={PAGE}"),
        |token| format!("{path}?limit={PAGE}&continue={}", percent_encode(token)),
    )
}
