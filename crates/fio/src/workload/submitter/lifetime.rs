//! The time that a job has, and its pauses.

use crate::job::Job;
use flashlab_sim::{Duration, Instant};

/// The start of a job, the end of its ramp, and the end that `runtime=` sets.
#[derive(Clone, Debug)]
pub(super) struct Lifetime {
    start: Instant,
    runtime: Option<Duration>,
    /// Time at which the job ends; [`Instant::MAX`] during the ramp and without `runtime=`.
    deadline: Instant,
    /// Estimate of the deadline, which is known from the start on; `None` for a job without `runtime=`.
    expected_end: Option<Instant>,
    /// End of the ramp; [`Instant::MAX`] without a ramp, and once the ramp is over. The first completion at or after
    /// this time ends the ramp.
    ramp_end: Instant,
}

impl Lifetime {
    pub(super) fn new(job: &Job, start: Instant) -> Lifetime {
        let has_ramp = job.ramp_time > Duration::ZERO;
        let deadline = match job.runtime {
            Some(runtime) if !has_ramp => start.saturating_add(runtime),
            _ => Instant::MAX,
        };
        let ramp_over = start.saturating_add(job.ramp_time);
        Lifetime {
            start,
            runtime: job.runtime,
            deadline,
            expected_end: job.runtime.map(|runtime| ramp_over.saturating_add(runtime)),
            ramp_end: if has_ramp { ramp_over } else { Instant::MAX },
        }
    }

    pub(super) fn start(&self) -> Instant {
        self.start
    }

    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns true if the job makes no more requests.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    pub(super) fn is_in_ramp(&self) -> bool {
        self.ramp_end != Instant::MAX
    }

    /// Returns true if a completion at `now` ends the ramp.
    #[inline]
    pub(super) fn ends_ramp(&self, now: Instant) -> bool {
        now >= self.ramp_end
    }

    /// Ends the ramp; `runtime=` begins.
    pub(super) fn ramp_over(&mut self, now: Instant) {
        self.ramp_end = Instant::MAX;
        self.deadline = self.runtime.map_or(Instant::MAX, |runtime| now.saturating_add(runtime));
    }

    /// Ends the time of the job, also during its ramp. Returns true if the job was in its ramp.
    pub(super) fn stop(&mut self, now: Instant) -> bool {
        self.deadline = now;
        std::mem::replace(&mut self.ramp_end, Instant::MAX) != Instant::MAX
    }

    /// Returns the fraction of the time that has passed; 0 without `runtime=`.
    pub(super) fn share_passed(&self, now: Instant) -> f64 {
        self.expected_end.map_or(0.0, |end| {
            let whole = end.saturating_since(self.start).as_ns().max(1);
            now.saturating_since(self.start).as_ns() as f64 / whole as f64
        })
    }
}

/// The pauses of `thinktime=`.
#[derive(Clone, Debug)]
pub(super) struct ThinkTime {
    length: Duration,
    /// Number of requests from one pause to the next.
    blocks: u64,
    /// Number of reaped requests at which the next pause begins; `u64::MAX` without pauses.
    next_at: u64,
}

impl ThinkTime {
    pub(super) fn new(job: &Job) -> ThinkTime {
        let (length, blocks) = (job.think_time, job.think_time_blocks.max(1));
        ThinkTime { length, blocks, next_at: if length > Duration::ZERO { blocks } else { u64::MAX } }
    }

    /// Returns true if enough requests were reaped since the last pause.
    #[inline]
    pub(super) fn is_due(&self, reaped: u64) -> bool {
        reaped >= self.next_at
    }

    /// Begins a pause after `reaped` requests. Requests still in flight count towards the next pause.
    pub(super) fn begin(&mut self, reaped: u64) {
        self.next_at = reaped.saturating_add(self.blocks);
    }

    /// Returns the end of a pause that starts at `now`.
    pub(super) fn end(&self, now: Instant) -> Instant {
        now.saturating_add(self.length)
    }
}
