//! When limits will be reached, made now and then beside the readings: a store of thousands of series takes a while.

use crate::cli::{Error, Settings, silent};
use crate::commands::forecast;
use crate::model::forecast::Reached;
use crate::model::question;
use crate::sources::clock::now;
use crate::sources::store::Store;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is reached, and when.
type Limits = Vec<(String, Reached)>;

/// Forecasts of the series of a store.
pub(super) struct Forecasts {
    question: question::Forecast,
    settings: Settings,
    every: Duration,
    began: Option<Instant>,
    running: Option<JoinHandle<Result<Limits, Error>>>,
}

impl Forecasts {
    pub(super) fn new(store: &Store, every: Duration, settings: &Settings) -> Self {
        let sources = vec![store.folder.display().to_string()];
        let question = question::Forecast { sources, ..question::Forecast::default() };
        // One thread, since readings go on meanwhile.
        let mut settings = settings.clone();
        settings.threads = 1;
        Self { question, settings, every, began: None, running: None }
    }

    /// Begins one where it is time; gives what the last one found once it is done. A store with nothing to forecast
    /// has no limits.
    pub(super) fn round(&mut self) -> Option<Limits> {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            // A forecast that failed changes nothing: the next one is made in its time.
            return running.join().ok().and_then(Result::ok);
        }
        let is_due = self.began.is_none_or(|began| began.elapsed() >= self.every);
        if is_due && self.running.is_none() {
            self.began = Some(Instant::now());
            let (question, settings) = (self.question.clone(), self.settings.clone());
            let work = move || {
                silent(&settings, now(), |context| Ok(forecast::limits(&question, context)?.unwrap_or_default())).0
            };
            self.running = Some(std::thread::spawn(work));
        }
        None
    }
}
