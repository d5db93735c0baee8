//! Recordings from the trace of a guest's kernel: Linux' tracefs text becomes steps with causes.
//!
//! The guest has one processor and enables the events `block_rq_issue`, `block_rq_complete`, `sched_switch`,
//! `sched_waking` and `sched_wakeup_new`. The workload writes marks to `trace_marker`: `flashlab:run-begins`,
//! `flashlab:run-ends`, `flashlab:op-begins` and `flashlab:op-ends`. [`parse`] reads the lines; [`derive()`] follows
//! wake-ups to the request whose completion let a task run.

mod derive;
mod tracefs;

pub use derive::{DeriveError, derive};
pub use tracefs::{Content, Device, Direction, TraceError, TraceEvent, parse};
