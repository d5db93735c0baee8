//! Profiles, experiments, comparisons, results: what a user runs.
#![forbid(unsafe_code)]

pub mod results;
