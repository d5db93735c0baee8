//! Completions and the end of a job: how it handles flushes and requests that complete or fail, when it reaps requests,
//! and how it ends.

use super::{Goal, Next, Source, Submitter};
use crate::job::Direction;
use crate::workload::{Cause, Io, Record};
use flashlab_sim::{Instant, Mechanism, Spent, Status};

/// A completed request that the job has not reaped.
#[derive(Clone, Debug)]
pub(super) struct CompletedIo {
    io: Io,
    at: Instant,
    spent: Spent,
}

impl Submitter {
    /// Returns true if as many requests have completed as the job waits for, or if the job has failed.
    #[inline]
    pub(super) fn may_reap(&self) -> bool {
        self.completed_ios.len() >= self.batching.reap_min.min(self.unreaped) || self.failed
    }

    #[inline(never)]
    pub(super) fn reap(&mut self, now: Instant, record: &mut impl Record) {
        loop {
            for _ in 0..self.completed_ios.len().min(self.batching.reap_max) {
                self.reap_oldest(now, record);
            }
            if self.failed || self.unreaped <= self.batching.refill_at {
                return self.after_reaping(now, record);
            }
            if !self.may_reap() {
                return;
            }
        }
    }

    /// Reaps up to `count` requests that are already recorded.
    #[inline]
    pub(super) fn reap_recorded(&mut self, count: usize) {
        let count = self.recorded_count.min(count);
        self.recorded_count -= count;
        self.unreaped -= count;
    }

    /// Reaps all completed requests. Returns true if no request is in flight.
    pub(super) fn reap_all(&mut self, now: Instant, record: &mut impl Record) -> bool {
        self.reap_recorded(self.recorded_count);
        while !self.completed_ios.is_empty() {
            self.reap_oldest(now, record);
        }
        self.unreaped == 0
    }

    #[inline]
    fn after_reaping(&mut self, now: Instant, record: &mut impl Record) {
        if self.is_think_time_due() {
            self.begin_think_time(now, record)
        } else {
            self.start_iteration(now, record)
        }
    }

    /// Reaps the oldest completed request and records it.
    fn reap_oldest(&mut self, now: Instant, record: &mut impl Record) {
        if let Some(CompletedIo { io, at, spent }) = self.completed_ios.front_mut() {
            // The request waited until the job reaped it.
            spent[Mechanism::Queue] += now.since(*at);
            record.completed(self.index, io, now, spent);
            // fio measures nothing in a ramp, so no latency exceeds the limit there.
            let limit = self.max_latency[io.direction as usize].filter(|_| !self.lifetime.is_in_ramp());
            let took = now.saturating_since(io.ready);
            if let Some(limit) = limit.filter(|limit| took > *limit && !self.failed) {
                self.failed = true;
                record.failed(self.index, io, now, Cause::MaxLatency { took, limit });
            }
        }
        self.completed_ios.pop_front();
        self.count_reaped(now, record);
    }

    #[inline]
    fn count_reaped(&mut self, now: Instant, record: &mut impl Record) {
        self.unreaped -= 1;
        self.reaped_count += 1;
        if self.lifetime.ends_ramp(now) {
            self.ramp_over(now, record);
        }
    }

    /// Ends the ramp at the first completion after `ramp_time`. As in fio, that completion is not counted.
    #[cold]
    fn ramp_over(&mut self, now: Instant, record: &mut impl Record) {
        self.lifetime.ramp_over(now);
        if let Some(pace) = &mut self.pace {
            pace.restart(now);
        }
        if let Source::Stream(stream) = &mut self.source {
            stream.ramp_over(self.unreaped as u64);
        }
        record.ramp_over(self.index, now);
    }

    /// Returns true if a flush follows the request because of `sync=`.
    pub(crate) fn flushes(&self, io: &Io) -> bool {
        self.sync_writes.is_some() && io.direction == Direction::Write
    }

    /// Returns true if the completion of the request needs more than recording.
    #[inline]
    pub(crate) fn is_special(&self, io: &Io) -> bool {
        self.is_special[io.direction as usize]
    }

    /// Handles the completion of a request of this job.
    #[inline]
    pub(crate) fn completed(&mut self, io: &Io, at: Instant, spent: &Spent, record: &mut impl Record) {
        if matches!(self.goal, Goal::Reap) && self.batching.reap_min == 1 {
            record.completed(self.index, io, at, spent);
            self.count_reaped(at, record);
            if self.unreaped <= self.batching.refill_at {
                self.after_reaping(at, record);
            }
        } else if self.reaps_immediately && self.next.is_some() {
            record.completed(self.index, io, at, spent);
            self.recorded_count += 1;
        } else {
            self.store_completed(io, at, spent, record);
        }
    }

    /// Stores a completed request. The job reaps it when its goal permits.
    #[inline(never)]
    pub(crate) fn store_completed(&mut self, io: &Io, at: Instant, spent: &Spent, record: &mut impl Record) {
        self.completed_ios.push_back(CompletedIo { io: *io, at, spent: *spent });
        self.after_completion(at, record);
    }

    #[inline]
    fn after_completion(&mut self, at: Instant, record: &mut impl Record) {
        match self.next {
            // A sleeping replay reaps the requests that complete.
            Some((next_at, _)) if next_at > at => {
                self.reap_all(at, record);
            }
            Some(_) => {}
            None => self.pursue_goal(at, record),
        }
    }

    /// Handles a request that the device rejected, or whose flush the device rejected. The job drains; a
    /// replay still submits the request before which it sleeps.
    pub(crate) fn rejected(&mut self, io: &Io, at: Instant, cause: Cause, record: &mut impl Record) {
        self.unreaped -= 1;
        self.failed = true;
        self.reaps_immediately = false;
        record.failed(self.index, io, at, cause);
        self.after_completion(at, record);
    }

    /// Handles the completion of a flush of this job.
    pub(crate) fn flushed(&mut self, issued: Instant, at: Instant, spent: &Spent, record: &mut impl Record) {
        record.synced(self.index, issued, at, spent, self.depth_now() + 1);
        match self.goal {
            Goal::EndFlush => self.next_end_flush(at, record),
            _ => {
                self.goal = Goal::MakeRequest;
                self.pursue_goal(at, record);
            }
        }
    }

    /// Continues after the cached pages of a file were dropped: with those of another file, or with the request that
    /// waited. fio ignores errors here.
    pub(crate) fn invalidated(&mut self, at: Instant, record: &mut impl Record) {
        let Goal::Invalidate(request) = self.goal else { return };
        if let Source::Stream(stream) = &mut self.source
            && let Some(file) = stream.next_to_invalidate()
            && !self.lifetime.is_over(at)
        {
            self.next = Some((at, Next::Invalidate(file)));
        } else if !self.lifetime.is_over(at) {
            self.make_request(request, at);
        } else {
            self.start_iteration(at, record);
        }
    }

    /// Handles a flush that the device rejected. The rejection ends the job, as an error of `fsync` does in fio.
    pub(crate) fn flush_rejected(
        &mut self,
        flush: &Io,
        at: Instant,
        status: Status,
        record: &mut impl Record,
    ) {
        self.failed = true;
        self.reaps_immediately = false;
        record.failed(self.index, flush, at, Cause::Flush(status));
        match self.goal {
            Goal::EndFlush => {
                self.terminated = true;
                self.end_flushes.clear();
                self.next_end_flush(at, record);
            }
            _ => {
                self.goal = Goal::MakeRequest;
                self.pursue_goal(at, record);
            }
        }
    }

    /// Ends the job at `now`, as a signal ends a job of fio. The job drops the requests that it has not
    /// submitted and waits for those in flight. If the job is in its ramp, the figures of the ramp are
    /// dropped, too.
    pub(crate) fn stop(&mut self, now: Instant, record: &mut impl Record) {
        if self.end.is_some() {
            return;
        }
        self.terminated = true;
        self.reaps_immediately = false;
        if self.lifetime.stop(now) {
            self.record_start(record);
            record.ramp_over(self.index, now);
        }
        let waits_for_flush = matches!(self.goal, Goal::AwaitFlush | Goal::Invalidate(_));
        if (waits_for_flush && self.next.is_none()) || matches!(self.goal, Goal::EndFlush) {
            return;
        }
        if let Some((_, Next::Io(_))) = self.next.take() {
            self.unreaped -= 1;
        }
        self.unreaped -= self.batch.len();
        self.batch.clear();
        self.drain(now, record);
    }

    /// Returns the fraction of the job that is done at `now`, by the limit that comes first.
    pub(crate) fn share_done(&self, now: Instant) -> f64 {
        if self.end.is_some() {
            return 1.0;
        }
        let requested = match &self.source {
            Source::Stream(stream) => stream.share_requested(),
            Source::Replay(replay) => replay.share_requested(),
        };
        let passed = self.lifetime.share_passed(now);
        requested.max(passed).min(1.0)
    }

    /// Makes no more requests, and waits for those in flight.
    pub(super) fn drain(&mut self, now: Instant, record: &mut impl Record) {
        self.submit_batch_then(Goal::Drain, now, record);
    }

    pub(super) fn end_of_loop(&mut self, now: Instant, record: &mut impl Record) {
        self.goal = Goal::EndFlush;
        if self.flush_at_end
            && !self.failed
            && let Source::Stream(stream) = &mut self.source
        {
            self.end_flushes = stream.flushes_at_end();
            self.end_flushes.reverse();
        }
        self.next_end_flush(now, record);
    }

    fn next_end_flush(&mut self, now: Instant, record: &mut impl Record) {
        if let Some(flush) = self.end_flushes.pop() {
            self.next = Some((now, Next::Flush(flush)));
            return;
        }
        let again = !self.terminated
            && match &mut self.source {
                Source::Stream(stream) => stream.begin_another_loop(),
                Source::Replay(_) => false,
            };
        if again {
            return self.start_iteration(now, record);
        }
        self.goal = Goal::Finished;
        self.end = Some(now);
        self.record_start(record);
        record.finished(self.index, now);
    }
}
