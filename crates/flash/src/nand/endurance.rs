//! Endurance of erase blocks, and failures of operations.
//!
//! - Unless an operation fails earlier, every good block reaches its rated cycles. Its life beyond the rating
//!   follows a three-parameter Weibull distribution with the rating as minimum; with a scale of 0 every block
//!   lasts exactly as rated.
//! - A share of the blocks is bad from the factory. Data sheets allow about 2 % (2,008 good blocks of 2,048).
//! - Programs and erases fail with a small probability during a block's life. Past the block's limit, the
//!   probability rises towards 1.
//!
//! All results are pure functions of the seed and the arguments. They need no memory and do not depend on the order of
//! calls. All planes of an [`EraseBlock`] wear out together. Not modelled: the influence of temperature and of program
//! voltages on life, and failures of whole planes or dies.

use super::EraseBlock;
use crate::Impossible;
use alloc::format;
use flashlab_sim::mix;
use serde::{Deserialize, Serialize};

/// Endurance of the erase blocks.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endurance {
    /// Rated cycles: the number of erases that every good block survives unless an operation fails earlier.
    /// [`Endurance::UNLIMITED`] means that blocks never wear out.
    pub rated: u32,
    /// Weibull scale: 63.2 % of the blocks reach their limit within this many cycles past the rating.
    pub beyond: u32,
    /// Weibull shape. A larger shape means a narrower distribution; 1 is exponential, 3.6 is close to normal.
    pub shape: f64,
    /// Share of factory bad blocks in parts per million.
    pub factory_bad_ppm: u32,
    /// Failure probability of a program before the block's limit, in parts per billion.
    pub program_fail_ppb: u32,
    /// Failure probability of an erase before the block's limit, in parts per billion.
    pub erase_fail_ppb: u32,
    /// Number of cycles past the limit at which half of the programs and erases fail.
    pub half_fail: u32,
}

/// Purpose of a draw, which makes the draws of one seed independent.
#[derive(Clone, Copy)]
enum Purpose {
    Life = 0x11fe,
    Factory = 0xfac7,
    Program = 0x9806,
    Erase = 0xe4a5,
}

/// Probability 1 as a fixed-point number. Draws have 63 bits, because 2^64 does not fit into a `u64`.
const ONE: u64 = 1 << 63;

impl Endurance {
    /// Rating of blocks that never wear out.
    pub const UNLIMITED: u32 = u32::MAX;

    /// Returns the rated cycles; `None` if blocks never wear out.
    pub fn rated_cycles(&self) -> Option<u32> {
        (self.rated != Endurance::UNLIMITED).then_some(self.rated)
    }

    /// Returns an endurance of exactly `rated` cycles for every block, without bad blocks and without earlier failures.
    pub const fn exactly(rated: u32) -> Self {
        Endurance {
            rated,
            beyond: 0,
            shape: 1.0,
            factory_bad_ppm: 0,
            program_fail_ppb: 0,
            erase_fail_ppb: 0,
            half_fail: 1,
        }
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.rated == 0 {
            return Err(Impossible::new(
                "endurance.rated",
                "is 0 cycles: no block could ever be erased; expected for example 3000 (or no endurance at all, \
                 for blocks that never wear)",
            ));
        }
        if !(0.1..=100.0).contains(&self.shape) {
            return Err(Impossible::new(
                "endurance.shape",
                format!("is {}; expected 0.1 to 100, for example 2", self.shape),
            ));
        }
        if self.factory_bad_ppm >= 1_000_000 {
            return Err(Impossible::new(
                "endurance.factory_bad",
                format!("is {} ppm: no block would be good", self.factory_bad_ppm),
            ));
        }
        for (path, ppb) in
            [("endurance.program_fail", self.program_fail_ppb), ("endurance.erase_fail", self.erase_fail_ppb)]
        {
            if ppb >= 1_000_000_000 {
                return Err(Impossible::new(
                    path,
                    format!("is {ppb} billionths: no operation would ever succeed"),
                ));
            }
        }
        if self.half_fail == 0 {
            return Err(Impossible::new("endurance.half_fail", "is 0 cycles; expected at least 1"));
        }
        Ok(())
    }

    /// Returns the maximum number of erases of `block`, which is at least the rated cycles.
    pub fn limit(&self, seed: u64, block: EraseBlock) -> u32 {
        if self.beyond == 0 {
            return self.rated;
        }
        // The number is uniform in (0, 1], so its logarithm is finite.
        let uniform = (draw(seed, Purpose::Life, u64::from(block.index())) + 1) as f64 / ONE as f64;
        let further = f64::from(self.beyond) * libm::pow(-libm::log(uniform), 1.0 / self.shape);
        // The cast saturates at `u32::MAX`.
        self.rated.saturating_add(further as u32)
    }

    /// Returns true if a block that was erased `cycles` times has reached its limit and cannot be erased again.
    #[inline]
    pub fn worn_out(&self, seed: u64, block: EraseBlock, cycles: u32) -> bool {
        cycles >= self.rated && cycles >= self.limit(seed, block)
    }

    /// Returns true if `block` is bad from the factory.
    pub fn factory_bad(&self, seed: u64, block: EraseBlock) -> bool {
        draw(seed, Purpose::Factory, u64::from(block.index())) < share(self.factory_bad_ppm, 1_000_000)
    }

    /// Returns true if programming `page` of a block that was erased `cycles` times fails.
    #[inline]
    pub fn program_fails(&self, seed: u64, block: EraseBlock, cycles: u32, page: u32) -> bool {
        self.fails(self.program_fail_ppb, seed, Purpose::Program, block, cycles, page)
    }

    /// Returns true if erasing a block that was erased `cycles` times fails.
    #[inline]
    pub fn erase_fails(&self, seed: u64, block: EraseBlock, cycles: u32) -> bool {
        self.fails(self.erase_fail_ppb, seed, Purpose::Erase, block, cycles, 0)
    }

    /// Returns the failure probability of an operation `past` cycles past the limit: 1 - (1 - p) 2^(-past / half_fail),
    /// where p is `ppb` parts per billion.
    ///
    /// The formula is not from the literature. It starts at p, is about one half at `half_fail`, and approaches 1.
    pub fn failure_probability(&self, ppb: u32, past: u32) -> f64 {
        let success = 1.0 - f64::from(ppb) / 1e9;
        1.0 - success * libm::exp2(-f64::from(past) / f64::from(self.half_fail))
    }

    #[inline]
    fn fails(
        &self,
        ppb: u32,
        seed: u64,
        purpose: Purpose,
        block: EraseBlock,
        cycles: u32,
        page: u32,
    ) -> bool {
        if cycles <= self.rated && ppb == 0 {
            return false;
        }
        let past = if cycles <= self.rated { 0 } else { cycles.saturating_sub(self.limit(seed, block)) };
        let threshold = if past == 0 {
            share(ppb, 1_000_000_000)
        } else {
            (self.failure_probability(ppb, past) * ONE as f64) as u64
        };
        let what = u64::from(block.index()) << 32 | u64::from(cycles);
        draw(seed ^ mix(u64::from(page)), purpose, what) < threshold
    }
}

/// Returns 63 random bits as a pure function of the arguments.
#[inline]
fn draw(seed: u64, purpose: Purpose, of: u64) -> u64 {
    mix(mix(seed ^ mix(purpose as u64)) ^ of) >> 1
}

/// Returns `parts / whole` as a fixed-point number with 63 fractional bits.
#[inline]
fn share(parts: u32, whole: u32) -> u64 {
    ((u128::from(parts) * u128::from(ONE)) / u128::from(whole)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u32 = 100_000;
    const TLC: Endurance = Endurance {
        rated: 3_000,
        beyond: 1_000,
        shape: 2.0,
        factory_bad_ppm: 20_000,
        program_fail_ppb: 500_000,
        erase_fail_ppb: 2_000_000,
        half_fail: 100,
    };

    /// Asserts that `count` successes in `trials` trials lie within four standard deviations of probability `p`.
    fn assert_binomial(count: usize, trials: u32, p: f64, what: &str) {
        let mean = f64::from(trials) * p;
        let deviation = libm::sqrt(mean * (1.0 - p));
        let off = (count as f64 - mean) / deviation;
        assert!(off.abs() <= 4.0, "{what}: {count} of {trials}, expected {mean:.1} +- {deviation:.1}");
    }

    #[test]
    fn without_spread_every_block_lasts_exactly_as_rated() {
        let endurance = Endurance::exactly(3_000);
        assert_eq!(endurance.check(), Ok(()));
        for block in (0..BLOCKS).step_by(97).map(EraseBlock::new) {
            assert_eq!(endurance.limit(5, block), 3_000);
            assert!(!endurance.worn_out(5, block, 2_999) && endurance.worn_out(5, block, 3_000));
            assert!(!endurance.factory_bad(5, block));
            assert!(!endurance.program_fails(5, block, 3_000, 7) && !endurance.erase_fails(5, block, 3_000));
        }
    }

    #[test]
    fn limits_are_weibull_beyond_the_rated_cycles() {
        for (seed, shape) in [(1, 0.7), (2, 1.0), (3, 2.0), (4, 3.6)] {
            let endurance = Endurance { shape, beyond: 100_000, ..TLC };
            let limits: alloc::vec::Vec<u32> =
                (0..BLOCKS).map(|b| endurance.limit(seed, EraseBlock::new(b))).collect();
            assert!(limits.iter().all(|&limit| limit >= endurance.rated), "seed {seed}");
            for x in [0.1, 0.5, 1.0, 1.5, 2.0] {
                let outlived = limits.iter().filter(|&&l| f64::from(l - 3_000) >= x * 1e5).count();
                assert_binomial(outlived, BLOCKS, libm::exp(-libm::pow(x, shape)), "outlived");
            }
        }
    }

    #[test]
    fn factory_bad_blocks_are_binomial() {
        for seed in 0..5 {
            let bad = (0..BLOCKS).filter(|&b| TLC.factory_bad(seed, EraseBlock::new(b))).count();
            assert_binomial(bad, BLOCKS, 0.02, "factory bad");
        }
    }

    #[test]
    fn failures_before_the_limit_are_binomial() {
        let programs =
            (0..BLOCKS).filter(|&n| TLC.program_fails(1, EraseBlock::new(n / 256), 40, n % 256)).count();
        assert_binomial(programs, BLOCKS, 0.000_5, "programs");
        let erases =
            (0..BLOCKS).filter(|&n| TLC.erase_fails(1, EraseBlock::new(n / 1_000), n % 1_000)).count();
        assert_binomial(erases, BLOCKS, 0.002, "erases");
    }

    #[test]
    fn failures_rise_past_the_limit_to_one_half_at_half_fail() {
        let exact = Endurance { beyond: 0, ..TLC };
        for past in [1, 30, 100, 300, 1_000] {
            let p = exact.failure_probability(exact.program_fail_ppb, past);
            let failed =
                (0..BLOCKS).filter(|&n| exact.program_fails(9, EraseBlock::new(n), 3_000 + past, 1)).count();
            assert_binomial(failed, BLOCKS, p, "programs past the limit");
            let p = exact.failure_probability(exact.erase_fail_ppb, past);
            let failed =
                (0..BLOCKS).filter(|&n| exact.erase_fails(9, EraseBlock::new(n), 3_000 + past)).count();
            assert_binomial(failed, BLOCKS, p, "erases past the limit");
        }
        assert!((exact.failure_probability(0, 100) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn each_seed_selects_one_medium() {
        let limits =
            |seed| -> [u32; 16] { core::array::from_fn(|b| TLC.limit(seed, EraseBlock::new(b as u32))) };
        assert_eq!(limits(1), limits(1));
        assert_ne!(limits(1), limits(2));
    }

    #[test]
    fn impossible_endurances_are_refused() {
        for (wrong, path) in [
            (Endurance::exactly(0), "endurance.rated"),
            (Endurance { shape: f64::NAN, ..TLC }, "endurance.shape"),
            (Endurance { factory_bad_ppm: 1_000_000, ..TLC }, "endurance.factory_bad"),
            (Endurance { erase_fail_ppb: u32::MAX, ..TLC }, "endurance.erase_fail"),
            (Endurance { half_fail: 0, ..TLC }, "endurance.half_fail"),
        ] {
            assert_eq!(wrong.check().unwrap_err().path, path);
        }
    }
}
