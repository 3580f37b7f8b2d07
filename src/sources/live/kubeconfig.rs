//! From a kubeconfig, or the pod this runs in, to what kube needs to know of a cluster.
//!
//! The order is kubectl's: the file that is asked for; else those of `KUBECONFIG`, merged; else `~/.kube/config`; else
//! the pod's service account. kube's own reading is not used for the last steps: it fails where one file of several is
//! missing, says neither which file nor which contexts there are, and quotes the lines around a mistake, tokens
//! included.

use super::{LiveError, Target, error::foreign};
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a cluster is called, and how it is reached.
pub(super) struct ClusterAccess {
    pub(super) name: String,
    pub(super) config: Config,
    /// The proxy between here and there. `Config::proxy_url` is not that: kube leaves `NO_PROXY` out of account.
    pub(super) proxy: Option<hyper_util::client::proxy::matcher::Intercept>,
}

/// The variables and folders that decide; a test has its own.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a (dyn Fn(&str) -> Option<OsString> + Sync),
    pub(super) home: Option<PathBuf>,
}

impl Surroundings<'_> {
    fn text(&self, names: &[&str]) -> String {
        names
            .iter()
            .find_map(|name| (self.variable)(name)?.into_string().ok().filter(|text| !text.is_empty()))
            .unwrap_or_default()
    }
}

/// Finds the cluster that `target` means.
pub(super) async fn find(target: &Target, around: &Surroundings<'_>) -> Result<ClusterAccess, LiveError> {
    let Some((kubeconfig, path)) = read(target.kubeconfig.as_deref(), around)? else {
        return in_cluster(target, around);
    };
    let known: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let wanted = target.context.clone().or_else(|| kubeconfig.current_context.clone()).filter(|name| !name.is_empty());
    let Some(wanted) = wanted else {
        if known.is_empty() && is_pod(around) {
            return in_cluster(target, around);
        }
        return Err(LiveError::NoContext { known });
    };
    let Some(context) = kubeconfig.contexts.iter().find(|context| context.name == wanted) else {
        return Err(LiveError::UnknownContext { context: wanted, known });
    };
    let broken = |what: String| LiveError::Kubeconfig { path: path.clone(), what };
    let name = context.context.as_ref().map(|context| context.cluster.clone()).unwrap_or_default();
    let cluster =
        kubeconfig.clusters.iter().find(|cluster| cluster.name == name).and_then(|cluster| cluster.cluster.clone());
    let Some(cluster) = cluster else {
        return Err(broken(format!(
            "context '{wanted}' is for cluster '{name}', which is not in it; choose another --context"
        )));
    };
    // A user that is not there is no error to kubectl either: the requests are anonymous.
    let options = KubeConfigOptions { context: Some(wanted), cluster: None, user: None };
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| broken(foreign(&explain(error))))?;
    if config.cluster_url.scheme().is_none() {
        let server = foreign(&config.cluster_url.to_string());
        return Err(broken(format!("cluster '{name}' has the server {server}; write https:// before it")));
    }
    token_of_file(&mut config);
    impersonate(&mut config, target);
    let proxy = proxy(cluster.proxy_url.as_deref(), &config.cluster_url, around);
    Ok(ClusterAccess { name, config, proxy })
}

/// The contexts of the kubeconfig, in its order.
pub(super) fn contexts(asked: Option<&Path>, around: &Surroundings<'_>) -> Result<Vec<String>, LiveError> {
    let read = read(asked, around)?;
    Ok(read.into_iter().flat_map(|(kubeconfig, _)| kubeconfig.contexts).map(|context| context.name).collect())
}

/// The merged kubeconfig, and what to call it in a message; `None` for the pod's own cluster.
fn read(asked: Option<&Path>, around: &Surroundings<'_>) -> Result<Option<(Kubeconfig, String)>, LiveError> {
    let asked = asked.filter(|path| !path.as_os_str().is_empty());
    let (paths, must_exist) = match (asked, (around.variable)("KUBECONFIG").filter(|value| !value.is_empty())) {
        (Some(path), _) => (vec![path.to_owned()], true),
        (None, Some(value)) => {
            (std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect(), false)
        }
        (None, None) => (around.home.iter().map(|home| home.join(".kube/config")).collect(), false),
    };
    let called = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut merged: Option<Kubeconfig> = None;
    for path in &paths {
        let broken = |error| LiveError::Kubeconfig { path: path.display().to_string(), what: explain(error) };
        let next = match Kubeconfig::read_from(path) {
            Err(KubeconfigError::ReadConfig(error, _))
                if error.kind() == std::io::ErrorKind::NotFound && !must_exist =>
            {
                continue;
            }
            read => read.map_err(broken)?,
        };
        merged = Some(match merged {
            Some(before) => before.merge(next).map_err(broken)?,
            None => next,
        });
    }
    match merged {
        Some(kubeconfig) => Ok(Some((kubeconfig, called))),
        None if is_pod(around) => Ok(None),
        None => Err(LiveError::NoKubeconfig {
            looked: if called.is_empty() { "~/.kube/config".to_owned() } else { called },
        }),
    }
}

fn is_pod(around: &Surroundings<'_>) -> bool {
    (around.variable)("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

fn in_cluster(target: &Target, around: &Surroundings<'_>) -> Result<ClusterAccess, LiveError> {
    if let Some(context) = &target.context {
        return Err(LiveError::UnknownContext { context: context.clone(), known: Vec::new() });
    }
    let broken = |error| LiveError::Kubeconfig {
        path: "the pod's service account".to_owned(),
        what: foreign(&format!("{error}")),
    };
    let mut config = Config::incluster().map_err(broken)?;
    impersonate(&mut config, target);
    let proxy = proxy(None, &config.cluster_url, around);
    Ok(ClusterAccess { name: "in-cluster".to_owned(), config, proxy })
}

/// As kubectl does: a token's file comes before a token that is written out, and may end with a newline.
fn token_of_file(config: &mut Config) {
    let Some(path) = config.auth_info.token_file.clone().filter(|path| !path.is_empty()) else { return };
    config.auth_info.token = None;
    // What can't be read is reported when the token is needed. One without a newline is read again each minute.
    if let Ok(text) = std::fs::read_to_string(path)
        && text.trim() != text
    {
        config.auth_info.token = Some(text.trim().to_owned().into());
        config.auth_info.token_file = None;
    }
}

fn impersonate(config: &mut Config, target: &Target) {
    if let Some(user) = &target.as_user {
        // kubectl's --as replaces all of what the kubeconfig says of it.
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_uid = None;
        config.auth_info.impersonate_user_extra = None;
        config.auth_info.impersonate_groups = None;
    }
    if !target.as_groups.is_empty() {
        config.auth_info.impersonate_groups = Some(target.as_groups.clone());
    }
}

/// The kubeconfig's `proxy-url` holds for every request. `HTTPS_PROXY` and `NO_PROXY` hold as in Go, where nothing on
/// this machine is asked through a proxy.
fn proxy(
    own: Option<&str>,
    server: &http::Uri,
    around: &Surroundings<'_>,
) -> Option<hyper_util::client::proxy::matcher::Intercept> {
    if let Some(own) = own.filter(|url| !url.is_empty()) {
        return Matcher::builder().all(own).build().intercept(server);
    }
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        return None;
    }
    Matcher::builder()
        .http(around.text(&["HTTP_PROXY", "http_proxy"]))
        .https(around.text(&["HTTPS_PROXY", "https_proxy"]))
        .no(around.text(&["NO_PROXY", "no_proxy"]))
        .build()
        .intercept(server)
}

/// What is wrong, without a line of the file: it may hold a token.
fn explain(error: KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => format!("can't read the kubeconfig: {error}"),
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => {
                format!("is not a kubeconfig: YAML error near line {}, column {}", at.line(), at.column())
            }
            None => "is not a kubeconfig".to_owned(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const TWO: &str = "apiVersion: v1\nkind: Config\ncurrent-context: one\n\
        clusters:\n- {name: first, cluster: {server: 'https://one.test:6443'}}\n- {name: second, cluster: {server: \
        'https://two.test'}}\n\
        users:\n- {name: me, user: {token: abc}}\n\
        contexts:\n- {name: one, context: {cluster: first, user: me}}\n- {name: two, context: {cluster: second, user: \
        me}}\n\
        - {name: three, context: {cluster: third, user: me}}\n";

    fn ask(target: &Target, variables: &[(&str, String)], home: Option<PathBuf>) -> Result<ClusterAccess, LiveError> {
        let variables: HashMap<&str, OsString> =
            variables.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
        let around = Surroundings { variable: &|name| variables.get(name).cloned(), home };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(find(target, &around))
    }

    fn error(target: &Target, variables: &[(&str, String)], home: Option<PathBuf>) -> String {
        ask(target, variables, home).err().unwrap().to_string()
    }

    #[test]
    fn the_order_is_kubectls() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, TWO).unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, TWO.replace("first", "elsewhere")).unwrap();
        let missing = folder.path().join("missing");
        let target = Target { kubeconfig: Some(path.clone()), ..Target::default() };
        assert_eq!(ask(&target, &[], None).unwrap().name, "first");
        let second = Target { context: Some("two".into()), ..target.clone() };
        let found = ask(&second, &[], None).unwrap();
        assert_eq!((found.name.as_str(), found.config.cluster_url.host()), ("second", Some("two.test")));
        // One missing file of KUBECONFIG is no error; the first file's current context counts.
        let list = std::env::join_paths([&missing, &other, &path]).unwrap().into_string().unwrap();
        assert_eq!(ask(&Target::default(), &[("KUBECONFIG", list.clone())], None).unwrap().name, "elsewhere");
        assert_eq!(ask(&target, &[("KUBECONFIG", list)], None).unwrap().name, "first");
        std::fs::create_dir(folder.path().join(".kube")).unwrap();
        std::fs::rename(&path, folder.path().join(".kube/config")).unwrap();
        assert_eq!(ask(&Target::default(), &[], Some(folder.path().into())).unwrap().name, "first");
    }

    #[test]
    fn mistakes_are_named_without_quoting_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let target = Target { kubeconfig: Some(path.clone()), ..Target::default() };
        assert!(error(&target, &[], None).contains("config: can't read the kubeconfig"));
        let missing = [("KUBECONFIG", path.display().to_string())];
        assert!(
            error(&Target::default(), &missing, None)
                .starts_with(&format!("no kubeconfig: looked for {}", path.display()))
        );
        assert!(error(&Target::default(), &[], None).contains("~/.kube/config"));
        std::fs::write(&path, TWO).unwrap();
        let unknown = Target { context: Some("four".into()), ..target.clone() };
        assert_eq!(error(&unknown, &[], None), "the kubeconfig has no context 'four'; it has: one, two, three");
        let dangling = Target { context: Some("three".into()), ..target.clone() };
        assert!(error(&dangling, &[], None).contains("cluster 'third', which is not in it"));
        std::fs::write(&path, TWO.replace("current-context: one\n", "")).unwrap();
        assert!(error(&target, &[], None).contains("give --context NAME; it has: one, two, three"));
        for mistake in
            ["token: [sesame]", "token: sesame, username: {a: b}", "token: \"sesame", "token: sesame\n  - x: sesame"]
        {
            std::fs::write(&path, TWO.replace("token: abc", mistake)).unwrap();
            let message = error(&target, &[], None);
            assert!(message.contains("line") && !message.contains("sesame"), "{mistake}: {message}");
        }
    }

    #[test]
    fn a_pod_is_asked_only_where_there_is_no_kubeconfig() {
        // There is no service account here: the message shows that it was looked for.
        let pod = [("KUBERNETES_SERVICE_HOST", "10.96.0.1".to_owned())];
        assert!(error(&Target::default(), &pod, None).starts_with("the pod's service account: "));
        let target = Target { context: Some("one".into()), ..Target::default() };
        assert!(error(&target, &pod, None).contains("no context 'one'; it has none"));
    }

    #[test]
    fn impersonation_replaces_what_the_kubeconfig_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, TWO.replace("token: abc", "as: somebody, as-groups: [some]")).unwrap();
        let target = Target { kubeconfig: Some(path), as_user: Some("jane".into()), ..Target::default() };
        let auth = ask(&target, &[], None).unwrap().config.auth_info;
        assert_eq!((auth.impersonate.as_deref(), auth.impersonate_groups), (Some("jane"), None));
    }

    #[test]
    fn proxies_are_those_of_go() {
        let none = |_: &str| None;
        let around = Surroundings { variable: &none, home: None };
        let far: http::Uri = "https://one.test:6443".parse().unwrap();
        fn of(own: Option<&str>, server: &http::Uri, around: &Surroundings<'_>) -> Option<String> {
            proxy(own, server, around).map(|proxy| proxy.uri().to_string())
        }
        assert_eq!(of(None, &far, &around), None);
        assert_eq!(
            of(Some("socks5://127.0.0.1:1080"), &far, &around).unwrap().trim_end_matches('/'),
            "socks5://127.0.0.1:1080"
        );
        let set = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://proxy.test:3128".into()),
            "no_proxy" => Some("two.test,10.0.0.0/8".into()),
            _ => None,
        };
        let around = Surroundings { variable: &set, home: None };
        assert_eq!(of(None, &far, &around).unwrap().trim_end_matches('/'), "http://proxy.test:3128");
        for near in [
            "https://two.test",
            "https://10.1.2.3:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://localhost",
        ] {
            let server = near.parse().unwrap();
            assert_eq!(of(None, &server, &around), None, "{near}");
        }
    }
}
