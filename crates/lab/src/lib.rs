//! The laboratory: runs of jobs, experiments, comparisons, and their results.
#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod dependence;
pub mod experiment;
pub mod figures;
mod files;
pub mod progress;
mod read_back;
mod read_first;
pub mod results;
pub mod statistics;
pub mod trace;
mod watched;
