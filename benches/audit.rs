//! Throughput of a pass over an audit log: `cargo bench --bench audit`.
//!
//! The log is the sample list-storm, unpacked into memory and onto the disk; figures against other
//! programs are made by `benches/peers` (docs/benchmarks.md).

#![expect(clippy::expect_used, reason = "a benchmark without its input can only stop")]

use divan::Bencher;
use divan::counter::BytesCount;
use plimsoll::analysis::dims::Dim;
use plimsoll::analysis::traffic::{Batch, Fold, Plan, Query, Traffic};
use plimsoll::inputs::rollup::roll_up;
use plimsoll::model::event::Timed;
use plimsoll::sources::audit::pass::{self, Delivery, Worker};
use plimsoll::sources::audit::read_line;
use plimsoll::sources::find::audit_logs;
use std::io::Write;
use std::sync::LazyLock;

/// The sample log, unpacked, and a file that holds it.
static LOG: LazyLock<(Vec<u8>, tempfile::NamedTempFile)> = LazyLock::new(|| {
    let packed = std::fs::read("samples/list-storm/audit/apiserver-0/audit.log.zst").expect("run in the repository");
    let text = zstd::decode_all(packed.as_slice()).expect("the sample is whole");
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&text).expect("room for 20 MB");
    (text, file)
});

fn main() {
    divan::main();
}

/// Line by line, as wrapped events are read: no blocks, no threads, no memory of callers.
#[divan::bench(sample_count = 5)]
fn line_by_line(bencher: Bencher) {
    let text = &LOG.0;
    bencher.counter(BytesCount::of_slice(text)).bench(|| {
        let mut events = 0;
        for line in text.split(|&b| b == b'\n') {
            read_line(line, &mut |_| events += 1);
        }
        events
    });
}

struct Counting<'p>(Fold<'p>);

impl Worker for Counting<'_> {
    type Batch = Batch;
    fn event(&mut self, event: Timed<'_, '_>) {
        self.0.event(event);
    }
    fn flush(&mut self) -> Batch {
        self.0.flush()
    }
}

/// `traffic --by verb,resource,user`.
#[divan::bench(args = [1, 2], sample_count = 20)]
fn traffic(bencher: Bencher, threads: usize) {
    let path = LOG.1.path().display().to_string();
    bencher.counter(BytesCount::of_slice(&LOG.0)).bench(|| {
        let plan = Plan::new(Query { by: vec![Dim::Verb, Dim::Resource, Dim::User], ..Query::default() });
        let mut traffic = Traffic::default();
        let streams = audit_logs(std::slice::from_ref(&path)).streams;
        let (folds, _) = pass::run(
            streams,
            threads,
            &(),
            || Counting(plan.fold()),
            |delivery| {
                if let Delivery::Block { batch, .. } = delivery {
                    traffic.take(batch);
                }
            },
        );
        traffic.finish(&plan, &folds.into_iter().map(|fold| fold.0).collect::<Vec<_>>()).rows.len()
    });
}

/// The full roll-up.
#[divan::bench(args = [1, 2], sample_count = 10)]
fn rollup(bencher: Bencher, threads: usize) {
    let path = LOG.1.path().display().to_string();
    bencher
        .counter(BytesCount::of_slice(&LOG.0))
        .bench(|| roll_up(audit_logs(std::slice::from_ref(&path)).streams, threads, &()).0.sizes());
}
