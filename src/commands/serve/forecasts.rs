//! When limits will be reached, made now and then beside the readings: a store of thousands of series takes a while.

use super::beside::Beside;
use crate::cli::{Error, Settings, silent};
use crate::commands::forecast;
use crate::model::forecast::Reached;
use crate::model::question;
use crate::sources::clock::now;
use crate::sources::store::Store;
use std::time::Duration;

/// What is reached, and when.
type Limits = Vec<(String, Reached)>;

/// Forecasts of the series of a store.
pub(super) struct Forecasts {
    question: question::Forecast,
    settings: Settings,
    every: Duration,
    beside: Beside<Result<Limits, Error>>,
}

impl Forecasts {
    pub(super) fn new(store: &Store, every: Duration, settings: &Settings) -> Self {
        let sources = vec![store.folder.display().to_string()];
        let question = question::Forecast { sources, ..question::Forecast::default() };
        // One thread, since readings go on meanwhile.
        let mut settings = settings.clone();
        settings.threads = 1;
        Self { question, settings, every, beside: Beside::default() }
    }

    /// Begins one where it is time; gives what the last one found once it is done. A store with nothing to forecast
    /// has no limits.
    pub(super) fn round(&mut self) -> Option<Limits> {
        let (question, settings) = (&self.question, &self.settings);
        let made = self.beside.round(self.every, || {
            let (question, settings) = (question.clone(), settings.clone());
            move || silent(&settings, now(), |context| Ok(forecast::limits(&question, context)?.unwrap_or_default())).0
        });
        // A forecast that failed changes nothing: the next one is made in its time.
        made?.ok().and_then(Result::ok)
    }
}
