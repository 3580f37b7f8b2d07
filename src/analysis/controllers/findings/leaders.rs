//! Leases that nobody holds, or that nobody held for too long.

use super::Draft;
use crate::analysis::controllers::handovers::{GAP, Handover, Lease, Run};
use crate::analysis::controllers::leaders::Elected;
use crate::analysis::controllers::read::Read;
use crate::analysis::metrics::facts::Facts;
use crate::model::report::{Finding, Severity};
use crate::model::time::{self, Micros, SECOND, clock};
use crate::model::units::duration;
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The findings on elections: nobody leads, by metrics; for too long nobody led, by logs.
pub(in crate::analysis::controllers) fn on_elections(
    facts: &Facts,
    elections: &BTreeMap<(String, String), Elected>,
    handovers: &[Handover],
    read: &Read,
) -> Vec<Finding> {
    let dead: Vec<(&Lease, &Run, Micros)> = read.ran_out().collect();
    let is_dead = |cluster: &str, lease: &str| dead.iter().any(|((of, _, name), ..)| of == cluster && name == lease);
    let missing =
        elections.iter().filter(|((cluster, lease), elected)| elected.leading.is_empty() && !is_dead(cluster, lease));
    let missing = missing.map(|((cluster, lease), elected)| {
        missing_leader(facts, lease, elected)
            .about(&[("cluster", cluster), ("lease", lease)], (facts.last(), facts.last()))
    });
    let late = handovers.iter().filter(|handover| handover.gap as f64 >= GAP).map(gap);
    missing.chain(dead.iter().map(|(lease, run, since)| ended(lease, run, *since))).chain(late).collect()
}

/// A lease that its holder stopped renewing, and that nobody took.
fn ended((cluster, namespace, name): &Lease, run: &Run, since: Micros) -> Finding {
    let holder = run.holder.name();
    let draft = Draft {
        id: "leader-missing",
        severity: Severity::Critical,
        confidence: 0.9,
        summary: format!(
            "{namespace}/{name} has had no leader for {}: {holder} renewed it last at {}",
            duration(since),
            clock(run.last)
        ),
        evidence: json!({
            "holder": holder, "last_renewal": time::format(run.last), "for_s": since as f64 / SECOND as f64,
            "lease_s": run.lasts.map(|lasts| lasts as f64 / SECOND as f64),
        }),
        remedy: format!(
            "check that {holder} runs and reaches the apiserver, and why no other replica took over: kubectl -n \
             {namespace} get lease {name} -o yaml"
        ),
    };
    draft.about(&[("cluster", cluster), ("lease", name), ("namespace", namespace)], (run.last, run.last + since))
}

fn missing_leader(facts: &Facts, lease: &str, elected: &Elected) -> Draft {
    let names: Vec<Cow<'_, str>> =
        elected.candidates.iter().map(|candidate| facts.instances[*candidate].called()).collect();
    // One of several says little.
    let (severity, confidence) =
        if elected.candidates.len() > 1 { (Severity::Critical, 0.8) } else { (Severity::Info, 0.5) };
    Draft {
        id: "leader-missing",
        severity,
        confidence,
        summary: format!("{lease} has no leader among these processes: {}", names.join(", ")),
        evidence: json!({"candidates": names.join(", ")}),
        remedy: format!(
            "check whether the leader is a process whose metrics are missing here; else check who holds the lease \
             (kubectl -n kube-system get lease {lease}) and whether it can be renewed"
        ),
    }
}

fn gap(handover: &Handover) -> Finding {
    let (cluster, namespace, name) = &handover.lease;
    let (from, to) = (handover.from.name(), handover.to.name());
    let took = if handover.to == handover.from { "came back".to_owned() } else { format!("took over from {from}") };
    let draft = Draft {
        id: "leader-gap",
        severity: Severity::Warning,
        confidence: 0.9,
        summary: format!("{namespace}/{name} had no leader for {}: {to} {took}", duration(handover.gap)),
        evidence: json!({"gap_s": handover.gap as f64 / SECOND as f64, "from": from, "to": to,
            "released": handover.is_released}),
        remedy: "release the lease on shutdown, run a standby replica, and keep leaseDurationSeconds at 15; until \
             the takeover its work stops"
            .to_owned(),
    };
    draft.about(
        &[("cluster", cluster), ("lease", name), ("namespace", namespace)],
        (handover.at - handover.gap, handover.at),
    )
}
