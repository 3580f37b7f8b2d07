//! Live clusters, against stand-ins for their apiservers (`tests/oracle/apiserver.py`): real TLS, real sockets, and the
//! faults that a control plane under load shows.

use crate::lab::Lab;
use crate::support::{plimsoll, sample, sample_bytes};
use plimsoll::inputs;
use plimsoll::model::time::Micros;
use plimsoll::sources::live::{Cluster, DiscoveredBy, LiveError, Target};
use serde_json::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PAGE_A: &str = "quiet/metrics/apiserver-0/1795167937.txt.zst";
const PAGE_B: &str = "quiet/metrics/apiserver-0/1795167967.txt.zst";

fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| Lab::start(&[&sample(PAGE_A), &sample(PAGE_B)]))
}

#[track_caller]
fn connect(context: &str) -> Cluster {
    Cluster::connect(&lab().target(context)).unwrap_or_else(|error| panic!("{context}: {error}"))
}

/// The error of connecting; no error may hold what the kubeconfig keeps secret.
#[track_caller]
fn refusal(context: &str) -> (LiveError, String) {
    let error = Cluster::connect(&lab().target(context)).expect_err("it can't be connected to");
    let message = error.to_string();
    discreet(&error);
    (error, message)
}

#[track_caller]
fn discreet(error: &LiveError) {
    let message = format!("{error} {error:?}");
    assert!(!message.contains("sesame") && !message.contains("eyJ") && !message.contains("us:er"), "{message}");
    assert!(!message.contains('\u{1b}'), "{message}");
}

fn names(cluster: &Cluster) -> Vec<&str> {
    cluster.apiservers().iter().map(|server| server.name.as_str()).collect()
}

fn key() -> u32 {
    static KEY: AtomicU32 = AtomicU32::new(0);
    KEY.fetch_add(1, Ordering::Relaxed)
}

fn now() -> Micros {
    jiff::Timestamp::now().as_microsecond()
}

#[test]
fn every_apiserver_is_found_and_read() {
    let lab = lab();
    let cluster = connect("full");
    assert_eq!(cluster.name(), "lab");
    let mut expected = vec![(lab.name("a"), PAGE_A), (lab.name("b"), PAGE_B)];
    expected.sort();
    assert_eq!(names(&cluster), expected.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    for server in cluster.apiservers() {
        assert_eq!((server.found, server.version.as_deref()), (DiscoveredBy::EndpointSlice, Some("v1.36.0")));
    }
    assert!(cluster.notes().is_empty(), "{:?}", cluster.notes());
    let before = now();
    let pages = cluster.scrape();
    let after = now();
    assert_eq!(pages.len(), 2);
    for (page, (name, sample)) in pages.into_iter().zip(&expected) {
        let page = page.unwrap();
        assert_eq!(page.instance, *name);
        assert!(page.body == sample_bytes(sample), "{} bytes of {name} differ", page.body.len());
        assert!(before <= page.at && page.at <= after, "{before} {} {after}", page.at);
        assert!(!format!("{page:?}").contains("apiserver_request"), "Debug shows the body");
    }
    assert!(!format!("{cluster:?} {:?}", lab.target("full")).contains("token"));
    let who = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));
    for request in lab.requests("/metrics") {
        assert_eq!(request["agent"], who, "{request}");
    }
    let packed = |request: &&Value| request["encoding"] == "gzip";
    assert!(lab.requests("/metrics").iter().filter(packed).count() >= 2);
}

#[test]
fn what_is_not_packed_is_read_too() {
    let cluster = connect("unpacked");
    let at = names(&cluster).iter().position(|name| *name == lab().name("a")).unwrap();
    assert!(cluster.get(at, "/metrics?unpacked").unwrap().body == sample_bytes(PAGE_A));
    assert_eq!(lab().requests("/metrics?unpacked")[0]["encoding"], "identity");
}

#[test]
fn credentials_come_in_every_form() {
    for (context, who) in [
        ("full", "a token"),
        ("token-file", "a token"),
        ("jane", "jane"),
        ("plugin-token", "a token"),
        ("plugin-certificate", "jane"),
    ] {
        let cluster = connect(context);
        assert_eq!(cluster.apiservers().len(), 2, "{context}");
        for server in 0..2 {
            assert_eq!(String::from_utf8(cluster.get(server, "/whoami").unwrap().body).unwrap(), who, "{context}");
        }
    }
    let runs = std::fs::read_to_string(lab().folder.join("plugin-token.runs")).unwrap();
    assert_eq!(runs.lines().count(), 1, "a plugin runs once to connect");
}

#[test]
fn credentials_that_fail_say_how() {
    let (error, message) = refusal("stranger");
    assert!(
        matches!(error, LiveError::Unauthorized { .. })
            && message.contains("401")
            && message.contains(&lab().name("front")),
        "{message}"
    );
    for (context, expected) in [
        ("plugin-fails", "plugin-fails' failed (exit status: 3): no session: ***"),
        ("plugin-garbage", "plugin-garbage' printed no ExecCredential that can be read"),
        ("plugin-is-gone", "plugin-is-gone' can't be started"),
    ] {
        let (error, message) = refusal(context);
        assert!(matches!(error, LiveError::Exec { .. }) && message.contains(expected), "{context}: {message}");
    }
    let (error, message) = refusal("bad-key");
    assert!(matches!(error, LiveError::Credentials { .. }) && message.contains("client-key"), "{message}");
    assert!(matches!(refusal("anonymous").0, LiveError::Unauthorized { .. }));
}

#[test]
fn who_may_not_list_slices_is_read_by_endpoints() {
    let cluster = connect("endpoints");
    assert!(cluster.apiservers().iter().all(|server| server.found == DiscoveredBy::Endpoints));
    assert_eq!(cluster.scrape().into_iter().filter(Result::is_ok).count(), 2);
    assert!(cluster.notes().is_empty(), "{:?}", cluster.notes());
}

#[test]
fn what_cannot_be_read_directly_is_read_through_the_kubeconfigs_server() {
    for (context, note) in [
        (
            "blind",
            "the list of apiservers is unavailable (EndpointSlices: endpointslices.discovery.k8s.io is \
             forbidden",
        ),
        ("all-down", "none can be read directly (127.0.0.1:"),
        ("front-only", "it does not accept the kubeconfig's credentials"),
        ("insecure", "its certificate is not checked"),
    ] {
        let cluster = connect(context);
        assert_eq!(names(&cluster), [lab().name("front")], "{context}");
        assert_eq!(cluster.apiservers()[0].found, DiscoveredBy::Kubeconfig);
        assert!(cluster.notes().len() == 1 && cluster.notes()[0].contains(note), "{context}: {:?}", cluster.notes());
        assert!(cluster.scrape()[0].as_ref().unwrap().body == sample_bytes(PAGE_A), "{context}");
    }
    let alone = connect("itself");
    assert_eq!((alone.apiservers().len(), alone.apiservers()[0].found), (1, DiscoveredBy::EndpointSlice));
    // Behind a proxy such as Rancher's, paths have a path before them; the addresses have not.
    assert_eq!(connect("prefixed").apiservers().len(), 2);
}

#[test]
fn plain_http_is_a_proxy_with_credentials_of_its_own() {
    let cluster = connect("plain-anonymous");
    assert_eq!(names(&cluster), [lab().name("plain")]);
    assert!(cluster.notes()[0].contains("plain http"), "{:?}", cluster.notes());
    assert!(cluster.scrape()[0].is_ok());
}

#[test]
fn one_apiserver_that_is_down_does_not_hide_the_others() {
    let lab = lab();
    let cluster = connect("one-down");
    let down = format!("127.0.0.1:{}", lab.ports["closed"]);
    assert!(names(&cluster).contains(&down.as_str()) && names(&cluster).contains(&lab.name("a").as_str()));
    assert_eq!(cluster.notes(), [format!("of 2 apiservers, 1 can't be read: {down}: connection refused")]);
    for (server, page) in cluster.apiservers().iter().zip(cluster.scrape()) {
        match page {
            Ok(page) => assert_eq!((page.instance, &server.name), (lab.name("a"), &lab.name("a"))),
            Err(error) => {
                assert!(error.is_unreachable() && server.name == down && server.version.is_none(), "{error}");
                assert!(error.to_string().starts_with(&format!("{down}/metrics: connection refused; ")), "{error}");
            }
        }
    }
}

#[test]
fn a_server_out_of_reach_is_named_with_the_reason() {
    for (context, expected) in [
        ("down", "connection refused; check that the apiserver runs"),
        ("other-ca", "its certificate is signed by a CA that is not in the kubeconfig"),
        ("system-ca", "its certificate is signed by a CA that is not in the kubeconfig"),
        ("elsewhere", "its certificate is for another name"),
        ("not-tls", "the server there does not speak TLS"),
        ("no-such-host", "no-such-host.invalid:443/apis/discovery.k8s.io/v1/namespaces/default/endpointslices: "),
        ("bad-proxy", "only http:// and socks5:// proxies"),
    ] {
        let (error, message) = refusal(context);
        assert!(message.contains(expected), "{context}: {message}");
        assert!(error.is_unreachable() || context == "bad-proxy", "{context}: {error:?}");
    }
    // A name that the certificate is for makes it good. Of the other two only one has a certificate for its own
    // address.
    let cluster = connect("server-name");
    assert!(cluster.notes()[0].starts_with("of 2 apiservers, 1 can't be read: 127.0.0.1:"), "{:?}", cluster.notes());
    assert!(cluster.notes()[0].contains("its certificate is for another name"), "{:?}", cluster.notes());
    let read: Vec<_> = cluster.scrape().into_iter().filter_map(Result::ok).map(|page| page.instance).collect();
    assert_eq!(read, [lab().name("b")]);
    let (error, message) = refusal("no-such-context");
    assert!(
        matches!(error, LiveError::UnknownContext { .. }) && message.contains("it has: lab, prefixed, other-ca"),
        "{message}"
    );
}

#[test]
fn a_proxy_is_used_where_the_kubeconfig_has_one() {
    let cluster = connect("proxied");
    assert_eq!(cluster.scrape().into_iter().filter(Result::is_ok).count(), 2);
    let connections = std::fs::read_to_string(lab().folder.join("proxied")).unwrap();
    assert!(connections.parse::<u32>().unwrap() >= 3, "{connections}");
}

#[test]
fn what_is_forbidden_is_said_with_the_rule_that_is_missing() {
    let cluster = connect("no-metrics");
    let pages = cluster.scrape();
    assert_eq!(pages.len(), 2);
    for page in pages {
        let error = page.unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, LiveError::Forbidden { .. }), "{message}");
        assert!(message.contains("User \"jane\" cannot get path \"/metrics\""), "{message}");
        assert!(
            message.contains("nonResourceURLs [/metrics], verbs [get]")
                && message.contains("kubectl create clusterrole"),
            "{message}"
        );
    }
}

#[test]
fn flags_make_a_target_that_acts_as_another_user() {
    let lab = lab();
    let flags = plimsoll::cli::KubeFlags {
        kubeconfig: Some(lab.folder.join("kubeconfig")),
        context: Some("full".to_owned()),
        as_user: Some("system:serviceaccount:a:b".to_owned()),
        as_groups: vec!["one".to_owned(), "two".to_owned()],
        request_timeout: Duration::from_secs(20),
    };
    let cluster = Cluster::connect(&inputs::live::target(&flags)).unwrap();
    cluster.get(0, "/metrics?impersonated").unwrap();
    let request = &lab.requests("/metrics?impersonated")[0];
    assert_eq!(
        (request["user"].as_str(), request["groups"].to_string()),
        (Some("system:serviceaccount:a:b"), r#"["one","two"]"#.to_owned())
    );
    let forbidden = Cluster::connect(&Target { as_user: Some("root".to_owned()), ..lab.target("full") }).unwrap();
    let message = forbidden.scrape().remove(0).unwrap_err().to_string();
    assert!(message.contains("verbs [impersonate] on users"), "{message}");
}

#[test]
fn an_overloaded_apiserver_is_left_alone_as_long_as_it_asks() {
    let lab = lab();
    let cluster = connect("full");
    for (fault, key) in [("429?after=1&times=2", key()), ("503?after=1&times=2", key())] {
        let path = format!("/fault/{fault}&key={key}");
        let page = cluster.get(0, &path).unwrap();
        assert_eq!(page.body, b"well again");
        let requests = lab.requests(&path);
        assert_eq!(requests.iter().map(|r| r["status"].as_u64().unwrap()).filter(|status| *status == 200).count(), 1);
        let starts: Vec<f64> = requests.iter().map(|r| r["start"].as_f64().unwrap()).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 0.999), "{starts:?}");
        // The page is of the time of the request that was answered.
        assert!((page.at as f64 / 1e6 - starts[2]).abs() < 0.5, "{} {starts:?}", page.at);
    }
    // Without Retry-After the pauses grow: 0.5 s, 1 s, 2 s.
    let path = format!("/fault/429?key={}", key());
    let error = cluster.get(0, &path).unwrap_err();
    assert!(matches!(error, LiveError::Busy { code: 429, tries: 4, retry_after: None, .. }), "{error:?}");
    let starts: Vec<f64> = lab.requests(&path).iter().map(|r| r["start"].as_f64().unwrap()).collect();
    let pauses: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() == 3 && pauses[0] >= 0.49 && pauses[1] >= 0.99 && pauses[2] >= 1.99, "{pauses:?}");
    // What asks for more than the time there is, is not asked again before that.
    let path = format!("/fault/429?after=3600&key={}", key());
    let start = Instant::now();
    let error = cluster.get(0, &path).unwrap_err();
    assert!(
        matches!(error, LiveError::Busy { tries: 1, .. }) && error.to_string().contains("with Retry-After 3600s"),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(5) && lab.requests(&path).len() == 1);
}

#[test]
fn answers_that_break_off_are_errors() {
    let cluster = connect("full");
    let at = |path: &str| cluster.get(0, path).unwrap_err();
    let error = at("/fault/cut");
    assert!(matches!(error, LiveError::Cut { received: 1234, .. }), "{error:?}");
    let error = at("/fault/cut-gzip");
    assert!(
        matches!(error, LiveError::Cut { received: 3000, .. }) && error.to_string().contains("gzip is damaged"),
        "{error:?}"
    );
    let error = at("/fault/500");
    let message = error.to_string();
    discreet(&error);
    assert!(matches!(error, LiveError::Status { code: 500, .. }) && message.contains("sent Bearer ***"), "{message}");
    let error = at("/nothing-here");
    assert!(
        matches!(error, LiveError::Status { code: 404, .. }) && error.to_string().contains("could not find"),
        "{error}"
    );
    assert!(matches!(at("metrics"), LiveError::Path(_)));
    assert!(matches!(cluster.get(2, "/metrics").unwrap_err(), LiveError::NoServer(2)));
    // Nothing of that harms what is read next.
    assert!(cluster.scrape().into_iter().all(|page| page.is_ok()));
}

#[test]
fn a_connection_that_ended_is_made_again_once() {
    let cluster = connect("full");
    let path = format!("/fault/hang-up?times=1&key={}", key());
    assert_eq!(cluster.get(0, &path).unwrap().body, b"well again");
    let path = format!("/fault/hang-up?key={}", key());
    let error = cluster.get(0, &path).unwrap_err();
    assert!(
        matches!(error, LiveError::Unreachable { .. }) && error.to_string().contains("ended without an answer"),
        "{error}"
    );
    assert_eq!(lab().requests(&path).len(), 2);
    // The stand-in closes idle connections after a second.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(cluster.scrape().into_iter().all(|page| page.is_ok()));
}

#[test]
fn no_request_takes_longer_than_the_timeout() {
    let lab = lab();
    let hurried = |context| Target { timeout: Duration::from_millis(700), ..lab.target(context) };
    let start = Instant::now();
    let error = Cluster::connect(&hurried("silent")).unwrap_err();
    assert!(
        matches!(error, LiveError::Timeout { received: 0, .. }) && error.to_string().contains("no answer within 700ms"),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    let cluster = Cluster::connect(&hurried("full")).unwrap();
    let start = Instant::now();
    let error = cluster.get(0, "/fault/stuck").unwrap_err();
    assert!(matches!(error, LiveError::Timeout { received: 777, .. }), "{error:?}");
    assert!(error.to_string().contains("only the first 777 bytes"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn an_apiserver_is_asked_one_thing_at_a_time() {
    let lab = lab();
    let cluster = connect("full");
    let path = format!("/fault/slowly?key={}", key());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            for server in 0..2 {
                let (cluster, path) = (&cluster, &path);
                scope.spawn(move || assert_eq!(cluster.get(server, path).unwrap().body, b"at last"));
            }
        }
    });
    // Three behind one another, two beside each other.
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_millis(1700), "{took:?}");
    // No two of them overlap at one apiserver.
    for server in ["a", "b"] {
        let mut starts: Vec<f64> = lab
            .requests(&path)
            .iter()
            .filter(|r| r["server"] == server)
            .map(|r| r["start"].as_f64().unwrap())
            .collect();
        starts.sort_by(f64::total_cmp);
        assert!(starts.len() == 3 && starts.windows(2).all(|pair| pair[1] - pair[0] >= 0.29), "{starts:?}");
    }
}

#[test]
fn heaps_of_all_apiservers_are_read() {
    let lab = lab();
    let kubeconfig = lab.folder.join("kubeconfig");
    let heap = |more: &[&str]| {
        let args = ["heap", "top", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "full", "-o", "json"];
        plimsoll(&[&args[..], more].concat()).json(0)
    };
    let total = |report: &Value| report["totals"]["total"].as_u64().unwrap();
    let of_file = |name: &str| total(&plimsoll(&["heap", "top", &sample(name), "-o", "json"]).json(0));
    let (first, last) =
        (of_file("quiet/heap/heap-1795167757-base.pb.gz"), of_file("quiet/heap/heap-1795167937-after.pb.gz"));
    let all = heap(&[]);
    assert_eq!((total(&all), all["inputs"].as_array().unwrap().len()), (first + last, 2));
    let one = heap(&["--instance", &lab.name("b")]);
    assert_eq!(
        (total(&one), one["coverage"]["profiles"][0]["instance"].as_str().unwrap()),
        (last, lab.name("b").as_str())
    );
    assert_eq!(lab.requests("/debug/pprof/heap").len(), 3);
}
