//! Sixty days in a real Prometheus come out as they went in, and no query loads more than the limit.

use super::history::{DAYS, END, EVERY, LAST, NAMESPACES, RESOURCES, START, Server, Truth, get, history, namespace};
use crate::support::write;
use plimsoll::model::series::{DAY, Day, Series};
use plimsoll::model::time::SECOND;
use plimsoll::sources::prometheus::{Auth, Endpoint, Prometheus, Queries, Query, RangeStats, Window};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

fn endpoint(url: &str, max_samples: u64) -> Endpoint {
    Endpoint { url: url.to_owned(), max_samples, pause: Duration::from_millis(50), ..Endpoint::default() }
}

fn window(from: i64, until: i64, step: i64) -> Window {
    Window::new(from * SECOND, until * SECOND, step * SECOND).unwrap()
}

type Days = BTreeMap<(String, String), Vec<Day>>;

/// Days by namespace and resource.
fn days(endpoint: &Endpoint, query: &str, window: &Window) -> (Days, RangeStats) {
    let mut prometheus = Prometheus::new(endpoint).unwrap();
    let queries = Queries::standard();
    let all = prometheus.days(queries.get(query).unwrap(), window, &()).unwrap_or_else(|error| panic!("{error}"));
    let of = |series: &Series| {
        assert_eq!((series.name.as_str(), series.label("resourcequota"), series.labels.len()), (query, "team", 3));
        (series.label("namespace").to_owned(), series.label("resource").to_owned())
    };
    (all.into_iter().map(|(series, days)| (of(&series), days)).collect(), prometheus.stats())
}

/// Compares days with what went in: every number but sketches and sustained levels, which are tested where they are
/// made. `step`: the seconds of a step, at whose beginning what was seen in it stands.
fn compare(truth: &Truth, kind: &str, found: &Days, from: i64, until: i64, step: i64) -> usize {
    let mut compared = 0;
    let mut expected = BTreeMap::new();
    for number in 0..NAMESPACES {
        for resource in RESOURCES {
            // The largest (used) or last (hard) of each step, by its beginning.
            let mut steps = BTreeMap::new();
            for (at, value) in
                truth.quota(kind, &namespace(number), resource).iter().filter(|(at, _)| (from..until).contains(at))
            {
                let best: &mut f64 = steps.entry(at / step * step).or_insert(*value);
                *best = if kind == "used" { best.max(*value) } else { *value };
            }
            if !steps.is_empty() {
                expected.insert((namespace(number), resource.to_owned()), steps);
            }
        }
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (key, points) in &expected {
        let mut by_day = BTreeMap::<i64, Vec<(i64, f64)>>::new();
        points.iter().for_each(|(at, value)| by_day.entry(at / 86_400).or_default().push((*at, *value)));
        assert_eq!(found[key].len(), by_day.len(), "days of {key:?}");
        for (day, (number, points)) in found[key].iter().zip(by_day) {
            let what = format!("{key:?} on day {number}");
            let max = points.iter().map(|point| point.1).fold(f64::MIN, f64::max);
            let max_at = points.iter().find(|point| point.1 == max).unwrap().0;
            assert_eq!((i64::from(day.day), day.count), (number, points.len() as u64), "{what}");
            assert_eq!((day.max, day.max_at), (max, max_at * SECOND), "{what}");
            assert_eq!(day.min, points.iter().map(|point| point.1).fold(f64::MAX, f64::min), "{what}");
            assert_eq!(day.sum, points.iter().map(|point| point.1).sum::<f64>(), "{what}");
            let (last_at, last) = *points.last().unwrap();
            assert_eq!((day.last, day.last_at), (last, last_at * SECOND), "{what}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn sixty_days_come_out_as_they_went_in() {
    const LIMIT: u64 = 20_000;
    let truth = &history().1;
    let server = Server::plain(&[format!("--query.max-samples={LIMIT}")]);
    let all = window(START, END, EVERY);
    let (used, reported) = days(&endpoint(&server.url, LIMIT), "quota-used", &all);
    assert_eq!(compare(truth, "used", &used, START, END, EVERY), 11 * DAYS as usize);
    // The limit is kept, as Prometheus itself has measured it for each query; and use is made of it.
    assert!(reported.is_measured && reported.heaviest <= LIMIT && reported.heaviest > LIMIT / 4, "{reported:?}");
    assert_eq!(
        (reported.too_heavy, reported.again, reported.left_out, reported.warnings.len()),
        (0, 0, 0, 0),
        "{reported:?}"
    );
    let points: usize = (0..NAMESPACES)
        .flat_map(|number| RESOURCES.map(|resource| truth.quota("used", &namespace(number), resource).len()))
        .sum();
    assert_eq!(reported.points, points as u64);
    let logged = server.queries();
    assert_eq!(logged.len() as u64, reported.queries);
    assert_eq!(logged.iter().map(|(_, peak)| *peak).max(), Some(reported.heaviest));

    let (hard, _) = days(&endpoint(&server.url, LIMIT), "quota-hard", &all);
    compare(truth, "hard", &hard, START, END, EVERY);
    // With a longer step no peak is missed.
    let (hourly, _) = days(&endpoint(&server.url, LIMIT), "quota-used", &window(START, END, 3_600));
    compare(truth, "used", &hourly, START, END, 3_600);
    // The test can see: a peak that is another is found.
    let mut wrong = used.clone();
    wrong.values_mut().next().unwrap()[7].max += 0.001;
    assert!(std::panic::catch_unwind(|| compare(truth, "used", &wrong, START, END, EVERY)).is_err());

    // A few days as Prometheus says them when asked for no more than that.
    for (key, day) in [("team-1", 4), ("team-5", 44), ("team-2", 59)] {
        let end = START + (day + 1) * 86_400 - 1;
        let query = format!(
            "max_over_time(kube_resourcequota{{namespace=\"{key}\",resource=\"requests.cpu\",type=\"used\"}}[86399s])"
        );
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer: serde_json::Value =
            serde_json::from_str(&get(&server.url, &format!("/api/v1/query?time={end}&query={query}")).unwrap())
                .unwrap();
        let peak: f64 = answer["data"]["result"][0]["value"][1].as_str().unwrap().parse().unwrap();
        let days = &used[&(key.to_owned(), "requests.cpu".to_owned())];
        let number = ((START + day * 86_400) / 86_400) as i32;
        assert_eq!(days.iter().find(|day| day.day == number).unwrap().max, peak, "{key} on day {day}");
    }

    // Counters: restarts are no peaks.
    let mut prometheus = Prometheus::new(&endpoint(&server.url, LIMIT)).unwrap();
    let queries = Queries::standard();
    let rates = prometheus.days(queries.get("api-rps").unwrap(), &window(START, END, 3_600), &()).unwrap();
    let verbs: Vec<&str> = rates.iter().map(|(series, _)| series.label("verb")).collect();
    assert_eq!(verbs, ["GET", "LIST"]);
    for (place, (series, days)) in rates.iter().enumerate() {
        assert_eq!(days.iter().map(|day| day.count).sum::<u64>(), DAYS as u64 * 24, "{series}");
        for day in days {
            // 300 or 600, and 0 to 29 more, in 300 seconds. A counter that restarts loses at most the step in which it
            // does: a twelfth of an hour.
            let low = (place + 1) as f64;
            assert!(day.min >= low * 0.9 && day.max <= low + 0.1, "{series}: {} to {}", day.min, day.max);
        }
    }
    assert!(prometheus.stats().heaviest <= LIMIT);
}

#[test]
fn what_is_too_heavy_is_asked_in_parts() {
    let truth = &history().1;
    let from = END - 5 * 86_400;
    // Prometheus' limit is below ours: what it refuses is halved, and it refuses no more than a few.
    let server = Server::plain(&["--query.max-samples=600".to_owned()]);
    let (used, reported) = days(&endpoint(&server.url, 1_000_000), "quota-used", &window(from, END, EVERY));
    compare(truth, "used", &used, from, END, EVERY);
    assert!((1..20).contains(&reported.too_heavy) && reported.heaviest <= 600, "{reported:?}");
    drop(server);

    // Not one instant of all twelve series keeps its limit: they are cut by namespace.
    let server = Server::plain(&["--query.max-samples=10".to_owned()]);
    let from = END - 7_200;
    let (used, reported) = days(&endpoint(&server.url, 1_000_000), "quota-used", &window(from, END, EVERY));
    compare(truth, "used", &used, from, END, EVERY);
    assert!(reported.too_heavy > 0 && reported.heaviest <= 10, "{reported:?}");
    // What can't be cut says what to do.
    let mut prometheus = Prometheus::new(&endpoint(&server.url, 1_000_000)).unwrap();
    let whole = Query { name: "mine".to_owned(), promql: "kube_resourcequota".to_owned(), split: None };
    let error = prometheus.days(&whole, &window(from, END, EVERY), &()).unwrap_err().to_string();
    assert!(error.contains("query mine: one instant of it is too heavy") && error.contains("$match"), "{error}");
    drop(server);

    // Our limit is the smaller one. Only the look at one instant of all series is above it.
    let server = Server::plain(&[]);
    let (used, _) = days(&endpoint(&server.url, 12), "quota-used", &window(from, END, EVERY));
    compare(truth, "used", &used, from, END, EVERY);
    let above: Vec<_> = server.queries().into_iter().filter(|(_, peak)| *peak > 12).collect();
    assert!(above.len() == 1 && above[0].0.starts_with("count(") && !above[0].0.contains("namespace=~"), "{above:?}");
    // Matchers of one's own go into the expression.
    let one =
        Endpoint { matchers: r#"namespace="team-3",resource=~".*cpu""#.to_owned(), ..endpoint(&server.url, 1_000_000) };
    let (used, _) = days(&one, "quota-used", &window(from, END, EVERY));
    assert_eq!(used.keys().collect::<Vec<_>>(), [&("team-3".to_owned(), "requests.cpu".to_owned())]);
    let error = prometheus_error(&server, "sum(");
    assert!(error.contains("query mine") && error.contains("parse error"), "{error}");
}

#[test]
fn the_standard_queries_count_what_quotas_count() {
    let server = Server::plain(&[]);
    let from = END - LAST;
    for query in Queries::standard().iter() {
        let mut prometheus = Prometheus::new(&endpoint(&server.url, 1_000_000)).unwrap();
        let found = prometheus
            .days(query, &window(from, END, EVERY), &())
            .unwrap_or_else(|error| panic!("{}: {error}", query.name));
        let found: Vec<(String, f64, u64)> = found
            .iter()
            .map(|(series, days)| {
                assert_eq!((days.len(), i64::from(days[0].day) * DAY), (1, (END - 86_400) * SECOND), "{series}");
                (series.to_string(), days[0].max, days[0].count)
            })
            .collect();
        // What went in is in history_data.rs; these are sums on paper.
        let expected: &[(&str, f64)] = match query.name.as_str() {
            "quota-used" | "quota-hard" => {
                assert_eq!(found.len(), NAMESPACES * RESOURCES.len());
                continue;
            }
            "requests" => &[(r#"requests{namespace="team-1",resource="cpu"}"#, 0.5 + 1.0 + 0.25)],
            "limits" => &[(r#"limits{namespace="team-1",resource="cpu"}"#, 2.0)],
            "usage-memory" => &[(r#"usage-memory{namespace="team-1"}"#, 150.0)],
            "allocatable" => &[(r#"allocatable{resource="cpu"}"#, 4.0)],
            "objects" => &[(r#"objects{resource="pods"}"#, 99.0)],
            "object-bytes" => &[(r#"object-bytes{resource="pods"}"#, 6e6)],
            "etcd-db" => &[(r#"etcd-db{instance="e"}"#, 1e9)],
            "etcd-quota" => &[(r#"etcd-quota{instance="e"}"#, 8e9)],
            "seats-executing" => &[(r#"seats-executing{priority_level="low"}"#, 3.0 + 2.0 + 4.0)],
            "seats-limit" => {
                &[(r#"seats-limit{priority_level="low"}"#, 220.0), (r#"seats-limit{priority_level="old"}"#, 30.0)]
            }
            // Samples every five minutes are too few for rates over five minutes; hours of them are looked at above.
            "usage-cpu" | "api-rps" | "flow-rps" => &[],
            other => panic!("what should {other} be?"),
        };
        let expected: Vec<_> =
            expected.iter().map(|(series, max)| ((*series).to_owned(), *max, (LAST / EVERY) as u64)).collect();
        assert_eq!(found, expected, "{}", query.name);
    }
}

fn prometheus_error(server: &Server, promql: &str) -> String {
    let query = Query { name: "mine".to_owned(), promql: promql.to_owned(), split: None };
    let mut prometheus = Prometheus::new(&endpoint(&server.url, 1_000)).unwrap();
    prometheus.days(&query, &window(START, END, EVERY), &()).unwrap_err().to_string()
}

/// The password `secret`, as Prometheus keeps it.
const BCRYPT: &str = "$2b$04$7MrhLLyYyyy8MOyoboN07OaBlU43oQ/zyTyOIRtDdsi9DMzNoqRMq";

/// Runs openssl in a folder.
fn openssl(folder: &std::path::Path, line: &str) {
    let done = Command::new("openssl")
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl is missing: run .ci/setup");
    assert!(done.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn tls_and_passwords() {
    let truth = &history().1;
    let home = crate::support::folder();
    let path = home.path();
    openssl(
        path,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 2 -subj \
         /CN=authority",
    );
    openssl(
        path,
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout own.key -out own.csr -subj /CN=prometheus",
    );
    write(path, "names", "subjectAltName=IP:127.0.0.1\n");
    openssl(path, "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile names");
    let config = "tls_server_config: {cert_file: own.pem, key_file: own.key}\nbasic_auth_users: {jane: HASH}\n";
    let config = write(path, "web.yml", config.replace("HASH", BCRYPT));
    let server = Server::start("https", &[format!("--web.config.file={config}")], |url| {
        std::net::TcpStream::connect(url.strip_prefix("https://").unwrap()).is_ok()
    });
    let good = Endpoint {
        ca_file: Some(path.join("ca.pem")),
        auth: Auth::BasicFile(write(path, "basic", "jane:secret\n").into()),
        tries: 40,
        ..endpoint(&server.url, 100_000)
    };
    let from = END - 86_400;
    let day = window(from, END, EVERY);
    let (used, _) = days(&good, "quota-used", &day);
    compare(truth, "used", &used, from, END, EVERY);
    let fails = |endpoint: &Endpoint| {
        let queries = Queries::standard();
        let failed =
            Prometheus::new(endpoint).and_then(|mut one| one.days(queries.get("quota-used").unwrap(), &day, &()));
        failed.unwrap_err().to_string()
    };
    let error = fails(&Endpoint { ca_file: None, ..good.clone() });
    assert!(error.contains("--ca-file"), "{error}");
    for auth in [Auth::None, Auth::Basic("jane:wrong".to_owned()), Auth::Bearer("jane".to_owned())] {
        let error = fails(&Endpoint { auth, ..good.clone() });
        assert!(error.contains("401") && error.contains("--basic-auth-file") && !error.contains("wrong"), "{error}");
    }
    for (file, content, expected) in [("no-pair", "jane", "user:password"), ("empty", "\n", "empty")] {
        let auth = Auth::BasicFile(write(path, file, content).into());
        let error = fails(&Endpoint { auth, ..good.clone() });
        assert!(error.contains(file) && error.contains(expected), "{error}");
    }
    let error = fails(&Endpoint { ca_file: Some(path.join("own.key")), ..good.clone() });
    assert!(error.contains("own.key") && error.contains("no certificate"), "{error}");
    let error = fails(&Endpoint { ca_file: Some(path.join("none.pem")), ..good });
    assert!(error.contains("none.pem"), "{error}");
}
