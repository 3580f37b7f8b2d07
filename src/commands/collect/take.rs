//! Taking what a cluster gives, one thing after the other.

use super::also;
use super::taker::Taker;
use crate::actions::bundle::part;
use crate::actions::fresh::Fresh;
use crate::cli::repeat::sleep_until;
use crate::cli::{Context, Error};
use crate::jobs::captures::stamp;
use crate::jobs::etcd_pull::pull;
use crate::model::time::{Micros, SECOND};
use crate::sources::apf;
use crate::sources::clock::now;
use crate::sources::content;
use crate::sources::etcd::pull::{Access, PullError};
use crate::sources::live::{Cluster, LiveError, Page};
use crate::sources::objects::clean::{self, Page as Cleaned};
use crate::sources::objects::{live, usage};
use crate::sources::pprof::HEAP;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
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

impl Taker<'_> {
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
            // Credentials may have run out, or apiservers moved: what is asked for next is asked again.
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
            Ok(Page { body, .. }) if content::is_html(&body) => {
                let why =
                    format!("{of}{path}: an HTML page, as from a proxy or a login, and no answer of an apiserver");
                self.miss(what, of, why);
            }
            Ok(Page { at, body, .. }) => self.keep(what, of, &file(at), at, &body)?,
            Err(error) => {
                self.refused(what, of, &error);
                if self.row(what, of).is_forbidden && path == apf::PATHS[0] {
                    self.row(what, of).why += "; the other two pages of that folder need the same (nonResourceURLs \
                         [/debug/api_priority_and_fairness/*])";
                }
            }
        }
        Ok(())
    }

    /// The objects that quotas, controllers and webhooks are taken from.
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

    /// One list, page by page. A page is kept when the next one is there: of a list that breaks off the last one says
    /// so.
    fn list(&mut self, folder: &str, path: &str) -> io::Result<()> {
        let resource = path.rsplit('/').next().unwrap_or(path);
        let kind = if path == usage::PATH { "podmetrics" } else { resource };
        let file = |number: usize| format!("{folder}/{kind}.{number}.json");
        let mut last: Option<(Micros, Cleaned)> = None;
        for number in 1..=live::PAGES {
            self.wait()?;
            let next = last.as_ref().and_then(|(_, page)| page.next.as_deref());
            let new = self.page(path, next);
            if let Some((at, page)) = last.take() {
                let text = if new.is_some() { page.text } else { page.in_part() };
                self.keep("objects", path, &file(number - 1), at, &text)?;
            }
            let Some((at, page)) = new else { return Ok(()) };
            if page.next.is_none() {
                return self.keep("objects", path, &file(number), at, &page.text);
            }
            if number == live::PAGES || self.stop.load(Ordering::Relaxed) {
                self.miss("objects", path, format!("{path}: stopped after {number} pages"));
                return self.keep("objects", path, &file(number), at, &page.in_part());
            }
            last = Some((at, page));
        }
        Ok(())
    }

    /// The page of a list that a token stands for, and when it was asked for; why there is none is noted.
    fn page(&mut self, path: &str, next: Option<&str>) -> Option<(Micros, Cleaned)> {
        let page = match self.cluster.get(0, &live::page_of(path, next)) {
            Ok(page) => page,
            Err(error) => {
                self.refused("objects", path, &error);
                return None;
            }
        };
        let why = match clean::page(&page.body) {
            Ok(cleaned) if cleaned.next.is_none() || cleaned.next.as_deref() != next => {
                return Some((page.at, cleaned));
            }
            Ok(_) => "each page names itself as the next one".to_owned(),
            Err(what) => what.to_string(),
        };
        self.miss("objects", path, format!("{path}: {why}"));
        None
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

    /// A snapshot of etcd, from the first member that gives a whole one.
    pub(super) fn etcd(&mut self, access: &Access, target: &Path, context: &mut Context<'_>) -> Result<(), Error> {
        let unwritten = |error: io::Error| Error::Input(format!("{}: can't write it: {error}", target.display()));
        let name = format!("{}.etcd", target.file_name().unwrap_or_default().to_string_lossy());
        let mut file = Fresh::create(&target.with_file_name(name)).map_err(unwritten)?;
        context.notice(
            "the bundle will hold a snapshot of etcd, including all Secrets; anyone who can read it can read them",
        )?;
        for endpoint in &self.args.endpoints {
            match pull(endpoint, access, &mut file, context) {
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
                        format!("{}: stopped before the snapshot was complete", endpoint.name),
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
}
