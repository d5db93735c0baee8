//! The workload of a wave of jobs. It ends when the jobs end, when simulated time ends, or when the user stops the run.

use super::END;
use crate::progress::Progress;
use flashlab_fio::workload::{Jobs, Record};
use flashlab_sim::{Arrival, Completion, FileId, Instant, Request, Workload};

/// Number of events between two checks of the stop flag and reports of progress.
const EVENTS_BETWEEN_LOOKS: u32 = 1_024;

/// A wave of jobs that submits no more requests after the end of simulated time or after a request to stop.
pub(super) struct Ending<R> {
    jobs: Jobs<R>,
    ended: bool,
    stopped: bool,
    /// Events since the last check of the stop flag.
    events: u32,
    told: Told,
}

impl<R: Record> Ending<R> {
    pub(super) fn new(jobs: Jobs<R>, told: Told) -> Self {
        Ending { jobs, ended: false, stopped: false, events: 0, told }
    }

    /// Reports the end of the wave at `last`. Returns the jobs, or `None` if they reached the end of simulated time.
    pub(super) fn finish(mut self, last: Instant) -> Option<Jobs<R>> {
        self.told.wave_is_at(1.0, last);
        (!self.ended).then_some(self.jobs)
    }

    #[cold]
    fn look_up(&mut self, now: Instant) {
        self.events = 0;
        self.told.wave_is_at(self.jobs.share_done(now), now);
        if !self.stopped && self.told.progress.is_stopped() {
            self.stopped = true;
            self.jobs.stop(now);
        }
    }
}

/// The progress of a wave that has been reported so far.
pub(super) struct Told {
    progress: Progress,
    /// Units of work of the whole wave.
    work: u64,
    /// Units of work reported as done.
    done: u64,
    /// The simulated instant up to which simulated time has been reported.
    at: Instant,
}

impl Told {
    pub(super) fn new(progress: Progress, work: u64, begin: Instant) -> Self {
        Told { progress, work, done: 0, at: begin }
    }

    fn wave_is_at(&mut self, share: f64, now: Instant) {
        let done = ((self.work as f64 * share) as u64).clamp(self.done, self.work);
        self.progress.advance(done - self.done);
        self.done = done;
        self.progress.add_simulated(now.saturating_since(self.at));
        self.at = now.max(self.at);
    }
}

impl<R: Record> Workload for Ending<R> {
    #[inline]
    fn next(&mut self, now: Instant) -> Arrival {
        if now > END {
            self.ended = true;
            return Arrival::Done;
        }
        self.events += 1;
        if self.events >= EVENTS_BETWEEN_LOOKS {
            self.look_up(now);
        }
        self.jobs.next(now)
    }
    #[inline]
    fn submit(&mut self, at: Instant) -> Request {
        self.jobs.submit(at)
    }
    #[inline]
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        self.jobs.upcoming()
    }
    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.jobs.completed(completion);
    }
}
