//! Pure functions from the model's types to the model's types: no files, no clock, no environment,
//! no chance.

pub mod balance;
pub mod clients;
pub mod compare;
pub mod controllers;
pub mod dims;
pub mod extract;
pub mod filter;
pub mod flow;
pub mod forecast;
pub mod guard;
pub mod heap;
pub mod keyspace;
pub mod list_route;
pub mod memory;
pub mod metrics;
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
