//! Long properties: what holds wherever a program is killed, of every command, in nearly all of many trials.

mod alerts;
mod archives;
mod compare;
mod dataset;
mod rollup;
mod store;
