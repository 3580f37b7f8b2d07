//! Engines that read audit logs where they lie: Apache Spark 4 by Spark Connect. Their workers run plimsoll itself
//! (docs/engine.md): SQL puts the lines of each hour together, a copy of the program rolls them up, and the files of
//! the roll-ups come back as rows.

mod dataset;

use crate::model::problem::{Problem, ProblemKind};
use crate::sources::watcher::Watcher;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use spark_connect::SparkSession;
use spark_connect_core::{ChannelBuilder, SparkError};
use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// How often it is looked whether to stop.
const POLL: Duration = Duration::from_millis(100);

/// Rows that wait to be written.
const WAITING: usize = 16;

/// The first version whose answers are known to be complete.
const OLDEST: u64 = 4;

/// Where an engine is, and what its workers run.
#[derive(Debug, Clone, Copy)]
pub struct Engine<'e> {
    /// As Spark's own clients take it: `sc://host:port/;use_ssl=true;token=…`.
    pub url: &'e str,
    /// The program for the workers.
    pub program: &'e Path,
    /// The folder for a link to it that is called after its content.
    pub home: &'e Path,
}

/// A row that a worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which part it is of; empty for what is of none.
    pub part: String,
    /// The file's name.
    pub name: String,
    /// Which piece of the file.
    pub index: u64,
    pub data: Vec<u8>,
}

/// Has the logs behind `roots` rolled up; `take` gets the rows in any order, `watcher` how much its workers have read.
pub fn roll_up(
    engine: Engine<'_>,
    roots: &[String],
    stop: &AtomicBool,
    watcher: &dyn Watcher,
    mut take: impl FnMut(Row) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let at = Address::of(engine.url)?;
    let here = |error: SparkError| problem(&error).at(&at.shown);
    at.answers()?;
    let session = SparkSession::builder().remote(&at.url).get_or_create().map_err(here)?;
    let version = session.version().map_err(here)?;
    if version.split('.').next().and_then(|major| major.parse::<u64>().ok()).is_none_or(|major| major < OLDEST) {
        let what = format!("is version {version:?}");
        return Err(Problem::new(ProblemKind::Version, what).at(&at.shown).hint("use Apache Spark 4 or later"));
    }
    let name = named(engine.program).map_err(|error| Problem::io(engine.program, &error))?;
    let link = engine.home.join(&name);
    linked(engine.program, &link).map_err(|error| Problem::io(&link, &error))?;
    session.add_artifact(&link.to_string_lossy()).map_err(here)?;
    let select = |(number, root): (usize, &String)| select(&session, root, &format!("plimsoll_lines_{number}"));
    let selects = roots.iter().enumerate().map(select).collect::<Result<Vec<_>, _>>()?;
    let query = query(&selects, &name, roots);
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&bytes);
    session.register_progress_handler(move |progress| {
        let read = progress.stages.iter().map(|stage| stage.input_bytes_read.unsigned_abs()).sum();
        counted.store(read, Ordering::Relaxed);
    });
    let (send, receive) = bounded(WAITING);
    let reader = {
        let session = session.clone();
        std::thread::spawn(move || fetch(&session, &query, &send))
    };
    let mut shown = 0;
    let result = consume(&receive, stop, &mut take, || {
        let read = bytes.load(Ordering::Relaxed);
        watcher.read(read.saturating_sub(shown));
        shown = shown.max(read);
    });
    if result.is_err() {
        // Nobody waits for the rest.
        drop(session.interrupt_all());
    }
    drop(receive);
    let read = match reader.join() {
        Ok(read) => read.map_err(|error| here(*error)),
        Err(_) => Err(Problem::damaged("the thread that read its answer ended early").at(&at.shown)),
    };
    let result = result.and(read);
    drop(session.stop());
    result
}

/// Makes a view of what a source holds, and selects the lines in it: of raw logs, or those that a dataset's rows were.
fn select(session: &SparkSession, root: &str, view: &str) -> Result<String, Problem> {
    let here = |error: SparkError| problem(&error).at(root);
    if let Some(held) = dataset::held(session, root).map_err(here)? {
        dataset::view(session, root, view).map_err(here)?;
        return Ok(dataset::select(view, &held));
    }
    let lines = session.read().format("text").option("lineSep", "\n").option("recursiveFileLookup", "true");
    lines.load(Some(root)).create_or_replace_temp_view(view).map_err(here)?;
    Ok(format!(
        "select coalesce(regexp_extract(substr(value, instr(value, 'stageTimestamp'), 64), \
         '([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}})', 1), '') part, input_file_name() file, \
         input_file_block_start() block, monotonically_increasing_id() place, value line from {view}"
    ))
}

/// Reads all rows of a query.
fn fetch(session: &SparkSession, query: &str, send: &Sender<String>) -> Result<(), Box<SparkError>> {
    for row in session.sql(query)?.to_local_iterator(false)? {
        let row = row?;
        let text = row.get(0).and_then(|value| value.as_str()).unwrap_or_default();
        if send.send(text.to_owned()).is_err() {
            break;
        }
    }
    Ok(())
}

/// Takes rows until there are no more.
fn consume(
    receive: &Receiver<String>,
    stop: &AtomicBool,
    take: &mut dyn FnMut(Row) -> Result<(), Problem>,
    mut show: impl FnMut(),
) -> Result<(), Problem> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new(ProblemKind::Unanswered, "stopped; the engine was asked to stop as well"));
        }
        match receive.recv_timeout(POLL) {
            Ok(text) => take(row(&text)?)?,
            Err(RecvTimeoutError::Timeout) => show(),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn row(text: &str) -> Result<Row, Problem> {
    let cells: Vec<&str> = text.split('\t').collect();
    let read = || {
        let [part, name, index, data] = cells.as_slice() else { return None };
        let data = BASE64_STANDARD.decode(data).ok()?;
        Some(Row { part: (*part).to_owned(), name: (*name).to_owned(), index: index.parse().ok()?, data })
    };
    read().ok_or_else(|| Problem::damaged("a worker's row is not one of plimsoll's"))
}

/// The SQL: lines of one hour, of all files, go to one worker, in the order in which they stand in their file. By which
/// column separator rows go to programs is a matter of the server; so a row is one text. Who fails reads all rows
/// nevertheless: else Spark reports that it could not write them, and not why.
fn query(selects: &[String], program: &str, roots: &[String]) -> String {
    let roots = BASE64_STANDARD.encode(serde_json::to_vec(roots).unwrap_or_default());
    let command = format!(
        "if [ -n \"$SPARK_LOCAL_DIRS\" ]; then export TMPDIR=\"${{SPARK_LOCAL_DIRS%%,*}}\"; fi; \
         for p in ./*/{program} ./{program}; do if [ -x \"$p\" ] && \"$p\" --version >/dev/null; then \
         exec \"$p\" rollup-part {roots}; fi; done; echo the program does not run here >&2; cat >/dev/null; exit 9"
    );
    format!(
        "select transform(concat(part, char(9), file, char(9), line)) using '{command}' as (row string) from \
         (select * from ({}) distribute by part sort by part, file, block, place)",
        selects.join(" union all ")
    )
}

/// What a program is called: by its content, so that sessions that share a worker do not mix up theirs.
fn named(program: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(program)?, Xxh3::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("plimsoll-{:016x}", hash.digest())),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(unix)]
fn linked(program: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, link)
}

#[cfg(not(unix))]
fn linked(program: &Path, link: &Path) -> io::Result<()> {
    std::fs::copy(program, link).map(drop)
}

/// A server's address.
struct Address {
    url: String,
    /// Without what is secret.
    shown: String,
    host: String,
    port: u16,
}

impl Address {
    fn of(url: &str) -> Result<Self, Problem> {
        // `sc://host:port;token=…`, as people write it, lacks a slash; and a token may have some.
        let url = match url.split_once(';') {
            Some((place, more)) => format!("{}/;{}", place.trim_end_matches('/'), more.replace('/', "%2F")),
            None => url.to_owned(),
        };
        let read = ChannelBuilder::parse(&url).map_err(|error| {
            Problem::setting(format!("--engine: {}", first_line(&error.message())))
                .hint("write sc://HOST:15002, with TLS and a token sc://HOST:443/;use_ssl=true;token=TOKEN")
        })?;
        Ok(Self {
            shown: format!("sc://{}", read.endpoint()),
            host: read.host().trim_matches(['[', ']']).to_owned(),
            port: read.port(),
            url,
        })
    }

    /// Whether somebody listens there: the client itself would try for minutes.
    fn answers(&self) -> Result<(), Problem> {
        let not = |error: io::Error| {
            Problem::new(ProblemKind::Io, error.to_string())
                .at(&self.shown)
                .hint("check the address, and that a Spark Connect server runs there (sbin/start-connect-server.sh)")
        };
        let mut all = (self.host.as_str(), self.port).to_socket_addrs().map_err(not)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let connected = all.any(|one| match TcpStream::connect_timeout(&one, CONNECT) {
            Ok(_) => true,
            Err(error) => {
                last = error;
                false
            }
        });
        if connected { Ok(()) } else { Err(not(last)) }
    }
}

/// gRPC's number of a kind of error.
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;
const PERMISSION_DENIED: i32 = 7;
const UNIMPLEMENTED: i32 = 12;

/// Bytes of a server's message that are shown.
const SHOWN: usize = 400;

/// The first line of a server's message, which may be followed by its stack.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
    line.chars().take(SHOWN).collect()
}

/// What went wrong, and what to do about it. `text` is the server's.
fn problem(error: &SparkError) -> Problem {
    let text = error.message();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let (what, hint): (String, &'static str) = match error.grpc_code() {
        // Which of these is reported is a matter of which of Spark's threads was quicker.
        _ if has(&["Subprocess exited", "Broken pipe", "Stream closed"]) => {
            let why = text.split("Error: ").nth(1).unwrap_or("it ended before it had read its input");
            let hint =
                "see the worker's log; if its platform is another, name a program for it (--engine-program FILE)";
            let is_own = why.starts_with("plimsoll:");
            (format!("a worker's plimsoll failed: {}", first_line(why)), if is_own { "" } else { hint })
        }
        Some(UNAUTHENTICATED | PERMISSION_DENIED) => (first_line(&text), "check the token of --engine"),
        _ if has(&[
            "AccessDenied",
            "Access Denied",
            "Status Code: 403",
            "Permission denied",
            "AccessControlException",
        ]) =>
        {
            (first_line(&text), "give the engine's workers the right to list and read these files")
        }
        _ if has(&["PATH_NOT_FOUND"]) => (first_line(&text), "the engine reads it: check the path from there"),
        _ if has(&["No FileSystem for scheme", "UnsupportedFileSystemException", "ClassNotFoundException"]) => {
            (first_line(&text), "the engine lacks the connector for this storage (for s3a:// hadoop-aws)")
        }
        Some(UNAVAILABLE) => (
            first_line(&text),
            "nothing was lost, nothing of this answer is used: run the command again when the engine is back",
        ),
        Some(UNIMPLEMENTED) => (first_line(&text), "it must be a Spark Connect server of Apache Spark 4"),
        _ if has(&["UnsupportedOperation", "TRANSFORM", "transform", "not implemented"]) => (
            first_line(&text),
            "the engine must take a program and run it on its workers, as Apache Spark 4 does (docs/engine.md)",
        ),
        _ => (first_line(&text), ""),
    };
    Problem::new(ProblemKind::Unanswered, what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        let of = |url: &str| Address::of(url).map(|at| (at.url, at.host, at.port)).map_err(|error| error.to_string());
        let at = |url: &str, host: &str, port: u16| Ok((url.to_owned(), host.to_owned(), port));
        assert_eq!(of("sc://spark"), at("sc://spark", "spark", 15002));
        assert_eq!(of("sc://spark:443/;use_ssl=true"), at("sc://spark:443/;use_ssl=true", "spark", 443));
        assert_eq!(of("sc://spark:443;token=a/b"), at("sc://spark:443/;token=a%2Fb", "spark", 443));
        assert_eq!(of("sc://[::1]:7"), at("sc://[::1]:7", "::1", 7));
        for wrong in ["spark:15002", "sc://spark:x", "sc://spark/db", "sc://spark/;token"] {
            assert!(of(wrong).is_err_and(|why| why.contains("write sc://HOST")), "{wrong}");
        }
    }

    #[test]
    fn what_a_worker_sends_is_checked() {
        let good = row("2026-11-20T09\tmanifest.json\t0\te30=").unwrap();
        assert_eq!((good.part.as_str(), good.index, good.data.as_slice()), ("2026-11-20T09", 0, &b"{}"[..]));
        for bad in ["", "a\tb\t0", "a\tb\tx\te30=", "a\tb\t0\t!", "a\tb\t0\te30=\tmore"] {
            assert!(row(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_source_leaves_its_place_in_the_sql() {
        let hostile = ["s3a://b/'; drop table x; --".to_owned(), "file:///$(reboot)/`id`".to_owned()];
        let text = query(&["select 1".to_owned()], "plimsoll-1", &hostile);
        assert!(!text.contains("drop table") && !text.contains("reboot") && !text.contains('`'), "{text}");
    }
}
