//! Whose turn it is where reads and writes are mixed.
//!
//! fio draws a direction for each request; but one that has just been turned to goes on, without a draw, until its requests
//! are as many as its share of those that the other one had then. So what is rare keeps up: of 1 % writes there are hardly
//! ever fewer, while an even mix is drawn freely, since its bound is half of what is expected.

use crate::job::Direction;
use crate::random::{Purpose, Seed};
use flashlab_sim::Rng;

/// Reads and writes in their shares.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    /// The share of reads, in percent.
    reads: u64,
    draws: Rng,
    turn: Direction,
    /// Reads and writes asked for.
    asked: [u64; 2],
    /// Requests of `turn` before the next draw.
    until: u64,
}

impl Mixture {
    pub(crate) fn new(reads: u32, seed: Seed) -> Self {
        let draws = seed.rng(Purpose::Direction, 0);
        Mixture { reads: reads.into(), draws, turn: Direction::Read, asked: [0; 2], until: 0 }
    }

    /// The direction of the next request.
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

    /// A request was asked for; a rate may have changed its direction.
    #[inline]
    pub(crate) fn asked(&mut self, direction: Direction) {
        self.turn = direction;
        self.asked[direction as usize] += 1;
    }

    /// The next loop draws, and draws what this one did where `seed` is given.
    pub(crate) fn begin_another_loop(&mut self, seed: Option<Seed>) {
        self.until = 0;
        if let Some(seed) = seed {
            self.draws = seed.rng(Purpose::Direction, 0);
        }
    }

    /// What was asked for in the ramp does not count.
    pub(crate) fn ramp_over(&mut self) {
        (self.asked, self.until) = ([0; 2], 0);
    }
}
