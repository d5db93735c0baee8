//! fio job files, workload generators, traces, and fio's statistics and output.
#![forbid(unsafe_code)]

pub mod against;
pub mod cmdline;
pub mod error;
pub mod explain;
mod expression;
mod fault;
pub mod ini;
pub mod iolog;
pub mod job;
pub mod jobfile;
pub mod loader;
pub mod number;
pub mod option;
pub mod output;
pub mod random;
pub mod stats;
pub mod verify;
pub mod workload;
