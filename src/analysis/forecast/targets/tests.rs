use super::*;
use crate::model::series::Point;
use crate::model::time::HOUR;

fn history(series: Series, from: i64, values: &[f64]) -> History {
    let grid = Grid { from: from * HOUR, step: HOUR, values: values.to_vec() };
    let last = Point { at: grid.end() - 1, value: values.iter().copied().rfind(|value| !value.is_nan()).unwrap() };
    History { series, grid, last }
}

fn quota(namespace: &str, resource: &str, kind: &str, values: &[f64]) -> History {
    history(
        Series::new(
            QUOTA,
            &[("namespace", namespace), ("resourcequota", "team"), ("resource", resource), ("type", kind)],
        ),
        0,
        values,
    )
}

fn listed(targets: &[Target]) -> Vec<(String, Option<f64>, &str)> {
    targets.iter().map(|target| (target.series.to_string(), target.limit, target.limit_from.as_str())).collect()
}

#[test]
fn quotas_seats_and_memory_have_their_own_limits() {
    let seats = |level, kind, value| {
        history(Series::new(APISERVER_SEATS, &[("priority_level", level), ("kind", kind)]), 0, &[value])
    };
    let memory = |kind, value| history(Series::new(CGROUP_MEMORY, &[("path", "/a"), ("kind", kind)]), 0, &[value]);
    let all = vec![
        quota("a", "requests.cpu", "used", &[1.0, 2.0]),
        // The last value counts, not the highest.
        quota("a", "requests.cpu", "hard", &[9.0, 4.0]),
        quota("b", "requests.cpu", "used", &[1.0]),
        quota("b", "requests.cpu", "hard", &[0.0]),
        quota("c", "requests.memory", "used", &[1.0]),
        seats("low", "executing", 3.0),
        seats("low", "limit", 30.0),
        seats("high", "executing", 4.0),
        memory("working_set", 5.0),
        memory("limit", 50.0),
        memory("anon", 6.0),
        history(Series::new(LIMITS, &[("namespace", "a"), ("resource", "cpu")]), 0, &[1.0]),
    ];
    let found = targets(all.clone(), &Rules::default());
    assert_eq!(
        listed(&found),
        [
            (r#"apiserver_seats{kind="executing",priority_level="high"}"#.to_owned(), None, ""),
            (
                r#"apiserver_seats{kind="executing",priority_level="low"}"#.to_owned(),
                Some(30.0),
                "seats of the priority level"
            ),
            (r#"cgroup_memory_bytes{kind="working_set",path="/a"}"#.to_owned(), Some(50.0), "limit of the cgroup"),
            (
                r#"kube_resourcequota{namespace="a",resource="requests.cpu",resourcequota="team",type="used"}"#
                    .to_owned(),
                Some(4.0),
                "hard of quota team"
            ),
            (
                r#"kube_resourcequota{namespace="c",resource="requests.memory",resourcequota="team",type="used"}"#
                    .to_owned(),
                None,
                ""
            ),
        ]
    );
    let units: Vec<Unit> = found.iter().map(|target| target.unit).collect();
    assert_eq!(units, [Unit::Count, Unit::Count, Unit::Bytes, Unit::Cores, Unit::Bytes]);
    // Only those of a namespace; what is no target by itself is one when it is asked for.
    let rules = Rules { namespaces: vec!["a".to_owned()], ..Rules::default() };
    assert_eq!(listed(&targets(all.clone(), &rules)).len(), 1);
    let rules = Rules { picks: vec![Pick::parse("namespace_limits|kind=\"anon\"").unwrap()], ..Rules::default() };
    let found: Vec<String> = targets(all, &rules).iter().map(|target| target.series.to_string()).collect();
    assert_eq!(
        found,
        [r#"cgroup_memory_bytes{kind="anon",path="/a"}"#, r#"namespace_limits{namespace="a",resource="cpu"}"#]
    );
}

#[test]
fn limits_that_are_given_come_first() {
    let all = vec![
        quota("a", "requests.cpu", "used", &[1.0]),
        quota("a", "requests.cpu", "hard", &[4.0]),
        history(Series::new("queue", &[]), 0, &[1.0]),
        history(Series::new("depth", &[("of", "x")]), 0, &[1.0]),
        history(Series::new("depth", &[("of", "y")]), 0, &[1.0]),
    ];
    let given = GivenLimits {
        patterns: vec![(Regex::new("^queue$").unwrap(), 7.0), (Regex::new("queue|cpu").unwrap(), 8.0)],
        listed: [("depth".to_owned(), 1.0), (r#"depth{of="y"}"#.to_owned(), 2.0), ("queue".to_owned(), 3.0)].into(),
        list: "limits.csv".to_owned(),
        etcd_quota: None,
    };
    let found = targets(all, &Rules { given, ..Rules::default() });
    let limits: Vec<(Option<f64>, &str)> =
        found.iter().map(|target| (target.limit, target.limit_from.as_str())).collect();
    assert_eq!(
        limits,
        [
            (Some(1.0), "limits.csv"),
            (Some(2.0), "limits.csv"),
            (Some(8.0), "--limit queue|cpu"),
            (Some(7.0), "--limit ^queue$")
        ]
    );
}

#[test]
fn etcd_has_its_quota_or_says_where_the_limit_is_from() {
    let db = |instance, value| history(Series::new(ETCD_DB, &[("instance", instance)]), 0, &[value]);
    let own = |instance, value| history(Series::new(ETCD_QUOTA, &[("instance", instance)]), 0, &[value]);
    let limits = |all: Vec<History>, etcd_quota| {
        let rules = Rules { given: GivenLimits { etcd_quota, ..GivenLimits::default() }, ..Rules::default() };
        targets(all, &rules).into_iter().map(|target| (target.series.to_string(), target.limit)).collect::<Vec<_>>()
    };
    let of = |instance: &str, limit| (format!("etcd_db_bytes{{instance=\"{instance}\"}}"), limit);
    assert_eq!(
        limits(vec![db("", 1e9), db("a", 1e9), db("b", 1e9), own("a", 8e9)], Some(4e9)),
        [of("a", Some(8e9)), of("b", Some(8e9))],
        "members are alike, and the apiservers' word is not one more database"
    );
    assert_eq!(limits(vec![db("a", 1e9)], Some(4e9)), [of("a", Some(4e9))]);
    assert_eq!(limits(vec![db("a", 1e9)], None), [of("a", Some(2_147_483_648.0))]);
    assert_eq!(limits(vec![db("a", 3e9)], None), [of("a", None)], "it is above the default already");
    assert_eq!(limits(vec![db("", 1e9)], None), [("etcd_db_bytes".to_owned(), Some(2_147_483_648.0))]);
}

#[test]
fn sums_have_parts() {
    let asks = |namespace: &str, from, values: &[f64]| {
        history(Series::new(REQUESTS, &[("namespace", namespace), ("resource", "cpu")]), from, values)
    };
    let node = |name, at, value| {
        let series = Series::new(ALLOCATABLE, &[("node", name), ("resource", "cpu")]);
        History { last: Point { at: at * HOUR, value }, ..history(series, 0, &[value]) }
    };
    let gap = f64::NAN;
    let all = vec![
        asks("a", 0, &[1.0, gap, 3.0, gap, 5.0]),
        asks("b", 2, &[10.0, gap]),
        node("one", 100, 16.0),
        node("two", 99, 8.0),
        // It has said nothing for more than a day.
        node("gone", 70, 99.0),
    ];
    let found = targets(all, &Rules::default());
    assert_eq!(
        listed(&found),
        [(r#"cluster_requests{resource="cpu"}"#.to_owned(), Some(24.0), "allocatable of 2 nodes")]
    );
    let grid = &found[0].grid;
    // Of the fourth hour nobody knows; in the fifth b stands at what it was last.
    assert_eq!((grid.from, format!("{:?}", grid.values)), (0, "[1.0, NaN, 13.0, NaN, 15.0]".to_owned()));
    assert_eq!(found[0].parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);

    let rate = |verb, resource, subresource, value| {
        let labels = [("verb", verb), ("group", "apps"), ("resource", resource), ("subresource", subresource)];
        history(Series::new(APISERVER_RPS, &labels), 0, &[value])
    };
    let flow = history(Series::new(APISERVER_RPS, &[("flow_schema", "f"), ("priority_level", "p")]), 0, &[1.0]);
    let found = targets(
        vec![rate("list", "deployments", "", 1.0), rate("update", "deployments", "status", 2.0), flow],
        &Rules::default(),
    );
    assert_eq!(
        listed(&found),
        [
            ("apiserver_rps".to_owned(), None, ""),
            (r#"apiserver_rps{flow_schema="f",priority_level="p"}"#.to_owned(), None, "")
        ]
    );
    assert_eq!((found[0].grid.values.as_slice(), found[0].unit), ([3.0].as_slice(), Unit::PerSecond));
    let names: Vec<&str> = found[0].parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["list deployments.apps", "update deployments.apps/status"]);
}

#[test]
fn a_part_that_ended_long_ago_is_nought() {
    let mut long = vec![1.0; 60];
    long[59] = 2.0;
    let of = |name, values: &[f64]| history(Series::new(APISERVER_OBJECTS, &[("resource", name)]), 0, values);
    let found = targets(vec![of("pods", &long), of("jobs", &[7.0])], &Rules::default());
    let total = found.iter().find(|target| target.series.labels.is_empty()).unwrap();
    assert_eq!(
        (total.grid.values[0], total.grid.values[24], total.grid.values[25], total.grid.values[59]),
        (8.0, 8.0, 1.0, 2.0)
    );
    assert_eq!(found.len(), 3);
}

#[test]
fn the_bytes_of_resources_are_what_fills_etcd() {
    let of = |group, resource, value| {
        history(Series::new(APISERVER_OBJECT_BYTES, &[("group", group), ("resource", resource)]), 0, &[value])
    };
    let database = history(Series::new(ETCD_DB, &[("instance", "a")]), 0, &[9.0]);
    let found = targets(vec![of("apps", "deployments", 2.0), database, of("", "pods", 5.0)], &Rules::default());
    let parts =
        |target: &Target| target.parts.iter().map(|part| (part.name.clone(), part.grid.values[0])).collect::<Vec<_>>();
    let of_name = |name| found.iter().filter(move |target| target.series.name == name);
    assert_eq!(
        of_name(ETCD_DB).map(parts).collect::<Vec<_>>(),
        [[("deployments.apps".to_owned(), 2.0), ("pods".to_owned(), 5.0)]]
    );
    assert!(of_name(APISERVER_OBJECT_BYTES).all(|target| target.unit == Unit::Bytes && target.limit.is_none()));
    assert_eq!(found.len(), 3);
}

#[test]
fn of_many_parts_the_largest_and_the_growing_are_named() {
    let of = |n: usize, values: &[f64]| {
        history(Series::new(REQUESTS, &[("namespace", &format!("n{n:03}")), ("resource", "memory")]), 0, values)
    };
    // Large and still; small and growing; small and still.
    let all = (0..300).map(|n| match n {
        0..25 => of(n, &[1e6, 1e6]),
        25..50 => of(n, &[0.0, 100.0]),
        _ => of(n, &[1.0, 1.0]),
    });
    let found = targets(all.collect(), &Rules::default());
    assert_eq!(found[0].grid.values, [25e6 + 250.0, 25e6 + 250.0 + 2_500.0]);
    let parts = &found[0].parts;
    assert_eq!(parts.len(), 51);
    assert_eq!(
        parts.iter().filter(|part| part.name.starts_with('n')).map(|part| part.name.clone()).collect::<Vec<_>>(),
        (0..50).map(|n| format!("n{n:03}")).collect::<Vec<_>>()
    );
    let others = parts.iter().find(|part| part.name == OTHERS).unwrap();
    assert_eq!(others.grid.values, [250.0, 250.0]);
}

#[test]
fn picks_are_selectors_or_patterns() {
    let series = Series::new("a", &[("b", "x\"}y"), ("c", "1")]);
    let takes = |text: &str| Pick::parse(text).unwrap().takes(&series, &series.to_string());
    assert!(takes(r#"a{b="x\"}y"}"#) && takes(r#"{c="1"}"#) && takes(r#"a{c="1", b="x\"}y"}"#));
    assert!(takes("^a") && takes("c=\"1\"") && takes("a"));
    assert!(!takes(r#"a{c="2"}"#) && !takes(r#"b{c="1"}"#) && !takes("^b") && !takes(r#"a{d="1"}"#));
    assert!(Pick::parse("a(").unwrap_err().to_string().contains("regular expression"));
}

#[test]
fn clusters_have_limits_and_names_of_their_own() {
    let with = |mut own: History, pairs: &[(&str, &str)]| {
        own.series.labels.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        own
    };
    let of = |cluster: &str, used: f64, hard: f64, cpu: f64| {
        let pairs = [("cluster", cluster), ("instance", "10.0.0.1:8080")];
        let node = Series::new(ALLOCATABLE, &[("node", "n1"), ("resource", "cpu")]);
        let request = Series::new(REQUESTS, &[("namespace", "a"), ("resource", "cpu")]);
        [
            with(quota("a", "pods", "used", &[used]), &pairs),
            with(quota("a", "pods", "hard", &[hard]), &pairs),
            with(history(node, 0, &[cpu]), &pairs[..1]),
            with(history(request, 0, &[used / 10.0]), &pairs[..1]),
        ]
    };
    let mut all = of("eu", 57.0, 60.0, 8.0).to_vec();
    all.extend(of("us", 66.0, 100.0, 16.0));
    let found = targets(all, &Rules::default());
    let named: Vec<(String, Option<f64>)> =
        found.iter().map(|target| (crate::analysis::forecast::words::name(target), target.limit)).collect();
    assert_eq!(
        named,
        [
            ("cluster requests.cpu (cluster=eu)".to_owned(), Some(8.0)),
            ("cluster requests.cpu (cluster=us)".to_owned(), Some(16.0)),
            ("a/team pods (cluster=eu)".to_owned(), Some(60.0)),
            ("a/team pods (cluster=us)".to_owned(), Some(100.0)),
        ]
    );
    // A limit that another scrape shows is that of the only quota of this name.
    let apart = vec![
        with(quota("a", "pods", "used", &[5.0]), &[("instance", "x")]),
        with(quota("a", "pods", "hard", &[9.0]), &[("instance", "y")]),
    ];
    assert_eq!(targets(apart, &Rules::default())[0].limit, Some(9.0));
}
