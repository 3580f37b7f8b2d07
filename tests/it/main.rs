//! The end-to-end tests: one binary, because each further one links the crate again.
//!
//! They run the built program and compare what it prints with independent counts (`tests/oracle`, numpy, jq).
//! `.ci/setup` installs what they need; nothing is skipped where something is missing. What needs qemu, root or minutes
//! is in `tests/full`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can not go on has failed; clippy.toml allows it in the tests, not in what they share"
)]

#[cfg(feature = "live")]
mod alert_lab;
#[cfg(feature = "live")]
mod alert_model;
mod apart;
mod architecture;
mod archive_lab;
mod archives;
mod balance;
mod budget;
mod cache;
mod changing;
mod client_writes;
mod clients;
mod collect;
mod compare;
mod compare_lab;
mod controllers;
mod coverage;
mod damage;
mod dashboards;
mod dataset;
#[cfg(feature = "live")]
mod deploy;
mod docs;
mod engine;
mod etcd_extract;
mod etcd_flame;
mod etcd_health;
mod etcd_odd;
mod etcd_oracles;
#[cfg(feature = "live")]
mod etcd_pull;
mod etcd_usage;
mod exactness;
mod fleet;
mod flow;
mod flow_fence;
mod follow;
#[cfg(feature = "history")]
mod forecast;
mod forecast_grids;
mod forecast_sources;
mod foreign;
mod forms;
mod gateway;
mod guard;
mod guard_episodes;
mod guard_policies;
mod guard_webhooks;
mod heap;
mod incidents;
mod judged_logs;
mod judged_pages;
#[cfg(feature = "live")]
mod lab;
#[cfg(feature = "live")]
mod live;
mod member;
mod memory_captured;
mod memory_heap;
mod metrics;
mod metrics_damage;
mod metrics_forms;
mod metrics_instances;
mod metrics_odd;
mod metrics_pages;
mod metrics_tables;
mod metrics_ways;
#[cfg(feature = "live")]
mod prometheus_faults;
#[cfg(feature = "dataset")]
mod query;
mod quota;
#[cfg(feature = "live")]
mod quota_alert;
mod reads;
#[cfg(feature = "history")]
mod record;
mod record_logs;
#[cfg(feature = "tui")]
mod replay;
mod report;
mod rollup;
#[cfg(feature = "history")]
mod rollup_extras;
#[cfg(feature = "history")]
mod rollup_files;
#[cfg(feature = "history")]
mod rollup_list;
mod screen;
mod seats;
mod serve;
#[cfg(feature = "history")]
mod store;
#[cfg(feature = "history")]
mod store_lab;
mod support;
mod surroundings;
mod traffic_counts;
#[cfg(feature = "live")]
mod traffic_live;
mod tui;
mod upgrade;
mod views;
mod words;
