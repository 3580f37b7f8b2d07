//! Servers that are busy, break off, or are something else: what is tried again, and what is said.

use plimsoll::model::series::{Point, Series};
use plimsoll::model::time::SECOND;
use plimsoll::sources::prometheus::{Auth, Endpoint, PromError, Prometheus, Query, RangeStats, Window};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server that gives one prepared answer after the other, and what it was asked.
struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn new(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        // It ends with the test's process at the latest: it waits for a connection that nobody makes.
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                    head.push(byte[0]);
                }
                seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}", body.len())
}

fn matrix(labels: &str, values: &str) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{labels},"values":[{values}]}}]}},"warnings":["a store is down"]}}"#
    )
}

fn good(body: &str) -> String {
    answer("200 OK", "", body)
}

/// The last bytes are missing.
fn cut(body: &str) -> String {
    let mut whole = good(body);
    whole.truncate(whole.len() - 20);
    whole
}

type Points = Vec<(Series, Vec<Point>)>;

/// Two steps of a query.
fn ask(endpoint: &Endpoint, promql: &str) -> (Result<Points, PromError>, RangeStats) {
    let mut prometheus = Prometheus::new(endpoint).unwrap();
    let query = Query { name: "mine".to_owned(), promql: promql.to_owned(), split: Some("namespace".to_owned()) };
    let mut points = Vec::new();
    let window = Window::new(0, 600 * SECOND, 300 * SECOND).unwrap();
    let result = prometheus.range(&query, &window, &(), &mut |series, run| points.push((series.clone(), run.to_vec())));
    (result.map(|()| points), prometheus.stats())
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        url: url.to_owned(),
        tries: 3,
        pause: Duration::from_millis(10),
        timeout: Duration::from_secs(5),
        ..Endpoint::default()
    }
}

#[test]
fn what_breaks_off_is_asked_again_and_what_came_is_not() {
    let one = matrix("{}", r#"[0,"1"]"#);
    let two = matrix("{}", r#"[0,"1"],[300,"1"]"#);
    let points = matrix(r#"{"__name__":"x","namespace":"a","empty":""}"#, r#"[0,"1.5"],[300,"NaN"]"#);
    let server = Fake::new(vec![
        answer("429 Too Many Requests", "Retry-After: 1\r\n", "later"),
        good(&one),
        answer("503 Service Unavailable", "", ""),
        good(&two),
        cut(&points),
        "HTTP/1.1 200 OK\r\n".to_owned(),
        good(&points),
    ]);
    let began = Instant::now();
    let (result, reported) = ask(&endpoint(&server.url), "x");
    assert_eq!(result.unwrap(), [(Series::new("mine", &[("namespace", "a")]), vec![Point { at: 0, value: 1.5 }])]);
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After is kept");
    assert_eq!((reported.again, reported.queries, reported.points, reported.left_out), (4, 3, 1, 1), "{reported:?}");
    assert_eq!(reported.warnings, ["a store is down"]);
    assert!(!reported.is_measured && reported.heaviest == 2, "{reported:?}");
    assert_eq!(server.asked().len(), 7);
}

#[test]
fn who_asks_and_where() {
    let none = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
    let home = crate::support::folder();
    let token = crate::support::write(home.path(), "token", "abc\n");
    for (auth, expected) in [
        (Auth::None, None),
        (Auth::BearerFile(token.into()), Some("authorization: Bearer abc")),
        (Auth::Basic("jane:secret".to_owned()), Some("authorization: Basic amFuZTpzZWNyZXQ=")),
    ] {
        let server = Fake::new(vec![good(none); 3]);
        let headers = vec![("X-Scope-OrgID".to_owned(), "team-a".to_owned())];
        let (result, _) = ask(
            &Endpoint { auth, headers, ..endpoint(&format!("{}/prometheus/", server.url)) },
            "max_over_time(x[$step])",
        );
        assert!(result.unwrap().is_empty());
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "two looks and one chunk");
        for head in &asked {
            assert!(head.starts_with("GET /prometheus/api/v1/query_range?query="), "{head}");
            let lower = head.to_lowercase();
            assert!(
                lower.contains("\r\nx-scope-orgid: team-a\r\n") && lower.contains("user-agent: plimsoll/"),
                "{head}"
            );
            match expected {
                Some(expected) => {
                    assert!(lower.contains(&expected.to_lowercase()) && head.contains(&expected[15..]), "{head}")
                }
                None => assert!(!lower.contains("authorization"), "{head}"),
            }
        }
        // The windows of both steps, each to its last millisecond.
        assert!(asked[2].contains("start=299.999&end=599.999&step=300.000"), "{}", asked[2]);
    }
}

#[test]
fn what_can_not_be_helped_is_said() {
    let page = "<html>Please sign in</html>";
    for (answers, expected) in [
        (vec![good(page)], "not an answer of Prometheus' HTTP API"),
        (vec![good("{}")], "not an answer of Prometheus' HTTP API (its status is not success)"),
        (vec![answer("503 Service Unavailable", "Retry-After: 0\r\n", "busy"); 3], "503 after 3 tries"),
        (vec![answer("429 Too Many Requests", "Retry-After: 4000\r\n", "")], "Retry-After 4000s"),
        (vec![answer("403 Forbidden", "", "no")], "403, no; these credentials may not read"),
        (vec![answer("404 Not Found", "", "404 page not found")], "the URL before /api/v1"),
        (vec![cut(&matrix("{}", r#"[0,"1"]"#)); 3], "the response ended early"),
        (
            vec![answer(
                "400 Bad Request",
                "",
                r#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#,
            )],
            "query mine: parse error: x",
        ),
        // More points than can have been asked for: one instant of a series has one.
        (vec![good(&matrix("{}", &vec![r#"[0,"1"]"#; 200].join(",")))], "too heavy for --max-samples"),
    ] {
        let many = answers.len();
        let server = Fake::new(answers);
        let (result, reported) = ask(&endpoint(&server.url), "x");
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!((server.asked().len(), reported.queries), (many, 0), "{error}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ask(&endpoint(&format!("http://{gone}")), "x").0.unwrap_err().to_string();
    assert!(error.contains("after 3 tries") && error.contains("this machine can reach it"), "{error}");
}
