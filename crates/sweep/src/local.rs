//! Sweeps on the threads of one machine.

use crate::error::SweepError;
use crate::row::Row;
use crate::store::Store;
use crate::sweep::Sweep;
use flashlab_catalogue::library::Library;
use flashlab_lab::progress::Progress;
use std::borrow::Borrow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval between the writes of finished rows to disk.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the points with the indices `missing` on `threads` threads and adds their rows to `store`. Stops
/// early, with all finished rows on disk, if `progress` is stopped. Returns the number of added rows. The
/// number of threads affects the duration, but no row.
///
/// # Errors
/// Returns an error if rows cannot be written.
pub fn run_locally<L: Borrow<Library> + Sync>(
    sweep: &Sweep<L>,
    store: &mut Store,
    missing: &[usize],
    threads: usize,
    progress: &Progress,
) -> Result<usize, SweepError> {
    progress.plan(missing.len() as u64);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel::<Row>();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, missing.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                // A point reports its progress in requests; the progress of the sweep counts points.
                let of_point = progress.unplanned();
                while let Some(at) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(row) = sweep.run(*at, &of_point) else { break };
                    progress.advance(1);
                    // The receiver is gone only after an error, which ends the sweep.
                    if sender.send(row).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut rows, mut ran) = (Vec::new(), 0);
        let mut written_at = now();
        loop {
            let received = receiver.recv_timeout(WRITE_INTERVAL);
            let is_over = received == Err(RecvTimeoutError::Disconnected);
            rows.extend(received);
            if is_over || written_at.elapsed() >= WRITE_INTERVAL {
                ran += rows.len();
                if let Err(error) = store.add(std::mem::take(&mut rows)) {
                    progress.stop();
                    return Err(error);
                }
                written_at = now();
            }
            if is_over {
                return Ok(ran);
            }
        }
    })
}

#[allow(clippy::disallowed_methods, reason = "the interval of writes is in wall-clock time")]
fn now() -> Instant {
    Instant::now()
}
