//! The process's surroundings: writers, the terminal, the clock, where files of settings and caches are.

use crate::model::time::Micros;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// The outside world, asked once.
pub struct Io {
    /// Data.
    pub out: Box<dyn Write>,
    /// Everything else.
    pub err: Box<dyn Write>,
    /// Whether a person reads `out`.
    pub out_is_terminal: bool,
    /// Whether a person reads `err`.
    pub err_is_terminal: bool,
    /// Columns of the terminal.
    pub width: Option<usize>,
    /// Whether `NO_COLOR` is set.
    pub no_color: bool,
    /// Cores that may be used.
    pub cores: usize,
    /// Where the config file would be.
    pub config_file: Option<PathBuf>,
    /// Where roll-ups are kept if nobody names another folder.
    pub cache_folder: Option<PathBuf>,
    /// What time it is.
    pub now: Micros,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Io").finish_non_exhaustive()
    }
}

/// Where messages go. That nobody can read them stops no work: an alert is sent although the log of messages is full.
struct Messages<W>(W);

impl<W: Write> Write for Messages<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // What could not be written is not tried again.
        let _ = self.0.write_all(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

impl Io {
    /// The process's own.
    pub fn process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let out_is_terminal = io::stdout().is_terminal();
        let columns = variable("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(Messages(io::stderr())),
            out_is_terminal,
            err_is_terminal: io::stderr().is_terminal(),
            width: columns.or_else(|| out_is_terminal.then(terminal_width)?),
            no_color: variable("NO_COLOR").is_some(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            config_file: config_file(
                variable("XDG_CONFIG_HOME").map(PathBuf::from),
                variable("HOME").map(PathBuf::from),
            ),
            cache_folder: cache_folder(
                variable("XDG_CACHE_HOME").map(PathBuf::from),
                variable("HOME").map(PathBuf::from),
            ),
            now: jiff::Timestamp::now().as_microsecond(),
        }
    }
}

fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// Where roll-ups are kept; nowhere if the user has no folder.
fn cache_folder(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let home = home?;
    Some(xdg.filter(|path| path.is_absolute()).unwrap_or_else(|| home.join(".cache")).join("plimsoll"))
}

/// Where the config file is looked for.
fn config_file(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let folder = xdg.filter(|p| p.is_absolute()).or_else(|| home.map(|home| home.join(".config")))?;
    Some(folder.join("plimsoll/config.toml"))
}
