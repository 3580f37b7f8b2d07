//! Real servers with much in them: a Prometheus with sixty days, and one that scrapes.

mod forecast;
mod history;
mod metrics;
mod prometheus;
mod quota;
