//! The limit of the bytes per second of background work: of the bytes that a reconciliation writes, and of those that a
//! scrub reads.

use flashlab_block::Context;
use flashlab_sim::{Duration, Instant};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time of work that may follow without a wait after the work was late, because of clients or of a late timer.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);

/// Longest wait between two questions whether the work goes on.
const ASK_EVERY: Duration = Duration::from_ms(250);

/// A limit of the bytes per second. Only a context with an executor can wait.
pub(super) struct Limiter {
    /// Bytes per second; zero means no limit.
    rate: u64,
    /// Instant, in nanoseconds, at which the bytes so far have taken their time at the rate.
    due_ns: AtomicU64,
}

impl Limiter {
    /// Begins work at `rate` bytes per second; zero means no limit.
    pub(super) fn new(cx: &Context, rate: u64) -> Limiter {
        Limiter { rate, due_ns: AtomicU64::new(cx.now().as_ns()) }
    }

    /// Waits until the work so far, and `bytes` more, have taken their time at the rate. Calls `goes_on` every
    /// [`ASK_EVERY`] meanwhile, and ends the wait if the function returns false.
    pub(super) async fn wait(&self, cx: &Context, bytes: u64, goes_on: &mut (dyn FnMut() -> bool + Send)) {
        if self.rate == 0 || bytes == 0 || !cx.has_executor() {
            return;
        }
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        let earliest = cx.now().as_ns().saturating_sub(CATCH_UP_MAX.as_ns());
        let due = self
            .due_ns
            .load(Ordering::Relaxed)
            .max(earliest)
            .saturating_add(u64::try_from(ns).unwrap_or(u64::MAX));
        self.due_ns.store(due, Ordering::Relaxed);
        let due = Instant::from_ns(due);
        while cx.now() < due && goes_on() {
            cx.sleep_until(due.min(cx.now() + ASK_EVERY)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::Executor;

    /// Works at 1000 bytes per second in steps of 100 bytes, of which the last comes after a delay. Returns the time in
    /// milliseconds after the last step.
    fn time_ms(steps: u32, delay: Duration) -> u64 {
        let mut executor = Executor::new(1);
        let cx = executor.context();
        executor.block_on(async move {
            let limiter = Limiter::new(&cx, 1000);
            for step in 0..steps {
                if step == steps - 1 {
                    cx.sleep_until(cx.now() + delay).await;
                }
                limiter.wait(&cx, 100, &mut || true).await;
            }
            cx.now().as_ns() / 1_000_000
        })
    }

    #[test]
    fn late_work_catches_up_for_a_second_at_most() {
        assert_eq!(time_ms(10, Duration::ZERO), 1000);
        // Work that is late by less than the time of its bytes ends at the same time.
        assert_eq!(time_ms(10, Duration::from_ms(60)), 1000);
        assert_eq!(time_ms(10, Duration::from_secs(5)), 900 + 5000);
        assert_eq!(time_ms(0, Duration::ZERO), 0);
    }
}
