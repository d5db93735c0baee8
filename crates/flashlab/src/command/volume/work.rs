//! Progress and results of long work on a volume.

use super::super::argument;
use super::size;
use crate::failure::{Failure, and_then_end};
use crate::file;
use crate::interrupts::Interrupts;
use crate::progress::{ProgressDisplay, show_elapsed};
use clap::Args;
use flashlab_block::Context;
use flashlab_lab::progress::Progress;
use flashlab_served::volume::OpenPool;
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::{Amount, Backlog, Reason, Reconciled, Usage, Volume, Work};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant as Wall};

/// Limit of the rate of long work.
#[derive(Args, Clone, Copy)]
pub(super) struct Rate {
    /// Limits the work to this many bytes per second, for example 20MiB.
    #[arg(long, value_name = "SIZE", value_parser = argument::size)]
    rate: Option<u64>,
}

impl Rate {
    /// Begins work with this limit.
    #[allow(clippy::disallowed_methods, reason = "the limit is one in wall-clock time")]
    pub(super) fn begin(self) -> Limiter {
        Limiter { rate: self.rate.unwrap_or(0), began: Wall::now() }
    }
}

/// Longest sleep between two looks at a request to stop.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Work whose rate is limited.
pub(super) struct Limiter {
    /// Bytes per second; zero means no limit.
    rate: u64,
    began: Wall,
}

impl Limiter {
    /// Waits until the rate permits the bytes since the beginning of the work, or until the work is stopped.
    pub(super) fn wait(&self, bytes: u64, progress: &Progress) {
        let until = time_of(bytes, self.rate);
        while !progress.is_stopped() {
            match until.saturating_sub(self.began.elapsed()) {
                Duration::ZERO => break,
                left => thread::sleep(left.min(SLEEP_MAX)),
            }
        }
    }
}

/// Returns the time that `bytes` take at `rate` bytes per second; a rate of zero means no limit.
fn time_of(bytes: u64, rate: u64) -> Duration {
    match rate {
        0 => Duration::ZERO,
        rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
    }
}

/// Does the background work of a volume that can be done now, and shows its progress. A signal stops the work, which is
/// a failure.
pub(super) fn reconcile(volume: &Volume, rate: Rate, interrupts: &Interrupts) -> Result<Reconciled, Failure> {
    let total = volume.backlog().current_bytes();
    let display = ProgressDisplay::new("reconcile");
    display.plan(total);
    interrupts.stop(&display);
    let (cx, limiter) = (Context::new(Instant::ZERO), rate.begin());
    let report = |done: &Reconciled| {
        let bytes: u64 = done.done.values().map(|amount| amount.bytes).sum();
        display.reach(bytes);
        limiter.wait(done.moved_bytes, &display);
        !display.is_stopped()
    };
    let done = wait_on(volume.reconcile(&cx, 0, report), volume).map_err(|error| failed(&error))?;
    match volume.backlog().current_bytes() {
        left if left > 0 && display.is_stopped() => Err(Failure::interrupted(format!(
            "stopped: {} were written, and {} of background work are left; repeat the command to continue",
            size(done.moved_bytes),
            size(left)
        ))),
        _ => Ok(done),
    }
}

/// Closes a volume after work on it, even if the work failed. Returns the first error.
pub(super) fn close_after<T>(pool: &OpenPool, done: Result<T, Failure>) -> Result<T, Failure> {
    use flashlab_served::Closing;
    let closed = show_elapsed("closing the volume", || pool.close());
    and_then_end(done, closed.map_err(Failure::failed))
}

pub(super) fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("the volume: {error}"))
}

/// Prints the result of background work.
pub(super) fn print(done: &Reconciled) -> Result<(), Failure> {
    let mut text = String::new();
    for (work, amount) in &done.done {
        let _ = writeln!(text, "{:<10} {} in {} extents", work.name(), size(amount.bytes), amount.extents);
    }
    let _ = writeln!(text, "written    {}", size(done.moved_bytes));
    file::print(&(text + &pending(&done.pending)))
}

/// Describes all pending work of a volume, one line each.
pub(super) fn all_pending(usage: &Usage, backlog: &Backlog) -> String {
    let mut text = pending(&backlog.pending);
    if usage.metadata_copies < u32::from(usage.replicas) {
        let members = if usage.metadata_copies == 1 { "member" } else { "members" };
        let _ = writeln!(
            text,
            "pending    journal and map: on {} {members}, and {} copies are wanted",
            usage.metadata_copies, usage.replicas
        );
    }
    text
}

/// Describes pending work with its reasons, one line each.
pub(super) fn pending(pending: &BTreeMap<(Work, Reason), Amount>) -> String {
    let mut text = String::new();
    for ((work, reason), amount) in pending {
        let _ = writeln!(text, "pending    {} {}: {}", work.name(), size(amount.bytes), reason.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time_at_a_rate_and_none_without_a_limit() {
        assert_eq!(time_of(30 << 20, 20 << 20), Duration::from_millis(1500));
        assert_eq!(time_of(30 << 20, 0), Duration::ZERO);
    }
}
