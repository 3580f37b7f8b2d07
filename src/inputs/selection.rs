//! A selection of events, which asks for their roll-up.

use super::log_question::{CacheUse, Fold, LogQuestion};
use crate::analysis::dims::EventContext;
use crate::analysis::filter::Filter;
use crate::analysis::rollup::stored::{Tables, Wanted, chooses_logs, is_answered};
use crate::analysis::rollup::{Batch, Observer, Part, Rollup};
use crate::model::event::Timed;
use crate::model::problem::Problem;
use crate::model::time::{Bounds, Micros, is_within};
use crate::sources::audit::pass::{Delivery, Worker};

/// Which events are taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// From here on.
    pub since: Option<Micros>,
    /// Before this.
    pub until: Option<Micros>,
    /// Those that meet all conditions. They should be about who asks for what: stages of one request must not be
    /// reported apart.
    pub filters: Vec<Filter>,
    /// Whether all tables are made, and what parts are joined by is kept.
    pub with_seams: bool,
    /// Whether all tables are made, and what windows of them are derived from is kept.
    pub with_steps: bool,
}

impl Selection {
    /// Whether it is to be taken.
    pub fn takes(&self, event: &Timed<'_, '_>) -> bool {
        self.is_within(event) && self.filters.iter().all(|filter| filter.accepts(event, EventContext::default()))
    }

    /// Whether it is of the time that is asked for, whoever sent it.
    pub(crate) fn is_within(&self, event: &Timed<'_, '_>) -> bool {
        is_within((self.since, self.until), event.at)
    }
}

/// A selection asks for the roll-up of what it takes.
impl LogQuestion for Selection {
    type Fold = Rolling;
    type Answer = Rollup;
    fn bounds(&self) -> Bounds {
        (self.since, self.until)
    }
    fn fold(&self, streams: usize) -> Rolling {
        Rolling { selection: self.clone(), streams }
    }
    fn is(&self, other: &Self) -> bool {
        self == other
    }
    fn stored(&self) -> Result<Wanted, Problem> {
        self.filters.iter().try_for_each(is_answered)?;
        let Self { since, until, filters, with_seams, .. } = self.clone();
        let tables = if with_seams { Tables::All } else { Tables::Clients };
        Ok(Wanted { since, until, filters, with_seams, tables })
    }
    fn of_rollup(&self, rollup: Rollup) -> Result<Rollup, Problem> {
        Ok(rollup)
    }
    fn cache_use(&self) -> CacheUse {
        // Of some clients, late events are not distinguished.
        if self.filters.is_empty() { CacheUse::Whole } else { CacheUse::Never }
    }
    fn to_keep(&self) -> Option<Self> {
        let is_whole = self.filters.is_empty() && self.bounds() == (None, None);
        is_whole.then(|| Self { with_seams: true, ..Self::default() })
    }
}

/// Makes a roll-up.
pub(crate) struct Rolling {
    selection: Selection,
    streams: usize,
}

impl Fold for Rolling {
    type Worker<'f> = Observing<'f>;
    type Batch = Batch;
    type State = Part;
    type Answer = Rollup;
    fn worker(&self) -> Observing<'_> {
        let has_all_tables = self.selection.with_seams || self.selection.with_steps;
        let observer = if has_all_tables { Observer::whole() } else { Observer::default() };
        let filters = &self.selection.filters;
        let is_whole = !filters.is_empty() && !filters.iter().any(|filter| chooses_logs(filter.dim));
        Observing { observer, selection: &self.selection, is_whole }
    }
    fn begin(&self) -> Part {
        let part = Part::new(self.streams).with_load();
        let part = if self.selection.with_seams { part.with_seams() } else { part };
        if self.selection.with_steps { part.with_steps() } else { part }
    }
    fn take(&self, part: &mut Part, delivery: Delivery<Batch>) {
        match delivery {
            Delivery::Block { stream, batch } => part.take(stream, batch),
            Delivery::End { stream } => part.end(stream),
        }
    }
    fn finish(&self, part: Part, _: Vec<Observing<'_>>) -> Rollup {
        part.finish()
    }
}

/// The observer of analysis as a worker of the source's pass.
pub(crate) struct Observing<'s> {
    observer: Observer,
    selection: &'s Selection,
    /// Whether the time of events that conditions leave out is looked at, too.
    is_whole: bool,
}

impl Worker for Observing<'_> {
    type Batch = Batch;
    #[inline]
    fn event(&mut self, event: Timed<'_, '_>) {
        if self.selection.takes(&event) {
            self.observer.event(event);
        } else if self.is_whole && self.selection.is_within(&event) {
            self.observer.leave_out(event.at);
        }
    }
    fn flush(&mut self) -> Batch {
        self.observer.flush()
    }
}
