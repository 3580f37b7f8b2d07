//! Nothing is kept across runs where Parquet can't be written.

use super::log_question::{Answered, CacheUse, LogQuestion};
use crate::analysis::rollup::Rollup;
use crate::cli::{Context, Error};
use crate::sources::audit::pass::Outcome;
use crate::sources::found::LogStream;
use std::convert::Infallible;

/// Logs whose roll-up can be kept: none.
pub(crate) struct Cacheable(Infallible);

impl Cacheable {
    /// None.
    pub(crate) fn of(_: &[LogStream], _: CacheUse, _: &Context<'_>) -> Option<Self> {
        None
    }

    /// Never called.
    pub(crate) fn ask<Q: LogQuestion>(&self, _: &Q, _: &mut Context<'_>) -> Result<Option<Answered<Q::Answer>>, Error> {
        match self.0 {}
    }

    /// Never called.
    pub(crate) fn keep(&self, _: &Rollup, _: &Outcome, _: &mut Context<'_>) -> Result<(), Error> {
        match self.0 {}
    }
}
