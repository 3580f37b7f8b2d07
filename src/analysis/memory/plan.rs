//! How much to reclaim, in which steps, and when to stop. (Rules: docs/commands/memory.md, "Giving cache back".)

use super::account::Account;
use super::rates::Rates;
use super::verdict::{FULL_HIGH, SOME_HIGH};
use crate::model::problem::Problem;
use crate::model::units::{bytes, percent};

/// Of what a step freed, the share that may be read again before it is enough.
const READ_AGAIN: f64 = 0.25;
/// Below this, refaults are noise.
const FEW_REFAULTS: f64 = 256.0;

/// When there is no more to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// The inactive file cache of the start is reclaimed: usage is what kubelet calls the working set.
    WorkingSet,
    /// This share of the limit is free.
    Headroom(f64),
    /// The cache is smaller than this.
    Cache(u64),
    /// Usage is at most this share of the limit.
    Usage(f64),
}

/// At most this much is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Most {
    /// A share of what is reclaimable.
    Share(f64),
    Bytes(u64),
}

/// What would be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Bytes to free in all.
    pub goal: u64,
    /// What reaching `until` would take.
    pub wanted: u64,
    /// Bytes to a step.
    pub step: u64,
    /// Why nothing is to be done, or less than wanted.
    pub note: Option<String>,
}

/// Plans; an error says what is not known.
pub fn plan(account: &Account, until: Until, most: Most, step: u64) -> Result<Plan, Problem> {
    let usage = account.usage.ok_or_else(|| Problem::unanswered("the cgroup's usage is unknown"))?;
    let reclaimable = account.reclaimable.ok_or_else(|| {
        Problem::unanswered("the cgroup's cache is unknown (memory.stat lacks active_file or inactive_file)")
    })?;
    let limit = || {
        account
            .limit
            .ok_or_else(|| Problem::unanswered("the limit is unknown").hint("use --until working-set or cache<SIZE"))
    };
    let wanted = match until {
        Until::WorkingSet => account.file_inactive.unwrap_or(0),
        Until::Headroom(share) => usage.saturating_sub((limit()? as f64 * (1.0 - share)) as u64),
        Until::Usage(share) => usage.saturating_sub((limit()? as f64 * share) as u64),
        Until::Cache(size) => account.cache().unwrap_or(0).saturating_sub(size),
    };
    let most = match most {
        Most::Share(share) => (reclaimable as f64 * share) as u64,
        Most::Bytes(bytes) => bytes.min(reclaimable),
    };
    let goal = wanted.min(most);
    let note = if wanted == 0 {
        Some("nothing to do: the goal is already met".to_owned())
    } else if goal < wanted {
        Some(format!(
            "{} would be needed, but at most {} of {} reclaimable may be reclaimed (--most)",
            bytes(wanted as f64),
            bytes(most as f64),
            bytes(reclaimable as f64)
        ))
    } else {
        None
    };
    Ok(Plan { goal, wanted, step: step.min(goal), note })
}

/// Why to stop after a step that freed `freed` bytes, if there is a reason.
pub fn stop(rates: &Rates, freed: u64) -> Option<String> {
    let refaulted = rates.refaults_per_s.unwrap_or(0.0) * rates.seconds;
    let again = refaulted * super::rates::PAGE;
    if refaulted > FEW_REFAULTS && again > READ_AGAIN * freed as f64 {
        return Some(format!(
            "refaults rise: {} refaulted after the last step freed {}",
            bytes(again),
            bytes(freed as f64)
        ));
    }
    if rates.psi_some.is_some_and(|some| some >= SOME_HIGH) || rates.psi_full.is_some_and(|full| full >= FULL_HIGH) {
        let [some, full] = [rates.psi_some, rates.psi_full].map(|share| percent(share.unwrap_or(0.0)));
        return Some(format!("pressure rises: some tasks stalled on memory {some} of the time, all tasks {full}"));
    }
    if rates.oom_kills.is_some_and(|kills| kills > 0) {
        return Some("a process was killed because memory ran out (OOM)".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_where_somebody_suffers() {
        let quiet = Rates {
            seconds: 0.5,
            refaults_per_s: Some(400.0),
            psi_some: Some(0.09),
            psi_full: Some(0.009),
            ..Rates::default()
        };
        let why = |rates: Rates| stop(&rates, 16 << 20).unwrap_or_default();
        assert_eq!(why(quiet.clone()), "");
        // A quarter of 16 MiB is 1,024 pages.
        assert_eq!(why(Rates { refaults_per_s: Some(2048.0), ..quiet.clone() }), "");
        assert!(
            why(Rates { refaults_per_s: Some(2050.0), ..quiet.clone() }).contains("refaults rise: 4.00 MiB refaulted")
        );
        // Of a step that freed nothing, few are noise.
        assert_eq!(stop(&Rates { refaults_per_s: Some(512.0), ..quiet.clone() }, 0), None);
        assert!(stop(&Rates { refaults_per_s: Some(514.0), ..quiet.clone() }, 0).is_some());
        assert!(why(Rates { psi_some: Some(0.1), ..quiet.clone() }).contains("some tasks stalled on memory 10.0%"));
        assert!(why(Rates { psi_full: Some(0.01), ..quiet.clone() }).contains("all tasks 1.0%"));
        assert!(why(Rates { oom_kills: Some(1), ..quiet }).contains("killed"));
    }

    #[test]
    fn a_plan_asks_for_no_more_than_is_allowed() {
        let account = Account {
            usage: Some(900),
            limit: Some(1000),
            file: Some(600),
            file_inactive: Some(200),
            reclaimable: Some(500),
            ..Account::default()
        };
        let goal = |until, most| plan(&account, until, most, 64).map(|plan| (plan.wanted, plan.goal));
        let half = Most::Share(0.5);
        assert_eq!(goal(Until::WorkingSet, half), Ok((200, 200)));
        assert_eq!(goal(Until::Headroom(0.2), half), Ok((100, 100)));
        assert_eq!(goal(Until::Usage(0.5), half), Ok((400, 250)));
        assert_eq!(goal(Until::Usage(0.1), Most::Bytes(9999)), Ok((800, 500)));
        assert_eq!(goal(Until::Cache(50), Most::Bytes(70)), Ok((550, 70)));
        assert_eq!(goal(Until::Cache(600), half), Ok((0, 0)));
        let unlimited = Account { limit: None, ..account.clone() };
        assert!(
            plan(&unlimited, Until::Headroom(0.2), half, 64).is_err()
                && plan(&unlimited, Until::WorkingSet, half, 64).is_ok()
        );
    }
}
