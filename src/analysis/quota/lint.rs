//! What is wrong with quotas, requests and limits as they stand.

use crate::analysis::quota::admitted::{Ranges, left_out};
use crate::analysis::quota::{owners, usage};
use crate::model::alert::OWNER_KEYS;
use crate::model::incident::quote;
use crate::model::objects::{Amounts, Objects, PodSpec};
use crate::model::quantity::{Form, Quantity};
use crate::model::quota::{Quotas, Usage, is_meant};
use crate::model::report::{Finding, Severity};
use crate::model::time;
use crate::model::units::counted;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What to look for.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Labels and annotations that name a namespace's owner.
    pub owner_keys: Vec<String>,
    /// Days of history without which nothing is said of quotas that are never reached.
    pub least_days: usize,
    /// The share of a quota below which usage stayed all the time for it to be called never reached.
    pub low: f64,
    /// The only namespaces to look at; all but the system's, where there is none.
    pub namespaces: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        let owner_keys = OWNER_KEYS.map(str::to_owned).to_vec();
        Self { owner_keys, least_days: 14, low: 0.5, namespaces: Vec::new() }
    }
}

/// What a container is better off not saying, unless a quota wants it: it may then use CPU that others do not use.
const UNUSUAL: &str = "limits.cpu";

/// What is missing whether or not a quota asks for it.
fn usual(mut missing: BTreeSet<String>) -> BTreeSet<String> {
    missing.remove(UNUSUAL);
    missing
}

/// All findings, the gravest first.
pub fn lint(objects: &Objects, quotas: &Quotas, rules: &Rules) -> Vec<Finding> {
    let is_wanted = |namespace: &str| is_meant(&rules.namespaces, namespace);
    let ranges = Ranges::of(objects, []);
    let mut findings = Vec::new();
    pods_without(objects, &ranges, &is_wanted, &mut findings);
    namespaces_without(objects, rules, &is_wanted, &mut findings);
    refusing(objects, &ranges, &is_wanted, &mut findings);
    blocking(objects, quotas, &ranges, &is_wanted, &mut findings);
    never_reached(quotas, rules, &is_wanted, &mut findings);
    let at = if quotas.at > 0 { time::format(quotas.at) } else { String::new() };
    for finding in &mut findings {
        finding.first_seen.clone_from(&at);
        finding.last_seen.clone_from(&at);
    }
    findings.sort_by(|a, b| {
        b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)).then_with(|| a.subject.cmp(&b.subject))
    });
    findings
}

/// Pods and templates whose containers don't say what they need: one finding for each workload, or pod that none made.
fn pods_without(objects: &Objects, ranges: &Ranges<'_>, is_wanted: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    // (namespace, kind, name) → (what is left out, pods)
    let mut found: BTreeMap<(String, String, String), (BTreeSet<String>, u64)> = BTreeMap::new();
    for workload in objects.workloads.iter().filter(|workload| is_wanted(&workload.namespace)) {
        let missing = usual(left_out(&ranges.admitted(&workload.namespace, &workload.template)));
        if !missing.is_empty() {
            found.insert(
                (workload.namespace.clone(), workload.kind.clone(), workload.name.clone()),
                (missing, workload.replicas),
            );
        }
    }
    for pod in objects.pods.iter().filter(|pod| is_wanted(&pod.namespace) && !pod.has_ended()) {
        // Pods of a workload that was read are reported with it. A ReplicaSet's name is its Deployment's and a hash.
        let known = pod.controller.as_ref().is_some_and(|(kind, name)| {
            let deployment = name.rsplit_once('-').map_or("", |(stem, _)| stem);
            objects.workloads.iter().any(|workload| {
                workload.namespace == pod.namespace
                    && (workload.kind == *kind && workload.name == *name
                        || kind == "ReplicaSet" && workload.kind == "Deployment" && workload.name == deployment)
            })
        });
        if known {
            continue;
        }
        let missing = usual(left_out(&ranges.admitted(&pod.namespace, &pod.spec)));
        if missing.is_empty() {
            continue;
        }
        let (kind, name) = pod.controller.clone().unwrap_or_else(|| ("Pod".to_owned(), pod.name.clone()));
        let row = found.entry((pod.namespace.clone(), kind, name)).or_default();
        row.0.extend(missing);
        row.1 += 1;
    }
    for ((namespace, kind, name), (missing, pods)) in found {
        let asks = missing.iter().any(|resource| resource.starts_with("requests."));
        let id = if asks { "quota-no-requests" } else { "quota-no-limits" };
        let severity = if asks { Severity::Warning } else { Severity::Info };
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let remedy = if asks {
            "set requests in the pod template, or give the namespace a LimitRange with defaults (quota propose \
             --limit-range): a quota rejects pods without requests, and the scheduler places them anywhere"
        } else {
            "set a memory limit in the pod template, or give the namespace a LimitRange with a default: without it \
             one leak can use the node's memory"
        };
        let finding = Finding::new(id, severity, &[("namespace", &namespace), ("kind", &kind), ("name", &name)])
            .summary(format!("{kind} {namespace}/{name} has containers without {}", missing.join(", ")))
            .evidence(json!({"missing": missing.join(","), "pods": pods}))
            .remedy(remedy);
        findings.push(finding);
    }
}

/// Namespaces with pods but without quota, and those without owner.
fn namespaces_without(objects: &Objects, rules: &Rules, is_wanted: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    let with_quota: BTreeSet<&str> = objects.quotas.iter().map(|quota| quota.namespace.as_str()).collect();
    let mut pods: BTreeMap<&str, u64> = BTreeMap::new();
    objects.pods.iter().for_each(|pod| *pods.entry(&pod.namespace).or_default() += 1);
    // An empty list of quotas does not say what it is a list of: where the namespaces are known and pods too, it is
    // taken for one.
    for (namespace, pods) in
        pods.iter().filter(|(namespace, _)| is_wanted(namespace) && !with_quota.contains(**namespace))
    {
        let finding = Finding::new("quota-none", Severity::Warning, &[("namespace", namespace)])
            .summary(format!("namespace {namespace} has {} and no ResourceQuota", counted(*pods, "pod")))
            .evidence(json!({"pods": pods}))
            .remedy("set a quota (quota propose): without one it can use the whole cluster, and etcd's space");
        findings.push(finding);
    }
    for (name, namespace) in objects.namespaces.iter().filter(|(name, _)| is_wanted(name)) {
        if owners::named(&rules.owner_keys, namespace).is_none() {
            let finding = Finding::new("quota-no-owner", Severity::Info, &[("namespace", name)])
                .summary(format!("namespace {name} has no owner"))
                .evidence(json!({"looked_for": rules.owner_keys.join(",")}))
                .remedy(format!(
                    "add a label or annotation: kubectl label {} team=…; quota alert notifies owners",
                    quote(&format!("namespace/{name}"))
                ));
            findings.push(finding);
        }
    }
}

/// Quotas that refuse pods outright: they ask for something that a template does not say.
fn refusing(objects: &Objects, ranges: &Ranges<'_>, is_wanted: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    for quota in objects.quotas.iter().filter(|quota| is_wanted(&quota.namespace)) {
        let asks = |resource: &str| {
            quota.hard.contains_key(resource)
                || resource.strip_prefix("requests.").is_some_and(|short| quota.hard.contains_key(short))
        };
        for workload in objects.workloads.iter().filter(|workload| workload.namespace == quota.namespace) {
            let spec = ranges.admitted(&workload.namespace, &workload.template);
            if !usage::is_counted(quota, &spec) {
                continue;
            }
            let missing: Vec<String> = left_out(&spec).into_iter().filter(|resource| asks(resource)).collect();
            if missing.is_empty() {
                continue;
            }
            let subject = [
                ("namespace", quota.namespace.as_str()),
                ("quota", &quota.name),
                ("kind", &workload.kind),
                ("name", &workload.name),
            ];
            let finding = Finding::new("quota-refuses-silent-pods", Severity::Critical, &subject)
                .summary(format!(
                    "{} {}/{} can't create pods: quota {} limits {}, and its containers don't set them",
                    workload.kind,
                    workload.namespace,
                    workload.name,
                    quota.name,
                    missing.join(", ")
                ))
                .evidence(json!({"missing": missing.join(",")}))
                .remedy(
                    "set them in the pod template, or give the namespace a LimitRange with defaults (quota propose \
                     --limit-range)",
                );
            findings.push(finding);
        }
    }
}

/// How quotas call the number of ReplicaSets.
const REPLICA_SETS: &str = "count/replicasets.apps";

/// What each further pod of a rollout uses; and the ReplicaSet that a Deployment makes for its new version.
fn of_rollout(spec: &PodSpec, kind: &str) -> Amounts {
    let mut used = usage::of_spec(spec, false);
    let one = Quantity::whole(1, Form::Decimal);
    used.insert("count/pods".to_owned(), one);
    if kind == "Deployment" {
        used.insert(REPLICA_SETS.to_owned(), one);
    }
    used
}

/// Quotas in which a rollout's further pods have no room now.
fn blocking(
    objects: &Objects,
    quotas: &Quotas,
    ranges: &Ranges<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
    findings: &mut Vec<Finding>,
) {
    for quota in objects.quotas.iter().filter(|quota| is_wanted(&quota.namespace)) {
        for workload in &objects.workloads {
            let is_here = workload.namespace == quota.namespace && workload.kind != "CronJob" && workload.replicas > 0;
            if !is_here {
                continue;
            }
            let spec = ranges.admitted(&workload.namespace, &workload.template);
            if !usage::is_counted(quota, &spec) {
                continue;
            }
            // Without surge an old pod goes first: then one pod's room is free. What a rollout needs at once is its
            // surge.
            let surge = i64::try_from(workload.surge).unwrap_or(i64::MAX);
            if surge == 0 {
                continue;
            }
            let each = of_rollout(&spec, &workload.kind);
            for standing in
                quotas.standings.iter().filter(|row| row.namespace == quota.namespace && row.quota == quota.name)
            {
                let Some(each) = each.get(&standing.resource).filter(|each| !each.is_zero()) else { continue };
                // A rollout makes one ReplicaSet, however many pods it makes at once.
                let at_once = if standing.resource == REPLICA_SETS { 1 } else { surge };
                let all = Quantity::from_nanos(each.nanos().saturating_mul(i128::from(at_once)), each.form());
                let Some(used) = standing.used else { continue };
                let room = standing.hard.minus(used);
                if all <= room {
                    continue;
                }
                let subject = [
                    ("namespace", standing.namespace.as_str()),
                    ("quota", &standing.quota),
                    ("resource", &standing.resource),
                    ("kind", &workload.kind),
                    ("name", &workload.name),
                ];
                // With room for one the rollout goes on, but slowly; and so it does where an old pod may go before a
                // new one has come.
                let stands = *each > room && workload.unavailable == 0;
                let severity = if stands { Severity::Critical } else { Severity::Warning };
                let room =
                    if room < Quantity::whole(0, Form::Decimal) { Quantity::whole(0, Form::Decimal) } else { room };
                let summary = format!(
                    "a rollout of {} {}/{} requires {} more {} at once ({}), and quota {} has {} left: it {}",
                    workload.kind,
                    workload.namespace,
                    workload.name,
                    all,
                    standing.resource,
                    counted(workload.surge, "further pod"),
                    quota.name,
                    room,
                    if stands { "stands still" } else { "goes slowly" }
                );
                let [used, hard, wanted, left] = [used, standing.hard, all, room].map(|amount| amount.to_string());
                let surge = workload.surge;
                let finding = Finding::new("quota-blocks-rollout", severity, &subject)
                    .summary(summary)
                    .evidence(json!({"used": used, "hard": hard, "wanted": wanted, "left": left, "surge": surge}))
                    .remedy(
                        "raise the quota (quota propose), or set maxSurge to 0 so that old pods are deleted before new \
                         ones are created",
                    );
                findings.push(finding);
            }
        }
    }
}

/// Quotas that grant much more than was ever used.
fn never_reached(quotas: &Quotas, rules: &Rules, is_wanted: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    for standing in
        quotas.standings.iter().filter(|standing| is_wanted(&standing.namespace) && !standing.hard.is_zero())
    {
        let usage = Usage::find(&quotas.usage, &standing.namespace, &standing.quota, &standing.resource);
        let Some(usage) = usage.filter(|usage| usage.days.len() >= rules.least_days) else { continue };
        let most =
            usage.days.iter().map(|day| day.max).fold(0.0, f64::max).max(standing.used.map_or(0.0, Quantity::value));
        let hard = standing.hard.value();
        if most >= rules.low * hard {
            continue;
        }
        let subject =
            [("namespace", standing.namespace.as_str()), ("quota", &standing.quota), ("resource", &standing.resource)];
        let most = Quantity::measured(most, standing.hard.form()).unwrap_or_default();
        let summary = format!(
            "quota {}/{} grants {} {}; in {} days at most {} were used",
            standing.namespace,
            standing.quota,
            standing.hard,
            standing.resource,
            usage.days.len(),
            most
        );
        let [hard, peak] = [standing.hard, most].map(|amount| amount.to_string());
        let finding = Finding::new("quota-never-reached", Severity::Info, &subject)
            .summary(summary)
            .evidence(json!({"hard": hard, "peak": peak, "days": usage.days.len()}))
            .remedy("lower it (quota propose): unused quota is missing elsewhere, or overcommitted");
        findings.push(finding);
    }
}
