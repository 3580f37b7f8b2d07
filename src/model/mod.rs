//! Typed tables and the small types they are made of.
//!
//! Nothing here reads, writes, or decides: sources fill these types, analysis works on them, views
//! show them. This layer imports no other.
//!
//! ```
//! use plimsoll::model::units::{bytes, parse_bytes};
//!
//! assert_eq!(bytes(1536.0), "1.50 KiB");
//! assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
//! ```

pub mod alert;
pub mod alike;
pub mod apf;
pub mod budget;
pub mod bundle;
#[cfg(feature = "history")]
pub mod cached;
pub mod cause;
pub mod columns;
pub mod dataset;
#[cfg(feature = "history")]
pub mod engine;
pub mod episode;
pub mod event;
pub mod event_rows;
pub mod exposed;
pub mod flame;
pub mod flowcontrol;
pub mod forecast;
pub mod grid;
pub mod histogram;
pub mod incident;
pub mod input;
pub mod json;
pub mod keyspace;
pub mod memory;
pub mod moment;
pub mod names;
pub mod objects;
pub mod picture;
pub mod problem;
pub mod quantity;
pub mod question;
pub mod quota;
pub mod registry;
pub mod report;
pub mod rollup;
pub mod rollup_tables;
pub mod sample;
pub mod series;
pub mod stacks;
pub mod stray;
pub mod symbols;
pub mod time;
pub mod units;
pub mod uri;
pub mod waiting;
pub mod walk;
pub mod webhooks;
