//! Clusters that answer now: metrics of their apiservers, taken twice, so that there are rates.

use super::sources::NamedCluster;
use crate::actions::fresh::Temporary;
use crate::cli::{Context, Error, KubeFlags, duration_parser, side_by_side};
use crate::inputs::live::target;
use crate::jobs::samples::RawPage;
use crate::sources::live::{self, Cluster, LiveError, Page, Target};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Clusters that are asked at a time.
const AT_A_TIME: usize = 32;

/// Which contexts of the kubeconfig are clusters of the fleet.
#[derive(Debug, clap::Args)]
pub(super) struct ContextFlags {
    /// Ask the clusters of these contexts of the kubeconfig; patterns: 'prod-*', '*' for all.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = pattern)]
    contexts: Vec<glob::Pattern>,
    /// Take metrics of each twice, so far apart.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", requires = "contexts",
        value_parser = duration_parser(1, "10s, 1m"))]
    apart: Duration,
    #[command(flatten)]
    kube: KubeFlags,
}

impl ContextFlags {
    /// Whether clusters are meant that answer now.
    pub(super) fn is_some(&self) -> bool {
        !self.contexts.is_empty() || self.kube.kubeconfig.is_some() || self.kube.context.is_some()
    }
}

fn pattern(text: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(text).map_err(|error| error.to_string())
}

/// A context, and where its pages go.
struct Place {
    name: String,
    folder: PathBuf,
}

/// A cluster that answered once.
struct Answering {
    cluster: Cluster,
    at: Instant,
    losses: Vec<String>,
}

/// Pages of all contexts that are meant, in a folder that lasts as long as what is given.
pub(super) fn take(
    flags: &ContextFlags,
    context: &Context<'_>,
) -> Result<Option<(Vec<NamedCluster>, Temporary)>, Error> {
    if flags.contexts.is_empty() {
        return match flags.is_some() {
            true => Err(Error::Usage("--kubeconfig: name the clusters with --contexts, '*' for all".to_owned())),
            false => Ok(None),
        };
    }
    if flags.kube.context.is_some() {
        return Err(Error::Usage("--context: name the clusters of a fleet with --contexts".to_owned()));
    }
    let all = live::contexts(flags.kube.kubeconfig.as_deref()).map_err(|error| Error::Input(error.to_string()))?;
    let is_meant = |name: &&String| flags.contexts.iter().any(|own| own.matches(name));
    let names: Vec<String> = all.iter().filter(is_meant).cloned().collect();
    if let Some(none) = flags.contexts.iter().find(|own| !all.iter().any(|name| own.matches(name))) {
        let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(Error::Usage(format!("--contexts '{none}': no such context; the kubeconfig has {known}")));
    }
    let home = Temporary::make("fleet").map_err(|error| Error::Input(error.to_string()))?;
    let place = |(at, name): (usize, String)| Place { name, folder: home.path().join(at.to_string()) };
    let places: Vec<Place> = names.into_iter().enumerate().map(place).collect();
    let progress = context.settings.progress;
    let first = side_by_side(&places, AT_A_TIME, ("contexts", progress), |own| {
        let target = Target { context: Some(own.name.clone()), ..target(&flags.kube) };
        let cluster = Cluster::connect(&target)?;
        let at = Instant::now();
        let losses = write(cluster.scrape(), &own.folder)?;
        Ok::<_, LiveError>(Answering { cluster, at, losses })
    });
    let asked: Vec<_> = places.iter().zip(first).collect();
    let second = side_by_side(&asked, AT_A_TIME, ("contexts", progress), |(own, asked)| {
        let Ok(asked) = asked else { return Vec::new() };
        std::thread::sleep(flags.apart.saturating_sub(asked.at.elapsed()));
        write(asked.cluster.scrape(), &own.folder).unwrap_or_else(|error| vec![error.to_string()])
    });
    let named = asked.into_iter().zip(second).map(|((own, asked), more)| {
        let (losses, problem) = match asked {
            Ok(asked) => ([asked.losses, more].concat(), None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        NamedCluster {
            name: Some(own.name.clone()),
            sources: vec![own.folder.display().to_string()],
            shown: Some(format!("context {}", own.name)),
            problem,
            losses,
        }
    });
    Ok(Some((named.collect(), home)))
}

/// Writes the pages that came; which did not. An error where none did.
fn write(pages: Vec<Result<Page, LiveError>>, to: &Path) -> Result<Vec<String>, LiveError> {
    let (mut losses, mut written, mut last) = (Vec::new(), 0, None);
    for page in pages {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                losses.push(error.to_string());
                last = Some(error);
                continue;
            }
        };
        let Page { instance, at, body, .. } = page;
        match (RawPage { instance, at, body }).write(to) {
            Ok(_) => written += 1,
            Err(error) => losses.push(format!("{}: {error}", to.display())),
        }
    }
    match last {
        Some(error) if written == 0 => Err(error),
        _ => Ok(losses),
    }
}
