//! `plimsoll dataset query`: the rows that DuckDB finds in the same Parquet, whatever form the sources have.

use crate::support::{Ran, feed, folder, plimsoll, python, root, run, sample, sample_bytes, write};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[track_caller]
fn query(sql: &str, sources: &[&str]) -> Value {
    plimsoll(&[&["dataset", "query", sql], sources, &["-o", "json"]].concat()).json(0)
}

/// That DuckDB gives the same rows of these folders; how many.
#[track_caller]
fn agrees(home: &Path, answer: &Value, sql: &str, folders: &[&str]) -> u64 {
    let ran = beside(home, answer, sql, folders);
    assert_eq!(ran.code, Some(0), "{sql}: {}", ran.stderr);
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["rows"].as_u64().unwrap()
}

fn beside(home: &Path, answer: &Value, sql: &str, folders: &[&str]) -> Ran {
    let path = write(home, "answer.json", answer.to_string());
    let mut command = Command::new(python());
    command.arg(root().join("tests/oracle/query.py")).args([path.as_str(), sql]).args(folders);
    feed(command, b"")
}

/// A dataset of these samples.
fn dataset(home: &Path, names: &[&str]) -> String {
    let to = home.join("dataset").display().to_string();
    let samples: Vec<String> = names.iter().map(|name| sample(name)).collect();
    let mut args = vec!["dataset", "build"];
    args.extend(samples.iter().map(String::as_str));
    args.extend(["--to", &to]);
    plimsoll(&args).exits(0);
    to
}

/// Queries that have a name, by name.
fn named() -> BTreeMap<String, String> {
    let listed = plimsoll(&["dataset", "query", ".queries", "-o", "json"]).json(0);
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    listed["rows"].as_array().unwrap().iter().map(|row| (text(row, "query"), text(row, "text"))).collect()
}

#[test]
fn rows_equal_those_of_another_engine() {
    let home = folder();
    let to = dataset(home.path(), &["list-storm", "quiet", "overload-restart"]);
    let named = named();
    assert!(named.len() > 8);
    for (name, sql) in &named {
        assert!(agrees(home.path(), &query(name, &[&to]), sql, &[&to]) > 0, "{name}");
    }
    for sql in [
        "select count(*) as n, count(latency_us) as answered, count(distinct audit_id) as ids from audit",
        "select cluster, date, hour, verb, code, count(*) as n from audit group by cluster, date, hour, verb, code",
        "select verb, min(latency_us) as least, max(latency_us) as most, avg(latency_us) as mean from audit \
         where not long_running group by verb having count(*) > 10",
        "select a.client_user as who, a.n as lists, b.n as writes from \
         (select client_user, count(*) as n from audit where op = 'list' group by client_user) a left join \
         (select client_user, count(*) as n from audit where op = 'write' group by client_user) b \
         on a.client_user = b.client_user",
        "select event_time, audit_id, stage from audit where code = 429 \
         and event_time >= timestamp '2026-11-20 09:38:00' order by event_time, audit_id, stage limit 100",
        "select uri from audit where uri like '%limit=500%' and verb = 'list'",
        "select client_agent, event_time, row_number() over \
         (partition by client_agent order by event_time, seq, instance) as nth \
         from audit where cluster = 'lab-3' and op = 'delete'",
        "select extract(minute from event_time) as m, count(*) as n, max(upper(verb)) as v, sum(length(uri)) as chars \
         from audit group by extract(minute from event_time)",
        "select cast(event_time as date) as day, coalesce(resource, '-') as what, sum(code) as codes, \
         avg(latency_us) / 1000.0 as ms from audit where event_time < timestamp '2026-11-20 09:20:00' \
         group by cast(event_time as date), coalesce(resource, '-')",
        "select distinct instance, name from metrics where name like 'apiserver_storage%'",
        "select resource, sum(value) as requests from metrics where name = 'apiserver_request_total' and verb = 'LIST' \
         and taken_at in (select max(taken_at) from metrics where cluster = 'lab-3') group by resource",
        "select verb, count(*) from audit group by verb order by count(*) desc, verb",
        "select client_user, sum(latency_us) as us from audit group by client_user order by sum(latency_us) desc, 1",
        "select seq, instance, sum(latency_us) over (partition by instance order by seq \
         rows between unbounded preceding and current row) as us from audit where cluster = 'lab-3'",
        "select q.namespace as namespace, q.resource as resource, k.resource as stored from quotas q left join \
         (select * from keyspace where resource = 'pods') k on q.namespace = k.namespace and q.cluster = k.cluster",
        "select a.verb as verb, count(*) as n from audit a join keyspace k on a.namespace = k.namespace \
         where k.resource = 'pods' group by a.verb",
        "select a.verb as verb, count(*) as n from audit a join audit b on a.audit_id = b.audit_id \
         and a.stage <> b.stage group by a.verb",
        "select count(*) as n from audit a anti join quotas q on a.namespace = q.namespace",
        "select verb from audit where code = 200 except select verb from audit where code = 404",
        "select distinct on (verb) verb, seq from audit where cluster = 'lab-3' order by verb, seq",
        "select upper(verb) as u, substr(verb, 2, 2) as s, verb || ':' || resource as c, code % 7 as m, code // 7 as d \
         from audit where seq < 50",
        "select median(latency_us) as m, stddev(latency_us) as s, quantile_cont(latency_us, 0.99) as q from audit",
        "select value, name from metrics where value > 0 and value < 0.0001",
        "select latency_us, event_time from audit where event_time between '2026-11-20T09:42:00Z' and \
         '2026-11-20T09:42:20Z' order by latency_us desc, event_time, seq limit 50",
        "select verb, cluster, count(*) as n from audit group by verb, cluster order by n desc, verb, cluster",
        "select namespace, sum(live_bytes) as bytes, sum(keys) as keys from keyspace group by namespace",
        "select taken_at, namespace, resource, used, hard from quotas",
        // Numbers that polars has in 8 or 32 bits.
        "select verb, count(*) - 30000 as less, count(*) * 1000000 as much, length(verb) - 10 as short from audit \
         group by verb",
        "select m, n, n - lag(n) over (order by m) as more from (select m, count(*) as n from (select \
         extract(hour from event_time) * 60 + extract(minute from event_time) as m from audit) a group by m) b",
        "select count(*) as n, sum(length(uri) * 100000) as s from audit where length(uri) - 100 > 0",
        "select verb, seq from audit where extract(minute from event_time) * 60 > 600 and seq < 20",
        // As it stands, and no regular expression.
        "select count(*) as n, sum(strpos(client_user, '.')) as s, min(position('v1/' in uri)) as v from audit \
         where strpos(uri, '?') > 0",
        "select verb, count(*) as n from audit where audit_id in (select audit_id from audit where code = 429) \
         and (verb in (select verb from audit where op = 'list')) and code > 200 group by verb",
    ] {
        let answer = query(sql, &[&to]);
        assert!(agrees(home.path(), &answer, sql, &[&to]) > 0, "{sql}");
    }
    // Events of no cluster meet no condition on it.
    let nameless = home.path().join("nameless").display().to_string();
    // Out of its bundle.
    let log = write(home.path(), "plain/audit.log", sample_bytes("quiet/audit/apiserver-0/audit.log.zst"));
    plimsoll(&["dataset", "build", &log, &sample("list-storm"), "--tables", "audit", "--to", &nameless]).exits(0);
    for (sql, is_some) in [
        ("select count(*) as n from audit where cluster <> 'lab-1'", false),
        ("select count(*) as n from audit where cluster is null and code = 200", true),
        ("select count(*) as n from audit where not (cluster = 'x') or code = 429", true),
        ("select cluster, date, hour, count(*) as n from audit group by cluster, date, hour", true),
    ] {
        let answer = query(sql, &[&nameless]);
        assert!(agrees(home.path(), &answer, sql, &[&nameless]) > 0, "{sql}");
        assert_eq!(answer["rows"][0]["n"].as_u64() > Some(0), is_some, "{sql}: {answer}");
    }
    // The comparison can fail.
    let sql = "select verb, count(*) as n from audit group by verb";
    let mut answer = query(sql, &[&to]);
    answer["rows"][0]["n"] = 1.into();
    assert_eq!(beside(home.path(), &answer, sql, &[&to]).code, Some(1));
}

#[test]
fn every_form_of_the_sources_gives_the_same_rows() {
    let home = folder();
    let to = dataset(home.path(), &["list-storm"]);
    let bundle = sample("list-storm");
    let packed = home.path().join("bundle.tar.zst").display().to_string();
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "-cf", &packed, "-C", &sample(""), "list-storm"]);
    assert_eq!(feed(tar, b"").code, Some(0));
    let sorted = |answer: &Value| {
        let mut rows: Vec<String> = answer["rows"].as_array().unwrap().iter().map(Value::to_string).collect();
        rows.sort();
        rows
    };
    for sql in [
        "select cluster, instance, verb, resource, count(*) as n, sum(latency_us) as us from audit \
         group by cluster, instance, verb, resource",
        "select instance, count(*) as n, sum(case when value > 0 then 1 else 0 end) as some from metrics \
         group by instance",
        "select k.resource as resource, k.keys as keys, q.n as n from keyspace k join \
         (select namespace, count(*) as n from quotas group by namespace) q on k.namespace = q.namespace",
    ] {
        let expected = sorted(&query(sql, &[&to]));
        assert!(!expected.is_empty());
        for source in [&bundle, &packed] {
            assert_eq!(sorted(&query(sql, &[source])), expected, "{source}: {sql}");
        }
    }
    // A dataset and a log beside it; a copy of the tables alone.
    let count = |sources: &[&str]| query("select count(*) as n from audit", sources)["rows"][0]["n"].as_u64().unwrap();
    let quiet = sample("quiet");
    assert_eq!(count(&[&to, &quiet]), count(&[&to]) + count(&[&quiet]));
    let copy = home.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::os::unix::fs::symlink(Path::new(&to).join("audit"), copy.join("audit")).unwrap();
    assert_eq!(count(&[copy.to_str().unwrap()]), count(&[&to]));
    // Files that a killed run left are no part of it.
    let some = std::fs::read_dir(Path::new(&to).join("audit/cluster=lab-1/date=2026-11-20/hour=09")).unwrap().next();
    let some = some.unwrap().unwrap().path();
    std::fs::copy(&some, some.with_file_name("part-0123456789abcdef0123456789abcdef-0.parquet")).unwrap();
    assert_eq!(count(&[&to]), 21_610);
}

#[test]
fn tables_of_roll_ups_come_from_roll_ups_stores_and_logs() {
    let home = folder();
    let bundle = sample("list-storm");
    let path = |name: &str| home.path().join(name).display().to_string();
    let (rollup, second, store) = (path("rollup"), path("second"), path("store"));
    plimsoll(&["rollup", &bundle, "--to", &rollup]).exits(0);
    plimsoll(&["rollup", &sample("quiet"), "--to", &second]).exits(0);
    let sql =
        "select cluster, verb, sum(requests) as requests, sum(latency_sum) as us from traffic group by cluster, verb";
    let of_rollup = query(sql, &[&rollup]);
    assert!(agrees(home.path(), &of_rollup, sql, &[&rollup]) > 5);
    assert!(agrees(home.path(), &query(sql, &[&rollup, &second]), sql, &[&rollup, &second]) > 10);
    agrees(home.path(), &query(sql, &[&bundle]), sql, &[&rollup]);
    plimsoll(&["record", &bundle, "--store", &store, "--once", "--keep-rollups", "10s=20000d"]).exits(0);
    let total = "select sum(requests) as n from traffic";
    assert_eq!(query(total, &[&store])["rows"], query(total, &[&rollup])["rows"]);
    // Both kinds of tables of one bundle: each request is one terminal event.
    let both = "select t.n as requests, a.n as events from (select sum(requests) as n from traffic) t cross join \
        (select count(*) as n from audit where terminal) a";
    let rows = query(both, &[&bundle]);
    assert_eq!(rows["rows"][0]["requests"], rows["rows"][0]["events"]);
}

#[test]
fn what_a_query_can_not_have_is_said() {
    let home = folder();
    let to = dataset(home.path(), &["drain"]);
    let rollup = home.path().join("rollup").display().to_string();
    plimsoll(&["rollup", &sample("drain"), "--to", &rollup]).exits(0);
    let nothing = home.path().join("nothing").display().to_string();
    std::fs::create_dir(&nothing).unwrap();
    for (sql, source, code, says) in [
        ("select * from nobody", to.as_str(), 2, "'nobody' was not found; .schema lists tables"),
        ("select foo from audit", &to, 2, "no such column: foo; .schema"),
        ("select usrname from audit", &to, 2, "no such column: usrname; is it username?"),
        ("select verb from audit group by verb order by count(*)", &to, 2, "name it in the select list"),
        ("select sum(1) from audit", &to, 2, "count(*) counts rows"),
        ("select verb from audit where node not in (select pod from audit)", &to, 2, "left anti join"),
        ("select verb from audit where uri similar to 'x'", &to, 2, "polars does not support this"),
        ("delete from audit", &to, 2, "no query; write one select"),
        ("selec 1", &to, 2, "Expected: an SQL statement"),
        ("select 1; select 2", &to, 2, "several statements"),
        ("top-client", &to, 2, "no query has this name; is it top-clients?"),
        ("foo", &to, 2, "no query has this name; write SQL, or one of top-clients"),
        (".tables", &to, 2, "unknown; write .schema"),
        ("@/nowhere.sql", &to, 3, "/nowhere.sql: No such file"),
        ("select * from audit", &rollup, 3, "a roll-up holds no single events"),
        ("select * from traffic", &to, 3, "give a roll-up, or audit logs"),
        ("select * from keyspace", &to, 3, "it takes a database of etcd"),
        ("select * from audit", &nothing, 3, "nothing"),
        ("select * from audit", "/nowhere", 3, "/nowhere: No such file"),
        ("select * from read_csv('/etc/passwd')", &to, 2, "not a supported table function"),
    ] {
        let ran = plimsoll(&["dataset", "query", sql, source]);
        assert!(ran.code == Some(code) && ran.stderr.contains(says), "{sql}: {:?} {}", ran.code, ran.stderr);
        assert!(ran.did_not_panic().stdout.is_empty(), "{sql}");
    }
    // A part is what lies below it, and counts once beside the whole.
    let part = format!("{to}/audit");
    let asked = |sources: &[&str]| plimsoll(&[&["dataset", "query", "hours"], sources, &["-o", "csv"]].concat());
    let whole = asked(&[&to]).exits(0).stdout.clone();
    let cluster = format!("{part}/cluster=__HIVE_DEFAULT_PARTITION__");
    for sources in [&[part.as_str()][..], &[&to, &cluster], &[&cluster, &to]] {
        assert_eq!(asked(sources).exits(0).stdout, whole, "{sources:?}");
    }
    let ran = plimsoll(&["dataset", "query", "select * from metrics", &cluster]);
    assert!(ran.code == Some(3) && ran.stderr.contains("nothing in"), "{}", ran.stderr);
    let long = format!("select verb from audit where {}", vec!["seq = 1"; 5_000].join(" or "));
    let ran = plimsoll(&["dataset", "query", &long, &to]);
    assert!(ran.code == Some(2) && ran.stderr.contains("more than 1000 operators"), "{}", ran.stderr);
    let ran = plimsoll(&["dataset", "query", "select 1"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("name a SOURCE"), "{}", ran.stderr);
    // A file that is cut off.
    let part = std::fs::read_dir(Path::new(&to).join("audit/cluster=__HIVE_DEFAULT_PARTITION__")).unwrap();
    let mut folder = part.map(|entry| entry.unwrap().path()).next().unwrap();
    while folder.is_dir() {
        folder = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    }
    let whole = std::fs::read(&folder).unwrap();
    std::fs::write(&folder, &whole[..whole.len() / 2]).unwrap();
    let ran = plimsoll(&["dataset", "query", "select count(*) from audit", &to]);
    assert!(ran.code == Some(3) && ran.stderr.contains("a Parquet file can't be read"), "{}", ran.stderr);
    assert!(ran.did_not_panic().stdout.is_empty());
    std::fs::remove_file(&folder).unwrap();
    let ran = plimsoll(&["dataset", "query", "select count(*) from audit", &to]);
    assert!(ran.code == Some(3) && ran.stderr.contains("are missing"), "{}", ran.stderr);
}

#[test]
fn answers_are_shown_in_every_form() {
    let log = write(folder().keep().as_path(), "audit.log", sample_bytes("drain/audit.log.zst"));
    let sql = "select verb as \"What\", count(*) as n, max(latency_us) / 1000.0 as ms, null as x, \
        verb = 'get' as \"is get\" from audit group by verb order by n desc, verb limit 2";
    let table = plimsoll(&["dataset", "query", sql, &log]);
    let csv = plimsoll(&["dataset", "query", sql, &log, "-o", "csv"]);
    assert!(table.stderr.contains("326 events made into a dataset for this query"), "{}", table.stderr);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert_eq!(lines[0], "What,n,ms,x,is get");
    let shown: Vec<Vec<&str>> = table.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(shown[0], ["What", "n", "ms", "x", "is", "get"]);
    assert_eq!(shown[1].len(), 5, "{}", table.stdout);
    let document = plimsoll(&["dataset", "query", sql, &log, "-o", "json"]).json(0);
    let row = &document["rows"][0];
    assert!(row["n"].is_u64() && row["ms"].is_number() && row["x"].is_null() && row["is get"].is_boolean(), "{row}");
    assert!(plimsoll(&["dataset", "query", sql, &log, "-o", "markdown"]).stdout.contains("| What |"));
    // Of many rows people are shown some, and machines all.
    let all = "select seq, uri from audit";
    let many = sample("list-storm/audit/apiserver-0/audit.log.zst");
    let shown = plimsoll(&["dataset", "query", all, &many]).stdout;
    assert!(shown.contains("1000 of 20507 rows are shown"), "{}", &shown[shown.len() - 200..]);
    assert_eq!(plimsoll(&["dataset", "query", all, &many, "-o", "csv"]).stdout.lines().count(), 20_508);
    assert_eq!(plimsoll(&["dataset", "query", all, &many, "--top", "7"]).stdout.lines().count(), 8);
    // What a log says can't write to the terminal.
    let evil = sample_bytes("drain/audit.log.zst");
    let evil = String::from_utf8_lossy(&evil).replacen("\"verb\":\"", "\"verb\":\"\\u001b[31m", 1);
    let log = write(folder().keep().as_path(), "evil.log", evil);
    let shown = plimsoll(&["dataset", "query", "select distinct verb from audit", &log]).stdout;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    // A query in a file, and from stdin.
    let file = write(folder().keep().as_path(), "a.sql", "select count(*) as n\nfrom audit");
    let ran = plimsoll(&["dataset", "query", &format!("@{file}"), &log, "-o", "json"]).json(0);
    assert_eq!(ran["rows"][0]["n"], 326);
    let precise = plimsoll(&["dataset", "query", "select 4e-7 as a, 1.0 / 3 as b", &log, "-o", "csv"]).stdout;
    assert_eq!(precise.lines().nth(1), Some("4e-7,0.3333333333333333"), "{precise}");
    let ran = run(&["dataset", "query", "@-", &log, "-o", "json"], &[], b"select count(*) as n from audit");
    assert_eq!(ran.json(0)["rows"][0]["n"], 326);
}

/// The page lists the queries that have a name, and `.schema` all columns that there are.
#[test]
fn the_schema_lists_what_there_is() {
    let home = folder();
    let to = dataset(home.path(), &["list-storm"]);
    let rollup = home.path().join("rollup").display().to_string();
    plimsoll(&["rollup", &sample("list-storm"), "--to", &rollup]).exits(0);
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in plimsoll(&["dataset", "query", ".schema", "-o", "json"]).json(0)["rows"].as_array().unwrap() {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        tables.entry(text("dataset_table")).or_default().push(text("dataset_column"));
    }
    assert!(tables.len() > 20);
    for (table, columns) in tables {
        let answer = query(&format!("select * from {table} limit 1"), &[&to, &rollup]);
        if let Some(row) = answer["rows"].as_array().unwrap().first() {
            assert_eq!(row.as_object().unwrap().keys().cloned().collect::<Vec<_>>(), columns, "{table}");
        }
    }
    let page = std::fs::read_to_string(root().join("docs/commands/dataset.md")).unwrap();
    let listed = plimsoll(&["dataset", "query", ".queries", "-o", "json"]).json(0);
    for row in listed["rows"].as_array().unwrap() {
        let line = format!("| `{}` | {} |", row["query"].as_str().unwrap(), row["meaning"].as_str().unwrap());
        assert!(page.contains(&line), "{line}");
    }
}
