//! Nothing is kept across runs where Parquet can't be written.

use super::logs::{Answered, CacheUse, Question};
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error};
use crate::sources::audit::pass::Outcome;
use crate::sources::find::LogStream;
use std::convert::Infallible;

/// Logs whose roll-up can be kept: none.
pub(super) struct Cacheable(Infallible);

impl Cacheable {
    /// None.
    pub(super) fn of(_: &[LogStream], _: CacheUse, _: &Context<'_>) -> Option<Self> {
        None
    }

    /// Never called.
    pub(super) fn ask<Q: Question>(&self, _: &Q, _: &mut Context<'_>) -> Result<Option<Answered<Q::Answer>>, Error> {
        match self.0 {}
    }

    /// Never called.
    pub(super) fn keep(&self, _: &Rollup, _: &Outcome, _: &mut Context<'_>) -> Result<(), Error> {
        match self.0 {}
    }
}
