//! Progress and time left of the long work on a served volume, in wall-clock time.

use crate::time_left::percent_and_time_left;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Beginning of a piece of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace(Instant);

impl Pace {
    /// Begins a piece of work.
    #[allow(clippy::disallowed_methods, reason = "a served volume works in wall-clock time")]
    pub(super) fn begin() -> Pace {
        Pace(Instant::now())
    }

    /// Describes the progress: `40 %, 3 min 20 s left`.
    pub(super) fn describe(self, done: u64, total: u64) -> String {
        describe(done, total, self.0.elapsed())
    }
}

fn describe(done: u64, total: u64, elapsed: Duration) -> String {
    percent_and_time_left(done.min(total) as f64 / total.max(1) as f64, elapsed)
}

/// The reconciliation that runs, if any: its beginning, and the logical bytes that it has finished.
#[derive(Debug, Default)]
pub(super) struct Reconciling(Mutex<Option<(Pace, u64)>>);

impl Reconciling {
    fn lock(&self) -> MutexGuard<'_, Option<(Pace, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a reconciliation begins.
    pub(super) fn begin(&self) {
        *self.lock() = Some((Pace::begin(), 0));
    }

    /// Notes the bytes that the reconciliation has finished since its beginning.
    pub(super) fn reach(&self, bytes: u64) {
        if let Some((_, done)) = &mut *self.lock() {
            *done = bytes;
        }
    }

    /// Notes that the reconciliation has ended.
    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    /// Describes the progress: `40 %, 3 min 20 s left (1024 bytes remain)`. `left` returns the bytes of the work that
    /// remains. Returns `None` if nothing remains, or if no reconciliation runs.
    pub(super) fn describe(&self, left: impl FnOnce() -> u64) -> Option<String> {
        let (pace, done) = (*self.lock())?;
        let left = left();
        (left > 0)
            .then(|| format!("{} ({left} bytes remain)", pace.describe(done, done.saturating_add(left))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_the_share_of_the_bytes_and_the_time_at_the_rate_so_far() {
        let text = |done, total| describe(done, total, Duration::from_secs(60));
        assert_eq!(text(0, 1000), "0 %");
        assert_eq!(text(400, 1000), "40 %, 1 min 30 s left");
        // Data that clients write during the work can make it longer than it was at its beginning.
        assert_eq!(text(1100, 1000), "100 %, 0 s left");
        assert_eq!(text(0, 0), "0 %");
    }

    #[test]
    fn a_reconciliation_has_progress_while_it_runs_and_work_remains() {
        let work = Reconciling::default();
        assert_eq!(work.describe(|| 1000), None);
        work.begin();
        assert_eq!(work.describe(|| 1000), Some("0 % (1000 bytes remain)".to_owned()));
        work.reach(3000);
        let text = work.describe(|| 1000).expect("work that runs");
        assert!(text.starts_with("75 %, ") && text.ends_with(" left (1000 bytes remain)"), "{text}");
        assert_eq!(work.describe(|| 0), None);
        work.end();
        assert_eq!(work.describe(|| 1000), None);
    }
}
