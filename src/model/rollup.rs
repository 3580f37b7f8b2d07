//! rollup
