//! What is asked of the system by a thread that answers at an instant.
//!
//! - Timers without slack: else Linux wakes a thread up to 50 us late, so that it can wake several at once.
//! - To run before all others (SCHED_RR): on a busy machine a thread is woken when others have had their turn.
//! - Processors that do not sleep (`/dev/cpu_dma_latency`, which Linux calls PM QoS): one that does takes its time to wake, some
//!   50 us in a virtual machine, and a request and its answer wake two.
//!
//! The last two take from others, so they are had where it was said that they may be.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tracing::{debug, warn};

/// Processors stay awake as long as this is held.
#[derive(Debug)]
#[must_use]
pub(crate) struct Awake {
    _held: OwnedFd,
}

/// Has this thread's timers go off when they are set.
pub(crate) fn without_slack() {
    // Where that is refused, answers are a little late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Has this thread run before all that are not real-time ones.
pub(crate) fn before_all_others() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
        .map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, format!("{error:?}")))
}

/// Both that take from others, as far as they can be had; what was refused is said.
pub(crate) fn before_all_others_and_awake(connection: u64) -> Option<Awake> {
    if let Err(error) = before_all_others() {
        warn!(connection, %error, "not before all others");
    }
    match awake() {
        Ok(awake) => Some(awake),
        // Not every machine has processors that sleep.
        Err(error) => {
            debug!(connection, %error, "processors may sleep: /dev/cpu_dma_latency");
            None
        }
    }
}

fn awake() -> io::Result<Awake> {
    let held = rustix::fs::open("/dev/cpu_dma_latency", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // The longest time to wake that is borne, in microseconds.
    rustix::io::write(&held, &0i32.to_ne_bytes())?;
    Ok(Awake { _held: held })
}
