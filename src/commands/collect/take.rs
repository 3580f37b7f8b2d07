//! Taking what a cluster gives, one thing after the other.

use super::{Args, also};
use crate::actions::bundle::{BundleWriter, part};
use crate::actions::fresh::Fresh;
use crate::cli::repeat::sleep_until;
use crate::cli::{Context, Error};
use crate::commands::etcd::pull_one;
use crate::model::time::{self, Micros, SECOND};
use crate::sources::apf;
use crate::sources::audit::strip::{self, Stripped};
use crate::sources::clock::now;
use crate::sources::etcd::pull::{Access, PullError};
use crate::sources::live::{Cluster, LiveError, Page};
use crate::sources::objects::{clean, live, usage};
use crate::sources::open::Source;
use crate::sources::pprof::HEAP;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Lists beside those of quotas: what webhooks are asked about, what limits clients, what pods use. Of several paths
/// the first that the cluster knows.
const LISTS: [&[&str]; 5] = [
    &["/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"],
    &["/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"],
    &[
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/flowcontrol.apiserver.k8s.io/v1beta3/prioritylevelconfigurations",
    ],
    &["/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"],
    &[usage::PATH],
];

/// One kind of thing from one place, and what came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// What.
    pub(super) what: &'static str,
    /// From where: an instance, a path, a file.
    pub(super) of: String,
    /// How often it was asked for.
    pub(super) asked: u64,
    /// How often it was not given.
    pub(super) failed: u64,
    /// Files in the bundle.
    pub(super) files: u64,
    /// Their bytes.
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
    cluster: Cluster,
    writer: BundleWriter,
    rows: Vec<Row>,
    from: Micros,
    /// When metrics are to be taken next; never where they are taken once.
    pub(super) next: Option<Instant>,
    /// When the last page of a list was asked for.
    listed: Option<Instant>,
    /// Where something may be written for a while, beside the bundle.
    beside: PathBuf,
    /// What was taken out of audit logs.
    stripped: Stripped,
    stop: Arc<AtomicBool>,
}

/// A time as it stands in a file's name: Unix seconds and milliseconds.
pub(in crate::commands) fn stamp(at: Micros) -> String {
    format!("{}.{:03}", at / SECOND, at % SECOND / 1000)
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

    fn row(&mut self, what: &'static str, of: &str) -> &mut Row {
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

    fn refused(&mut self, what: &'static str, of: &str, error: &LiveError) {
        let row = self.miss(what, of, error.to_string());
        row.is_absent = matches!(error, LiveError::Status { code: 404, .. });
        row.is_forbidden = matches!(error, LiveError::Forbidden { .. });
    }

    /// Metrics, if it is time for them. What can't be taken in time is left out, not made up for.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let Some(due) = self.next.filter(|next| *next <= Instant::now() && !self.stop.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        self.next = self.args.duration.map(|_| (due + self.args.every).max(Instant::now()));
        self.metrics()
    }

    /// A page of metrics of every apiserver, and of the URLs and cgroups that were named.
    fn metrics(&mut self) -> io::Result<()> {
        let names: Vec<String> = self.cluster.apiservers().iter().map(|server| server.name.clone()).collect();
        let may = names.iter().any(|name| !self.row("metrics", name).is_forbidden);
        if may {
            let answers = self.cluster.scrape();
            let is_lost = answers.iter().all(|answer| !matches!(answer, Ok(_) | Err(LiveError::Forbidden { .. })));
            for (name, answer) in names.iter().zip(answers) {
                match answer {
                    Ok(Page { at, body, .. }) => {
                        self.keep("metrics", name, &format!("metrics/{}/{}.txt", part(name), stamp(at)), at, &body)?;
                    }
                    Err(error) => self.refused("metrics", name, &error),
                }
            }
            // Credentials may have run out, or apiservers moved: what is asked for next is asked anew.
            if is_lost && let Ok(cluster) = Cluster::connect(&crate::inputs::live::target(&self.args.kube)) {
                self.cluster = cluster;
            }
        }
        also::again(self)
    }

    /// What holds for a moment: seats and queues, and heaps where that is wanted.
    pub(super) fn moment(&mut self) -> io::Result<()> {
        let names: Vec<String> = self.cluster.apiservers().iter().map(|server| server.name.clone()).collect();
        for (number, name) in names.iter().enumerate() {
            for page in apf::PATHS {
                let file = page.split('?').next().and_then(|page| page.rsplit('/').next()).unwrap_or(page);
                let path = |at: Micros| format!("apf/{}/{file}-{}.txt", part(name), stamp(at));
                self.ask(number, "seats and queues", name, page, &path)?;
            }
            if self.args.include_heap {
                let path = |at: Micros| format!("heap/{}/heap-{}.pb.gz", part(name), at / SECOND);
                self.ask(number, "heap profile", name, HEAP, &path)?;
            }
        }
        Ok(())
    }

    /// Asks one apiserver for one thing, unless it is known that it may not be read.
    fn ask(
        &mut self,
        number: usize,
        what: &'static str,
        of: &str,
        path: &str,
        file: &dyn Fn(Micros) -> String,
    ) -> io::Result<()> {
        if self.row(what, of).is_forbidden || self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.tick()?;
        match self.cluster.get(number, path) {
            Ok(Page { at, body, .. }) => self.keep(what, of, &file(at), at, &body)?,
            Err(error) => {
                self.refused(what, of, &error);
                if self.row(what, of).is_forbidden && path == apf::PATHS[0] {
                    self.row(what, of).why += "; the other two pages of that folder need the same (nonResourceURLs [/debug/api_priority_and_fairness/*])";
                }
            }
        }
        Ok(())
    }

    /// The objects that quotas, controllers and webhooks are told by.
    pub(super) fn objects(&mut self) -> io::Result<()> {
        if self.args.no_objects {
            return Ok(());
        }
        let folder = format!("objects/{}", now() / SECOND);
        let lists = live::LISTS.iter().map(|(_, path)| vec![*path]).chain(LISTS.iter().map(|paths| paths.to_vec()));
        for paths in lists {
            for (at, path) in paths.iter().enumerate() {
                if self.stop.load(Ordering::Relaxed) {
                    self.miss("objects", path, format!("{path}: stopped before it was listed"));
                    break;
                }
                self.list(&folder, path)?;
                let is_absent = self.rows.last().is_some_and(|row| row.of == *path && row.is_absent);
                if !is_absent || at + 1 == paths.len() {
                    break;
                }
                // An older version of the API may be there.
                self.rows.pop();
            }
        }
        Ok(())
    }

    /// One list, page by page.
    fn list(&mut self, folder: &str, path: &str) -> io::Result<()> {
        let resource = path.rsplit('/').next().unwrap_or(path);
        let mut next: Option<String> = None;
        for number in 1..=live::PAGES {
            self.wait()?;
            let answer = self.cluster.get(0, &live::page_of(path, next.as_deref()));
            let page = match answer {
                Ok(page) => page,
                Err(error) => {
                    self.refused("objects", path, &error);
                    break;
                }
            };
            match clean::page(&page.body) {
                Ok(cleaned) => {
                    let kind = if path == usage::PATH { "podmetrics" } else { resource };
                    self.keep("objects", path, &format!("{folder}/{kind}.{number}.json"), page.at, &cleaned.text)?;
                    next = cleaned.next;
                }
                Err(what) => {
                    self.miss("objects", path, format!("{path}: {what}"));
                    break;
                }
            }
            if next.is_none() {
                break;
            }
            if self.stop.load(Ordering::Relaxed) {
                self.miss("objects", path, format!("{path}: stopped after {number} pages"));
                break;
            }
        }
        Ok(())
    }

    /// Waits until another page may be asked for.
    fn wait(&mut self) -> io::Result<()> {
        self.tick()?;
        let pause = Duration::from_secs_f64(1.0 / self.args.qps);
        if let Some(listed) = self.listed {
            sleep_until(listed + pause, &self.stop);
        }
        self.listed = Some(Instant::now());
        Ok(())
    }

    /// Files and folders that were named.
    pub(super) fn files(&mut self) -> io::Result<()> {
        also::once(self)
    }

    /// Adds a file that is read as it is written; what it lacks at the end of what it was is told.
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
                row.why = format!("{of}: {error}; what stands before that is in the bundle");
            }
        }
        Ok(())
    }

    /// A snapshot of etcd, from the first member that gives a whole one.
    pub(super) fn etcd(&mut self, access: &Access, target: &Path, context: &mut Context<'_>) -> Result<(), Error> {
        let unwritten = |error: io::Error| Error::Input(format!("{}: can't write it: {error}", target.display()));
        let name = format!("{}.etcd", target.file_name().unwrap_or_default().to_string_lossy());
        let mut file = Fresh::create(&target.with_file_name(name)).map_err(unwritten)?;
        context.say(
            "the bundle will hold a snapshot of etcd, and with it all Secrets: whoever can read it can read them",
        )?;
        for endpoint in &self.args.endpoints {
            match pull_one(endpoint, access, &mut file, context) {
                Ok(_) => {
                    let mut whole = File::open(file.path()).map_err(unwritten)?;
                    return self
                        .copy("etcd", &endpoint.name, &format!("etcd/{}.db", now() / SECOND), &mut whole)
                        .map_err(unwritten);
                }
                Err(PullError::Write(error)) => return Err(unwritten(error)),
                Err(PullError::Stopped) => {
                    self.miss(
                        "etcd",
                        &endpoint.name,
                        format!("{}: stopped before the snapshot was whole", endpoint.name),
                    );
                    return Ok(());
                }
                Err(PullError::Member(what) | PullError::Credentials(what)) => {
                    self.miss("etcd", &endpoint.name, what);
                }
            }
            file.restart().map_err(unwritten)?;
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
                "by": concat!("plimsoll ", env!("CARGO_PKG_VERSION")), "from": time::format(self.from), "to": time::format(to),
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
