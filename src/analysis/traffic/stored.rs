//! A breakdown of what a stored roll-up holds.

use super::{Breakdown, Outcome, Query, Row, Stats};
use crate::analysis::dims::{Dim, code_class};
use crate::analysis::list_route::list_kind;
use crate::analysis::peak::Arrivals;
use crate::analysis::rollup::Rollup;
use crate::analysis::rollup::folds::Folds;
use crate::analysis::rollup::read::{RequestKey, TrafficRow, What, Who};
use crate::analysis::rollup::steps::ArrivalCount;
use crate::analysis::rollup::stored::of_subject;
use crate::analysis::traffic::OTHER;
use crate::model::problem::Problem;
use crate::model::time::{self, Micros, SECOND};
use hashbrown::HashMap;

/// Dimensions that a roll-up keeps.
const KEPT: [Dim; 16] = [
    Dim::Verb,
    Dim::Resource,
    Dim::Group,
    Dim::Subresource,
    Dim::Namespace,
    Dim::User,
    Dim::ServiceAccount,
    Dim::Agent,
    Dim::Code,
    Dim::CodeClass,
    Dim::Instance,
    Dim::Cluster,
    Dim::Scope,
    Dim::ListKind,
    Dim::Minute,
    Dim::Client,
];

/// Whether rows by a dimension have arrivals by second.
fn is_timed(dim: Dim) -> bool {
    matches!(
        dim,
        Dim::User
            | Dim::ServiceAccount
            | Dim::Agent
            | Dim::Cluster
            | Dim::Group
            | Dim::Resource
            | Dim::Instance
            | Dim::Client
    )
}

/// Whether a roll-up can answer; if not, what it would take.
pub fn is_answered(query: &Query) -> Result<(), Problem> {
    let dims = query.by.iter().copied().chain(query.filters.iter().map(|filter| filter.dim));
    match dims.into_iter().find(|dim| !KEPT.contains(dim)) {
        Some(dim) => Err(Problem::unanswered(format!(
            "roll-ups do not keep {}; give the audit log itself. Roll-ups keep {}",
            dim.name(),
            KEPT.iter().filter(|dim| **dim != Dim::Client).map(|dim| dim.name()).collect::<Vec<_>>().join(" ")
        ))),
        None => Ok(()),
    }
}

/// Whether the breakdown of a roll-up that folded nothing is, with its peaks, that of the log.
pub fn is_exact(query: &Query) -> bool {
    // All kubelets are one user of a roll-up.
    let is_told = |dim: Dim| is_timed(dim) && !matches!(dim, Dim::User | Dim::Client);
    query.interval.is_none()
        && query.by.iter().all(|dim| is_told(*dim))
        && query.filters.iter().all(|filter| is_told(filter.dim))
}

/// The breakdown of all of a log, where a roll-up shows the same as the log.
pub fn exact(query: &Query, rollup: &Rollup) -> Option<Breakdown> {
    let is_fine = rollup.tile_seconds() <= 10 && rollup.late == 0 && !Folds::of(rollup).any();
    let breakdown = (is_fine && is_exact(query)).then(|| breakdown(query, rollup))?.ok()?;
    Some(Breakdown { is_rolled: false, ..breakdown })
}

/// Interval and dimensions of a row.
type RowKey = (Option<Micros>, Vec<String>);

/// What is counted of a row.
#[derive(Default)]
struct Counted {
    stats: Stats,
    /// By second of arrival, where that is known.
    arrivals: Arrivals,
}

/// The rows, in order of their first mention.
#[derive(Default)]
struct Rows {
    all: Vec<(RowKey, Counted)>,
    places: HashMap<RowKey, usize>,
}

impl Rows {
    /// Where the row of a key stands.
    fn place(&mut self, key: RowKey) -> usize {
        *self.places.entry(key).or_insert_with_key(|key| {
            self.all.push((key.clone(), Counted::default()));
            self.all.len() - 1
        })
    }

    fn at(&mut self, place: usize) -> &mut Counted {
        &mut self.all[place].1
    }
}

/// Breaks a roll-up of the query's time down; says what it would take where that can't be done.
pub fn breakdown(query: &Query, rollup: &Rollup) -> Result<Breakdown, Problem> {
    is_answered(query)?;
    let tile = rollup.tile_seconds();
    let is_minute = |dim: &Dim| *dim == Dim::Minute;
    let is_by_minute = query.by.iter().any(is_minute) || query.filters.iter().any(|filter| is_minute(&filter.dim));
    if is_by_minute && tile > 60 {
        return Err(
            Problem::unanswered(format!("the roll-up's tiles are {tile} s long")).hint("minutes are not available")
        );
    }
    if let Some(interval) = query.interval.filter(|interval| interval % (tile * SECOND) != 0) {
        return Err(Problem::unanswered(format!(
            "--interval {} s: the roll-up's tiles are {tile} s long",
            interval / SECOND
        ))
        .hint("use a multiple"));
    }
    let subjects = rollup.subjects();
    let index = |second: i64| query.interval.map(|interval| (second * SECOND).div_euclid(interval) * interval);
    let mut rows = Rows::default();
    // Rows of one kind are many: what they are called, and so where they count, is found out once.
    let mut known: HashMap<(i64, u32), Option<usize>> = HashMap::new();
    let name = |tile: i64, asked: &RequestKey<'_>| {
        let (who, what) = subjects.get(asked.subject)?;
        let of = |dim: Dim| value(dim, *who, *what, (asked, tile), query);
        let is_wanted = query.filters.iter().all(|filter| filter.holds(&of(filter.dim)));
        is_wanted.then(|| (index(tile), query.by.iter().map(|dim| of(*dim)).collect()))
    };
    // Only these two show one tile from another.
    let part = |tile: i64| if query.interval.is_some() || is_by_minute { tile } else { 0 };
    for row in rollup.traffic() {
        let place =
            known.entry((part(row.tile), row.key)).or_insert_with(|| name(row.tile, &row).map(|key| rows.place(key)));
        if let Some(place) = place {
            add(&mut rows.at(*place).stats, &row);
        }
    }
    // What was folded is of nobody; where some are asked for, it is left out.
    if query.filters.is_empty() {
        for (tile, stats) in rollup.others() {
            let key = (index(tile), vec![OTHER.to_owned(); query.by.len()]);
            let place = rows.place(key);
            rows.at(place).stats.merge(&stats);
        }
    }
    let held = rollup.timed();
    let is_held = held.is_some();
    let is_fine = tile <= 10;
    let are_timed = is_held || is_fine && query.filters.iter().all(|filter| is_timed(filter.dim));
    let is_each = is_held || query.interval.is_none() && query.by.iter().all(|dim| is_timed(*dim));
    let is_timed = are_timed && is_each;
    let mut all = Arrivals::default();
    if let Some(held) = held {
        for ArrivalCount { tile, second, key, count } in held {
            let place = known
                .entry((part(tile), key))
                .or_insert_with(|| name(tile, &rollup.asked(key)).map(|key| rows.place(key)));
            let Some(place) = place else { continue };
            all.add(second, count);
            rows.at(*place).arrivals.add(second, count);
        }
    } else if are_timed {
        for (row, instance) in rollup.arrivals() {
            let subject = row.subject.and_then(|subject| subjects.get(subject));
            let of = |dim: Dim| match (dim, subject) {
                (_, None) => OTHER.to_owned(),
                (Dim::Instance, _) => instance.to_owned(),
                (dim, Some((who, (group, resource)))) => {
                    of_subject(dim, [who.cluster, who.user, who.agent, group, resource])
                }
            };
            let is_wanted = query.filters.iter().all(|filter| subject.is_some() && filter.holds(&of(filter.dim)));
            if !is_wanted {
                continue;
            }
            all.add(row.second, row.starts);
            if is_timed {
                let key = (None, query.by.iter().map(|dim| of(*dim)).collect());
                let place = rows.place(key);
                rows.at(place).arrivals.add(row.second, row.starts);
            }
        }
    }
    let mut total = Stats::default();
    // Of what was folded into others no code is known; of all together it is.
    let failed = query
        .filters
        .is_empty()
        .then(|| rollup.arrivals().fold((0, 0), |sum, (row, _)| (sum.0 + row.failed.0, sum.1 + row.failed.1)));
    let mut folded = 0;
    let mut list = Vec::with_capacity(rows.all.len());
    rows.all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for ((interval, dims), Counted { stats, arrivals }) in rows.all {
        total.merge(&stats);
        if stats.requests == 0 {
            continue;
        }
        if !dims.is_empty() && dims.iter().all(|dim| dim == OTHER) {
            folded += stats.requests;
        }
        list.push(Row { interval, dims, stats, peak_rps: is_timed.then(|| arrivals.peak_rps()) });
    }
    if let Some((errors, throttled)) = failed {
        let across = rollup.failed_across();
        (total.errors, total.throttled) = (errors + across.0, throttled + across.1);
        let refused: u64 = rollup.load().filter(|row| row.class == "4xx").map(|row| row.requests).sum();
        if folded > 0 && refused > 0 {
            total.client_errors = refused.saturating_sub(total.throttled);
        }
    }
    let peak_rps = are_timed.then(|| all.peak_rps());
    Ok(Breakdown {
        rows: list,
        total: Row { interval: None, dims: Vec::new(), stats: total, peak_rps },
        first: rollup.span.map(|(first, _)| first),
        last: rollup.span.map(|(_, last)| last),
        folded,
        is_rolled: !is_held,
        late_for_peak: 0,
        audit_ids: rollup.repeated_ids,
    })
}

fn add(stats: &mut Stats, row: &TrafficRow<'_>) {
    stats.count(Outcome::of_code(row.code), row.requests);
    stats.open += row.open();
    stats.latency.merge(row.latency());
}

/// The value of a dimension, as [`Dim::of`] gives it for an event.
fn value(
    dim: Dim,
    who: Who<'_>,
    (group, resource): What<'_>,
    (row, tile): (&RequestKey<'_>, i64),
    query: &Query,
) -> String {
    match dim {
        Dim::Verb => row.verb.to_owned(),
        Dim::Subresource => row.subresource.to_owned(),
        Dim::Namespace => row.namespace.to_owned(),
        Dim::Code => row.code.map_or_else(String::new, |code| code.to_string()),
        Dim::CodeClass => code_class(row.code).to_owned(),
        Dim::Instance => row.instance.to_owned(),
        Dim::Scope => row.scope.name().to_owned(),
        Dim::Minute => time::format(tile.div_euclid(60) * 60 * SECOND),
        Dim::ListKind => match row.shape.filter(|_| row.verb == "list" && !resource.is_empty()) {
            Some(shape) => list_kind(&shape, group, resource, query.server).to_owned(),
            None => String::new(),
        },
        dim => of_subject(dim, [who.cluster, who.user, who.agent, group, resource]),
    }
}
