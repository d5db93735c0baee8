//! Choice of the direction of each request in a mix of reads and writes.
//!
//! In principle, fio draws a direction for each request. After a change of direction, however, the new
//! direction first catches up without draws. It continues until the number of its requests has reached a
//! bound: its share (in percent) of the number that the other direction had at the change. A rare direction
//! therefore hardly ever falls short of its share. In an even mix, the bound is only half of the other
//! direction's number, so almost every direction is drawn.

use crate::job::Direction;
use crate::random::{Purpose, Seed};
use flashlab_sim::Rng;

/// The state of a mix of reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct DirectionMix {
    /// Share of the reads in percent.
    reads: u64,
    draws: Rng,
    current: Direction,
    /// Numbers of reads and writes that were made.
    counts: [u64; 2],
    /// Number of requests of `current` at which the next draw happens.
    draw_at: u64,
}

impl DirectionMix {
    pub(crate) fn new(reads: u32, seed: Seed) -> Self {
        let draws = seed.rng(Purpose::Direction, 0);
        DirectionMix { reads: reads.into(), draws, current: Direction::Read, counts: [0; 2], draw_at: 0 }
    }

    /// Returns the direction of the next request.
    pub(crate) fn next(&mut self) -> Direction {
        let count = self.counts[self.current as usize];
        if count >= self.draw_at {
            let reads = self.draws.below(100) < self.reads;
            let (drawn, share) =
                if reads { (Direction::Read, self.reads) } else { (Direction::Write, 100 - self.reads) };
            if drawn != self.current {
                self.draw_at = count * share / 100;
            }
            self.current = drawn;
        }
        self.current
    }

    /// Counts a request. Its direction may differ from the last draw if a rate delays the drawn direction.
    #[inline]
    pub(crate) fn count(&mut self, direction: Direction) {
        self.current = direction;
        self.counts[direction as usize] += 1;
    }

    /// Begins the next loop with a draw. If `seed` is given, the loop repeats the draws of this one.
    pub(crate) fn begin_another_loop(&mut self, seed: Option<Seed>) {
        self.draw_at = 0;
        if let Some(seed) = seed {
            self.draws = seed.rng(Purpose::Direction, 0);
        }
    }

    /// Resets the counts, since requests in the ramp do not count.
    pub(crate) fn ramp_over(&mut self) {
        (self.counts, self.draw_at) = ([0; 2], 0);
    }
}
