//! Live clusters: `/metrics`, and any other path, of every apiserver that a kubeconfig can name.
//!
//! [`Cluster::connect`] reads the kubeconfig (`kubeconfig.rs`), makes one HTTP client with its credentials
//! (`client.rs`), asks the cluster for its apiservers and tries each address (`discover.rs`). [`Cluster::get`] and
//! [`Cluster::scrape`] send GETs, [`Cluster::review`] asks who somebody is and what they may do (`request.rs`): nothing
//! is changed. All that is asynchronous happens on one thread that
//! belongs to the [`Cluster`]; its functions block, and may be called from any thread.
//!
//! The cluster is a patient: we say who we are, ask each apiserver one thing at a time, and wait where it asks for
//! that.

mod client;
mod discover;
mod error;
mod kubeconfig;
mod request;

pub use error::LiveError;
pub(in crate::sources) use error::foreign;

use crate::model::time::Micros;
use request::{Ask, Endpoint, RequestPolicy};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The most bytes of an answer, unpacked. The largest `/metrics` known are some tens of MiB.
pub const LARGEST: u64 = 256 << 20;

/// Which cluster, as whom, and how patiently.
#[derive(Debug, Clone)]
pub struct Target {
    /// The kubeconfig; without it `KUBECONFIG`, `~/.kube/config` and the pod's service account are looked for.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; without it the current one.
    pub context: Option<String>,
    /// The user to act as.
    pub as_user: Option<String>,
    /// The groups to act as.
    pub as_groups: Vec<String>,
    /// How long one request may take, from sending to the last byte.
    pub timeout: Duration,
}

impl Default for Target {
    fn default() -> Self {
        Self { kubeconfig: None, context: None, as_user: None, as_groups: Vec::new(), timeout: Duration::from_secs(30) }
    }
}

/// How an apiserver was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveredBy {
    /// It is among the EndpointSlices of the service `kubernetes`.
    EndpointSlice,
    /// It is among the Endpoints of the service `kubernetes`.
    Endpoints,
    /// It is the kubeconfig's server; there may be several apiservers behind it.
    Kubeconfig,
}

impl fmt::Display for DiscoveredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndpointSlice => "EndpointSlices",
            Self::Endpoints => "Endpoints",
            Self::Kubeconfig => "kubeconfig",
        })
    }
}

/// An apiserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apiserver {
    /// `host:port`.
    pub name: String,
    /// How it was found.
    pub found: DiscoveredBy,
    /// Its Kubernetes version (`v1.36.0`), if it said so.
    pub version: Option<String>,
}

/// What an apiserver answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Page {
    /// The apiserver's name.
    pub instance: String,
    /// When the request was sent that was answered.
    pub at: Micros,
    /// The answer, unpacked.
    pub body: Vec<u8>,
    /// How often it was asked: more than once after answers of 429 or 503.
    pub tries: u32,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An answer may be a Secret.
        f.debug_struct("Page")
            .field("instance", &self.instance)
            .field("at", &self.at)
            .field("bytes", &self.body.len())
            .finish()
    }
}

/// A cluster that answered. Dropping it closes its connections.
///
/// A token that a credential plugin gave is renewed before it expires. A client certificate from a plugin is not:
/// connect again after [`LiveError::Unauthorized`] or [`LiveError::Certificate`].
pub struct Cluster {
    name: String,
    apiservers: Vec<Apiserver>,
    notes: Vec<String>,
    doors: Vec<Arc<Endpoint>>,
    manners: Arc<RequestPolicy>,
    client: kube::Client,
    // Last, so that the client is dropped before the thread that it needs.
    worker: Worker,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither client nor configuration: they hold credentials.
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .field("apiservers", &self.apiservers)
            .finish_non_exhaustive()
    }
}

/// The contexts of this kubeconfig, or of the one that kubectl would read; none in a pod without one.
pub fn contexts(kubeconfig: Option<&Path>) -> Result<Vec<String>, LiveError> {
    let around = kubeconfig::Surroundings { variable: &|name| std::env::var_os(name), home: std::env::home_dir() };
    kubeconfig::contexts(kubeconfig, &around)
}

impl Cluster {
    /// Finds the cluster that `target` means, and its apiservers.
    ///
    /// Each apiserver is asked for `/version`, so that those out of reach are known. This may run a credential plugin
    /// of the kubeconfig, which may ask questions on the terminal and take its time, as under kubectl.
    pub fn connect(target: &Target) -> Result<Self, LiveError> {
        let worker = Worker::start()?;
        let target = target.clone();
        let (name, client, manners, fleet) = worker.run(async move {
            let around =
                kubeconfig::Surroundings { variable: &|name| std::env::var_os(name), home: std::env::home_dir() };
            let found = kubeconfig::find(&target, &around).await?;
            let (client, names) = client::build(&found, target.timeout)?;
            let manners = RequestPolicy {
                timeout: target.timeout,
                limit: LARGEST,
                gzip: !found.config.disable_compression,
                impersonates: found.config.auth_info.impersonate.is_some(),
                plugin: client::plugin(&found.config),
            };
            let fleet = discover::apiservers(&client, &names, &found.config, &manners).await?;
            Ok::<_, LiveError>((found.name, client, manners, fleet))
        })??;
        let discover::Fleet { apiservers, doors, notes } = fleet;
        Ok(Self { name, apiservers, notes, doors, manners: Arc::new(manners), client, worker })
    }

    /// The cluster's name in the kubeconfig; `in-cluster` in a pod.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The apiservers, by name. There is at least one.
    pub fn apiservers(&self) -> &[Apiserver] {
        &self.apiservers
    }

    /// What people should know of how the apiservers were found: which are missing, or that a load balancer is between.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// GETs `path` (and query) from one of [`Self::apiservers`]. At most [`LARGEST`] bytes are taken.
    ///
    /// Of several calls for one apiserver, one is served at a time. An answer of 429 or 503 is tried again a few times,
    /// after what its `Retry-After` asks for; all pauses together are no longer than the timeout.
    pub fn get(&self, server: usize, path: &str) -> Result<Page, LiveError> {
        let door = self.doors.get(server).ok_or(LiveError::NoServer(server))?;
        self.worker.run(self.ask(door, path, Ask::Get))?
    }

    /// POSTs a TokenReview or a SubjectAccessReview to the first apiserver that answers; what it came to.
    pub fn review(&self, path: &str, review: &serde_json::Value) -> Result<Page, LiveError> {
        let mut last = LiveError::NoServer(0);
        for door in &self.doors {
            match self.worker.run(self.ask(door, path, Ask::Review(review.to_string().into_bytes())))? {
                Err(error) if error.is_unreachable() => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }

    /// `/metrics` of all apiservers, asked at the same time. The order is that of [`Self::apiservers`].
    pub fn scrape(&self) -> Vec<Result<Page, LiveError>> {
        let waiting: Vec<_> =
            self.doors.iter().map(|door| self.worker.start_on(self.ask(door, "/metrics", Ask::Get))).collect();
        waiting.into_iter().map(|answer| Worker::wait(&answer)?).collect()
    }

    fn ask(
        &self,
        door: &Arc<Endpoint>,
        path: &str,
        ask: Ask,
    ) -> impl Future<Output = Result<Page, LiveError>> + Send + 'static {
        let (client, manners, door, path) =
            (self.client.clone(), Arc::clone(&self.manners), Arc::clone(door), path.to_owned());
        async move {
            let request::Answer { at, body, tries } = request::send(&client, &door, &path, &ask, &manners).await?;
            Ok(Page { instance: door.name.clone(), at, body, tries })
        }
    }
}

/// The thread on which everything asynchronous happens.
struct Worker {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    fn start() -> Result<Self, LiveError> {
        let failed = |error: std::io::Error| LiveError::Stopped(error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let _ = runtime.block_on(stopped);
            // A look-up of a name, or a credential plugin, may be under way: it is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("plimsoll-live".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    fn start_on<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> mpsc::Receiver<T> {
        let (send, receive) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Whoever asked may have gone.
            let _ = send.send(work.await);
        });
        receive
    }

    fn wait<T>(answer: &mpsc::Receiver<T>) -> Result<T, LiveError> {
        answer.recv().map_err(|_| LiveError::Stopped("it did not answer".to_owned()))
    }

    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, LiveError> {
        Self::wait(&self.start_on(work))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
