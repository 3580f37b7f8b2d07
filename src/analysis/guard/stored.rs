//! Dangerous operations from what a stored roll-up holds.

use super::classify::{Batch, Created, Seen, hidden_write};
use crate::analysis::dims::{Dim, service_account_of};
use crate::analysis::filter::Filter;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::notable::Notable;
use crate::analysis::rollup::read::{TrafficRow, What, Who};
use crate::model::problem::Problem;

/// Dimensions that all tables of operations have.
const KEPT: [Dim; 10] = [
    Dim::Cluster,
    Dim::Instance,
    Dim::User,
    Dim::ServiceAccount,
    Dim::Agent,
    Dim::Verb,
    Dim::Group,
    Dim::Resource,
    Dim::Subresource,
    Dim::Namespace,
];

/// Whether a condition can be answered; if not, what it would take.
pub fn is_answered(filter: &Filter) -> Result<(), Problem> {
    match KEPT.contains(&filter.dim) {
        true => Ok(()),
        false => Err(Problem::unanswered(format!(
            "--where {}: roll-ups do not keep it for dangerous operations; use conditions on {}, or give the audit \
             log itself (docs/rollup.md, section 6)",
            filter.dim.name(),
            KEPT.map(Dim::name).join(", ")
        ))),
    }
}

/// What conditions look at.
#[derive(Debug, Clone, Copy)]
struct ConditionInput<'r> {
    cluster: &'r str,
    instance: &'r str,
    user: &'r str,
    agent: &'r str,
    verb: &'r str,
    group: &'r str,
    resource: &'r str,
    subresource: &'r str,
    namespace: &'r str,
}

impl<'r> ConditionInput<'r> {
    fn meets(&self, filters: &[Filter]) -> bool {
        filters.iter().all(|filter| filter.holds(self.value(filter.dim)))
    }

    fn value(&self, dim: Dim) -> &'r str {
        match dim {
            Dim::Cluster => self.cluster,
            Dim::Instance => self.instance,
            Dim::User => self.user,
            Dim::ServiceAccount => service_account_of(self.user).unwrap_or_default(),
            Dim::Agent => self.agent,
            Dim::Verb => self.verb,
            Dim::Group => self.group,
            Dim::Resource => self.resource,
            Dim::Subresource => self.subresource,
            Dim::Namespace => self.namespace,
            _ => "",
        }
    }

    fn of(one: &'r Notable) -> Self {
        Self {
            cluster: &one.cluster,
            instance: &one.instance,
            user: &one.user,
            agent: &one.agent,
            verb: &one.verb,
            group: &one.group,
            resource: &one.resource,
            subresource: &one.subresource,
            namespace: &one.namespace,
        }
    }

    fn of_traffic(who: &Who<'r>, (group, resource): What<'r>, row: &TrafficRow<'r>) -> Self {
        let Who { cluster, user, agent } = *who;
        let (instance, verb, subresource, namespace) = (row.instance, row.verb, row.subresource, row.namespace);
        Self { cluster, instance, user, agent, verb, group, resource, subresource, namespace }
    }
}

/// What a pass over the log would have seen of what meets all conditions.
pub fn batch(rollup: &Rollup, filters: &[Filter]) -> Batch {
    let operations: Vec<Notable> =
        rollup.operations().iter().filter(|one| ConditionInput::of(one).meets(filters)).cloned().collect();
    let mut seen = Seen { beyond: rollup.operations_dropped(), ..Seen::default() };
    let ended = if filters.is_empty() {
        rollup.ended()
    } else {
        let subjects = rollup.subjects();
        let meets = |row: &TrafficRow<'_>| {
            subjects
                .get(row.subject)
                .is_some_and(|(who, what)| ConditionInput::of_traffic(who, *what, row).meets(filters))
        };
        rollup.traffic().filter(meets).map(|row| row.requests.saturating_sub(row.open())).sum()
    };
    seen.events = ended + operations.iter().filter(|one| one.starts).count() as u64;
    for row in rollup.omitted() {
        let [cluster, user, agent, group, resource] = row.subject;
        let (instance, verb, subresource, namespace) = (row.instance, row.verb, row.subresource, row.namespace);
        let asked = ConditionInput { cluster, instance, user, agent, verb, group, resource, subresource, namespace };
        if !asked.meets(filters) {
            continue;
        }
        if row.is_dry_run {
            seen.dry_runs += row.count;
        } else {
            *seen.hidden.entry(hidden_write(verb, resource, subresource)).or_default() += row.count;
        }
    }
    for ([cluster, user, namespace, name], count, first) in rollup.created() {
        let mut created = Created::default();
        match name {
            "" => created.unnamed = count,
            name => drop(created.names.insert(name.to_owned(), first)),
        }
        let place = [cluster, user, namespace].map(str::to_owned);
        seen.created.entry(place.into()).or_default().merge(created);
    }
    let mut batch = Batch { operations, seen, ..Batch::default() };
    for (place, gone) in rollup.deletions() {
        batch.gone.entry(place).or_default().merge(&gone);
    }
    batch
}
