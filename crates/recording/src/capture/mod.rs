//! Recordings from the trace of a guest's kernel: Linux's tracefs text becomes steps with causes.
//!
//! The guest has one processor and enables the events of [`EVENTS`]. The workload may write marks to
//! `trace_marker`: `flashlab:run-begins`, `flashlab:run-ends`, `flashlab:op-begins` and `flashlab:op-ends`.
//! [`parse`] reads the lines; [`derive()`] follows wake-ups back to the event that let a task run, such as
//! the completion of a request.

mod derive;
mod error;
mod tracefs;

pub use derive::derive;
pub use error::DeriveError;
pub use tracefs::{Content, Context, Device, Direction, TraceError, TraceEvent, parse};

/// Events that the guest enables, as paths below `events` of tracefs.
pub const EVENTS: [&str; 24] = [
    "block/block_getrq",
    "block/block_rq_complete",
    "block/block_rq_issue",
    "block/block_rq_requeue",
    "sched/sched_process_exit",
    "sched/sched_switch",
    "sched/sched_wakeup_new",
    "sched/sched_waking",
    "syscalls/sys_enter_fdatasync",
    "syscalls/sys_enter_fsync",
    "syscalls/sys_enter_msync",
    "syscalls/sys_enter_sync",
    "syscalls/sys_enter_syncfs",
    "syscalls/sys_exit_fdatasync",
    "syscalls/sys_exit_fsync",
    "syscalls/sys_exit_msync",
    "syscalls/sys_exit_sync",
    "syscalls/sys_exit_syncfs",
    "timer/hrtimer_expire_exit",
    "timer/timer_expire_entry",
    "timer/timer_expire_exit",
    "timer/timer_start",
    "workqueue/workqueue_execute_start",
    "workqueue/workqueue_queue_work",
];
