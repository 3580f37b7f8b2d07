//! Pure functions from the model's types to the model's types: no files, no clock, no environment,
//! no chance.
//!
//! ```
//! use plimsoll::analysis::list_route::{Minor, list_kind};
//! use plimsoll::model::uri::ReadShape;
//!
//! let shape = ReadShape::of("/api/v1/pods?resourceVersion=0", false);
//! assert_eq!(list_kind(&shape, "", "pods", Minor::parse("v1.36.0")), "full-cache");
//! ```

pub mod answer;
pub mod balance;
pub mod budget;
pub mod clients;
pub mod compare;
pub mod controllers;
pub mod dataset;
pub mod dims;
pub mod explain;
pub mod exporter;
pub mod extract;
pub mod failure;
pub mod filter;
pub mod fleet;
pub mod flow;
pub mod forecast;
pub mod guard;
pub mod heap;
pub mod incident;
pub mod judge;
pub mod keyspace;
pub mod list_route;
pub mod memory;
pub mod metrics;
pub mod objectives;
pub mod peak;
pub mod pending;
pub mod quantiles;
pub mod quota;
pub mod reconcile;
pub mod repeated;
pub mod robust;
pub mod rollup;
pub mod seats;
pub mod traffic;
pub mod upgrade;
