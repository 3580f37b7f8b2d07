//! Tables behind the glance, on pages made by hand, with values worked out by hand.

use crate::support::{folder, plimsoll, write};
use serde_json::{Value, json};

/// The answer on two pages of two apiservers, 100 s apart.
fn answer(before: &str, after: &str, format: &str) -> String {
    let folder = folder();
    for (instance, start) in [("a", 1_700_000_000), ("b", 1_700_000_001)] {
        for (at, text) in [(1_700_001_000, before), (1_700_001_100, after)] {
            let page = format!(
                "{text}apiserver_request_total{{verb=\"GET\",resource=\"pods\",code=\"200\",scope=\"resource\"}} \
                 1\nprocess_start_time_seconds {start}\n"
            );
            write(folder.path(), &format!("metrics/{instance}/{at}.txt"), page);
        }
    }
    plimsoll(&["traffic", folder.path().to_str().unwrap(), "--from", "metrics", "-o", format]).exits(0).stdout.clone()
}

/// Their tables.
fn tables(before: &str, after: &str) -> Value {
    serde_json::from_str::<Value>(&answer(before, after, "json")).unwrap()["tables"].clone()
}

#[test]
fn webhooks_have_latency_rejections_and_calls_let_through() {
    let page = |fast: u32, slow: u32, all: u32, rejected: u32, open: u32| {
        let labels = r#"name="policy.example.com",operation="CREATE",rejected="false",type="validating""#;
        let metric = "apiserver_admission_webhook_admission_duration_seconds";
        format!(
            "{metric}_bucket{{{labels},le=\"0.1\"}} {fast}\n{metric}_bucket{{{labels},le=\"0.5\"}} \
             {slow}\n{metric}_bucket{{{labels},le=\"+Inf\"}} {all}\n\
             {metric}_sum{{{labels}}} 9\n{metric}_count{{{labels}}} {all}\n\
             apiserver_admission_webhook_rejection_count{{error_type=\"no_error\",name=\"policy.example.com\",\
             operation=\"CREATE\",rejection_code=\"400\",type=\"validating\"}} {rejected}\n\
             apiserver_admission_webhook_fail_open_count{{name=\"policy.example.com\",type=\"validating\"}} {open}\n"
        )
    };
    let tables = tables(&page(100, 100, 100, 3, 1), &page(150, 190, 200, 8, 3));
    // Each instance: 100 calls in 100 s, 50 of them within 0.1 s, 40 more within 0.5 s, 10 above; both together 200.
    // Median: rank 100 of 200 is the last of the first bucket. p99: rank 198 is above the last bound.
    assert_eq!(
        tables["webhooks"],
        json!([{"name": "policy.example.com", "type": "validating", "operation": "CREATE", "calls_per_s": 2.0,
                "p50_ms": 100.0, "p99_ms": 500.0, "rejections": 10, "failed_open": 4}])
    );
}

#[test]
fn watches_fan_out_and_the_cache_holds_some_history() {
    let page = |received: u32, sent: u32, bytes: u32| {
        format!(
            "apiserver_longrunning_requests{{verb=\"WATCH\",group=\"\",resource=\"pods\",scope=\"cluster\",\
             subresource=\"\",version=\"v1\",component=\"apiserver\"}} 7\n\
             apiserver_watch_cache_events_received_total{{group=\"\",resource=\"pods\"}} {received}\n\
             apiserver_watch_events_total{{group=\"\",resource=\"pods\",version=\"v1\"}} {sent}\n\
             apiserver_watch_events_sizes_sum{{group=\"\",resource=\"pods\",version=\"v1\"}} {bytes}\n\
             watch_cache_capacity{{group=\"\",resource=\"pods\"}} 500\n"
        )
    };
    let tables = tables(&page(1000, 5000, 100_000), &page(1200, 6400, 380_000));
    // Each instance: 2 events/s in, 14/s out to 7 watchers, 2,800 B/s; 500 events last 250 s.
    assert_eq!(
        tables["watches"],
        json!([{"group": "", "resource": "pods", "watchers": 14, "events_in_per_s": 4.0, "events_out_per_s": 28.0,
                "bytes_out_per_s": 5600.0, "fan_out": 7.0, "capacity": 1000, "history_s": 250.0}])
    );
}

#[test]
fn objectives_burn_their_budget() {
    let page = |in_time: u32, all: u32, failed: u32| {
        let labels =
            r#"verb="LIST",group="",resource="pods",scope="cluster",subresource="",version="v1",component="apiserver""#;
        let metric = "apiserver_request_sli_duration_seconds";
        format!(
            "{metric}_bucket{{{labels},le=\"1\"}} 0\n{metric}_bucket{{{labels},le=\"30\"}} \
             {in_time}\n{metric}_bucket{{{labels},le=\"+Inf\"}} {all}\n\
             apiserver_request_total{{{labels},code=\"200\"}} {}\napiserver_request_total{{{labels},code=\"504\"}} \
             {failed}\n",
            all - failed
        )
    };
    let tables = tables(&page(0, 0, 0), &page(970, 1000, 20));
    let slo = tables["slo"].clone();
    let row = slo.as_array().unwrap().iter().find(|row| row["class"] == "read-cluster").unwrap().clone();
    // Of 2 × 1,000: 2 × 30 slow and 2 × 20 failed make 5 % bad, five times the 1 % that is allowed.
    assert_eq!(
        row,
        json!({"class": "read-cluster", "bound_s": 30, "requests": 2000, "slow": 60, "errors": 40, "good_share": 0.95,
            "burn_rate": 5.0})
    );
}

#[test]
fn a_list_says_what_was_read_to_answer_it() {
    let page = |lists: u32, bytes: u32, cached: u32, cache_objects: u32, store_objects: u32| {
        let labels = r#"verb="LIST",group="apps",resource="deployments",scope="cluster",subresource="",version="v1",component="apiserver""#;
        format!(
            "apiserver_request_total{{{labels},code=\"200\"}} {lists}\napiserver_response_sizes_sum{{{labels}}} \
             {bytes}\n\
             apiserver_cache_list_total{{group=\"apps\",index=\"\",resource=\"deployments\"}} {cached}\n\
             apiserver_cache_list_fetched_objects_total{{group=\"apps\",index=\"\",resource=\"deployments\"}} \
             {cache_objects}\n\
             apiserver_storage_list_fetched_objects_total{{group=\"apps\",resource=\"deployments\"}} {store_objects}\n"
        )
    };
    let tables = tables(&page(10, 1000, 5, 100, 900), &page(60, 51_000, 45, 4100, 1900));
    // Each instance: 50 lists, 40 from the cache with 4,000 objects, the others with 1,000 from etcd.
    let row = tables["lists"][0].clone();
    let shown = ["resource", "lists_per_s", "bytes_per_s", "cache_per_s", "etcd_objects_per_s", "fetched_per_list"]
        .map(|field| row[field].clone());
    assert_eq!(shown, [json!("deployments"), json!(1.0), json!(1000.0), json!(0.8), json!(20.0), json!(100.0)]);
}

#[test]
fn notes_count_what_no_row_does() {
    let page = |failed: u32, refused: u32| {
        let metric = "apiserver_request_terminations_total";
        let labels = r#"verb="LIST",group="metrics.k8s.io",resource="nodes",scope="cluster""#;
        format!(
            "{metric}{{{labels},component=\"aggregator\",code=\"503\"}} {failed}\n\
             {metric}{{{labels},component=\"apiserver\",code=\"504\"}} 9{failed}\n\
             authentication_attempts{{result=\"success\"}} 1{refused}\n\
             authentication_attempts{{result=\"failure\"}} {refused}\n"
        )
    };
    let text = answer(&page(3, 10), &page(45, 17), "table");
    // Two apiservers with the same pages.
    assert!(text.contains("Not in the rows: 84 requests that failed on the way to aggregated APIs"), "{text}");
    assert!(text.contains("Not in the rows: 14 requests without valid credentials"), "{text}");
    let text = answer(&page(3, 10), &page(3, 10), "table");
    assert!(!text.contains("Not in the rows"), "{text}");
}
