//! `rate=` and `rate_iops=`: the earliest time of the next request.
//!
//! The pacing is fio's linear one. The next request of a direction may be made when the bytes requested so
//! far would have been transferred at the rate, counted from the start of the job (or the end of its ramp). A
//! job that is behind catches up, even after a think time. `rate_iops` becomes a rate in bytes by the
//! smallest block size, so that a larger request takes the time of several.

use crate::job::{Direction, Job, Mix};
use flashlab_sim::{Duration, Instant};

#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Rate in bytes a second; zero for no limit.
    rate: [u64; 3],
    requested_bytes: [u64; 3],
    since: Instant,
    mixed: bool,
}

impl Pace {
    /// Returns the pace of the job, or `None` without a rate.
    pub(crate) fn new(job: &Job, since: Instant) -> Option<Pace> {
        let rate = Direction::ALL.map(|direction| {
            let d = direction as usize;
            match (job.rate[d], job.rate_iops[d]) {
                (Some(bytes), _) => bytes,
                (None, Some(iops)) => iops.saturating_mul(job.block_size[d].bounds().0),
                (None, None) => 0,
            }
        });
        let mixed = job.pattern.mix == Mix::ReadWrite && (1..100).contains(&job.rw_mix_read);
        rate.iter().any(|&rate| rate > 0).then_some(Pace { rate, requested_bytes: [0; 3], since, mixed })
    }

    pub(crate) fn restart(&mut self, at: Instant) {
        self.since = at;
        self.requested_bytes = [0; 3];
    }

    /// Returns the earliest time of a request of `direction`.
    fn due(&self, direction: Direction) -> Instant {
        let d = direction as usize;
        if self.rate[d] == 0 {
            return Instant::ZERO;
        }
        let ns = u128::from(self.requested_bytes[d]) * 1_000_000_000 / u128::from(self.rate[d]);
        self.since.saturating_add(Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Returns the direction of the next request and its earliest time. `drawn` is the direction chosen by the mix. A
    /// mixed job switches to the other direction if `drawn` has to wait and the other direction may go earlier.
    pub(crate) fn choose(&self, drawn: Direction, now: Instant) -> (Direction, Instant) {
        let due = self.due(drawn);
        if due <= now || !self.mixed {
            return (drawn, due.max(now));
        }
        let other = if drawn == Direction::Read { Direction::Write } else { Direction::Read };
        let other_due = self.due(other);
        if other_due < due { (other, other_due.max(now)) } else { (drawn, due) }
    }

    pub(crate) fn count(&mut self, direction: Direction, bytes: u64) {
        let requested = &mut self.requested_bytes[direction as usize];
        *requested = requested.saturating_add(bytes);
    }
}
