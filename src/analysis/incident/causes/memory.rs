//! Causes that are memory's: page cache that fills a cgroup, kills.

use super::super::timeline::kills;
use super::{Case, Draft};
use crate::analysis::memory::account::Account;
use crate::model::incident::Source;
use crate::model::memory::Sample;
use crate::model::time::SECOND;
use crate::model::units::{bytes, counted, percent};

/// Groups that are told of.
const GROUPS: usize = 3;
/// From here on a group is nearly full, and up to here it is not.
const FULL: f64 = 0.9;
const ROOM: f64 = 0.7;
/// A cache that is so much of what is used is what fills it.
const CACHE: f64 = 0.3;

/// Memory that was short.
pub(super) fn short(case: &Case<'_>) -> Vec<Draft> {
    let mut groups: Vec<Draft> =
        case.known.memory.iter().filter_map(|(name, samples)| group(case, name, samples)).collect();
    groups.sort_by(|a, b| b.odds.total_cmp(&a.odds));
    groups.truncate(GROUPS);
    groups
}

fn group(case: &Case<'_>, name: &str, samples: &[Sample]) -> Option<Draft> {
    let (from, to) = (case.window.0 - 60 * SECOND, case.window.1);
    let within: Vec<&Sample> = samples.iter().filter(|sample| (from..to).contains(&sample.at)).collect();
    let accounts: Vec<Account> = within.iter().map(|sample| Account::of(sample, None)).collect();
    let fullest = accounts.iter().max_by_key(|account| account.usage)?;
    let cache = fullest.cache().zip(fullest.usage).map_or(0.0, |(cache, usage)| cache as f64 / usage.max(1) as f64);
    let of_cache = cache >= CACHE;
    let kind = if of_cache { "page-cache" } else { "memory" };
    let what = if of_cache { "page cache filled" } else { "memory ran short in" };
    let mut draft = Draft::new(kind, vec![("cgroup", name.to_owned())], format!("{what} the cgroup of {name}"));
    let killed =
        within.first().and_then(|first| Some(kills(within.last()?)?.saturating_sub(kills(first)?))).unwrap_or(0);
    if killed > 0 {
        draft.says(
            Source::Cgroup,
            3.5,
            format!("the kernel killed {} of it for want of memory (OOM)", counted(killed, "process")),
        );
    }
    let used = fullest.usage.map_or_else(String::new, |usage| bytes(usage as f64));
    match fullest.fill() {
        Some(fill) => {
            let text =
                format!("at most {} of its limit was used ({used}), {} of that cache", percent(fill), percent(cache));
            draft.says(
                Source::Cgroup,
                if fill >= FULL {
                    1.5
                } else if fill < ROOM {
                    -2.0
                } else {
                    -0.5
                },
                text,
            );
        }
        None => draft.says(Source::Cgroup, -1.0, format!("it has no limit that is known; at most {used} was used")),
    }
    draft.cause.now.push(if of_cache {
        "give back what is only cache, step by step: plimsoll memory reclaim".to_owned()
    } else {
        format!("see what it is: plimsoll memory show {}, plimsoll heap top {}", case.sources, case.sources)
    });
    Some(draft)
}
