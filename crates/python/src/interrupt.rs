//! Long calls without the GIL, which end at Ctrl-C.
//!
//! While a call runs without the GIL, Python's signal handlers wait. The call therefore attaches to the interpreter
//! from time to time and lets them run; their exception, usually `KeyboardInterrupt`, ends the call.

use flashlab_lab::progress::Progress;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two checks for signals.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on this thread without the GIL. If a signal handler raises an exception, the progress stops, and `work`
/// ends soon after.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&Progress) -> T + Send) -> PyResult<T> {
    let exception = Arc::new(Mutex::new(None));
    let (raised, last_check) = (exception.clone(), Mutex::new(now()));
    let progress = Progress::with_stop_check(move || {
        let mut last = lock(&last_check);
        if last.elapsed() < INTERVAL {
            return false;
        }
        *last = now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                *lock(&raised) = Some(error);
                true
            }
        }
    });
    let value = py.detach(|| work(&progress));
    let exception = lock(&exception).take();
    exception.map_or(Ok(value), Err)
}

/// Runs `work` on a separate thread, for work that itself uses several threads. Only the caller's thread can
/// run signal handlers, so the caller's thread waits and runs them.
pub(crate) fn run_on_thread<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Progress) -> T + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (finished, wait) = channel();
            let shared = &progress;
            let worker = scope.spawn(move || {
                let value = work(shared);
                // The receiver lives as long as the scope.
                let _ = finished.send(());
                value
            });
            let mut outcome = Ok(());
            while wait.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                outcome = Python::attach(|py| py.check_signals());
                if outcome.is_err() {
                    progress.stop();
                    break;
                }
            }
            let value = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome.map(|()| value)
        })
    })
}

#[allow(clippy::disallowed_methods, reason = "the interval between two checks is in wall-clock time")]
fn now() -> Instant {
    Instant::now()
}

/// Locks a mutex whose data stays valid if a thread panics.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
