//! `plimsoll tui`: threads that read and answer, and one that draws.

#[cfg(test)]
mod console;
mod course;
mod engine;
mod export;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod objects;
#[cfg(feature = "live")]
mod pace;
#[cfg(feature = "live")]
mod shared;
#[cfg(test)]
#[cfg(feature = "history")]
mod side_by_side;
#[cfg(feature = "live")]
mod spool;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

use crate::cli::{Context, Error, KubeFlags, parse_every};
#[cfg(feature = "history")]
use crate::commands::fleet::{self, NamedCluster};
use crate::model::units::parse_bytes;
use crate::sources::arguments::{expand, is_live as is_live_source, is_read_once};
use crate::sources::clock::now;
#[cfg(feature = "history")]
use crate::sources::store::Store;
#[cfg(feature = "history")]
use crate::views::tui::FleetCluster;
use crate::views::tui::keys::Keys;
use crate::views::tui::theme::NAMES;
use crate::views::tui::{Effect, Msg, State, Theme, term};
#[cfg(feature = "live")]
use course::Growing;
use crossbeam_channel::{Receiver, Sender};
use engine::Engine;
#[cfg(feature = "live")]
use spool::Spool;
use std::path::{Path, PathBuf};
#[cfg(feature = "live")]
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Arguments of `plimsoll tui`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # live: all apiservers that the kubeconfig can name
  plimsoll tui
  # live: an audit log that is being written
  plimsoll tui --follow /var/log/kubernetes/audit
  # live: all of these
  plimsoll tui --context prod --follow audit.log /sys/fs/cgroup/kubepods.slice
  # replay: what a bundle holds, at any moment
  plimsoll tui bundle/
  # any mix of what the other commands read
  plimsoll tui audit.log snapshot.db metrics/
  # many clusters side by side, of which one is opened: each store or bundle in a folder, or named
  plimsoll tui stores/ test=test.tar.zst

? shows the keys. A tab shows the output of a command: Y copies that command. More: docs/commands/tui.md.")]
pub struct Args {
    /// What the other commands read: bundles, datasets, audit logs, metrics pages, databases of etcd, heap profiles,
    /// copies of cgroups, objects; live: URLs of /metrics, folders below /sys/fs/cgroup. None: the cluster that the
    /// kubeconfig names. NAME=SOURCE, or a folder of bundles or stores: many clusters side by side.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Follow this audit log (file, folder, glob) as it is written; repeatable.
    #[arg(long, value_name = "LOG")]
    follow: Vec<String>,
    /// Time between two readings of live sources.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_every)]
    every: Duration,
    /// List the cluster's objects too, every five minutes: quotas, pods, workloads, nodes.
    #[arg(long)]
    objects: bool,
    /// Size of the live recording for replay; the oldest data are dropped first.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    keep: u64,
    /// Keep the live recording below this folder [default: the folder for temporary files].
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
    /// Keep request and response bodies in the bundles that B writes [default: their sizes only].
    #[arg(long)]
    with_bodies: bool,
    /// A store that record keeps, or a CSV, for forecasts; repeatable.
    #[cfg(feature = "history")]
    #[arg(long, value_name = "SOURCE")]
    history: Vec<String>,
    /// Colours: default, safe (for the colour-blind), none.
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_THEME")]
    theme: Option<String>,
    /// Do not capture the mouse.
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    kube: KubeFlags,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| "at least 1MiB: 64MiB, 1GiB".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if !context.io.out_is_terminal {
        return Err(Error::Usage(
            "the terminal UI needs a terminal; without one: plimsoll report, or the command of what is looked at"
                .to_owned(),
        ));
    }
    let theme = args.theme.as_deref().or(context.settings.tui.theme.as_deref());
    let theme = match theme {
        // NO_COLOR and --color never mean it.
        None if !context.settings.style.color => Theme::none(),
        None => Theme::usual(),
        Some(name) => Theme::named(name)
            .ok_or_else(|| Error::Usage(format!("theme {name}: unknown; use one of: {}", NAMES.join(", "))))?,
    };
    let keys =
        Keys::with(&context.settings.tui.keys).map_err(|why| Error::Usage(format!("config file, tui.keys: {why}")))?;
    if let Some(source) = args.sources.iter().chain(&args.follow).find(|source| is_read_once(source)) {
        return Err(Error::Usage(format!(
            "{source}: the terminal UI reads its sources repeatedly, and a pipe can be read once; write it to a file"
        )));
    }
    #[cfg(feature = "history")]
    if let Some(clusters) = fleet::several(&args.sources) {
        return many(args, clusters, State::new("", false, keys, theme), context);
    }
    let (again, still): (Vec<String>, Vec<String>) =
        args.sources.iter().cloned().partition(|source| is_live_source(source));
    // Whoever mistypes a path wants to know at once.
    for source in still.iter().chain(&args.follow).filter(|source| !Path::new(source).is_dir()) {
        expand(source).map_err(|error| Error::Input(error.to_string()))?;
    }
    let (sender, receiver) = crossbeam_channel::unbounded();
    signals(&sender)?;
    #[cfg(feature = "history")]
    let history = args.history.clone();
    #[cfg(not(feature = "history"))]
    let history = Vec::new();
    let has_cluster = args.sources.is_empty() && args.follow.is_empty()
        || args.kube.context.is_some()
        || args.kube.kubeconfig.is_some();
    let named = args.follow.iter().chain(&args.sources);
    let name = named
        .map(|source| Path::new(source).file_name().map_or(source.as_str(), |name| name.to_str().unwrap_or(source)));
    let name = if has_cluster { "cluster".to_owned() } else { name.collect::<Vec<_>>().join(" ") };
    if args.objects && !has_cluster {
        return Err(Error::Usage("--objects lists those of a live cluster: name it with --context".to_owned()));
    }
    let is_live = has_cluster || !again.is_empty() || !args.follow.is_empty();
    let state = State::new(&name, is_live, keys, theme);
    let console = (state, (sender.clone(), receiver), !args.no_mouse);
    if is_live {
        #[cfg(feature = "live")]
        return live(args, (still, again, history), has_cluster, &sender, console, context);
        #[cfg(not(feature = "live"))]
        return Err(Error::Usage(
            "this plimsoll was built without the 'live' feature: it can only look at what was written".to_owned(),
        ));
    }
    let engine = Engine::start(context.settings.clone(), &sender, None);
    engine.look(0, still, history);
    // What is read live is saved; here nothing is.
    show(console, &engine, |_| ())
}

/// Looks at many clusters side by side, and into one of them.
#[cfg(feature = "history")]
fn many(args: &Args, clusters: Vec<NamedCluster>, state: State, context: &mut Context<'_>) -> Result<(), Error> {
    let is_live = !args.follow.is_empty() || args.kube.context.is_some() || args.kube.kubeconfig.is_some();
    let all = || clusters.iter().flat_map(|own| &own.sources);
    if is_live || args.objects || all().any(|source| is_live_source(source)) {
        let why = "clusters side by side are read from files: without --follow, --context, --objects, URLs and cgroups";
        return Err(Error::Usage(why.to_owned()));
    }
    for source in all().filter(|source| !Path::new(source).is_dir()) {
        expand(source).map_err(|error| Error::Input(error.to_string()))?;
    }
    let (sender, receiver) = crossbeam_channel::unbounded();
    signals(&sender)?;
    // A store holds series for forecasts as well.
    let is_store = |source: &&String| Store::is_store(Path::new(source));
    let cluster = |own: NamedCluster| FleetCluster {
        shown: own.shown(),
        history: own.sources.iter().filter(is_store).chain(&args.history).cloned().collect(),
        sources: own.sources,
    };
    let clusters = clusters.into_iter().map(cluster);
    let state = state.of_fleet(&args.sources, clusters.collect());
    let engine = Engine::start(context.settings.clone(), &sender, None);
    let console = (state, (sender, receiver), !args.no_mouse);
    show(console, &engine, |_| ())
}

/// What is drawn, where it comes from, whether the mouse is ours.
type Console = (State, (Sender<Msg>, Receiver<Msg>), bool);

/// Draws until the user leaves.
fn show((state, channel, has_mouse): Console, engine: &Engine, save: impl Fn(String)) -> Result<(), Error> {
    let outside = |effect: Effect| match effect {
        Effect::Ask(ask) => engine.ask(ask),
        Effect::Open { opened, sources, history } => engine.look(opened, sources, history),
        Effect::Export { want, rows, path } => engine.export(want, rows, path),
        Effect::Save(path) => save(path),
        Effect::Copy(_) | Effect::Redraw | Effect::Suspend | Effect::Quit => {}
    };
    Ok(term::run(state, channel, has_mouse, now, outside)?)
}

/// Reads what is live, and draws.
#[cfg(feature = "live")]
fn live(
    args: &Args,
    (still, again, history): (Vec<String>, Vec<String>, Vec<String>),
    has_cluster: bool,
    sender: &Sender<Msg>,
    console: Console,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let below = args.spool.clone().unwrap_or_else(std::env::temp_dir);
    let spool = Spool::create(&below, args.keep)
        .map_err(|error| Error::Input(format!("{}: can't write there: {error}", below.display())))?;
    let growing = Arc::new(Mutex::new(Growing::default()));
    let engine = Engine::start(context.settings.clone(), sender, Some(&growing));
    let shared = shared::Shared::new(spool, growing, sender.clone(), args.every);
    live::still(&shared, still, history, context.settings.clone());
    if has_cluster {
        live::cluster(&shared, crate::inputs::live::target(&args.kube), args.objects);
    }
    again.into_iter().for_each(|source| live::again(&shared, source));
    if !args.follow.is_empty() {
        live::logs(&shared, args.follow.clone());
    }
    // However it ends: nothing is left behind.
    let _removed = Removed(&shared);
    show(console, &engine, |path| shared.save(path, args.with_bodies))
}

/// Removes what was kept when it is dropped.
#[cfg(feature = "live")]
struct Removed<'a>(&'a shared::Shared);

#[cfg(feature = "live")]
impl Drop for Removed<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Asked to end, the program gives the terminal back first.
#[cfg(unix)]
fn signals(sender: &Sender<Msg>) -> Result<(), Error> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| Error::Input(format!("can't watch for signals: {error}")))?;
    let sender = sender.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = sender.send(Msg::Quit);
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn signals(_: &Sender<Msg>) -> Result<(), Error> {
    Ok(())
}
