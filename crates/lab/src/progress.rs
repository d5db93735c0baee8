//! Progress of a run. The simulating threads update the progress, and a display reads it. [`Progress`] also
//! carries the request to stop a run early.
//!
//! A unit of work is about one small request. This module reads no clock, and no result depends on it.

use flashlab_sim::Duration;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The progress of a run. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Shared>);

/// Function that returns true if the caller of a run wants the run to stop.
type StopCheck = Box<dyn Fn() -> bool + Send + Sync>;

#[derive(Default)]
struct Shared {
    stop_check: Option<StopCheck>,
    planned: AtomicU64,
    done: AtomicU64,
    simulated_ns: AtomicU64,
    stopped: AtomicBool,
    phase: Mutex<String>,
    news: Mutex<Vec<String>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("planned", &self.planned)
            .field("done", &self.done)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// Returns the progress of a run that also stops once `stop_check` returns true. The simulating threads
    /// call `stop_check` at least once in about a thousand events, so it must be quick.
    pub fn with_stop_check(stop_check: impl Fn() -> bool + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(Shared { stop_check: Some(Box::new(stop_check)), ..Shared::default() }))
    }

    /// Returns the progress of runs whose work does not count towards the planned work. These runs stop when
    /// this run stops.
    pub fn unplanned(&self) -> Progress {
        let run = self.clone();
        Progress::with_stop_check(move || run.is_stopped())
    }

    /// Adds `work` units to the planned work of the run.
    pub fn plan(&self, work: u64) {
        self.0.planned.fetch_add(work, Ordering::Relaxed);
    }

    /// Counts `work` units as done.
    pub fn advance(&self, work: u64) {
        self.0.done.fetch_add(work, Ordering::Relaxed);
    }

    /// Raises the total number of units done to `work`; does nothing if it is already greater.
    pub fn reach(&self, work: u64) {
        self.0.done.fetch_max(work, Ordering::Relaxed);
    }

    /// Adds to the simulated time, which is the sum over all devices.
    pub(crate) fn add_simulated(&self, time: Duration) {
        self.0.simulated_ns.fetch_add(time.as_ns(), Ordering::Relaxed);
    }

    /// Sets the name of the part of the run that begins: `preparation`, or a cell.
    pub fn enter(&self, phase: impl Into<String>) {
        *lock(&self.0.phase) = phase.into();
    }

    /// Queues a line for display during the run.
    pub fn report(&self, line: impl Into<String>) {
        lock(&self.0.news).push(line.into());
    }

    /// Asks the run to stop: no further request is submitted, and requests in flight complete.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true if the run has been asked to stop.
    pub fn is_stopped(&self) -> bool {
        if self.0.stop_check.as_ref().is_some_and(|check| check()) {
            self.stop();
        }
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Returns the share of the planned work that is done, between 0 and 1, or `None` if no work is planned.
    pub fn share(&self) -> Option<f64> {
        let planned = self.0.planned.load(Ordering::Relaxed);
        let done = self.0.done.load(Ordering::Relaxed);
        (planned > 0).then(|| (done as f64 / planned as f64).min(1.0))
    }

    /// Returns the simulated time, summed over all devices.
    pub fn simulated(&self) -> Duration {
        Duration::from_ns(self.0.simulated_ns.load(Ordering::Relaxed))
    }

    /// Returns the name of the part that began last; empty before the first one.
    pub fn phase(&self) -> String {
        lock(&self.0.phase).clone()
    }

    /// Removes and returns the lines queued for display.
    pub fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0.news))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
