//! Times of operations on the array and the channel, with constants computed in advance.

use crate::nand::{Kind, Operation, Timing};
use flashlab_sim::{Duration, mix};
use serde::{Deserialize, Serialize};

/// [`Timing`] with divisions replaced by multiplications.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Times {
    timing: Timing,
    seed: u64,
    /// Distributions of t_R, for normal mode and for SLC mode.
    reads: [Range; 2],
    /// 2^64 divided by the channel rate.
    reciprocal: u64,
}

/// A uniform distribution of times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Range {
    least: Duration,
    /// Number of values.
    count: u64,
}

impl Times {
    /// Computes the constants. `seed` determines the random part of t_R.
    pub(super) fn new(timing: &Timing, seed: u64) -> Self {
        let range = |slc| {
            let [least, most] = [0, u64::MAX].map(|draw| timing.read_at(slc, draw));
            Range { least, count: (most - least).as_ns() + 1 }
        };
        Times {
            timing: *timing,
            seed: mix(seed),
            reads: [range(false), range(true)],
            reciprocal: u64::MAX / timing.channel_rate,
        }
    }

    /// Returns the array time of the operation with number `number`.
    #[inline]
    pub(super) fn array(&self, operation: &Operation, number: u64) -> Duration {
        match operation.kind {
            Kind::Read { .. } => {
                let Range { least, count } = self.reads[usize::from(operation.slc)];
                let above = (u128::from(count) * u128::from(mix(self.seed ^ number))) >> 64;
                Duration::from_ns(least.as_ns() + above as u64)
            }
            Kind::Program { .. } => self.timing.program(operation.page, operation.slc),
            Kind::Erase => self.timing.t_bers,
        }
    }

    /// Returns the channel time of an operation, equal to [`Timing::transfer`].
    #[inline]
    pub(super) fn transfer(&self, kind: Kind) -> Duration {
        let (Kind::Read { bytes } | Kind::Program { bytes }) = kind else { return Duration::ZERO };
        let rate = self.timing.channel_rate;
        let dividend = u64::from(bytes) * 1_000_000_000 + rate / 2;
        // The dividend is below 2^62, so the result is the quotient or one less.
        let quotient = ((u128::from(dividend) * u128::from(self.reciprocal)) >> 64) as u64;
        let short = u64::from(dividend - quotient * rate >= rate);
        Duration::from_ns(self.timing.t_command.as_ns() + quotient + short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::{Cause, Cell, EraseBlock};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn precomputed_times_equal_those_of_the_timing(
            channel_rate in prop_oneof![1_000_u64..10_000, 1_000_000_u64..=1_000_000_000_000],
            t_read in 1_u64..=3_600_000_000_000,
            t_read_spread_ppm in 0_u32..1_000_000,
            bytes in prop_oneof![0..100_000_u32, any::<u32>()],
            (slc, page, seed, number) in any::<(bool, u32, u64, u64)>(),
        ) {
            let timing = Timing {
                cell: Cell::Tlc,
                t_read: Duration::from_ns(t_read),
                t_read_spread_ppm,
                t_read_slc: Duration::from_ns(t_read / 2 + 1),
                t_prog: [100, 200, 300, 0].map(Duration::from_us),
                t_prog_slc: Duration::from_us(50),
                t_bers: Duration::from_ms(5),
                channel_rate,
                t_command: Duration::from_ns(300),
            };
            let times = Times::new(&timing, seed);
            let operation = |kind| Operation { kind, block: EraseBlock::new(0), page, slc, cause: Cause::Host, tag: 0 };
            let (read, program) = (Kind::Read { bytes }, Kind::Program { bytes });
            let drawn = timing.read_at(slc, mix(mix(seed) ^ number));
            prop_assert_eq!(times.array(&operation(read), number), drawn);
            prop_assert_eq!(times.array(&operation(program), number), timing.program(page, slc));
            prop_assert_eq!(times.array(&operation(Kind::Erase), number), timing.t_bers);
            prop_assert_eq!(times.transfer(read), timing.transfer(bytes));
            prop_assert_eq!(times.transfer(program), timing.transfer(bytes));
            prop_assert_eq!(times.transfer(Kind::Erase), Duration::ZERO);
        }
    }
}
