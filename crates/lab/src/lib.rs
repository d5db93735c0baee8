//! The laboratory: runs of jobs, experiments, comparisons, and their results.
#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod dependence;
#[cfg(feature = "fit")]
pub mod difference;
pub mod experiment;
pub mod figures;
mod files;
#[cfg(feature = "fit")]
pub mod fitting;
pub mod iologs;
pub mod job_run;
#[cfg(feature = "fit")]
pub mod probe;
pub mod progress;
mod rank;
pub mod results;
pub mod run_inputs;
pub mod session;
pub mod statistics;
pub mod trace;
mod verify_phase;
mod watched;
pub mod write_first;
