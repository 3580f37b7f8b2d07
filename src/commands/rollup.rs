//! From logs to their roll-up: what every analysis of audit logs but `traffic` begins with.

use crate::analysis::rollup::{Batch, Observer, Part, Rollup, Whole};
use crate::model::event::Timed;
use crate::sources::audit::pass::{self, Delivery, Outcome, Watcher, Worker};
use crate::sources::find::LogStream;

/// Reads `streams` and makes their roll-up.
pub fn roll_up(streams: Vec<LogStream>, threads: usize, watcher: &dyn Watcher) -> (Rollup, Outcome) {
    let mut part = Part::new(streams.len(), Whole::First);
    let (_, outcome) = pass::run(streams, threads, watcher, Observing::default, |delivery| match delivery {
        Delivery::Block { stream, batch } => part.take(stream, batch),
        Delivery::End { stream } => part.end(stream),
    });
    (part.finish(), outcome)
}

/// The observer of analysis as a worker of the source's pass.
#[derive(Default)]
struct Observing(Observer);

impl Worker for Observing {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        self.0.event(event);
    }
    fn flush(&mut self) -> Batch {
        self.0.flush()
    }
}
