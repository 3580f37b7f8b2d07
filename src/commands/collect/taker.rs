//! What takes things into a bundle: each is kept, or missed, and counted by kind and place.

use super::Args;
use crate::actions::bundle::BundleWriter;
use crate::actions::fresh::Fresh;
use crate::model::time::{self, Micros};
use crate::sources::audit::strip::{self, Stripped};
use crate::sources::clock::now;
use crate::sources::live::{Cluster, LiveError};
use crate::sources::open::Source;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// One kind of thing from one place, and what came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) what: &'static str,
    /// From where: an instance, a path, a file.
    pub(super) of: String,
    /// How often it was asked for.
    pub(super) asked: u64,
    /// How often it was not given.
    pub(super) failed: u64,
    /// Files in the bundle.
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The last failure.
    pub(super) why: String,
    /// Whether the cluster has no such thing.
    pub(super) is_absent: bool,
    /// Whether it may not be read: it is not asked for again.
    pub(super) is_forbidden: bool,
}

impl Row {
    /// Whether something that is there was not had.
    pub(super) fn is_lost(&self) -> bool {
        self.failed > 0 && !self.is_absent
    }

    /// In a word.
    pub(super) fn outcome(&self) -> &'static str {
        match self {
            Self { failed: 0, .. } => "taken",
            Self { is_absent: true, .. } => "not there",
            Self { files: 0, .. } => "missing",
            _ => "in part",
        }
    }
}

/// What was taken.
pub(super) struct Taken {
    pub(super) cluster: String,
    pub(super) rows: Vec<Row>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) from: Micros,
    pub(super) to: Micros,
    /// What was taken out of audit logs.
    pub(super) stripped: Stripped,
    /// Names that have a pseudonym, where that was asked for.
    pub(super) pseudonyms: Option<u64>,
}

/// Takes things.
pub(super) struct Taker<'a> {
    pub(super) args: &'a Args,
    pub(super) cluster: Cluster,
    writer: BundleWriter,
    pub(super) rows: Vec<Row>,
    from: Micros,
    /// When metrics are to be taken next; never where they are taken once.
    pub(super) next: Option<Instant>,
    /// When the last page of a list was asked for.
    pub(super) listed: Option<Instant>,
    /// Where something may be written for a while, beside the bundle.
    beside: PathBuf,
    /// What was taken out of audit logs.
    stripped: Stripped,
    pub(super) stop: Arc<AtomicBool>,
}

/// What a packed file is called where it is written plain.
pub(super) fn unpacked_name(path: &str) -> &str {
    path.trim_end_matches(".zst").trim_end_matches(".gz")
}

impl<'a> Taker<'a> {
    pub(super) fn new(
        args: &'a Args,
        cluster: Cluster,
        writer: BundleWriter,
        target: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let name = format!("{}.audit", target.file_name().unwrap_or_default().to_string_lossy());
        Self {
            args,
            cluster,
            writer,
            rows: Vec::new(),
            from: now(),
            next: Some(Instant::now()),
            listed: None,
            beside: target.with_file_name(name),
            stripped: Stripped::default(),
            stop: Arc::clone(stop),
        }
    }

    /// The row of one kind of thing from one place.
    pub(super) fn row(&mut self, what: &'static str, of: &str) -> &mut Row {
        let at = self.rows.iter().position(|row| row.what == what && row.of == of).unwrap_or_else(|| {
            self.rows.push(Row { what, of: of.to_owned(), ..Row::default() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// Something was had: it becomes a file.
    pub(super) fn keep(
        &mut self,
        what: &'static str,
        of: &str,
        path: &str,
        at: Micros,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.writer.add(path, at, bytes)?;
        let row = self.row(what, of);
        row.asked += 1;
        row.files += 1;
        row.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Something was not had.
    pub(super) fn miss(&mut self, what: &'static str, of: &str, why: String) -> &mut Row {
        let row = self.row(what, of);
        row.asked += 1;
        row.failed += 1;
        row.why = why;
        row
    }

    /// Something was asked for, and not given.
    pub(super) fn refused(&mut self, what: &'static str, of: &str, error: &LiveError) {
        let row = self.miss(what, of, error.to_string());
        row.is_absent = matches!(error, LiveError::Status { code: 404, .. });
        row.is_forbidden = matches!(error, LiveError::Forbidden { .. });
    }

    /// Adds a file that may still be written; reports how much of its length at the start is missing.
    pub(super) fn copy(&mut self, what: &'static str, of: &str, path: &str, file: &mut File) -> io::Result<()> {
        let meta = file.metadata()?;
        let at = meta
            .modified()
            .ok()
            .and_then(|at| jiff::Timestamp::try_from(at).ok())
            .map_or_else(now, |at| at.as_microsecond());
        let missing = self.writer.add_from(path, at, meta.len(), file)?;
        let row = self.row(what, of);
        row.asked += 1;
        row.files += 1;
        row.bytes += meta.len();
        if missing > 0 {
            row.failed += 1;
            row.why = format!("{of}: its last {missing} bytes were cut off while it was read");
        }
        Ok(())
    }

    /// An audit log without bodies; what they held stays behind.
    pub(super) fn audit(&mut self, of: &str, path: &str, mut source: Source) -> io::Result<()> {
        let reader = match source.reader() {
            Ok(reader) => reader,
            Err(error) => {
                self.miss("file", of, error.to_string());
                return Ok(());
            }
        };
        // How long it will be is known when it is written; an archive wants to know before.
        let mut whole = Fresh::create(&self.beside)?;
        let mut writer = io::BufWriter::new(&mut whole);
        let stripped = strip::log(io::BufReader::with_capacity(1 << 20, reader), &mut writer);
        io::Write::flush(&mut writer)?;
        drop(writer);
        let mut file = File::open(whole.path())?;
        self.copy("file", of, unpacked_name(path), &mut file)?;
        match stripped {
            Ok(stripped) => self.stripped += stripped,
            Err(error) => {
                let row = self.row("file", of);
                row.failed += 1;
                row.why = format!("{of}: {error}; the data before that is in the bundle");
            }
        }
        Ok(())
    }

    /// Writes what the bundle says of itself, and gives it its name.
    pub(super) fn finish(mut self) -> io::Result<Taken> {
        let to = now();
        let versions = self.cluster.apiservers().iter().filter_map(|server| server.version.clone()).collect::<Vec<_>>();
        let missing: Vec<_> = self.rows.iter().filter(|row| row.is_lost()).map(|row| row.why.clone()).collect();
        let mut about = serde_json::json!({
            "cluster": self.cluster.name(),
            "kubernetes_version": versions.first(),
            "owner": self.args.owner,
            "instances": self.cluster.apiservers().iter().map(|server| server.name.as_str()).collect::<Vec<_>>(),
            "time": "file names are Unix seconds, UTC",
            "collected": {
                "by": concat!("plimsoll ", env!("CARGO_PKG_VERSION")), "from": time::format(self.from),
                "to": time::format(to),
                "audit_bodies": if self.args.with_bodies { "kept" } else { "sizes only" },
                "names": if self.args.redact { "pseudonyms" } else { "kept" },
                "missing": missing, "stopped_early": self.stop.load(Ordering::Relaxed),
            },
        });
        if let Some(members) = about.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        let text = serde_yaml_ng::to_string(&about).map_err(io::Error::other)?;
        self.writer.add("bundle.yaml", to, text.as_bytes())?;
        let Self { cluster, writer, mut rows, from, stripped, .. } = self;
        let (files, bytes) = (writer.files, writer.bytes);
        writer.finish()?;
        // Of one kind together, in the order in which the kinds were first asked for.
        let firsts: Vec<&'static str> = rows.iter().map(|row| row.what).collect();
        rows.sort_by_key(|row| firsts.iter().position(|what| *what == row.what));
        Ok(Taken { cluster: cluster.name().to_owned(), rows, files, bytes, from, to, stripped, pseudonyms: None })
    }
}
