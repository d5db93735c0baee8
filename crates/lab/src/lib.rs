//! The laboratory: profiles, experiments, comparisons, served devices, and their results.
#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod dependence;
pub mod device;
pub mod experiment;
pub mod explain;
pub mod figures;
mod files;
pub mod library;
pub mod profile;
pub mod progress;
mod read_back;
mod read_first;
pub mod results;
pub mod served;
pub mod statistics;
pub mod trace;
pub mod units;
mod watched;
