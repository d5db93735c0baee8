//! The processors, whose time calls and write-back share.

use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};

/// The processors of a host.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    /// Instant until which each processor is busy.
    busy_until: Vec<Instant>,
}

impl Processors {
    /// Returns `count` idle processors, but at least one.
    pub(super) fn new(count: u32) -> Processors {
        Processors { busy_until: vec![Instant::ZERO; count.max(1) as usize] }
    }

    /// Reserves the processor that becomes free first, for `time` and not before `at`. Returns the start and the end of
    /// its work.
    pub(super) fn reserve(&mut self, at: Instant, time: Duration) -> (Instant, Instant) {
        let processor = self.busy_until.iter_mut().min().expect("a host has a processor");
        let begin = at.max(*processor);
        *processor = begin + time;
        (begin, begin + time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_begins_on_the_processor_that_becomes_free_first() {
        let us = |us| Instant::ZERO + Duration::from_us(us);
        let mut processors = Processors::new(2);
        let mut reserve = |at, time| processors.reserve(us(at), Duration::from_us(time));
        assert_eq!(reserve(0, 10), (us(0), us(10)));
        assert_eq!(reserve(0, 4), (us(0), us(4)), "the second processor is idle");
        assert_eq!(reserve(1, 4), (us(4), us(8)));
        assert_eq!(reserve(20, 1), (us(20), us(21)));
    }
}
