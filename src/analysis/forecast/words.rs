//! What a series is called by people, what limits it, and what to do when the limit comes near.

use crate::analysis::quota::collect::{ALLOCATABLE, LIMITS, OBJECTS, QUOTA, REQUESTS};
use crate::model::forecast::{Backtest, Target, Unit};
use crate::model::names::{
    APISERVER_OBJECT_BYTES, APISERVER_OBJECTS, APISERVER_RPS, APISERVER_SEATS, CGROUP_MEMORY, CLUSTER_REQUESTS,
    ETCD_DB, ETCD_IN_USE, NAMESPACE_USAGE,
};
use crate::model::registry::qualified;
use crate::model::series::Series;
use crate::model::time::Micros;
use crate::model::units::{amount, duration, percent};

/// A resource with its group, `deployments.apps`.
pub fn grouped(series: &Series) -> String {
    qualified(series.label("group"), series.label("resource"))
}

/// Characters of a name at most.
const MAX_NAME_CHARS: usize = 160;

/// What a series is called by people.
pub fn title(series: &Series) -> String {
    let label = |name: &str| series.label(name);
    let is_sum = series.labels.keys().all(|name| name == "cluster");
    let with = |what: &str, name: &str| if name.is_empty() { what.to_owned() } else { format!("{what} {name}") };
    match series.name.as_str() {
        QUOTA if !label("resourcequota").is_empty() => {
            let what = if label("type") == "hard" { " (granted)" } else { "" };
            format!("{}/{} {}{what}", label("namespace"), label("resourcequota"), label("resource"))
        }
        CLUSTER_REQUESTS => match label("resource") {
            "pods" => "cluster pods".to_owned(),
            resource => format!("cluster requests.{resource}"),
        },
        REQUESTS => format!("{} requests.{}", label("namespace"), label("resource")),
        LIMITS => format!("{} limits.{}", label("namespace"), label("resource")),
        OBJECTS => format!("{} {}", label("namespace"), label("resource")),
        NAMESPACE_USAGE => format!("{} usage of {}", label("namespace"), label("resource")),
        ALLOCATABLE => format!("node {} {}", label("node"), label("resource")),
        APISERVER_OBJECTS if is_sum => "all objects".to_owned(),
        APISERVER_OBJECTS => format!("objects {}", grouped(series)),
        APISERVER_OBJECT_BYTES => format!("LIST bytes {}", grouped(series)),
        APISERVER_RPS if is_sum => "all requests".to_owned(),
        APISERVER_RPS if !label("flow_schema").is_empty() => format!("requests of {}", label("flow_schema")),
        APISERVER_RPS => {
            let what = with(&format!("requests {}", label("verb")), &grouped(series));
            if label("subresource").is_empty() { what } else { format!("{what}/{}", label("subresource")) }
        }
        APISERVER_SEATS => match label("kind") {
            "executing" | "" => format!("seats {}", label("priority_level")),
            kind => format!("seats {} ({kind})", label("priority_level")),
        },
        ETCD_DB => with("etcd db", label("instance")),
        ETCD_IN_USE => with("etcd in use", label("instance")),
        CGROUP_MEMORY => match label("kind") {
            "working_set" | "" => format!("memory {}", label("path")),
            kind => format!("memory {} ({kind})", label("path")),
        },
        _ => short(series.to_string()),
    }
}

/// What a target is called by people, no two of them the same.
pub fn name(target: &Target) -> String {
    let title = title(&target.series);
    if target.apart.is_empty() { title } else { format!("{title} ({})", short(target.apart.clone())) }
}

/// Labels of files may be of any length; so much of one shows which it is.
fn short(text: String) -> String {
    match text.char_indices().nth(MAX_NAME_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// What to do when the limit of a series comes near.
pub fn remedy(series: &Series) -> &'static str {
    match series.name.as_str() {
        QUOTA => "delete unused objects or lower requests, or raise the quota: plimsoll quota propose computes it",
        CLUSTER_REQUESTS => "add nodes, or lower unused requests: plimsoll quota propose shows peaks by namespace",
        APISERVER_SEATS => {
            "find who holds the seats (plimsoll clients --seats), throttle them, or give the level more shares"
        }
        APISERVER_RPS => "find the busiest clients (plimsoll traffic, plimsoll clients), or add apiservers",
        APISERVER_OBJECTS => {
            "find the owners of the objects (plimsoll etcd usage --by namespace), and delete unused ones"
        }
        APISERVER_OBJECT_BYTES => {
            "find who LISTs all of them (plimsoll clients), use pages or selectors, and delete unused objects"
        }
        ETCD_DB | ETCD_IN_USE => {
            "find what fills it (plimsoll etcd usage), delete unused objects, defragment if little of the file is in \
             use (plimsoll etcd health), or raise --quota-backend-bytes"
        }
        CGROUP_MEMORY => {
            "break its memory down (plimsoll memory show, plimsoll heap top), then raise the limit or reduce memory \
             use"
        }
        REQUESTS | LIMITS | OBJECTS => "delete what is unused, or move it elsewhere",
        _ => "reduce usage, or raise the limit",
    }
}

/// How good a model was, in words. `usual` is how large values are, for a percentage.
pub fn error(backtest: Option<&Backtest>, unit: Unit, usual: f64, step: Micros) -> String {
    let Some(backtest) = backtest else { return "not backtested: too little history".to_owned() };
    if !backtest.error.is_finite() {
        return "not known".to_owned();
    }
    let share = backtest.error / usual;
    let share = if share.is_finite() { format!(" ({})", percent(share)) } else { String::new() };
    let ahead = duration(step.saturating_mul(backtest.steps as Micros));
    let tries = if backtest.origins == 1 { "one try".to_owned() } else { format!("{} tries", backtest.origins) };
    format!("mean error {}{share} up to {ahead} ahead, in {tries}", amount(unit, backtest.error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::series::DAY;

    #[test]
    fn series_have_short_names() {
        for (series, name) in [
            (
                Series::new(
                    QUOTA,
                    &[
                        ("namespace", "batch"),
                        ("resourcequota", "compute"),
                        ("resource", "requests.cpu"),
                        ("type", "used"),
                    ],
                ),
                "batch/compute requests.cpu",
            ),
            (Series::new(CLUSTER_REQUESTS, &[("resource", "cpu")]), "cluster requests.cpu"),
            (Series::new(CLUSTER_REQUESTS, &[("resource", "pods")]), "cluster pods"),
            (Series::new(ETCD_DB, &[("instance", "10.0.0.1")]), "etcd db 10.0.0.1"),
            (Series::new(ETCD_DB, &[]), "etcd db"),
            (Series::new(APISERVER_RPS, &[]), "all requests"),
            (
                Series::new(
                    APISERVER_RPS,
                    &[("verb", "patch"), ("group", "apps"), ("resource", "deployments"), ("subresource", "status")],
                ),
                "requests patch deployments.apps/status",
            ),
            (
                Series::new(APISERVER_RPS, &[("flow_schema", "system-nodes"), ("priority_level", "system")]),
                "requests of system-nodes",
            ),
            (
                Series::new(APISERVER_SEATS, &[("priority_level", "global-default"), ("kind", "executing")]),
                "seats global-default",
            ),
            (Series::new(APISERVER_OBJECTS, &[("resource", "pods")]), "objects pods"),
            (
                Series::new(APISERVER_OBJECT_BYTES, &[("group", "apps"), ("resource", "deployments")]),
                "LIST bytes deployments.apps",
            ),
            (Series::new(CGROUP_MEMORY, &[("path", "/kubepods/a"), ("kind", "working_set")]), "memory /kubepods/a"),
            (Series::new("anything", &[("a", "b")]), "anything{a=\"b\"}"),
            (Series::new(&"é".repeat(200), &[]), &format!("{}…", "é".repeat(160))),
        ] {
            assert_eq!(title(&series), name);
        }
    }

    #[test]
    fn errors_are_words() {
        let tried = Backtest { mase: 0.8, coverage: 0.76, error: 1.5, origins: 5, steps: 7 };
        assert_eq!(error(Some(&tried), Unit::Cores, 50.0, DAY), "mean error 1.5 (3.0%) up to 7d ahead, in 5 tries");
        let once = Backtest { origins: 1, ..tried };
        assert_eq!(error(Some(&once), Unit::Cores, 0.0, DAY), "mean error 1.5 up to 7d ahead, in one try");
        assert_eq!(error(None, Unit::Count, 1.0, DAY), "not backtested: too little history");
    }
}
