//! Settings, settled once: flags, then `PLIMSOLL_*`, then the config file, then these defaults.

use super::error::Error;
use super::flags::{ColorMode, FailOn, ProgressMode, ViewFlags, parse_size};
use super::io::Io;
use crate::model::input::{Dedupe, Reading};
use crate::views::{Format, Style};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The config file. Unknown keys are errors: a misspelt one would silently do nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Config {
    output: Option<Format>,
    top: Option<usize>,
    color: Option<ColorMode>,
    progress: Option<ProgressMode>,
    fail_on: Option<FailOn>,
    threads: Option<usize>,
    dedupe: Option<Dedupe>,
    cache: Option<PathBuf>,
    no_cache: bool,
    cache_size: Option<String>,
    cache_from: Option<String>,
    tui: TuiConfig,
}

/// Roll-ups that are kept across runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cache {
    /// Their folder; `None` if none are kept.
    pub folder: Option<PathBuf>,
    /// Bytes that they may have together.
    pub size: u64,
    /// Bytes of a log whose roll-up is worth it.
    pub from: u64,
}

/// An engine that reads logs where they lie (docs/engine.md).
#[derive(Clone, PartialEq, Eq)]
pub struct EngineChoice {
    /// Its address, with what it demands of who calls.
    pub url: String,
    /// What its workers run; `None`: this program.
    pub program: Option<PathBuf>,
}

impl std::fmt::Debug for EngineChoice {
    /// Without the address: it may hold a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineChoice").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Bytes that roll-ups may have together.
const CACHE_SIZE: u64 = 2_000_000_000;

/// Bytes of a log whose roll-up is kept.
const CACHE_FROM: u64 = 256_000_000;

/// Threads at most: more than any machine has a use for.
const MAX_THREADS: usize = 1_024;

/// What the config file says of the terminal UI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct TuiConfig {
    /// Which colours.
    pub theme: Option<String>,
    /// Keys in place of the default ones, by the name of their function; several with blanks between.
    pub keys: BTreeMap<String, String>,
}

/// How much of an answer another command wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    /// The form that it is made for.
    pub format: Format,
    /// As `--top`: rows that people are shown, 0 for all; `None`: as the form has it.
    pub top: Option<usize>,
}

/// What the flags, the environment and the config file come to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Output format.
    pub format: Format,
    /// How to write for people.
    pub style: Style,
    /// Rows to show: as given, else by the form of the output.
    pub top: Option<usize>,
    /// Whether `top` was asked for.
    top_is_asked: bool,
    /// Field to sort by.
    pub sort_by: Option<String>,
    /// Whether progress may be shown.
    pub progress: bool,
    /// Which findings fail; each command has its own default.
    pub fail_on: Option<FailOn>,
    /// Parser threads.
    pub threads: usize,
    /// When audit events that come twice are looked for.
    pub dedupe: Dedupe,
    /// Roll-ups that are kept across runs.
    pub cache: Cache,
    /// What reads logs in object stores.
    pub engine: Option<EngineChoice>,
    /// The terminal UI's own.
    #[cfg(feature = "tui")]
    pub tui: TuiConfig,
    /// No messages but errors.
    pub quiet: bool,
    /// More messages.
    pub verbose: bool,
    /// What is wrong with a config file that nobody named.
    pub warning: Option<String>,
}

/// Rows that people are shown where `--top` is not given.
const TOP: usize = 25;

impl Settings {
    /// How audit logs are read.
    pub fn reading(&self) -> Reading {
        Reading { threads: self.threads, dedupe: self.dedupe }
    }

    /// How many rows were asked for, for commands that show several tables and have a default of their own for each.
    pub fn asked_top(&self) -> Option<usize> {
        self.top_is_asked.then(|| self.top.unwrap_or(usize::MAX))
    }

    /// What they are without any flags.
    #[cfg(test)]
    pub fn usual(io: &Io) -> Result<Self, Error> {
        Self::resolve(&ViewFlags::default(), io)
    }

    /// Settles the flags.
    pub fn resolve(flags: &ViewFlags, io: &Io) -> Result<Self, Error> {
        // An empty variable is as good as none.
        let (config, warning) = match flags.config.as_deref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => (read(path, true)?, None),
            None => match io.config_file.as_deref() {
                None => (Config::default(), None),
                Some(path) => match read(path, false) {
                    Err(Unread::Unreadable(why)) => (Config::default(), Some(why)),
                    read => (read?, None),
                },
            },
        };
        Self::settle(flags, config, warning, io)
    }

    /// Those of an answer that another command composes into its own: how logs are read is settled already; how a
    /// person likes tables to be shown does not change what is composed.
    pub(super) fn of_composed(&self, Shown { format, top }: Shown, io: &Io) -> Result<Self, Error> {
        let flags = ViewFlags { output: Some(format), top, ..ViewFlags::default() };
        let settings = Self::settle(&flags, Config::default(), None, io)?;
        let (threads, dedupe, cache) = (self.threads, self.dedupe, self.cache.clone());
        Ok(Self { progress: false, quiet: true, threads, dedupe, cache, ..settings })
    }

    fn settle(flags: &ViewFlags, config: Config, warning: Option<String>, io: &Io) -> Result<Self, Error> {
        let format = flags.output.or(config.output).unwrap_or_default();
        let color = match flags.color.or(config.color).unwrap_or_default() {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => io.out_is_terminal && !io.no_color,
        };
        let for_people = matches!(format, Format::Table | Format::Wide | Format::Markdown);
        let top = match flags.top.or(config.top) {
            Some(0) => None,
            Some(top) => Some(top),
            None => for_people.then_some(TOP),
        };
        let threads = flags.threads.or(config.threads).unwrap_or(io.cores);
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Error::Usage(format!("--threads {threads}: write a number from 1 to {MAX_THREADS}")));
        }
        let cache = cache(flags, &config, io)?;
        Ok(Self {
            format,
            style: Style { width: io.width, color, headers: !flags.no_headers, compact: false },
            top,
            top_is_asked: flags.top.or(config.top).is_some(),
            sort_by: flags.sort_by.clone(),
            progress: io.err_is_terminal
                && flags.progress.or(config.progress).unwrap_or_default() == ProgressMode::Auto
                && !flags.quiet,
            fail_on: flags.fail_on.or(config.fail_on),
            threads,
            dedupe: flags.dedupe.or(config.dedupe).unwrap_or_default(),
            cache,
            engine: flags.engine.clone().filter(|url| !url.is_empty()).map(|url| EngineChoice {
                url,
                program: flags.engine_program.clone().filter(|path| !path.as_os_str().is_empty()),
            }),
            #[cfg(feature = "tui")]
            tui: config.tui,
            quiet: flags.quiet,
            verbose: flags.verbose,
            warning,
        })
    }
}

fn cache(flags: &ViewFlags, config: &Config, io: &Io) -> Result<Cache, Error> {
    let size = |given: Option<u64>, text: &Option<String>, name: &str, usual: u64| match (given, text) {
        (Some(bytes), _) => Ok(bytes),
        (None, None) => Ok(usual),
        (None, Some(text)) => parse_size(text).map_err(|why| Error::Usage(format!("{name} of the config file: {why}"))),
    };
    let folder = flags.cache.clone().or_else(|| config.cache.clone()).or_else(|| io.cache_folder.clone());
    Ok(Cache {
        folder: folder.filter(|_| !flags.no_cache && !config.no_cache),
        size: size(flags.cache_size, &config.cache_size, "cache-size", CACHE_SIZE)?,
        from: size(flags.cache_from, &config.cache_from, "cache-from", CACHE_FROM)?,
    })
}

/// Why a config file was not used.
enum Unread {
    /// The system would not give it. Nobody may have asked for it: other people's folders are in the way of whoever
    /// runs as them.
    Unreadable(String),
    /// What it says is wrong.
    Wrong(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Unreadable(why) => Self::Usage(why),
            Unread::Wrong(error) => error,
        }
    }
}

fn read(path: &Path, must_exist: bool) -> Result<Config, Unread> {
    use std::io::ErrorKind::{InvalidData, NotADirectory, NotFound};
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) && !must_exist => return Ok(Config::default()),
        Err(error) => {
            let why = format!("{}: can't read the config file: {error}", path.display());
            return Err(if error.kind() == InvalidData {
                Unread::Wrong(Error::Usage(why))
            } else {
                Unread::Unreadable(why)
            });
        }
    };
    toml::from_str(&text)
        .map_err(|error| Unread::Wrong(Error::Usage(format!("{}: {}", path.display(), error.to_string().trim()))))
}
