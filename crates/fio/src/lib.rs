//! fio job files, workload generators, traces, fio's statistics and output.
#![forbid(unsafe_code)]

pub mod job;
pub mod workload;
