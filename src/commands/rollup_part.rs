//! `plimsoll rollup-part`: what an engine's workers run (docs/engine.md). Rows of audit logs come on standard input,
//! put together by hours; a roll-up of each hour goes out, as rows again. People don't call it.
//!
//! In: `PART TAB FILE TAB LINE`, where the rows of a part, and within it those of a file, follow one another; `PART` is
//! empty for lines without a time. Out: `PART TAB NAME TAB INDEX TAB BASE64`, of each file of the roll-up its bytes in
//! pieces; and, with an empty part, what could not be used ([`Unplaced`]).

use crate::actions::fresh::{self, Temporary};
use crate::actions::rollup::write;
use crate::cli::{Context, Error};
use crate::inputs::manifest::{giving, manifest};
use crate::inputs::rollup::roll_up;
use crate::model::engine::{CHUNK_BYTES, MIRROR, UNPLACED, Unplaced, mirrored};
use crate::sources::find;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `plimsoll rollup-part`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sources that were named: a JSON array of texts, in base64.
    roots: String,
}

/// How long nobody may take a row. An engine that cancels a task may leave its program like that, for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether somebody did.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    // An engine that can't write all rows reports that, and not why.
    roll_up_rows(args, context).inspect_err(|_| drop(io::copy(&mut io::stdin().lock(), &mut io::sink())))
}

fn roll_up_rows(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let not = |why: String| Error::Usage(format!("rollup-part is run by an engine's workers ({why})"));
    let decoded = BASE64_STANDARD.decode(&args.roots).map_err(|error| not(error.to_string()))?;
    let roots: Vec<String> = serde_json::from_slice(&decoded).map_err(|error| not(error.to_string()))?;
    let failed = |error: io::Error| Error::Input(format!("rollup-part: {error}"));
    let mut spool = Spool::new(roots);
    let mut rows = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut row = Vec::new();
    loop {
        row.clear();
        if rows.read_until(b'\n', &mut row).map_err(failed)? == 0 {
            break;
        }
        let mut columns = row.splitn(3, |byte| *byte == b'\t');
        let (Some(part), Some(file), Some(line)) = (columns.next(), columns.next(), columns.next()) else {
            return Err(not("a row without three columns".to_owned()));
        };
        let (part, file) = (std::str::from_utf8(part), std::str::from_utf8(file));
        let (Ok(part), Ok(file)) = (part, file) else { return Err(not("a name that is not UTF-8".to_owned())) };
        if part != spool.part {
            spool.end(&mut context.io.out)?;
            spool.part = part.to_owned();
        }
        spool.add(file, line).map_err(failed)?;
    }
    spool.end(&mut context.io.out)?;
    spool.unplaced(&mut context.io.out).map_err(failed)
}

/// Ends the process where nobody takes its rows.
struct Watched {
    rows: Arc<AtomicU64>,
}

impl Watched {
    fn begin() -> Self {
        let rows = Arc::new(AtomicU64::new(0));
        let seen = Arc::downgrade(&rows);
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            // As long as rows are written.
            while let Some(rows) = seen.upgrade().map(|rows| rows.load(Ordering::Relaxed)) {
                if rows != last {
                    (last, since) = (rows, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    std::process::exit(i32::from(Error::Partial.code()));
                }
                std::thread::sleep(LOOK);
            }
        });
        Self { rows }
    }

    fn row(&self) {
        self.rows.fetch_add(1, Ordering::Relaxed);
    }
}

/// The lines of a part, as the files that they were in.
struct Spool {
    roots: Vec<String>,
    part: String,
    home: Option<Temporary>,
    /// What each file of the part is called here.
    names: BTreeMap<PathBuf, String>,
    open: Option<(String, BufWriter<File>)>,
    unplaced: BTreeMap<String, Unplaced>,
}

impl Spool {
    fn new(roots: Vec<String>) -> Self {
        let (names, unplaced) = (BTreeMap::new(), BTreeMap::new());
        Self { roots, part: String::new(), home: None, names, open: None, unplaced }
    }

    fn add(&mut self, file: &str, line: &[u8]) -> io::Result<()> {
        if self.part.is_empty() {
            if !line.trim_ascii().is_empty() {
                let own = self.unplaced.entry(file.to_owned()).or_default();
                own.lines += 1;
                own.bytes += line.len() as u64;
            }
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|(name, _)| name != file) {
            if let Some((_, mut done)) = self.open.take() {
                done.flush()?;
            }
            if self.home.is_none() {
                self.home = Some(Temporary::make("part")?);
            }
            let Some(home) = &self.home else { return Ok(()) };
            let path = mirrored(home.path(), &self.roots, file);
            fresh::folder(path.parent().unwrap_or(home.path()))?;
            let out = fresh::append(&path)?;
            self.names.insert(path, file.to_owned());
            self.open = Some((file.to_owned(), BufWriter::with_capacity(1 << 18, out)));
        }
        self.open.as_mut().map_or(Ok(()), |(_, out)| out.write_all(line))
    }

    /// Rolls up the part, if it is one.
    fn end(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Input(format!("rollup-part: {error}"));
        if let Some((_, mut done)) = self.open.take() {
            done.flush().map_err(failed)?;
        }
        let (home, names) = (self.home.take(), std::mem::take(&mut self.names));
        let Some(home) = home else { return Ok(()) };
        let there: Vec<String> = (0..self.roots.len())
            .map(|number| mirrored(home.path(), &self.roots[..=number], &self.roots[number]))
            .filter(|path| path.exists())
            .map(|path| path.display().to_string())
            .collect();
        let found = find::audit_logs(&there);
        if found.streams.is_empty() {
            return Ok(());
        }
        let streams: Vec<(String, String)> =
            found.streams.iter().map(|own| (own.stream.cluster.clone(), own.stream.instance.clone())).collect();
        let (rollup, mut outcome) = roll_up(found.streams, 1, &());
        let called = |path: &mut String| {
            if let Some(name) = names.get(Path::new(path.as_str())) {
                path.clone_from(name);
            }
        };
        outcome.inputs.iter_mut().for_each(|input| called(&mut input.path));
        outcome.losses.iter_mut().for_each(|loss| called(&mut loss.path));
        // Lines of the part are not those of the file.
        outcome.losses.iter_mut().for_each(|loss| (loss.line, loss.offset) = (0, 0));
        let folder = home.path().join("rollup");
        write(&folder, &manifest(&rollup, &streams, &outcome), &giving(&rollup), &[]).map_err(failed)?;
        // Whatever becomes of this process, the lines are not needed any more.
        std::fs::remove_dir_all(home.path().join(MIRROR)).map_err(failed)?;
        let watched = Watched::begin();
        self.send(&folder, &watched, out).map_err(failed)
    }

    /// Writes the files of a folder as rows.
    fn send(&self, folder: &Path, watched: &Watched, out: &mut dyn Write) -> io::Result<()> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.sort();
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut file = File::open(&path)?;
            for index in 0.. {
                let mut piece = Vec::new();
                (&mut file).take(CHUNK_BYTES).read_to_end(&mut piece)?;
                if piece.is_empty() && index > 0 {
                    break;
                }
                writeln!(out, "{}\t{name}\t{index}\t{}", self.part, BASE64_STANDARD.encode(&piece))?;
                watched.row();
            }
        }
        out.flush()
    }

    /// Writes what had no time.
    fn unplaced(&self, out: &mut dyn Write) -> io::Result<()> {
        for (index, (file, own)) in self.unplaced.iter().enumerate() {
            let text = serde_json::to_string(&Unplaced { file: file.clone(), ..own.clone() })?;
            writeln!(out, "\t{UNPLACED}\t{index}\t{}", BASE64_STANDARD.encode(text))?;
        }
        Ok(())
    }
}
