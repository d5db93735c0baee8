//! Requests that differ only in their offset.
//!
//! Most random jobs consist of such requests: one size, one direction, one file, and nothing between two requests (no
//! rate, flush or batch). Their offsets are drawn in groups, so limits and kinds of requests are checked once per
//! group.

use crate::job::{BlockSize, Direction};
use crate::workload::prefetch::GROUP;
use crate::workload::stream::UntimedRequest;
use flashlab_sim::FileId;

/// The current group of requests.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    direction: Direction,
    file: FileId,
    length: u64,
    offsets: [u64; GROUP],
    used_count: usize,
}

impl Series {
    /// Number of requests in a series.
    pub(crate) const REQUESTS: u64 = GROUP as u64;

    /// Returns a series without remaining requests, or `None` if sizes differ.
    pub(crate) fn new(direction: Direction, file: FileId, size: &BlockSize) -> Option<Series> {
        match *size {
            BlockSize::Fixed(length) => {
                Some(Series { direction, file, length, offsets: [0; GROUP], used_count: GROUP })
            }
            _ => None,
        }
    }

    /// Returns the number of bytes in a series.
    pub(crate) fn bytes(&self) -> u64 {
        self.length.saturating_mul(Self::REQUESTS)
    }

    /// Begins another series.
    pub(crate) fn begin(&mut self, offsets: &[u64; GROUP]) {
        self.offsets = *offsets;
        self.used_count = 0;
    }

    /// Returns the next request, or `None` at the end of the series.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<UntimedRequest> {
        let offset = *self.offsets.get(self.used_count)?;
        self.used_count += 1;
        Some(UntimedRequest { direction: self.direction, file: self.file, offset, length: self.length })
    }

    /// Ends the series. Returns the number of remaining requests, and their bytes.
    pub(crate) fn end(&mut self) -> (usize, u64) {
        let left = GROUP - std::mem::replace(&mut self.used_count, GROUP);
        (left, self.length * left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Extent, Job, Mix, Pattern};
    use crate::workload::region::File;
    use crate::workload::stream::Stream;
    use proptest::prelude::*;

    /// Returns up to `count` requests of a stream whose ramp ends after `ramp` requests, with `unreaped` in flight.
    fn requests(mut stream: Stream, count: usize, (ramp, unreaped): (usize, u64)) -> Vec<UntimedRequest> {
        let mut requests = Vec::new();
        while requests.len() < count {
            if requests.len() == ramp {
                stream.ramp_over(unreaped);
            }
            let next = match stream.next_in_series() {
                Some(request) => Some(request),
                None if stream.has_reached_limits() => None,
                None => stream.next_request(Direction::Write),
            };
            match next {
                Some(request) => requests.push(request),
                None if stream.begin_another_loop() => {}
                None => break,
            }
        }
        requests
    }

    proptest! {
        #[test]
        fn requests_in_series_equal_those_made_one_by_one(
            (blocks, number_ios, loops) in (1u64..100, 0u64..100, 1u64..4),
            (no_random_map, time_based, rand_repeat) in any::<(bool, bool, bool)>(),
            io_size in prop::option::of(1u64..1_000_000),
            ramp in (0usize..150, 0u64..50),
        ) {
            let pattern = Pattern { random: true, mix: Mix::Write, sequence: 1, sequence_skip: 0 };
            let job = Job {
                pattern,
                number_ios: Some(number_ios),
                loops,
                no_random_map,
                time_based,
                rand_repeat,
                io_size: io_size.map(Extent::Bytes),
                ..Job::default()
            };
            let files = [File { id: FileId::DEVICE, size: blocks * 4096 + 1024 }];
            let stream = |has_no_checks| Stream::new(&job, &files, (0, 7), has_no_checks).expect("it fits the file");
            prop_assert_eq!(requests(stream(true), 400, ramp), requests(stream(false), 400, ramp));
        }
    }
}
