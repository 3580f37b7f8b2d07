//! What quotas should be: the peak of what was used and some headroom, as Pinterest sets them.

use crate::analysis::quota::defaults::Added;
use crate::analysis::quota::refused::Refused;
use crate::model::quantity::Quantity;
use crate::model::quota::{Quotas, Usage, form, is_bytes, is_countable, is_meant};
use crate::model::series::{DAY, Day, SUSTAINED, Sketch};
use crate::model::time::{Micros, together};
use std::collections::{BTreeMap, BTreeSet};

/// Which peak is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peak {
    /// The most that was used.
    #[default]
    Max,
    /// The 99.9th percentile of all samples.
    P999,
    /// The 99th percentile of all samples.
    P99,
}

/// How proposals are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Which peak is taken.
    pub peak: Peak,
    /// What is added to it: 0.2 for 20 %.
    pub headroom: f64,
    /// Which of [`SUSTAINED`] a peak must have lasted so as not to be a spike.
    pub lasting: usize,
    /// Whether spikes are left out.
    pub without_spikes: bool,
    /// The first day and the last that count.
    pub days: (Option<i32>, Option<i32>),
    /// The only namespaces to look at; all, where there is none.
    pub namespaces: Vec<String>,
    /// From how many objects on `count/…` gets a quota where there is none.
    pub hot_count: f64,
    /// The only resources to look at; all, where there is none.
    pub resources: Vec<String>,
    /// Whether manifests may lower what is granted, where enough history stands behind it.
    pub allow_decrease: bool,
}

/// Days of history that a lower limit needs: two weeks hold each weekday twice.
pub const DECREASE_DAYS: u64 = 14;

impl Rules {
    /// `20%`.
    pub fn headroom_in_words(&self) -> String {
        format!("{}%", (self.headroom * 1e4).round() / 100.0)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            peak: Peak::Max,
            headroom: 0.2,
            lasting: 1,
            without_spikes: false,
            days: (None, None),
            namespaces: Vec::new(),
            hot_count: 1_000.0,
            resources: Vec::new(),
            allow_decrease: false,
        }
    }
}

/// Why a peak may be below what was needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Censored {
    /// Audit logs show what was refused.
    Refused,
    /// Usage stood at the quota; what was refused is not known.
    AtQuota,
}

/// What one quota should grant of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub namespace: String,
    /// The ResourceQuota's name; empty where none stands.
    pub quota: String,
    /// The resource as quotas name it.
    pub resource: String,
    /// The peak that was taken; with what was refused, where that is known.
    pub peak: Quantity,
    /// When the largest value was first seen, or the last request was refused where that is the peak.
    pub peak_at: Micros,
    /// The level that was kept for the time of [`Rules::lasting`]; `None` where samples are too far apart to report.
    pub sustained: Option<Quantity>,
    /// Whether the peak is a spike: not kept for that time.
    pub is_spike: bool,
    /// What a LimitRange that is proposed as well adds to usage.
    pub defaults: Quantity,
    /// What is used now.
    pub used: Quantity,
    /// What is granted now.
    pub hard: Option<Quantity>,
    /// What it should be.
    pub proposed: Quantity,
    /// Why the true need may be higher.
    pub censored: Option<Censored>,
    /// Requests that were refused.
    pub refused: u64,
    /// Days with samples.
    pub days: u64,
}

impl Proposal {
    /// The change against what is granted now: 0.5 for half as much again.
    pub fn change(&self) -> Option<f64> {
        let hard = self.hard.filter(|hard| !hard.is_zero())?;
        Some(self.proposed.value() / hard.value() - 1.0)
    }

    /// What a manifest grants: what is proposed, but no less than what stands, unless that was asked for and enough is
    /// known.
    pub fn granted(&self, rules: &Rules) -> Quantity {
        let may_fall = rules.allow_decrease && self.days >= DECREASE_DAYS;
        self.hard.filter(|hard| self.proposed < *hard && !may_fall).unwrap_or(self.proposed)
    }

    /// Why it is what it is, in one sentence.
    pub fn reason(&self, rules: &Rules) -> String {
        let peak = match rules.peak {
            Peak::Max => "peak",
            Peak::P999 => "p99.9",
            Peak::P99 => "p99",
        };
        let headroom = rules.headroom_in_words();
        let mut text = match self.censored {
            Some(Censored::Refused) => format!("denied requests plus usage, + {headroom}"),
            _ if self.is_spike && rules.without_spikes => format!("level without the spike + {headroom}"),
            _ => format!("{peak} + {headroom}"),
        };
        if self.peak.is_zero() && self.defaults.is_zero() {
            return format!("no usage in {}: unchanged", crate::model::units::counted(self.days, "day"));
        }
        if self.used > self.peak.times(1.0 + rules.headroom) {
            text = "current usage".to_owned();
        }
        if !self.defaults.is_zero() {
            text = format!("{} of containers that get defaults; {text}", self.defaults);
        }
        if self.censored == Some(Censored::AtQuota) {
            text += "; usage was at the quota, so demand may be higher";
        }
        if self.is_spike && !rules.without_spikes {
            text += "; the peak was a spike";
        }
        text
    }
}

/// All proposals, and what they come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposals {
    /// By namespace, quota and resource.
    pub rows: Vec<Proposal>,
    /// First and last sample that counted.
    pub span: Option<(Micros, Micros)>,
    /// Namespaces that get no quota of a resource since containers there don't say what they need: `(namespace,
    /// resource)`.
    pub left_out: Vec<(String, String)>,
}

/// Resources that get a quota where there is none.
const USUAL: [&str; 5] = ["requests.cpu", "requests.memory", "limits.memory", "pods", "requests.storage"];

/// How near to the quota usage must have come for it to have been held back by it: the next pod may not have fit.
const AT_QUOTA: f64 = 0.95;

/// What containers don't say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unstated {
    /// By namespace, resources that some containers there don't state: a quota would refuse them.
    pub silent: BTreeMap<String, BTreeSet<String>>,
    /// What LimitRanges that are proposed as well fill in.
    pub added: Added,
}

/// Makes proposals.
pub fn propose(quotas: &Quotas, refused: &Refused, unstated: &Unstated, rules: &Rules) -> Proposals {
    let mut proposals = Proposals::default();
    let with_quota: BTreeSet<(&str, &str)> =
        quotas.standings.iter().map(|standing| (standing.namespace.as_str(), standing.resource.as_str())).collect();
    let standing: BTreeMap<(&str, &str, &str), (Quantity, Option<Quantity>)> = (quotas.standings.iter())
        .map(|row| ((row.namespace.as_str(), row.quota.as_str(), row.resource.as_str()), (row.hard, row.used)))
        .collect();
    let newest =
        quotas.usage.iter().filter_map(|usage| usage.days.last()).map(|day| day.last_at).max().unwrap_or_default();
    for usage in &quotas.usage {
        let is_named = rules.resources.is_empty() || rules.resources.contains(&usage.resource);
        let is_wanted = is_named && (rules.namespaces.is_empty() || rules.namespaces.contains(&usage.namespace));
        // One whose namespace no longer exists needs none; where namespaces are unknown, one without a sample for a
        // day.
        let exists = if quotas.namespaces.is_empty() {
            usage.days.last().is_some_and(|day| newest - day.last_at < DAY)
        } else {
            quotas.namespaces.contains_key(&usage.namespace)
        };
        if !is_wanted || !exists {
            continue;
        }
        let key = (usage.namespace.as_str(), usage.quota.as_str(), usage.resource.as_str());
        let stands = standing.get(&key).copied();
        if usage.quota.is_empty() {
            // A resource that some quota of the namespace speaks of is proposed there.
            if with_quota.contains(&(key.0, key.2)) || !gets_one(usage, rules) {
                continue;
            }
            if unstated.silent.get(&usage.namespace).is_some_and(|resources| resources.contains(&usage.resource)) {
                proposals.left_out.push((usage.namespace.clone(), usage.resource.clone()));
                continue;
            }
        } else if stands.is_none() && !quotas.standings.is_empty() {
            // A quota, or a resource of it, that was removed.
            continue;
        }
        if let Some((proposal, span)) = of(usage, stands, (refused, &unstated.added), rules) {
            proposals.span = together(proposals.span, Some(span));
            proposals.rows.push(proposal);
        }
    }
    // What no container of a namespace states, but a LimitRange will state for them all.
    for ((namespace, quota, resource), added) in &unstated.added {
        let is_named = rules.resources.is_empty() || rules.resources.contains(resource);
        let is_new = quota.is_empty()
            && USUAL.contains(&resource.as_str())
            && !with_quota.contains(&(namespace.as_str(), resource.as_str()))
            && Usage::find(&quotas.usage, namespace, quota, resource).is_none();
        if !is_named || !is_meant(&rules.namespaces, namespace) || !is_new {
            continue;
        }
        let nothing = Quantity::from_nanos(0, form(resource));
        proposals.rows.push(Proposal {
            namespace: namespace.clone(),
            quota: String::new(),
            resource: resource.clone(),
            peak: nothing,
            peak_at: quotas.at,
            sustained: None,
            is_spike: false,
            defaults: *added,
            used: nothing,
            hard: None,
            proposed: rounded(added.times(1.0 + rules.headroom), resource),
            censored: None,
            refused: 0,
            days: 1,
        });
    }
    fn key(row: &Proposal) -> (&String, &String, &String) {
        (&row.namespace, &row.quota, &row.resource)
    }
    proposals.rows.sort_by(|a, b| key(a).cmp(&key(b)));
    proposals
}

/// Rounded up, in the form that is usual for the resource, whatever the present quota is written in.
fn rounded(amount: Quantity, resource: &str) -> Quantity {
    Quantity::from_nanos(amount.rounded_up(is_countable(resource)).nanos(), form(resource))
}

/// Whether a resource without quota gets one.
fn gets_one(usage: &Usage, rules: &Rules) -> bool {
    let most = days(usage, rules).map(|day| day.max).fold(0.0, f64::max);
    let is_hot = usage.resource.starts_with("count/") && usage.resource != "count/pods" && most >= rules.hot_count;
    // What belongs to the cluster itself is not held back by quotas unasked.
    is_meant(&rules.namespaces, &usage.namespace) && most > 0.0 && (USUAL.contains(&usage.resource.as_str()) || is_hot)
}

fn days<'u>(usage: &'u Usage, rules: &Rules) -> impl Iterator<Item = &'u Day> + use<'u> {
    let (from, to) = rules.days;
    usage.days.iter().filter(move |day| from.is_none_or(|from| day.day >= from) && to.is_none_or(|to| day.day <= to))
}

fn of(
    usage: &Usage,
    stands: Option<(Quantity, Option<Quantity>)>,
    (refused, added): (&Refused, &Added),
    rules: &Rules,
) -> Option<(Proposal, (Micros, Micros))> {
    let in_form = |value: f64| Quantity::measured(value, form(&usage.resource));
    let top = days(usage, rules)
        .fold(None::<&Day>, |top, day| if top.is_none_or(|top| day.max > top.max) { Some(day) } else { top })?;
    let latest = days(usage, rules).last()?;
    let first = days(usage, rules).next()?;
    let level = days(usage, rules).map(|day| day.sustained[rules.lasting]).fold(f64::NEG_INFINITY, f64::max);
    // What is used now is no spike, however short it has been: nobody knows how long it will last.
    let is_spike = level.is_finite() && level < top.max && latest.last.min(top.max) <= level;
    let taken = match rules.peak {
        _ if rules.without_spikes && is_spike => level,
        Peak::Max => top.max,
        Peak::P999 => quantile(days(usage, rules), 0.999, top.max),
        Peak::P99 => quantile(days(usage, rules), 0.99, top.max),
    };
    // A counter that went below nothing is no ground for a limit below it.
    let nothing = Quantity::default();
    let mut peak = in_form(taken)?.max(nothing);
    let hard = stands.map(|(hard, _)| hard);
    let used = match stands.and_then(|(_, used)| used) {
        Some(used) => used,
        None => in_form(latest.last)?,
    };
    let mut censored = None;
    let mut peak_at = top.max_at;
    let key = (usage.namespace.clone(), usage.quota.clone(), usage.resource.clone());
    let refusals = refused.rows.get(&key);
    let defaults = added.get(&key).copied().unwrap_or_default();
    if let Some(refusals) = refusals {
        // More than ever was used would have been.
        if refusals.needed > peak {
            peak = Quantity::from_nanos(refusals.needed.nanos(), form(&usage.resource));
            censored = Some(Censored::Refused);
            peak_at = refusals.span.map_or(peak_at, |(_, last)| last);
        }
    } else if days(usage, rules).any(|day| stood_at(usage, day)) {
        censored = Some(Censored::AtQuota);
    }
    let (needed, used_then) = (peak.plus(defaults), used.max(nothing).plus(defaults));
    let proposed = needed.times(1.0 + rules.headroom).max(used_then);
    // What was never used is no ground for a quota of nothing, which would refuse all.
    let proposed = match hard.filter(|_| needed.is_zero()) {
        Some(hard) => Quantity::from_nanos(hard.nanos(), form(&usage.resource)),
        None => rounded(proposed, &usage.resource),
    };
    let proposal = Proposal {
        namespace: usage.namespace.clone(),
        quota: usage.quota.clone(),
        resource: usage.resource.clone(),
        peak,
        peak_at,
        sustained: in_form(level),
        is_spike,
        defaults,
        used,
        hard,
        proposed,
        censored,
        refused: refusals.map_or(0, |refusals| refusals.count),
        days: days(usage, rules).count() as u64,
    };
    Some((proposal, (first.max_at.min(first.last_at), latest.last_at)))
}

/// Whether usage stood at the quota on a day.
fn stood_at(usage: &Usage, day: &Day) -> bool {
    let until = usage.hard.partition_point(|(at, _)| *at <= day.day);
    let hard = until.checked_sub(1).and_then(|at| usage.hard.get(at)).map(|(_, hard)| *hard);
    hard.is_some_and(|hard| hard > 0.0 && day.max >= AT_QUOTA * hard)
}

/// A quantile of all samples of some days: at most 1/128 above the true one, and never above the largest.
fn quantile<'d>(days: impl Iterator<Item = &'d Day>, q: f64, most: f64) -> f64 {
    let mut all = Sketch::default();
    days.for_each(|day| all.merge(&day.sketch));
    all.quantile(q).map_or(most, |value| value.min(most))
}

/// What all quotas of a resource come to, against what the nodes can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Commitment {
    /// The resource as quotas name it.
    pub resource: String,
    /// What all quotas grant now.
    pub hard: Quantity,
    /// What they would grant.
    pub proposed: Quantity,
    /// What the nodes can hold.
    pub allocatable: Quantity,
}

/// The check against the cluster: resources that nodes have, of which quotas are proposed. A namespace with several
/// quotas of one resource counts with each of them, which is an upper bound.
pub fn commitments(proposals: &[Proposal], quotas: &Quotas) -> Vec<Commitment> {
    let mut rows: BTreeMap<&str, Commitment> = BTreeMap::new();
    for proposal in proposals {
        let on_nodes = match proposal.resource.strip_prefix("requests.").unwrap_or(&proposal.resource) {
            "limits.cpu" => "cpu",
            "limits.memory" => "memory",
            of => of,
        };
        let Some(allocatable) = quotas.allocatable.get(on_nodes) else { continue };
        // `cpu` is another name of `requests.cpu`.
        let resource = match proposal.resource.as_str() {
            "cpu" => "requests.cpu",
            "memory" => "requests.memory",
            other => other,
        };
        let row = rows.entry(resource).or_insert_with(|| Commitment {
            resource: proposal.resource.clone(),
            hard: Quantity::from_nanos(0, form(&proposal.resource)),
            proposed: Quantity::from_nanos(0, form(&proposal.resource)),
            allocatable: Quantity::from_nanos(
                allocatable.nanos(),
                if is_bytes(&proposal.resource) { form(&proposal.resource) } else { allocatable.form() },
            ),
        });
        row.proposed = row.proposed.plus(proposal.proposed);
        row.hard = row.hard.plus(proposal.hard.unwrap_or_default());
    }
    rows.into_values().collect()
}

/// Proposals of several namespaces that are one project, given the project of each; one that has none stands for
/// itself.
///
/// What a project used at most is not above the sum of what its namespaces used at most; they need not have done so at
/// one time.
pub fn by_project(proposals: &[Proposal], project_of: &BTreeMap<String, String>) -> Vec<Proposal> {
    let mut rows: BTreeMap<(String, String), Proposal> = BTreeMap::new();
    for proposal in proposals {
        let project = project_of.get(&proposal.namespace).unwrap_or(&proposal.namespace);
        let key = (project.clone(), proposal.resource.clone());
        match rows.get_mut(&key) {
            None => {
                rows.insert(key.clone(), Proposal { namespace: key.0, quota: String::new(), ..proposal.clone() });
            }
            Some(row) => {
                if proposal.peak > row.peak {
                    row.peak_at = proposal.peak_at;
                }
                row.peak = row.peak.plus(proposal.peak);
                row.sustained = row.sustained.zip(proposal.sustained).map(|(a, b)| a.plus(b));
                row.is_spike |= proposal.is_spike;
                row.defaults = row.defaults.plus(proposal.defaults);
                row.used = row.used.plus(proposal.used);
                row.hard = row.hard.zip(proposal.hard).map(|(a, b)| a.plus(b));
                row.proposed = row.proposed.plus(proposal.proposed);
                row.censored = row.censored.or(proposal.censored);
                row.refused += proposal.refused;
                row.days = row.days.max(proposal.days);
            }
        }
    }
    rows.into_values().collect()
}

/// How long a peak must last, by [`Rules::lasting`].
pub fn lasting(length: Micros) -> Option<usize> {
    SUSTAINED.iter().position(|known| *known == length)
}
