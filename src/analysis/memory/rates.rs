//! What happened between two samples of a group.

use super::account::{Account, either, own_first};
use crate::model::memory::Sample;
use crate::model::time::SECOND;

/// Refaults are counted in pages. Where the page's size is not known, this is.
pub const PAGE: f64 = 4096.0;

/// Rates between two samples. `None` where a file lacks them or they began again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates {
    /// From one sample to the other.
    pub seconds: f64,
    /// File pages read again soon after they were given up, per second.
    pub refaults_per_s: Option<f64>,
    /// The same per minute, as a share of the file cache.
    pub refault_share: Option<f64>,
    /// Of the refaults, the share that was in use when it was given up.
    pub restored: Option<f64>,
    /// Pages that reclaim looked at, per second.
    pub scans_per_s: Option<f64>,
    /// Pages that it took, per second.
    pub steals_per_s: Option<f64>,
    /// Times that the limit was met: v1's failcnt, v2's events `max`, here or above.
    pub limit_hits: Option<u64>,
    /// Processes killed.
    pub oom_kills: Option<u64>,
    /// Share of time in which some tasks waited for memory.
    pub psi_some: Option<f64>,
    /// In which all did.
    pub psi_full: Option<f64>,
    /// How the usage grew, bytes per second.
    pub usage_per_s: Option<f64>,
    /// How what can't be reclaimed grew.
    pub firm_per_s: Option<f64>,
}

/// Refaults of file pages since the group was made, in pages.
fn refaults(sample: &Sample) -> Option<f64> {
    // Before 5.9 they are not split by kind.
    let raw = either(sample, "workingset_refault_file", "workingset_refault_file")
        .or_else(|| either(sample, "workingset_refault", "workingset_refault"))?;
    Some(raw as f64)
}

/// Some v1 kernels show refaults in bytes: then all numbers are multiples of a page.
fn in_bytes(samples: [&Sample; 2]) -> bool {
    let counts: Vec<f64> = samples.into_iter().filter_map(refaults).collect();
    !samples[0].version.is_v2()
        && counts.iter().any(|count| *count > 0.0)
        && counts.iter().all(|count| count % PAGE == 0.0)
}

fn scans(sample: &Sample, name: &str) -> Option<f64> {
    let whole = sample.stat(name);
    let parts =
        ["kswapd", "direct", "khugepaged", "proactive"].iter().filter_map(|who| sample.stat(&format!("{name}_{who}")));
    whole.or_else(|| parts.reduce(|a, b| a + b)).map(|pages| pages as f64)
}

/// How often the limit was met, here and above. `memory.events` (v2) counts those below as well, so the highest group
/// has all; `memory.failcnt` (v1) is each group's own.
fn hits(sample: &Sample) -> Option<f64> {
    let all = || std::iter::once(sample).chain(&sample.above);
    let with_those_below = all().filter_map(|own| own.table("memory.events", "max")).max();
    let own = || all().filter_map(|own| own.number("memory.failcnt")).reduce(|a, b| a + b);
    let hits = if sample.version.is_v2() { with_those_below.or_else(own) } else { own().or(with_those_below) };
    hits.map(|hits| hits as f64)
}

fn kills(sample: &Sample) -> Option<f64> {
    own_first(sample, "memory.events", "memory.oom_control", |file| sample.table(file, "oom_kill"))
        .map(|count| count as f64)
}

impl Rates {
    /// `None` if it is not the same group, or no time has passed.
    pub fn between(before: &Sample, after: &Sample, host: Option<u64>) -> Option<Self> {
        let seconds = (after.at - before.at) as f64 / SECOND as f64;
        if seconds <= 0.0 || before.inode.zip(after.inode).is_some_and(|(a, b)| a != b) {
            return None;
        }
        // A counter that fell belongs to another group of that name.
        let rise = |of: &dyn Fn(&Sample) -> Option<f64>| {
            of(before).zip(of(after)).map(|(a, b)| b - a).filter(|rise| *rise >= 0.0)
        };
        let unit = if in_bytes([before, after]) { PAGE } else { 1.0 };
        let refaulted = rise(&refaults).map(|pages| pages / unit);
        let restored = rise(&|sample| {
            either(sample, "workingset_restore_file", "workingset_restore_file").map(|pages| pages as f64)
        });
        let stall = |of: &dyn Fn(&Sample) -> Option<f64>| rise(of).map(|micros| (micros / 1e6 / seconds).min(1.0));
        let accounts = [Account::of(before, host), Account::of(after, host)];
        // Of an almost empty cache any refault would be a large share.
        let cache = accounts[1].cache().map(|bytes| (bytes as f64).max(64.0 * PAGE));
        let slope = |of: &dyn Fn(&Account) -> Option<u64>| {
            let (a, b) = of(&accounts[0]).zip(of(&accounts[1]))?;
            Some((b as f64 - a as f64) / seconds)
        };
        Some(Self {
            seconds,
            refaults_per_s: refaulted.map(|pages| pages / seconds),
            refault_share: refaulted.zip(cache).map(|(pages, cache)| pages * PAGE / cache * 60.0 / seconds),
            restored: restored
                .zip(refaulted)
                .filter(|(_, pages)| *pages > 0.0)
                .map(|(restored, pages)| (restored / unit / pages).min(1.0)),
            scans_per_s: rise(&|sample| scans(sample, "pgscan")).map(|pages| pages / seconds),
            steals_per_s: rise(&|sample| scans(sample, "pgsteal")).map(|pages| pages / seconds),
            limit_hits: rise(&hits).map(|count| count as u64),
            oom_kills: rise(&kills).map(|count| count as u64),
            psi_some: stall(&|sample| sample.pressure.map(|psi| psi.some.total_us as f64)),
            psi_full: stall(&|sample| sample.pressure.and_then(|psi| psi.full).map(|full| full.total_us as f64)),
            usage_per_s: slope(&|account| account.usage),
            firm_per_s: slope(&|account| account.unreclaimable),
        })
    }
}
