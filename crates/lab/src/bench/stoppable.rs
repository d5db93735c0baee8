//! The workload of a wave of jobs. It ends when the jobs end, when simulated time ends, or when the user stops the run.

use super::END;
use crate::progress::Progress;
use flashlab_fio::workload::{Jobs, Record};
use flashlab_recording::{ReadStep, ReplayJob};
use flashlab_sim::{Arrival, Completion, FileId, Instant, Request, Workload};

/// Number of events between two checks of the stop flag. Each check also reports the progress.
const EVENTS_PER_CHECK: u32 = 1_024;

/// A workload that can end early.
pub(super) trait Wave: Workload {
    /// Returns the part of the work that is done at `now`, between 0 and 1.
    fn share_done(&self, now: Instant) -> f64;
    /// Stops submitting requests. Requests in flight still complete.
    fn stop(&mut self, now: Instant);
}

impl<R: Record> Wave for Jobs<R> {
    fn share_done(&self, now: Instant) -> f64 {
        Jobs::share_done(self, now)
    }
    fn stop(&mut self, now: Instant) {
        Jobs::stop(self, now);
    }
}

impl<S: ReadStep, R: Record> Wave for ReplayJob<S, R> {
    fn share_done(&self, _: Instant) -> f64 {
        ReplayJob::share_done(self)
    }
    fn stop(&mut self, _: Instant) {
        ReplayJob::stop(self);
    }
}

/// A wave of jobs that submits no more requests after the end of simulated time or after a request to stop.
pub(super) struct StoppableWave<W> {
    jobs: W,
    ended: bool,
    stopped: bool,
    /// Events since the last check of the stop flag.
    events: u32,
    reported: WaveProgress,
}

impl<W: Wave> StoppableWave<W> {
    pub(super) fn new(jobs: W, reported: WaveProgress) -> Self {
        StoppableWave { jobs, ended: false, stopped: false, events: 0, reported }
    }

    /// Reports the end of the wave at `last`. Returns the jobs, or `None` if they reached the end of simulated time.
    pub(super) fn finish(mut self, last: Instant) -> Option<W> {
        self.reported.wave_is_at(1.0, last);
        (!self.ended).then_some(self.jobs)
    }

    #[cold]
    fn check_stop(&mut self, now: Instant) {
        self.events = 0;
        self.reported.wave_is_at(self.jobs.share_done(now), now);
        if !self.stopped && self.reported.progress.is_stopped() {
            self.stopped = true;
            self.jobs.stop(now);
        }
    }
}

/// The progress of a wave that has been reported so far.
pub(super) struct WaveProgress {
    progress: Progress,
    /// Units of work of the whole wave.
    work: u64,
    /// Units of work reported as done.
    done: u64,
    /// The simulated instant up to which simulated time has been reported.
    at: Instant,
}

impl WaveProgress {
    pub(super) fn new(progress: Progress, work: u64, begin: Instant) -> Self {
        WaveProgress { progress, work, done: 0, at: begin }
    }

    fn wave_is_at(&mut self, share: f64, now: Instant) {
        let done = ((self.work as f64 * share) as u64).clamp(self.done, self.work);
        self.progress.advance(done - self.done);
        self.done = done;
        self.progress.add_simulated(now.saturating_since(self.at));
        self.at = now.max(self.at);
    }
}

impl<W: Wave> Workload for StoppableWave<W> {
    #[inline(always)]
    fn next(&mut self, now: Instant) -> Arrival {
        if now > END {
            self.ended = true;
            return Arrival::Done;
        }
        self.events += 1;
        if self.events >= EVENTS_PER_CHECK {
            self.check_stop(now);
        }
        self.jobs.next(now)
    }
    #[inline(always)]
    fn submit(&mut self, at: Instant) -> Request {
        self.jobs.submit(at)
    }
    #[inline(always)]
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        self.jobs.upcoming()
    }
    #[inline(always)]
    fn completed(&mut self, completion: &Completion) {
        self.jobs.completed(completion);
    }
}
