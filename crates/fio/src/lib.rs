//! fio job files, workload generators, traces, fio's statistics and output.
#![forbid(unsafe_code)]

pub mod against;
pub mod job;
pub mod output;
pub mod random;
pub mod stats;
pub mod workload;
