//! What few events have, for the tables of [`super::extras`]: on the thread that reads.

use crate::analysis::controllers::handovers::{self, Run};
use crate::analysis::guard::classify::Meaning;
use crate::analysis::quota::refused::Refusal;
use crate::model::event::{Event, Timed};
use memchr::memmem::Finder;
use std::sync::LazyLock;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What few events have.
#[derive(Debug, Default)]
pub struct Extra {
    /// What it means for a timeline of dangerous operations.
    pub meaning: Meaning,
    /// A write to a lease: namespace, name and run.
    pub lease: Option<Box<(String, String, Run)>>,
    /// What a quota refused.
    pub refusal: Option<Refusal>,
}

impl Extra {
    /// What the end of a request has, or the start of a long-running one that was let in; `found` is its kind by the
    /// rules of `notable`.
    #[inline]
    pub fn of(event: &Timed<'_, '_>, found: Option<&(&'static str, String)>) -> Option<Box<Self>> {
        if !event.stage.is_terminal() {
            let operation = Meaning::of_start(event, || found.cloned())?;
            let meaning = Meaning { operation: Some(operation), ..Meaning::default() };
            return Some(Box::new(Self { meaning, ..Self::default() }));
        }
        let meaning = Meaning::of(event, || found.cloned());
        let lease = if event.event.resource.is("leases") { handovers::write(event).map(Box::new) } else { None };
        let refusal = Refusal::of(event);
        let is_there = meaning != Meaning::default() || lease.is_some() || refusal.is_some();
        is_there.then(|| Box::new(Self { meaning, lease, refusal }))
    }
}

/// A hash of the object that was written to by an update or patch that was done and no dry run; else 0.
#[inline]
pub fn written_object(event: &Timed<'_, '_>, verb: &[u8], scratch: &mut Vec<u8>) -> u64 {
    static DRY_RUN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("dryRun="));
    let e: &Event<'_> = event.event;
    let is_done = || e.code.is_some_and(|code| (200..300).contains(&code));
    if !matches!(verb, b"update" | b"patch")
        || !event.stage.is_terminal()
        || e.name.is_empty()
        || !is_done()
        || DRY_RUN.find(e.uri.raw()).is_some()
    {
        return 0;
    }
    scratch.clear();
    for part in [e.group, e.resource, e.subresource, e.namespace, e.name] {
        scratch.extend_from_slice(part.raw());
        scratch.push(0xff);
    }
    xxh3_64_with_seed(scratch, xxh3_64(event.cluster().as_bytes())).max(1)
}
