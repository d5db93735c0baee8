//! Choice of the direction where reads and writes are mixed.
//!
//! fio draws a direction for each request. After a change of direction, however, the new direction continues without a
//! draw until the number of its requests has reached its share of the number that the other direction had at the
//! change. A rare direction therefore keeps up: of 1 % writes there are hardly ever fewer. An even mix is drawn freely,
//! since its bound is half of the expected number.

use crate::job::Direction;
use crate::random::{Purpose, Seed};
use flashlab_sim::Rng;

/// The mix of reads and writes in their shares.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    /// Share of the reads in percent.
    reads: u64,
    draws: Rng,
    turn: Direction,
    /// Numbers of reads and writes that were made.
    asked: [u64; 2],
    /// Number of requests of `turn` at which the next draw happens.
    until: u64,
}

impl Mixture {
    pub(crate) fn new(reads: u32, seed: Seed) -> Self {
        let draws = seed.rng(Purpose::Direction, 0);
        Mixture { reads: reads.into(), draws, turn: Direction::Read, asked: [0; 2], until: 0 }
    }

    /// Returns the direction of the next request.
    pub(crate) fn next(&mut self) -> Direction {
        let asked = self.asked[self.turn as usize];
        if asked >= self.until {
            let reads = self.draws.below(100) < self.reads;
            let (drawn, share) =
                if reads { (Direction::Read, self.reads) } else { (Direction::Write, 100 - self.reads) };
            if drawn != self.turn {
                self.until = asked * share / 100;
            }
            self.turn = drawn;
        }
        self.turn
    }

    /// Counts a request. Its direction may differ from the last draw because of a rate.
    #[inline]
    pub(crate) fn asked(&mut self, direction: Direction) {
        self.turn = direction;
        self.asked[direction as usize] += 1;
    }

    /// Begins the next loop with a draw. If `seed` is given, the loop repeats the draws of this one.
    pub(crate) fn begin_another_loop(&mut self, seed: Option<Seed>) {
        self.until = 0;
        if let Some(seed) = seed {
            self.draws = seed.rng(Purpose::Direction, 0);
        }
    }

    /// Resets the counts, since requests in the ramp do not count.
    pub(crate) fn ramp_over(&mut self) {
        (self.asked, self.until) = ([0; 2], 0);
    }
}
