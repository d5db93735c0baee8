//! A load generator for NBD servers. It keeps many requests in flight on many connections and batches them in
//! both directions, so that the server, not the client, limits the throughput.

mod error;
mod job;
mod pattern;
mod plan;
mod report;
mod worker;

pub use error::LoadError;
pub use job::{Job, JobError, Mix};
pub use report::LoadReport;

use crate::session::Session;
use crate::{Clock, Stop};
use flashlab_nbd::uri::Uri;
use rustix::time::{ClockId, clock_gettime};
use std::thread;

/// Runs a load until it ends or `stop` is thrown.
pub fn load(uri: &Uri, job: &Job, stop: &Stop) -> Result<LoadReport, LoadError> {
    load_with_progress(uri, job, stop, &|_| {})
}

/// Like [`load`]. Calls `progress` frequently with the fraction that the first connection has completed.
pub fn load_with_progress(
    uri: &Uri,
    job: &Job,
    stop: &Stop,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<LoadReport, LoadError> {
    let mut sessions = vec![Session::open(uri, job.simple_replies)?];
    let export = sessions[0].export().clone();
    let size = job.area(&export)?;
    for _ in 1..job.connections {
        sessions.push(Session::open(uri, job.simple_replies)?);
    }
    let (clock, cpu) = (Clock::start(), cpu_ns());
    let start = clock.now();
    let done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(&mut sessions)
            .map(|(number, session)| {
                scope.spawn(move || {
                    let done = worker::run(session, job, number, size, (clock, start), (stop, progress));
                    if done.is_err() {
                        // A failed connection ends all connections.
                        stop.throw();
                    }
                    done
                })
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect()
    });
    let cpu_ns = cpu_ns() - cpu;
    sessions.into_iter().for_each(Session::close);
    let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(LoadReport::new(job.clone(), export.size, start, &done, cpu_ns))
}

/// Returns the processor time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
