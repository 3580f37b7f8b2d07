//! Threads that answer questions: one for what somebody waits for, one for what can wait. Each runs commands as the
//! command line does, and keeps what they would have printed.

use super::course::{Growing, course};
use super::export;
use crate::analysis::answer::{self, Rows};
use crate::cli::{Context, Error, Io, Settings, Shown};
use crate::commands;
use crate::inputs::held::HeldLogs;
use crate::inputs::load::Load;
use crate::inputs::pages::Memo;
use crate::model::cause::Source;
use crate::model::report::{Severity, Table};
use crate::sources::clock::now;
use crate::sources::find;
use crate::sources::store::Store;
use crate::sources::wanted::Wanted;
use crate::views::Format;
use crate::views::tui::want::Role;
use crate::views::tui::{Answer, Ask, Msg, SourceKinds, Want};
use crossbeam_channel::Sender;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Something to be done.
enum Job {
    Answer(Ask),
    Look { opened: u64, sources: Vec<String>, history: Vec<String> },
    Export { want: Want, rows: Option<Table>, path: String },
}

impl Job {
    /// Whether somebody waits for it.
    fn is_seen(&self) -> bool {
        !matches!(self, Self::Answer(Ask { is_seen: false, .. }))
    }
}

/// What is to be done, in order. A question makes older ones of the same role needless.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
}

impl Queue {
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Job::Answer(ask) = &job {
            jobs.retain(|waiting| !matches!(waiting, Job::Answer(waiting) if waiting.role == ask.role));
        }
        jobs.push_back(job);
        self.more.notify_all();
    }

    /// The next that somebody waits for, or the next that nobody does.
    fn pop(&self, is_seen: bool) -> Job {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = jobs.iter().position(|job| job.is_seen() == is_seen)
                && let Some(job) = jobs.remove(at)
            {
                return job;
            }
            jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The threads.
pub(super) struct Engine(Arc<Queue>);

impl Engine {
    /// Starts them. They end with the program. The course of time is that of the sources, or of what `growing` has been
    /// given.
    pub(super) fn start(mut settings: Settings, messages: &Sender<Msg>, growing: Option<&Arc<Mutex<Growing>>>) -> Self {
        let queue = Arc::new(Queue::default());
        let (held, logs) = (Arc::new(HeldLogs::default()), Arc::default());
        if growing.is_some() {
            // What is read live is another log at each step.
            settings.cache.folder = None;
        }
        for is_seen in [true, false] {
            let queue = Arc::clone(&queue);
            let mut worker = Worker {
                settings: settings.clone(),
                messages: messages.clone(),
                growing: growing.cloned(),
                held: growing.is_none().then(|| Arc::clone(&held)),
                logs: Arc::clone(&logs),
            };
            std::thread::spawn(move || {
                loop {
                    worker.work(queue.pop(is_seen));
                }
            });
        }
        Self(queue)
    }

    /// Finds out what there is, of a fleet in the cluster that was opened so many-th.
    pub(super) fn look(&self, opened: u64, sources: Vec<String>, history: Vec<String>) {
        self.0.push(Job::Look { opened, sources, history });
    }

    /// Answers a question.
    pub(super) fn ask(&self, ask: Ask) {
        self.0.push(Job::Answer(ask));
    }

    /// Writes what a want comes to.
    pub(super) fn export(&self, want: Want, rows: Option<Table>, path: String) {
        self.0.push(Job::Export { want, rows, path });
    }
}

/// Lines that a command writes for people become messages.
struct Lines {
    messages: Sender<Msg>,
    kept: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.kept.extend_from_slice(bytes);
        while let Some(end) = memchr::memchr(b'\n', &self.kept) {
            let line: Vec<u8> = self.kept.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end().trim_start_matches("plimsoll: ");
            let _ = self.messages.send(Msg::Said(Severity::Warning, line.to_owned()));
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers questions.
pub(super) struct Worker {
    settings: Settings,
    messages: Sender<Msg>,
    growing: Option<Arc<Mutex<Growing>>>,
    /// Logs that are held in memory; of what is live none.
    held: Option<Arc<HeldLogs>>,
    /// Sources of logs that are to be held once what a person waits for first is answered.
    logs: Arc<Mutex<(u64, Vec<String>)>>,
}

impl Worker {
    /// One that works on its caller's thread.
    #[cfg(any(feature = "live", test))]
    pub(super) fn new(settings: Settings, messages: Sender<Msg>) -> Self {
        Self { settings, messages, growing: None, held: None, logs: Arc::default() }
    }

    fn send(&self, msg: Msg) {
        // Nobody listens any more: the program ends.
        let _ = self.messages.send(msg);
    }

    /// Does a job. Should it panic, that is reported, and the next is done all the same.
    fn work(&mut self, job: Job) {
        let number = if let Job::Answer(ask) = &job { Some(ask.clone()) } else { None };
        let is_done = catch_unwind(AssertUnwindSafe(|| match job {
            Job::Answer(ask) => {
                let is_story = ask.role == Role::Story;
                self.send(Msg::Answer(Box::new(self.answered(ask))));
                if is_story {
                    self.hold();
                }
            }
            Job::Look { opened, sources, history } => self.look(opened, &sources, history),
            Job::Export { want, rows, path } => {
                let reported = self.with(|context| export::export(&want, rows, &path, context));
                let what = reported.unwrap_or_else(|error| format!("{path}: {error}"));
                self.send(Msg::Done(what));
            }
        }));
        if is_done.is_err() {
            let why = "plimsoll failed here (it panicked): please report it with the view that was open";
            match number {
                Some(ask) => {
                    let mut answer = Answer::new(ask.number, ask.role, ask.wants);
                    answer.errors.push(why.to_owned());
                    self.send(Msg::Answer(Box::new(answer)));
                }
                None => self.send(Msg::Said(Severity::Critical, why.to_owned())),
            }
        }
    }

    /// Runs something with a context of its own.
    pub(super) fn with<T>(&self, run: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let mut io = Io {
            out: Box::new(io::sink()),
            err: Box::new(Lines { messages: self.messages.clone(), kept: Vec::new() }),
            out_is_terminal: false,
            err_is_terminal: false,
            width: None,
            no_color: true,
            cores: self.settings.threads,
            config_file: None,
            cache_folder: None,
            now: now(),
        };
        // A progress bar would be drawn over the screen.
        let mut settings = self.settings.clone();
        (settings.progress, settings.quiet) = (false, true);
        let mut context = Context::new(settings, &mut io);
        context.shared.replace(Some(Memo::default()));
        context.shared.replace(self.held.clone());
        context.report_losses_once();
        run(&mut context)
    }

    fn look(&self, opened: u64, sources: &[String], history: Vec<String>) {
        if let Some(held) = &self.held {
            held.clear();
        }
        match self.with(|context| look(sources, history, context)) {
            Ok(found) => {
                *self.logs.lock().unwrap_or_else(PoisonError::into_inner) = (opened, found.of(&[Source::Audit]));
                self.send(Msg::SourceKinds(SourceKinds { opened, ..found }));
            }
            Err(error) => {
                self.send(Msg::Said(Severity::Critical, error.to_string()));
                self.send(Msg::SourceKinds(SourceKinds { opened, ..SourceKinds::default() }));
            }
        }
    }

    /// Reads the logs once more, and holds what windows of them are taken from.
    pub(super) fn hold(&self) {
        let Some(held) = &self.held else { return };
        let (opened, sources) = std::mem::take(&mut *self.logs.lock().unwrap_or_else(PoisonError::into_inner));
        if sources.is_empty() {
            return;
        }
        let streams = find::find(&sources, Wanted::Logs, now()).streams;
        match self.with(|context| held.hold(streams, context)) {
            Ok(Some(tile)) => self.send(Msg::Held(opened, tile)),
            // Each step reads them: they are roll-ups themselves, or still written to.
            Ok(None) => {}
            Err(error) => self.send(Msg::Said(Severity::Warning, error.to_string())),
        }
    }

    /// Holds logs of these sources.
    #[cfg(test)]
    pub(super) fn holding(mut self, sources: &[&str]) -> Self {
        self.held = Some(Arc::default());
        self.logs = Arc::new(Mutex::new((0, sources.iter().map(|source| (*source).to_owned()).collect())));
        self.hold();
        self
    }

    /// Answers a question.
    pub(super) fn answered(&self, ask: Ask) -> Answer {
        let Ask { number, role, wants, .. } = ask;
        let mut answer = Answer::new(number, role, wants.clone());
        for (at, want) in wants.iter().enumerate() {
            let reported = self.with(|context| match want {
                Want::Answer(question) => {
                    let shown = Shown { format: Format::Wide, top: want.shows_all().then_some(0) };
                    match context.compose(shown, |context| commands::answer(question, context))? {
                        answer::Answer::Flame(tree) => answer.draw(at, &tree),
                        answer::Answer::Report(report, rows) => {
                            answer.add(at, &report);
                            if let Rows::Timeline(entries) = rows {
                                answer.mark(&entries);
                            }
                        }
                        answer::Answer::Manifests(_) => {}
                    }
                    Ok(())
                }
                Want::Course(sources) => {
                    answer.course = Some(match &self.growing {
                        Some(growing) => {
                            let so_far = growing.lock().unwrap_or_else(PoisonError::into_inner).so_far();
                            so_far.course(sources, context)?
                        }
                        None => course(sources, context)?,
                    });
                    Ok(())
                }
            });
            if let Err(error) = reported {
                let error: Error = error;
                let what = error.to_string();
                // Two commands about one capture fail alike.
                if !answer.errors.contains(&what) {
                    answer.errors.push(what);
                }
            }
        }
        answer.finish();
        answer
    }
}

/// What kinds of things there are.
pub(super) fn look(sources: &[String], history: Vec<String>, context: &mut Context<'_>) -> Result<SourceKinds, Error> {
    let now = context.io.now;
    let dumps = |source: &&String| !find::find(std::slice::from_ref(*source), Wanted::Dumps, now).dumps.is_empty();
    let dumps: Vec<String> = sources.iter().filter(dumps).cloned().collect();
    let load = match Load::look(sources, (None, None), context) {
        Ok((load, _)) => load,
        // Dump pages alone are no matter for a report.
        Err(_) if !dumps.is_empty() || !history.is_empty() => Load::default(),
        Err(error) => return Err(error),
    };
    // A store that is looked at has its own history.
    let own = sources.iter().filter(|source| Store::is_store(std::path::Path::new(source))).cloned();
    let history = if history.is_empty() { own.collect() } else { history };
    let stores = history.iter().filter(|source| std::path::Path::new(source).is_dir()).cloned().collect();
    Ok(SourceKinds {
        stores,
        holders: load.holders,
        dumps,
        ends: load.ends,
        history,
        bounds: load.bounds,
        ..SourceKinds::default()
    })
}
