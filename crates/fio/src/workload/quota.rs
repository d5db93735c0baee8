//! The quota of a job: its remaining bytes, requests and loops.

use super::region::block_max;
use crate::job::{Direction, Job, Mix};
use crate::workload::stream::UntimedRequest;

/// The remaining bytes, requests and loops of a job.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    /// True if only time ends the job.
    time_based: bool,
    /// True if each range is trimmed before it is written.
    trims_first: bool,
    /// Remaining bytes and requests. When either is used up, the job ends. The bytes of trims that are followed by
    /// writes do not count.
    bytes_left: u64,
    requests_left: u64,
    bytes_max: u64,
    requests_max: u64,
    /// Value of `requests_left` at the start of the loop.
    requests_left_before: u64,
    /// Number of loops that follow the current one.
    loops_left: u64,
    /// Number of bytes up to which further loops begin if `io_size=` is given.
    bytes_target: u64,
    io_size_given: bool,
    block_max: u64,
    /// Bytes of the trims that are followed by writes.
    trimmed: u64,
}

impl Quota {
    /// Returns the quota of a job whose regions have `size` bytes in all.
    pub(super) fn new(job: &Job, size: u64, io_size: Option<u64>) -> Quota {
        let loops = job.loops.max(1);
        let trims_first = job.pattern.mix == Mix::TrimWrite;
        let bytes_target = io_size.unwrap_or(size);
        let bytes_max = bytes_target.saturating_mul(loops);
        let number = job.number_ios.filter(|&n| n > 0 && !job.time_based);
        // As in fio, the number counts pairs of a trim and a write.
        let requests_per_io = if trims_first { 2 } else { 1 };
        let requests_max =
            number.map_or(u64::MAX, |n| n.saturating_mul(loops).saturating_mul(requests_per_io));
        Quota {
            time_based: job.time_based,
            trims_first,
            bytes_left: bytes_max,
            requests_left: requests_max,
            bytes_max,
            requests_max,
            requests_left_before: requests_max,
            loops_left: loops - 1,
            bytes_target,
            io_size_given: io_size.is_some(),
            block_max: block_max(job),
            trimmed: 0,
        }
    }

    /// Returns true if the job has made all its requests.
    #[inline]
    pub(super) fn is_used_up(&self) -> bool {
        (self.bytes_left == 0 || self.requests_left == 0) && !self.time_based
    }

    /// Returns the fraction of its bytes or requests that the job has made; 0 if only time ends the job.
    pub(super) fn share_used(&self) -> f64 {
        if self.time_based {
            return 0.0;
        }
        let share = |left: u64, most: u64| 1.0 - left as f64 / most.max(1) as f64;
        share(self.bytes_left, self.bytes_max).max(share(self.requests_left, self.requests_max))
    }

    /// Returns true if there is room for this many requests and bytes.
    #[inline]
    pub(super) fn admits(&self, requests: u64, bytes: u64) -> bool {
        self.requests_left >= requests && (self.bytes_left >= bytes || self.time_based)
    }

    /// Takes requests and bytes that [`Quota::admits`] permits.
    #[inline]
    pub(super) fn take(&mut self, requests: u64, bytes: u64) {
        self.requests_left -= requests;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Takes a request.
    #[inline]
    pub(super) fn take_request(&mut self, request: &UntimedRequest) {
        if self.trims_first && request.direction == Direction::Trim {
            self.trimmed = self.trimmed.saturating_add(request.length);
            self.take(1, 0);
        } else {
            self.take(1, request.length);
        }
    }

    /// Takes another loop from the quota. Returns false if no loop is left, or if the last loop made no
    /// request.
    pub(super) fn take_loop(&mut self) -> bool {
        if self.requests_left == self.requests_left_before || !self.has_loop() {
            return false;
        }
        self.loops_left = self.loops_left.saturating_sub(u64::from(!self.time_based));
        self.requests_left_before = self.requests_left;
        true
    }

    fn has_loop(&self) -> bool {
        if self.time_based {
            return true;
        }
        if self.is_used_up() {
            return false;
        }
        let transferred = (self.bytes_max - self.bytes_left).saturating_add(self.trimmed);
        let left = self.bytes_target.saturating_sub(transferred);
        self.loops_left > 0 || (self.io_size_given && left > 0 && left >= self.block_max)
    }

    /// Resets the counts at the end of a ramp. From then on, fio counts the requests for `number_ios`,
    /// including the `unreaped` ones in flight. `unused` bytes had been taken for requests that were not
    /// made.
    pub(super) fn ramp_over(&mut self, unreaped: u64, unused: u64) {
        self.bytes_left = self.bytes_left.saturating_add(unused);
        self.requests_left = self.requests_max.saturating_sub(unreaped);
        // The current loop has already made requests.
        self.requests_left_before = 0;
    }
}
