//! Progress of a run: written by the threads that simulate, read by whoever shows it, and the way to stop a run early.
//!
//! Work is counted in units of about one small request. Nothing here reads a clock, and no result depends on it.

use flashlab_sim::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a run is. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    planned: AtomicU64,
    done: AtomicU64,
    simulated_ns: AtomicU64,
    stopped: AtomicBool,
    phase: Mutex<String>,
    news: Mutex<Vec<String>>,
}

impl Progress {
    /// Adds `work` units to those that the run consists of.
    pub fn plan(&self, work: u64) {
        self.0.planned.fetch_add(work, Ordering::Relaxed);
    }

    /// Counts `work` units as done.
    pub fn advance(&self, work: u64) {
        self.0.done.fetch_add(work, Ordering::Relaxed);
    }

    /// Counts `work` units as done in all, unless more are.
    pub fn reach(&self, work: u64) {
        self.0.done.fetch_max(work, Ordering::Relaxed);
    }

    /// Adds to the simulated time, which is summed over all devices.
    pub fn add_simulated(&self, time: Duration) {
        self.0.simulated_ns.fetch_add(time.as_ns(), Ordering::Relaxed);
    }

    /// Names the part of the run that begins: `preparation`, or a cell.
    pub fn enter(&self, phase: impl Into<String>) {
        *lock(&self.0.phase) = phase.into();
    }

    /// Queues a line to be shown while the run goes on.
    pub fn report(&self, line: impl Into<String>) {
        lock(&self.0.news).push(line.into());
    }

    /// Asks the run to stop: no further request is made, and those that are outstanding complete.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true once the run was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Returns the share of the work that is done, between 0 and 1; `None` while nothing is planned.
    pub fn share(&self) -> Option<f64> {
        let planned = self.0.planned.load(Ordering::Relaxed);
        let done = self.0.done.load(Ordering::Relaxed);
        (planned > 0).then(|| (done as f64 / planned as f64).min(1.0))
    }

    /// Returns the time that was simulated, summed over all devices.
    pub fn simulated(&self) -> Duration {
        Duration::from_ns(self.0.simulated_ns.load(Ordering::Relaxed))
    }

    /// Returns the name of the part that began last; empty before the first one.
    pub fn phase(&self) -> String {
        lock(&self.0.phase).clone()
    }

    /// Takes the lines that wait to be shown.
    pub fn take_news(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0.news))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
