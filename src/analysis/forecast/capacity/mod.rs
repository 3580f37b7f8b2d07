//! The capacity model: how limits move when pods, objects or nodes are added.
//!
//! How far a series moves is taken from what the history shows to go together, or else from what there is now. Every
//! ratio that is used is reported. A series that is moved by a constant reaches its limit when the series as it is
//! reaches a limit that is lower by as much: so the same forecast answers, and its range stays as honest as it was.

mod effects;
mod observed;
mod plan;
mod report;

pub use observed::{Assumption, Sure};
pub use plan::{Addition, Plan};

use self::effects::{Effects, Shift};
use self::observed::Observed;
use crate::model::forecast::{Forecast, Grid, Reached, Target, Verdict};
use crate::model::problem::Problem;
use crate::model::series::Series;
use crate::model::time::Micros;

/// A series that moves: as it is, and with what is added.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Its place among the targets.
    pub index: usize,
    /// How much higher it is.
    pub by: f64,
    /// The last known value, and the same with what is added.
    pub current: (Option<f64>, Option<f64>),
    /// What the middle of the possible futures is when it is added, with it; `None` where that is not forecast.
    pub on_date: Option<f64>,
    /// The limit before and after.
    pub limit: (Option<f64>, Option<f64>),
    /// When it is reached, before and after.
    pub reached: (Reached, Reached),
    /// Whether it is at its limit at once: before and after.
    pub full: (bool, bool),
    /// How likely it is reached within the horizon, before and after.
    pub probability: (Option<f64>, Option<f64>),
}

/// What becomes of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub plan: Plan,
    /// From when on.
    pub from: Micros,
    /// Series that move, in the order of targets.
    pub moved: Vec<Moved>,
    /// What is assumed.
    pub assumptions: Vec<Assumption>,
    /// Objects of resources that are added: their name, how many there are, how many there will be.
    pub lists: Vec<(String, f64, f64)>,
    /// What can't be determined, in sentences without their period.
    pub unknown: Vec<String>,
}

/// What becomes of targets if a plan is carried out. `forecast_one` gives the forecast of a series with a limit. A plan
/// that leaves no node is refused.
pub fn what_if(
    plan: &Plan,
    history: &[(&Series, &Grid)],
    targets: &[Target],
    forecasts: &[Forecast],
    forecast_one: &dyn Fn(&Grid, Option<f64>) -> Forecast,
) -> Result<Outcome, Problem> {
    let observed = Observed::new(history);
    let mut effects = Effects::new(plan, &observed);
    effects.leave_some_node()?;
    let from = plan.from.unwrap_or(observed.end);
    let mut moved = Vec::new();
    for (index, (target, forecast)) in targets.iter().zip(forecasts).enumerate() {
        if let Some(shift) = effects.on(target) {
            moved.push(move_one(index, target, forecast, shift, from, forecast_one));
        }
    }
    let lists = effects.lists();
    let mut unknown = std::mem::take(&mut effects.unknown);
    if moved.is_empty() {
        unknown.push("no series in the sources changes".to_owned());
    }
    Ok(Outcome {
        plan: plan.clone(),
        from,
        moved,
        assumptions: effects.assumptions().into_iter().cloned().collect(),
        lists,
        unknown,
    })
}

fn move_one(
    index: usize,
    target: &Target,
    before: &Forecast,
    shift: Shift,
    from: Micros,
    forecast_one: &dyn Fn(&Grid, Option<f64>) -> Forecast,
) -> Moved {
    let end = target.grid.end();
    let current = before.current.map(|(_, value)| value);
    // Less than nothing is not there.
    let after = current.map(|value| if value >= 0.0 { (value + shift.by).max(0.0) } else { value + shift.by });
    let limit = target.limit.map(|limit| limit + shift.limit);
    let is_now = from <= end;
    let mut moved = Moved {
        index,
        by: shift.by,
        current: (current, after),
        on_date: None,
        limit: (target.limit, limit),
        reached: (before.reached, Reached::default()),
        full: (before.verdict == Verdict::AtLimit, false),
        probability: (before.probability, None),
    };
    let lowered = forecast_one(&target.grid, limit.map(|limit| limit - shift.by));
    let on_date = if is_now {
        None
    } else {
        lowered.path.iter().rev().find(|step| step.at <= from && from < step.at + target.grid.step)
    };
    moved.on_date = on_date.map(|step| step.p50 + shift.by).filter(|value| value.is_finite());
    let Some(limit) = limit else { return moved };
    if before.verdict == Verdict::TooShort {
        // Nothing is forecast, but what is above the limit is above it.
        moved.full.1 = is_now && after.is_some_and(|after| after >= limit);
        return moved;
    }
    let at_once = lowered.verdict == Verdict::AtLimit || after.is_some_and(|after| after >= limit);
    moved.full.1 = at_once && is_now || moved.full.0 && !is_now;
    let either = |before: Option<Micros>, lowered: Option<Micros>| {
        let lowered = if at_once { Some(end) } else { lowered };
        // Until then nothing is added.
        before.filter(|at| !is_now && *at < from).or_else(|| lowered.map(|at| at.max(from).max(end)))
    };
    let (old, new) = (before.reached, lowered.reached);
    moved.reached.1 =
        Reached { p10: either(old.p10, new.p10), p50: either(old.p50, new.p50), p90: either(old.p90, new.p90) };
    let is_within = from < end + target.grid.step.saturating_mul(lowered.path.len() as Micros);
    // What comes behind the horizon changes nothing before it.
    moved.probability.1 = if is_within {
        chance(before, &lowered, at_once, shift.by > shift.limit, (!is_now).then_some(from))
    } else {
        before.probability
    };
    moved
}

/// How likely the limit is reached: before `from` as it is, from then on as lowered; `None`: from the first on.
fn chance(before: &Forecast, lowered: &Forecast, at_once: bool, is_more: bool, from: Option<Micros>) -> Option<f64> {
    if at_once {
        return Some(1.0);
    }
    let then = lowered.probability?;
    let Some(from) = from else { return Some(then) };
    let was = before.probability.unwrap_or_default();
    if is_more {
        return Some(then.max(was));
    }
    // What is reached before anything is taken away stays reached.
    let is_before = |at: Option<Micros>| at.is_some_and(|at| at < from);
    let reached = &before.reached;
    let least = [(reached.p90, 0.9), (reached.p50, 0.5), (reached.p10, 0.1)]
        .into_iter()
        .find(|(at, _)| is_before(*at))
        .map_or(0.0, |(_, p)| p);
    Some(then.max(least))
}

#[cfg(test)]
mod tests;
