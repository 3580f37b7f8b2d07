//! One round of recording: from sources to samples.

use crate::actions::fresh::{folder, replace};
use crate::analysis::memory::account::Account;
use crate::analysis::metrics::scrape::{Rates, Scrape, Scraping};
use crate::analysis::quota::collect;
use crate::cli::{Context, Error, KubeFlags};
use crate::model::apf::Request;
#[cfg(feature = "live")]
use crate::model::apf::Rows;
use crate::model::memory::Sample as Memory;
use crate::model::names::{CGROUP_MEMORY, NAMESPACE_USAGE};
use crate::model::objects::{Namespace, Objects};
use crate::model::sample::Sample;
use crate::model::series::Series;
use crate::model::time::{Micros, SECOND};
use crate::sources::apf;
use crate::sources::arguments::{expand, is_live};
use crate::sources::cgroup::{self, Machine};
#[cfg(feature = "live")]
use crate::sources::clock;
use crate::sources::find;
use crate::sources::objects::captures;
use crate::sources::objects::usage::{self, PodUsage};
use crate::sources::open::{Place, SourceError};
use crate::sources::pages::{PageBuffer, PageFile, PageWorker, PagesRead, read_page};
use crate::sources::store::{Store, StoreError};
use crate::sources::wanted::Wanted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Samples as they are written.
pub(crate) type Samples = Vec<(Series, Micros, f64)>;

/// Compression of a page: a tenth of its size, in milliseconds.
const LEVEL: i32 = 3;

/// A page as it was sent.
#[derive(Debug)]
pub(crate) struct RawPage {
    pub(crate) instance: String,
    pub(crate) at: Micros,
    pub(crate) body: Vec<u8>,
}

impl RawPage {
    /// Writes it, packed, where pages are found: `INSTANCE/SECONDS.txt.zst` in a folder. Gives that of the instance.
    pub(crate) fn write(&self, to: &Path) -> std::io::Result<PathBuf> {
        // An address may hold colons and brackets; what would leave the folder does not stand in one.
        let own = to.join(self.instance.replace(['/', '\\'], "_"));
        folder(&own)?;
        let packed = zstd::encode_all(self.body.as_slice(), LEVEL)?;
        replace(&own.join(format!("{}.txt.zst", self.at / SECOND)), &packed)?;
        Ok(own)
    }
}

/// What one round took.
#[derive(Default)]
pub(crate) struct Taken {
    /// What is stored.
    pub(crate) samples: Samples,
    /// Memory of cgroups, all that the kernel shows.
    pub(crate) groups: Vec<Memory>,
    /// Namespaces by name, where objects were listed.
    pub(crate) namespaces: Option<BTreeMap<String, Namespace>>,
    /// Requests that wait or execute in any apiserver, and when, where apiservers say it and it is asked for.
    pub(crate) requests: Option<(Micros, Vec<Request>)>,
    /// Metrics pages, where they are asked for.
    pub(crate) pages: Vec<RawPage>,
    /// What could not be taken: targets that did not answer, or not with what was asked for.
    pub(crate) failures: u64,
}

/// What is remembered from one round, and from one run, to the next: in the store's folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    rates: Rates,
    /// When the last objects, usage and cgroups of each source were taken.
    last: BTreeMap<String, Micros>,
}

/// Takes samples.
pub(crate) struct Taker<'a> {
    sources: &'a [String],
    kube: &'a KubeFlags,
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "objects can be read only from a cluster"))]
    objects_every: std::time::Duration,
    state: State,
    /// As it was written last.
    written: State,
    file: PathBuf,
    warned: HashSet<String>,
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "objects can be read only from a cluster"))]
    listed: Option<std::time::Instant>,
    /// Whether the cluster is asked.
    with_cluster: bool,
    /// Whether its apiservers are asked for the requests that they hold.
    #[cfg_attr(not(feature = "live"), expect(dead_code, reason = "requests can be read only from a cluster"))]
    with_requests: bool,
    /// Pages no older than this are given as they are.
    raw_pages: Micros,
    #[cfg(feature = "live")]
    cluster: Option<crate::sources::live::Cluster>,
}

/// A page of an instance.
struct Page {
    instance: String,
    page: PageFile,
}

/// The scraping of analysis as a worker of the source's pass.
#[derive(Default)]
struct Worker {
    scraping: Scraping,
    instance: String,
    scrape: Option<Scrape>,
}

impl PageWorker for Worker {
    fn begin(&mut self, _: &str, _: Micros) {
        self.scraping.begin();
    }
    fn sample(&mut self, sample: &Sample<'_, '_>) {
        self.scraping.sample(sample);
    }
    fn end(&mut self, at: Micros) {
        self.scrape = self.scraping.end(&self.instance, at);
    }
}

impl<'a> Taker<'a> {
    /// Takes from these sources, a live cluster where there are none; remembers in the store what it must.
    pub(crate) fn new(
        sources: &'a [String],
        kube: &'a KubeFlags,
        objects_every: std::time::Duration,
        store: &Store,
    ) -> Self {
        // Of two that record different things each remembers its own.
        let what = format!("{:?} {:?} {:?}", sources, kube.kubeconfig, kube.context);
        let file = store.folder.join(format!("state-{:016x}.json", xxh3_64(what.as_bytes())));
        // What is damaged is forgotten: the next rates are taken one round later.
        let state: State =
            std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self {
            sources,
            kube,
            objects_every,
            written: state.clone(),
            state,
            file,
            warned: HashSet::new(),
            listed: None,
            with_cluster: sources.is_empty(),
            with_requests: false,
            raw_pages: 0,
            #[cfg(feature = "live")]
            cluster: None,
        }
    }

    /// The same, which gives pages as they are that are no older than this, and asks the cluster or not, whether or not
    /// there are sources; if so, also for the requests that its apiservers hold.
    pub(crate) fn with_pages(self, raw_pages: Micros, with_cluster: bool) -> Self {
        Self { with_cluster, with_requests: with_cluster, raw_pages, ..self }
    }

    /// Whether something is asked for what is now.
    pub(crate) fn is_live(&self) -> bool {
        self.with_cluster || self.sources.iter().any(|source| is_live(source))
    }

    /// Writes down what the next run must know.
    pub(crate) fn remember(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        if self.state == self.written {
            return Ok(());
        }
        let text = serde_json::to_vec(&self.state).map_err(|error| Error::Input(error.to_string()))?;
        if let Err(error) = replace(&self.file, &text) {
            context.lost(StoreError::io(&self.file)(error))?;
        }
        self.written = self.state.clone();
        Ok(())
    }

    /// Takes everything once. What fails is said, and tried again the next time, if there is one.
    pub(crate) fn round(&mut self, is_last: bool, context: &mut Context<'_>) -> Result<Taken, Error> {
        let (mut taken, mut pages) = (Taken::default(), Vec::new());
        let mut errors = Vec::new();
        if self.with_cluster {
            self.cluster(&mut taken, &mut pages, &mut errors, context)?;
        }
        for source in self.sources {
            self.source(source, &mut taken, &mut pages, &mut errors);
        }
        let is_first = self.pages(pages, &mut taken, &mut errors);
        if is_first {
            context.notice("first page of each process: rates (apiserver_rps) start with the next one")?;
        }
        // A source that is down stays down for many rounds: it is reported once, and again when it comes back and fails
        // again.
        taken.failures = errors.len() as u64;
        let now: HashSet<String> = errors.iter().cloned().collect();
        for error in errors {
            match is_last {
                true => context.lost(error)?,
                false if !self.warned.contains(&error) => context.warn(error)?,
                false => {}
            }
        }
        self.warned = now;
        Ok(taken)
    }

    /// What a source holds that is newer than what was taken from it before.
    fn source(&mut self, source: &str, taken: &mut Taken, pages: &mut Vec<Page>, errors: &mut Vec<String>) {
        let now = clock::now();
        let one = [source.to_owned()];
        let found = find::find(&one, Wanted::Pages, now);
        let before = errors.len();
        let mut others = Vec::new();
        for error in found.errors {
            match error {
                SourceError::NotWanted { .. } | SourceError::NothingHere { .. } => others.push(error.to_string()),
                other => errors.push(other.to_string()),
            }
        }
        let mut is_something = !found.pages.is_empty();
        for folder in found.pages {
            for page in folder.pages {
                let instance =
                    if folder.instance.is_empty() { page.source.path.clone() } else { folder.instance.clone() };
                if self.state.rates.last(&instance).is_none_or(|last| page.at > last) {
                    pages.push(Page { instance, page });
                }
            }
        }
        if !source.contains("://") {
            is_something |= self.objects(&one, taken, errors);
            is_something |= self.cgroups(source, now, taken, errors);
            is_something |= !is_something && !find::find(&one, Wanted::Logs, now).streams.is_empty();
            is_something |= !is_something && has_empty_file(source);
        }
        if !is_something && errors.len() == before {
            let why = others.pop().unwrap_or_default();
            errors.push(format!(
                "{source}: none of the recorded inputs found: audit logs, metrics pages, objects, PodMetrics, \
                 cgroups. {why}"
            ));
        }
    }

    /// Whether something of this source is newer than what was taken before; then that is the last.
    fn is_new(&mut self, what: &str, at: Micros) -> bool {
        let last = self.state.last.entry(what.to_owned()).or_insert(Micros::MIN);
        let is_new = at > *last;
        *last = at.max(*last);
        is_new
    }

    fn objects(&mut self, source: &[String], taken: &mut Taken, errors: &mut Vec<String>) -> bool {
        let found = captures::find(source);
        errors.extend(found.errors.iter().map(ToString::to_string));
        let mut is_something = !found.captures.is_empty();
        for capture in found.captures {
            if self.is_new(&format!("objects {} {}", source[0], capture.cluster), capture.at) {
                taken.objects(Arc::unwrap_or_clone(capture.objects), capture.at);
            }
        }
        let (found, failed) = usage::find(source);
        errors.extend(failed.iter().map(ToString::to_string));
        is_something |= !found.is_empty();
        for usage in found {
            if self.is_new(&format!("usage {}", source[0]), usage.at) {
                used(&usage, &mut taken.samples);
            }
        }
        is_something
    }

    fn cgroups(&mut self, source: &str, now: Micros, taken: &mut Taken, errors: &mut Vec<String>) -> bool {
        let path = Path::new(source);
        if is_live(source) {
            let group =
                Machine::find(Path::new("/")).ok().and_then(|machine| Some(machine.group(&machine.below(path)?)));
            match group.map(|group| group.read(now)) {
                Some(Ok(sample)) => taken.group(sample),
                Some(Err(error)) => errors.push(format!("{source}: {error}")),
                None => return false,
            }
            return true;
        }
        // That it holds no copies of cgroups is no error of a folder of pages.
        let Ok(found) = cgroup::open(path, now, false) else { return false };
        let is_something = !found.is_empty();
        for series in found {
            for sample in series.samples {
                if self.is_new(&format!("cgroup {}", series.place), sample.at) {
                    taken.group(Memory { path: series.name.clone(), ..sample });
                }
            }
        }
        is_something
    }

    /// Reads pages in order of time, and puts those together that were taken at about the same time: up to where an
    /// instance comes again. Whether there are processes of which no rates are known yet.
    fn pages(&mut self, mut pages: Vec<Page>, taken: &mut Taken, errors: &mut Vec<String>) -> bool {
        let since = clock::now() - self.raw_pages;
        pages.sort_by(|a, b| (a.page.at, &a.instance).cmp(&(b.page.at, &b.instance)));
        let mut worker = Worker::default();
        let mut buffer = PageBuffer::default();
        let mut round: Vec<Scrape> = Vec::new();
        let mut unknown: HashSet<String> = HashSet::new();
        for Page { instance, page } in pages {
            if round.iter().any(|scrape| scrape.instance == instance) {
                self.finish(&mut round, &mut taken.samples);
            }
            worker.instance.clone_from(&instance);
            let mut read = PagesRead::default();
            let path = page.source.path.clone();
            read_page(page, &mut buffer, &mut worker, &mut read, &());
            errors.extend(read.losses.iter().map(ToString::to_string));
            match worker.scrape.take() {
                Some(scrape) => {
                    if self.raw_pages > 0 && scrape.at >= since {
                        let (instance, body) = (instance.clone(), buffer.text().to_vec());
                        taken.pages.push(RawPage { instance, at: scrape.at, body });
                    }
                    match self.state.rates.take(&scrape) {
                        true => drop(unknown.remove(&instance)),
                        false => drop(unknown.insert(instance)),
                    }
                    round.push(scrape);
                }
                None if read.losses.is_empty() => {
                    errors.push(format!("{path}: this page has none of the recorded metrics"))
                }
                None => {}
            }
        }
        self.finish(&mut round, &mut taken.samples);
        !unknown.is_empty()
    }

    fn finish(&self, round: &mut Vec<Scrape>, samples: &mut Samples) {
        if let Some(at) = round.iter().map(|scrape| scrape.at).max() {
            samples.extend(self.state.rates.round(round, at).into_iter().map(|(series, value)| (series, at, value)));
        }
        round.clear();
    }

    /// The live cluster: pages of all apiservers, and now and then its objects.
    #[cfg(feature = "live")]
    fn cluster(
        &mut self,
        taken: &mut Taken,
        pages: &mut Vec<Page>,
        errors: &mut Vec<String>,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        use crate::sources::live::Cluster;
        use crate::sources::objects::live;
        if self.cluster.is_none() {
            match Cluster::connect(&crate::inputs::live::target(self.kube)) {
                Ok(cluster) => {
                    for note in cluster.notes() {
                        context.notice(note)?;
                    }
                    self.cluster = Some(cluster);
                }
                // Whoever mistypes a kubeconfig wants to know at once; one that was reached before is tried again.
                Err(error) if self.listed.is_none() => return Err(Error::Input(error.to_string())),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let mut has_answered = false;
        for page in cluster.scrape() {
            match page {
                Ok(page) => {
                    has_answered = true;
                    let path = format!("{}/metrics", page.instance);
                    pages.push(Page { instance: page.instance, page: PageFile::read(path, page.at, page.body) });
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        if self.listed.is_none_or(|listed| listed.elapsed() >= self.objects_every) {
            self.listed = Some(std::time::Instant::now());
            let at = clock::now();
            let (objects, failed) = live::take(cluster, &|_| true);
            errors.extend(failed.iter().map(ToString::to_string));
            has_answered |= !objects.kinds.is_empty();
            taken.objects(objects, at);
            match cluster.get(0, usage::PATH) {
                Ok(page) => match usage::read(&page.body, page.at) {
                    Ok(usage) => usage.iter().for_each(|usage| used(usage, &mut taken.samples)),
                    Err(what) => errors.push(format!("{}: {what}", usage::PATH)),
                },
                // Not every cluster has a metrics server.
                Err(error) if context.settings.verbose => {
                    context.notice(format!("{error}; namespace_usage is not recorded"))?
                }
                Err(_) => {}
            }
        }
        if self.with_requests {
            taken.requests = requests(cluster, errors);
        }
        if !has_answered {
            // Credentials may have run out, or apiservers moved: the next round connects again.
            self.cluster = None;
        }
        Ok(())
    }

    #[cfg(not(feature = "live"))]
    fn cluster(
        &mut self,
        _: &mut Taken,
        _: &mut Vec<Page>,
        _: &mut Vec<String>,
        _: &mut Context<'_>,
    ) -> Result<(), Error> {
        Err(KubeFlags::unavailable())
    }
}

/// What pods use, by namespace.
fn used(usage: &PodUsage, samples: &mut Samples) {
    for (namespace, amounts) in &usage.by_namespace {
        for (resource, amount) in amounts {
            let series = Series::new(NAMESPACE_USAGE, &[("namespace", namespace), ("resource", resource)]);
            samples.push((series, usage.at, amount.value()));
        }
    }
}

impl Taken {
    fn objects(&mut self, objects: Objects, at: Micros) {
        self.samples.extend(collect::samples(&objects, at).into_iter().map(|(series, value)| (series, at, value)));
        if objects.has("Namespace") {
            self.namespaces = Some(objects.namespaces);
        }
    }

    /// A group's memory.
    fn group(&mut self, sample: Memory) {
        let account = Account::of(&sample, None);
        let kinds = [
            ("usage", account.usage),
            ("working_set", account.working_set),
            ("anon", account.anon),
            ("file", account.file),
            ("limit", account.limit),
        ];
        for (kind, bytes) in kinds {
            if let Some(bytes) = bytes {
                let series = Series::new(CGROUP_MEMORY, &[("path", &sample.path), ("kind", kind)]);
                self.samples.push((series, sample.at, bytes as f64));
            }
        }
        self.groups.push(sample);
    }
}

/// The requests that all apiservers hold; nothing where one of them does not say.
#[cfg(feature = "live")]
fn requests(cluster: &crate::sources::live::Cluster, errors: &mut Vec<String>) -> Option<(Micros, Vec<Request>)> {
    let (mut all, mut at) = (Vec::new(), Micros::MIN);
    for server in 0..cluster.apiservers().len() {
        let page = match cluster.get(server, apf::PATHS[2]) {
            Ok(page) => page,
            Err(error) => {
                errors.push(format!("{error}; plimsoll_client_seats has no series"));
                return None;
            }
        };
        at = at.max(page.at);
        match apf::read(&page.body, |_| ()) {
            Some(Rows::Requests { requests, .. }) => all.extend(requests),
            _ => {
                errors.push(format!("{}{}: not a page of requests", page.instance, apf::PATHS[2]));
                return None;
            }
        }
    }
    Some((at, all))
}

/// Whether a source has a file without content, as a log is that was just begun.
fn has_empty_file(source: &str) -> bool {
    let has_nothing = |path: &Path| path.metadata().is_ok_and(|file| file.len() == 0);
    let is_empty = |place: &Place| matches!(place, Place::File(path) if has_nothing(path));
    expand(source).is_ok_and(|(files, _)| files.iter().any(is_empty))
}
