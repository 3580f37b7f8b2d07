//! The judge: episodes, their grades, times and causes. (How: docs/judge.md.)
//!
//! [`Requests`] is what it reads, whatever that was counted from; [`RequestSeries`] is load and its consequences by
//! interval; [`signals`] are what deviates from its baseline (`deviations`), and episodes what signals come to.

mod askers;
pub mod candidates;
mod cascades;
mod common;
mod controllers;
pub mod deviations;
pub mod episodes;
pub mod excursions;
pub mod faults;
mod holes;
pub mod latencies;
mod node_signs;
mod nodes;
pub mod paged;
mod pods;
pub mod profile;
mod refusals;
pub mod requests;
pub mod rolled;
pub mod series;
pub mod signals;
mod slower;
mod stops;
mod unbound;
mod verdict;
pub mod vitals;
pub mod weights;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_absent;
#[cfg(test)]
mod tests_causes;
#[cfg(test)]
mod tests_innocent;

pub use requests::Requests;
pub use series::RequestSeries;
pub use verdict::{Episode, Input, Judged, Weight, blind, judge};
