//! `rate=` and `rate_iops=`: when a job may ask again.
//!
//! fio's linear pacing: the next request of a direction may be made when the bytes asked for so far would have passed
//! at the rate, counted from the job's start (or its ramp's end); a job that is behind makes up for it, also where it thought.
//! `rate_iops` counts its requests as bytes of the smallest block size.

use crate::job::{Direction, Job, Mix};
use crate::workload::region::block_bounds;
use flashlab_sim::{Duration, Instant};

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Bytes a second, zero for no limit.
    rate: [u64; 3],
    asked: [u64; 3],
    since: Instant,
    mixed: bool,
}

impl Pace {
    /// The job's, where it has one.
    pub(crate) fn new(job: &Job, since: Instant) -> Option<Pace> {
        let rate = Direction::ALL.map(|direction| {
            let d = direction as usize;
            match (job.rate[d], job.rate_iops[d]) {
                (Some(bytes), _) => bytes,
                (None, Some(iops)) => iops.saturating_mul(block_bounds(&job.block_size[d]).0),
                (None, None) => 0,
            }
        });
        let mixed = job.pattern.mix == Mix::ReadWrite && (1..100).contains(&job.rw_mix_read);
        rate.iter().any(|&rate| rate > 0).then_some(Pace { rate, asked: [0; 3], since, mixed })
    }

    pub(crate) fn restart(&mut self, at: Instant) {
        self.since = at;
        self.asked = [0; 3];
    }

    /// When a request of `direction` may be made.
    fn due(&self, direction: Direction) -> Instant {
        let d = direction as usize;
        if self.rate[d] == 0 {
            return Instant::ZERO;
        }
        let ns = u128::from(self.asked[d]) * 1_000_000_000 / u128::from(self.rate[d]);
        self.since.saturating_add(Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// What may be asked, and when, where `drawn` is what the mix wants: a mixed job turns to its other direction where
    /// that one may go earlier and `drawn` may not go now.
    pub(crate) fn choose(&self, drawn: Direction, now: Instant) -> (Direction, Instant) {
        let due = self.due(drawn);
        if due <= now || !self.mixed {
            return (drawn, due.max(now));
        }
        let other = if drawn == Direction::Read { Direction::Write } else { Direction::Read };
        let other_due = self.due(other);
        if other_due < due { (other, other_due.max(now)) } else { (drawn, due) }
    }

    pub(crate) fn asked(&mut self, direction: Direction, bytes: u64) {
        let asked = &mut self.asked[direction as usize];
        *asked = asked.saturating_add(bytes);
    }
}
