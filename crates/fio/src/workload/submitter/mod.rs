//! The loop of one job in time: its submissions, its waits and its end.
//!
//! The order of the steps is fio's: check the limits, flush if a flush is due, wait for the rate, make a request,
//! submit it (or the batch, once it is complete), and reap when `iodepth` requests are in flight. A synchronous engine
//! has a depth of one. The host takes no time here; a model may add it.
//!
//! As in fio, a job that is about to sleep (`rate`, `thinktime`) first waits for all its requests in flight. Only a
//! replay sleeps with requests in flight. For any other job nothing happens during the sleep, so the step after the
//! sleep is computed in advance.

mod lifetime;
mod reap;

use crate::iolog::Iolog;
use crate::job::{Direction, Job, SyncWrites};
use crate::workload::flushes::Flush;
use crate::workload::pace::Pace;
use crate::workload::region::File;
use crate::workload::replay::{Replay, Replayed};
use crate::workload::stream::{Stream, UntimedRequest};
use crate::workload::{Io, Record, WorkloadError};
use flashlab_sim::{Duration, FileId, Instant};
use lifetime::{Lifetime, ThinkTime};
use reap::CompletedIo;
use std::collections::VecDeque;

/// A request or flush that is to be submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Io(Io),
    Flush(Flush),
    /// The cached pages of a file are to be dropped.
    Invalidate(FileId),
}

/// The next step of a job once it has submitted everything that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// Make the next request, if the depth permits.
    MakeRequest,
    /// Reap some requests, since the depth is used up.
    Reap,
    /// Reap all requests, then sleep until an instant.
    SleepUntil(Instant),
    /// Reap all requests, then sleep for the think time.
    Think,
    /// Submit the flush that is due.
    Flush(Flush),
    /// Wait for the flush in flight.
    AwaitFlush,
    /// Drop cached pages, then submit a request.
    Invalidate(UntimedRequest),
    /// Reap all requests, since the loop is over.
    Drain,
    /// Submit the flushes at the end of the loop, and wait for them.
    EndFlush,
    /// Do nothing more.
    Finished,
}

#[derive(Clone, Debug)]
enum Source {
    Stream(Box<Stream>),
    Replay(Box<Replay>),
}

/// A running job.
#[derive(Clone, Debug)]
pub(crate) struct Submitter {
    index: usize,
    source: Source,
    pace: Option<Pace>,
    batching: Batching,
    /// True if the job reaps every completion before time advances, so that a request is recorded when it completes.
    /// Such a job waits for one request at a time, and nothing happens between two requests (no think time, flush or
    /// end of a ramp).
    reaps_immediately: bool,
    pub(crate) sync_writes: Option<SyncWrites>,
    /// `max_latency=` per direction.
    max_latency: [Option<Duration>; 3],
    /// Directions whose completions need more than recording: a flush follows, or a limit is checked.
    is_special: [bool; 3],
    flush_at_end: bool,
    think_time: ThinkTime,
    lifetime: Lifetime,

    last_submitted: Instant,
    started: bool,
    goal: Goal,
    /// Next request or flush, and the time of its submission.
    pub(crate) next: Option<(Instant, Next)>,
    /// True if the device may not know all offsets that have been drawn.
    has_upcoming: bool,
    /// A direction that was drawn, but had to wait for the rate.
    delayed_direction: Option<Direction>,
    /// Requests that were made but not yet submitted.
    batch: VecDeque<Io>,
    /// Number of requests that were made but not yet reaped. They count against the depth.
    unreaped: usize,
    completed_ios: VecDeque<CompletedIo>,
    /// Number of requests that have completed and were recorded, but not yet reaped.
    recorded_count: usize,
    end_flushes: Vec<Flush>,
    reaped_count: u64,
    /// True if the job was ended by time, by a failure or by [`Submitter::stop`].
    terminated: bool,
    failed: bool,
    pub(crate) end: Option<Instant>,
}

/// Numbers of requests that a job makes, submits and reaps together.
#[derive(Clone, Debug)]
struct Batching {
    depth: usize,
    /// Number of unreaped requests at which the job makes requests again after the depth was used up.
    refill_at: usize,
    batch_submit: usize,
    reap_min: usize,
    reap_max: usize,
}

impl Batching {
    /// Resolves `iodepth=` and the `iodepth_batch*=` options of a job. A job with one request at a time ignores them.
    fn of(job: &Job) -> Batching {
        if job.has_one_request_at_a_time() {
            return Batching { depth: 1, refill_at: 0, batch_submit: 1, reap_min: 1, reap_max: 1 };
        }
        let depth = (job.depth as usize).max(1);
        let reap_min = (job.batch_complete_min as usize).clamp(1, depth);
        Batching {
            depth,
            refill_at: match job.depth_low {
                0 => depth - 1,
                low => (low as usize).min(depth - 1),
            },
            batch_submit: (job.batch_submit as usize).clamp(1, depth),
            reap_min,
            reap_max: match job.batch_complete_min {
                // Polling: the job reaps everything that has completed.
                0 => usize::MAX,
                _ => (job.batch_complete_max as usize).max(reap_min),
            },
        }
    }
}

impl Submitter {
    pub(crate) fn new(
        index: usize,
        job: &Job,
        files: &[File],
        seed: (u32, u64),
        iolog: Option<Iolog>,
        start: Instant,
    ) -> Result<Submitter, WorkloadError> {
        let start = start.saturating_add(job.start_delay);
        let batching = Batching::of(job);
        let pace = Pace::new(job, start);
        let has_no_checks = pace.is_none() && batching.batch_submit == 1;
        let source = match (&job.read_iolog, iolog) {
            (_, Some(iolog)) => Source::Replay(Box::new(Replay::new(job, iolog, files)?)),
            (Some(_), None) => return Err(WorkloadError::NoIolog { job: job.name.clone() }),
            (None, None) => Source::Stream(Box::new(Stream::new(job, files, seed, has_no_checks)?)),
        };
        let in_series = matches!(&source, Source::Stream(stream) if stream.has_series());
        let reaps_immediately = in_series
            && batching.reap_min == 1
            && job.sync.is_none()
            && job.max_latency == [None; 3]
            && job.think_time == Duration::ZERO
            && job.ramp_time == Duration::ZERO;
        Ok(Submitter {
            index,
            source,
            pace,
            batching,
            reaps_immediately,
            sync_writes: job.sync,
            max_latency: job.max_latency,
            is_special: Direction::ALL.map(|direction| {
                job.max_latency[direction as usize].is_some()
                    || (job.sync.is_some() && direction == Direction::Write)
            }),
            flush_at_end: job.fsync_on_close || job.end_fsync,
            think_time: ThinkTime::new(job),
            lifetime: Lifetime::new(job, start),
            last_submitted: start,
            started: false,
            goal: Goal::MakeRequest,
            next: None,
            has_upcoming: false,
            delayed_direction: None,
            batch: VecDeque::new(),
            unreaped: 0,
            completed_ios: VecDeque::new(),
            recorded_count: 0,
            end_flushes: Vec::new(),
            reaped_count: 0,
            terminated: false,
            failed: false,
            end: None,
        })
    }

    /// Makes the first request.
    pub(crate) fn begin(&mut self, record: &mut impl Record) {
        self.start_iteration(self.lifetime.start(), record);
    }

    /// Starts an iteration of the loop at `now`: determines the next step.
    #[inline]
    fn start_iteration(&mut self, now: Instant, record: &mut impl Record) {
        if !self.failed
            && !self.lifetime.is_over(now)
            && let Source::Stream(stream) = &mut self.source
            && let Some(request) = stream.next_in_series()
        {
            return self.make_request(request, now);
        }
        self.start_general_iteration(now, record);
    }

    /// Continues [`Submitter::start_iteration`] if the next step may be something other than the next request
    /// of a series.
    #[inline(never)]
    fn start_general_iteration(&mut self, mut now: Instant, record: &mut impl Record) {
        self.has_upcoming = true;
        loop {
            if self.failed || self.lifetime.is_over(now) {
                self.terminated = true;
                return self.drain(now, record);
            }
            let Source::Stream(stream) = &mut self.source else {
                return self.replay(now, record);
            };
            if stream.has_reached_limits() {
                return self.drain(now, record);
            }
            if let Some(flush) = stream.flush_due() {
                return self.submit_batch_then(Goal::Flush(flush), now, record);
            }
            let direction = match &self.pace {
                None => stream.direction(),
                Some(pace) => {
                    let drawn = self.delayed_direction.take().unwrap_or_else(|| stream.direction());
                    let (direction, at) = pace.choose(drawn, now);
                    if at > now {
                        if self.unreaped > 0 {
                            self.delayed_direction = Some(direction);
                            return self.submit_batch_then(Goal::SleepUntil(at), now, record);
                        }
                        now = at.min(self.lifetime.deadline());
                        if self.lifetime.is_over(now) {
                            continue;
                        }
                    }
                    direction
                }
            };
            let Some(request) = stream.next_request(direction) else {
                return self.drain(now, record);
            };
            if let Some(pace) = &mut self.pace {
                pace.count(direction, request.length);
            }
            if let Some(file) = stream.next_to_invalidate() {
                self.goal = Goal::Invalidate(request);
                self.next = Some((now, Next::Invalidate(file)));
                return;
            }
            if self.batching.batch_submit == 1 {
                return self.make_request(request, now);
            }
            self.unreaped += 1;
            self.batch.push_back(timed_io(request, now));
            if self.batch.len() >= self.batching.batch_submit || self.unreaped >= self.batching.depth {
                return self.submit_batch_then(Goal::MakeRequest, now, record);
            }
        }
    }

    /// Makes a request that is submitted alone.
    #[inline]
    fn make_request(&mut self, request: UntimedRequest, at: Instant) {
        self.unreaped += 1;
        self.goal = Goal::MakeRequest;
        self.next = Some((at, Next::Io(timed_io(request, at))));
    }

    #[cold]
    fn replay(&mut self, now: Instant, record: &mut impl Record) {
        let Source::Replay(replay) = &mut self.source else {
            return;
        };
        let Some((at, replayed)) = replay.next(self.lifetime.start(), self.last_submitted) else {
            return self.drain(now, record);
        };
        let at = at.max(now);
        if self.lifetime.is_over(at) {
            self.terminated = true;
            return self.submit_batch_then(Goal::SleepUntil(self.lifetime.deadline()), now, record);
        }
        match replayed {
            Replayed::Request(request) => self.make_request(request, at),
            Replayed::Flush(flush) => {
                self.goal = Goal::AwaitFlush;
                self.next = Some((at, Next::Flush(flush)));
            }
        }
    }

    /// Submits the batch, then pursues `goal`.
    fn submit_batch_then(&mut self, goal: Goal, now: Instant, record: &mut impl Record) {
        self.goal = goal;
        self.continue_by_goal(now, record);
    }

    /// Submits the next request or flush at `at` and returns it with that time. The caller then calls
    /// [`Submitter::continue_after_submission`].
    #[inline]
    pub(crate) fn submitted(&mut self, at: Instant, record: &mut impl Record) -> Next {
        let depth = self.depth_now();
        let (_, mut next) = self.next.take().expect("the submitted request is the next one");
        self.last_submitted = at;
        self.record_start(record);
        match &mut next {
            Next::Io(io) => {
                io.issued = at;
                record.submitted(self.index, io, depth);
            }
            Next::Flush(flush) => {
                record.flushing(self.index, flush.file, flush.offset, flush.data_only, at);
            }
            Next::Invalidate(_) => {}
        }
        next
    }

    /// Returns the number of requests that are submitted and not reaped.
    #[inline]
    fn depth_now(&self) -> u32 {
        (self.unreaped - self.batch.len()) as u32
    }

    #[inline]
    fn record_start(&mut self, record: &mut impl Record) {
        if !self.started {
            self.started = true;
            record.started(self.index, self.lifetime.start());
        }
    }

    /// Continues after a submission with the rest of the batch, or with the goal.
    #[inline]
    pub(crate) fn continue_after_submission(&mut self, now: Instant, record: &mut impl Record) {
        if self.reaps_immediately {
            self.continue_in_series(now, record);
        } else {
            self.continue_by_goal(now, record);
        }
    }

    /// Continues like [`Submitter::continue_after_submission`] where completed requests are already recorded. If the
    /// depth is used up, the job reaps them.
    #[inline]
    fn continue_in_series(&mut self, now: Instant, record: &mut impl Record) {
        if self.unreaped >= self.batching.depth {
            while self.unreaped > self.batching.refill_at {
                if self.recorded_count == 0 {
                    self.goal = Goal::Reap;
                    return;
                }
                self.reap_recorded(self.batching.reap_max);
            }
        }
        self.start_iteration(now, record);
    }

    #[inline(never)]
    fn continue_by_goal(&mut self, now: Instant, record: &mut impl Record) {
        match self.batch.pop_front() {
            Some(io) => self.next = Some((now, Next::Io(io))),
            None if self.may_make_request() && self.is_think_time_due() => self.begin_think_time(now, record),
            None => self.pursue_goal(now, record),
        }
    }

    /// Returns the offsets of upcoming requests, as far as they are known. Each offset is returned once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> (FileId, &[u64]) {
        match &mut self.source {
            Source::Stream(stream) if self.has_upcoming => {
                self.has_upcoming = false;
                stream.upcoming()
            }
            _ => (FileId::DEVICE, &[]),
        }
    }

    /// Pursues the goal after everything is submitted or a request has completed.
    #[inline]
    fn pursue_goal(&mut self, now: Instant, record: &mut impl Record) {
        if self.may_make_request() {
            self.start_iteration(now, record);
        } else if matches!(self.goal, Goal::MakeRequest | Goal::Reap) {
            self.goal = Goal::Reap;
            if self.may_reap() {
                self.reap(now, record);
            }
        } else {
            self.pursue_other_goal(now, record);
        }
    }

    /// Continues [`Submitter::pursue_goal`] for goals other than the next request.
    #[inline(never)]
    fn pursue_other_goal(&mut self, now: Instant, record: &mut impl Record) {
        match self.goal {
            Goal::SleepUntil(until) => {
                if self.reap_all(now, record) {
                    self.start_iteration(until.max(now), record);
                }
            }
            Goal::Think => {
                if self.reap_all(now, record) {
                    let until = self.think_time.end(now).min(self.lifetime.deadline().max(now));
                    self.start_iteration(until, record);
                }
            }
            Goal::Flush(flush) => {
                self.goal = Goal::AwaitFlush;
                self.next = Some((now, Next::Flush(flush)));
            }
            Goal::Drain => {
                if self.reap_all(now, record) {
                    self.end_of_loop(now, record);
                }
            }
            Goal::MakeRequest
            | Goal::Reap
            | Goal::AwaitFlush
            | Goal::Invalidate(_)
            | Goal::EndFlush
            | Goal::Finished => {}
        }
    }

    /// Returns true if the job makes another request before it reaps.
    #[inline]
    fn may_make_request(&self) -> bool {
        matches!(self.goal, Goal::MakeRequest) && self.unreaped < self.batching.depth
    }

    /// Returns true if enough requests were reaped since the last think time. fio checks this after each submission,
    /// and after it has reaped if the depth was used up.
    #[inline]
    fn is_think_time_due(&self) -> bool {
        self.think_time.is_due(self.reaped_count)
    }

    /// Begins a think time.
    #[cold]
    fn begin_think_time(&mut self, now: Instant, record: &mut impl Record) {
        self.think_time.begin(self.reaped_count);
        self.submit_batch_then(Goal::Think, now, record);
    }
}

#[inline]
fn timed_io(request: UntimedRequest, at: Instant) -> Io {
    let UntimedRequest { direction, file, offset, length } = request;
    Io { direction, file, offset, length, ready: at, issued: at }
}
