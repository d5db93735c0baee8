//! Scheduling settings for threads that reply at exact instants.
//!
//! - Timers without slack: by default, Linux delays the wake-up of a thread by up to 50 us so that it can wake
//!   several threads at once.
//! - Real-time scheduling (SCHED_RR): on a busy machine an ordinary thread runs only after other threads have had
//!   their turn.
//! - The CPU latency limit (`/dev/cpu_dma_latency`, Linux's PM QoS): a processor in a sleep state needs some
//!   time to wake up, about 50 us in a virtual machine. A request and its reply wake two processors.
//!
//! The last two slow down other processes, so they are used only if the user allows them.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use thread_priority::ThreadPriority;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tracing::{debug, warn};

/// The CPU latency limit. Processors do not sleep while this value exists.
#[derive(Debug)]
#[must_use]
pub(crate) struct CpuLatencyLimit {
    _file: OwnedFd,
}

/// Removes the slack of this thread's timers.
pub(crate) fn clear_timer_slack() {
    // If the system denies the request, replies are slightly late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives this thread real-time priority, above all ordinary threads.
pub(crate) fn set_realtime_priority() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
        .map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, format!("{error:?}")))
}

/// Requests real-time priority and the CPU latency limit. Logs each request that the system denies.
pub(crate) fn request_low_latency(connection: u64) -> Option<CpuLatencyLimit> {
    if let Err(error) = set_realtime_priority() {
        warn!(connection, %error, "no real-time priority");
    }
    match limit_cpu_latency() {
        Ok(limit) => Some(limit),
        // Not every machine has processors with sleep states.
        Err(error) => {
            debug!(connection, %error, "no CPU latency limit: /dev/cpu_dma_latency");
            None
        }
    }
}

fn limit_cpu_latency() -> io::Result<CpuLatencyLimit> {
    let file = rustix::fs::open("/dev/cpu_dma_latency", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Maximum wake-up latency in microseconds.
    rustix::io::write(&file, &0i32.to_ne_bytes())?;
    Ok(CpuLatencyLimit { _file: file })
}
