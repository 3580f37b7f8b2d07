//! The apiservers of a cluster: the endpoints of the service `kubernetes`, which each apiserver keeps itself in.

use super::client::Names;
use super::error::LiveError;
use super::request::{self, Ask, Endpoint, RequestPolicy};
use super::{Apiserver, DiscoveredBy};
use http::Uri;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ObjectList;
use kube::{Client, Config};
use std::sync::Arc;

/// From the apiserver's cache: nothing here is worth a read of etcd.
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices\
     ?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes&resourceVersion=0";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes?resourceVersion=0";
/// Anybody who is logged in may read it, and it costs nothing.
const VERSION: &str = "/version";

/// The apiservers, with a way to each, and what should be said of how they were found.
pub(super) struct Fleet {
    pub(super) apiservers: Vec<Apiserver>,
    pub(super) doors: Vec<Arc<Endpoint>>,
    pub(super) notes: Vec<String>,
}

/// Finds them. An error is one of the kubeconfig's server itself: nothing can be read then.
pub(super) async fn apiservers(
    client: &Client,
    names: &Names,
    config: &Config,
    manners: &RequestPolicy,
) -> Result<Fleet, LiveError> {
    let url = &config.cluster_url;
    let own = Arc::new(Endpoint::new(authority(url), url.clone()));
    let mut notes = Vec::new();
    let (addresses, how) = named(client, &own, manners, &mut notes).await?;
    // Credentials go to an address only where a certificate vouches for it.
    let trusted = url.scheme_str() == Some("https") && !config.accept_invalid_certs;
    let itself = matches!(addresses.as_slice(), [only] if *only == own.name);
    if itself || addresses.is_empty() || !trusted {
        if !trusted && !addresses.is_empty() && !itself {
            let why = if config.accept_invalid_certs {
                "its certificate is not checked (insecure-skip-tls-verify)"
            } else {
                "it is plain http"
            };
            notes.push(format!(
                "the cluster lists {}, but credentials are not sent there: only the kubeconfig's server is used, \
                 because {why}",
                count(addresses.len())
            ));
        }
        let version = version(client, &own, manners).await.ok().flatten();
        let how = if itself { how } else { DiscoveredBy::Kubeconfig };
        let apiserver = Apiserver { name: own.name.clone(), found: how, version };
        return Ok(Fleet { apiservers: vec![apiserver], doors: vec![own], notes });
    }
    let doors: Vec<Arc<Endpoint>> =
        addresses.iter().filter_map(|name| Some(Arc::new(Endpoint::new(name.clone(), direct(name)?)))).collect();
    let probes = doors.iter().map(|door| probe(client, names, door, manners));
    let answers = join(probes).await;
    let mut apiservers = Vec::new();
    let mut silent = Vec::new();
    for (door, answer) in doors.iter().zip(answers) {
        let version = match answer {
            Ok(version) => version,
            // A proxy may stand before the apiservers that turns its own credentials into others.
            Err(error) if error.is_unreachable() || matches!(error, LiveError::Unauthorized { .. }) => {
                silent.push((door.name.clone(), error.cause()));
                None
            }
            // It answers, if not this.
            Err(_) => None,
        };
        apiservers.push(Apiserver { name: door.name.clone(), found: how, version });
    }
    let list = |silent: &[(String, String)]| {
        silent.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
    };
    if silent.len() < doors.len() {
        if !silent.is_empty() {
            notes.push(format!("of {}, {} can't be read: {}", count(doors.len()), silent.len(), list(&silent)));
        }
        return Ok(Fleet { apiservers, doors, notes });
    }
    notes.push(format!(
        "the cluster lists {}, but none can be read directly ({}): using {}, behind which a different apiserver may \
         answer each time",
        count(doors.len()),
        list(&silent),
        own.name
    ));
    let version = version(client, &own, manners).await.ok().flatten();
    let apiserver = Apiserver { name: own.name.clone(), found: DiscoveredBy::Kubeconfig, version };
    Ok(Fleet { apiservers: vec![apiserver], doors: vec![own], notes })
}

/// The addresses that the cluster names, in order, each once.
async fn named(
    client: &Client,
    own: &Endpoint,
    manners: &RequestPolicy,
    notes: &mut Vec<String>,
) -> Result<(Vec<String>, DiscoveredBy), LiveError> {
    let mut refusals = Vec::new();
    for (path, how, read) in [
        (SLICES, DiscoveredBy::EndpointSlice, slices as Reader),
        (ENDPOINTS, DiscoveredBy::Endpoints, endpoints as Reader),
    ] {
        match request::send(client, own, path, &Ask::Get, manners).await {
            Ok(answer) => match read(&answer.body) {
                Some(mut addresses) if !addresses.is_empty() => {
                    addresses.sort();
                    addresses.dedup();
                    return Ok((addresses, how));
                }
                Some(_) => refusals.push(format!("{how} list none")),
                None => refusals.push(format!("{how} can't be understood")),
            },
            Err(
                error @ (LiveError::Forbidden { .. }
                | LiveError::Status { .. }
                | LiveError::Busy { .. }
                | LiveError::Cut { .. }
                | LiveError::TooLarge { .. }),
            ) => {
                refusals.push(format!("{how}: {}", error.cause()));
            }
            Err(fatal) => return Err(fatal),
        }
    }
    notes.push(format!(
        "the list of apiservers is unavailable ({}): using {}, behind which a different apiserver may answer each \
         time",
        refusals.join("; "),
        own.name
    ));
    Ok((Vec::new(), DiscoveredBy::Kubeconfig))
}

type Reader = fn(&[u8]) -> Option<Vec<String>>;

fn slices(body: &[u8]) -> Option<Vec<String>> {
    let list: ObjectList<EndpointSlice> = serde_json::from_slice(body).ok()?;
    let mut found = Vec::new();
    for slice in list.items {
        let ports = slice.ports.into_iter().flatten().map(|port| (port.name, port.port));
        let Some(port) = https(ports) else { continue };
        let addresses = slice.endpoints.into_iter().flatten().flat_map(|endpoint| endpoint.addresses);
        found.extend(addresses.map(|address| host_port(&address, port)));
    }
    Some(found)
}

fn endpoints(body: &[u8]) -> Option<Vec<String>> {
    let endpoints: Endpoints = serde_json::from_slice(body).ok()?;
    let mut found = Vec::new();
    for subset in endpoints.subsets.into_iter().flatten() {
        let ports = subset.ports.into_iter().flatten().map(|port| (port.name, Some(port.port)));
        let Some(port) = https(ports) else { continue };
        let addresses = subset.addresses.into_iter().flatten().chain(subset.not_ready_addresses.into_iter().flatten());
        found.extend(addresses.map(|address| host_port(&address.ip, port)));
    }
    Some(found)
}

/// The port called `https`, or the only one.
fn https(ports: impl Iterator<Item = (Option<String>, Option<i32>)>) -> Option<u16> {
    let ports: Vec<_> = ports.collect();
    let named = ports.iter().find(|(name, _)| name.as_deref() == Some("https"));
    let port = named.or(match ports.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    u16::try_from(port?.1?).ok()
}

fn host_port(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn direct(name: &str) -> Option<Uri> {
    format!("https://{name}").parse().ok()
}

/// `host:port` of a URL.
fn authority(url: &Uri) -> String {
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
    format!("{}:{port}", url.host().unwrap_or_default())
}

fn count(addresses: usize) -> String {
    if addresses == 1 { "1 apiserver".to_owned() } else { format!("{addresses} apiservers") }
}

async fn version(client: &Client, door: &Endpoint, manners: &RequestPolicy) -> Result<Option<String>, LiveError> {
    let answer = request::send(client, door, VERSION, &Ask::Get, manners).await?;
    let version: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
    Ok(version.and_then(|version| version["gitVersion"].as_str().map(super::error::foreign)))
}

/// The version, which shows that an address can be read; under which name of the certificate is found out.
async fn probe(
    client: &Client,
    names: &Names,
    door: &Endpoint,
    manners: &RequestPolicy,
) -> Result<Option<String>, LiveError> {
    let first = version(client, door, manners).await;
    if !matches!(first, Err(LiveError::Certificate { .. })) {
        return first;
    }
    names.expect_own(&door.name, true);
    let second = version(client, door, manners).await;
    if !matches!(second, Err(LiveError::Certificate { .. })) {
        return second;
    }
    names.expect_own(&door.name, false);
    first
}

/// All of `futures` at once, their results in order.
async fn join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => open = true,
                }
            }
        }
        if open { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
