//! How often an erase block can be erased, and what fails on the way.
//!
//! - Every good block reaches the rated cycles: that is what a rating promises. How far it goes beyond is a
//!   three-parameter Weibull distribution whose least life is the rating; with a scale of 0 every block lasts exactly as
//!   rated.
//! - A share of the blocks is bad from the factory; makers' data sheets allow about 2 % (2,008 good of 2,048).
//! - Programs and erases fail with a small probability in life; past a block's limit it rises towards certainty.
//!
//! Everything is a pure function of the seed and of what is asked: it costs no memory, needs no order, and a block asked
//! twice answers the same. A [`Block`] lives and dies with all its planes. Left out: life lost to temperature and to the
//! voltages of single pages, and failures that befall a whole plane or die.

use super::Block;
use crate::Impossible;
use alloc::format;
use flashlab_sim::mix;
use serde::{Deserialize, Serialize};

/// How long erase blocks live.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endurance {
    /// Erases that every good block stands.
    pub rated: u32,
    /// Weibull scale: past the rating by so many cycles, 63.2 % of the blocks have reached their limit.
    pub beyond: u32,
    /// Weibull shape: the larger, the closer together the limits lie. 1 is exponential, 3.6 close to normal.
    pub shape: f64,
    /// Blocks that are bad from the factory, in millionths.
    pub factory_bad_ppm: u32,
    /// Programs that fail in a block that has not passed its limit, in billionths.
    pub program_fail_ppb: u32,
    /// Erases that fail in a block that has not passed its limit, in billionths.
    pub erase_fail_ppb: u32,
    /// Past its limit by so many cycles, half of a block's programs and erases fail.
    pub half_fail: u32,
}

/// What a draw is for, so that the draws of one seed are independent.
#[derive(Clone, Copy)]
enum Purpose {
    Life = 0x11fe,
    Factory = 0xfac7,
    Program = 0x9806,
    Erase = 0xe4a5,
}

/// 1 in 2^64ths would not fit; draws are of 63 bits.
const ONE: u64 = 1 << 63;

impl Endurance {
    /// `rated` cycles exactly for every block, none bad, nothing ever fails before.
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

    /// Refuses what no array can have.
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
                return Err(Impossible::new(path, format!("is {ppb} billionths: none would ever succeed")));
            }
        }
        if self.half_fail == 0 {
            return Err(Impossible::new("endurance.half_fail", "is 0 cycles; expected at least 1"));
        }
        Ok(())
    }

    /// How many erases `block` stands: at least the rated cycles.
    pub fn limit(&self, seed: u64, block: Block) -> u32 {
        if self.beyond == 0 {
            return self.rated;
        }
        // Uniform in (0, 1], so that the logarithm is finite.
        let uniform = (draw(seed, Purpose::Life, u64::from(block.0)) + 1) as f64 / ONE as f64;
        let further = f64::from(self.beyond) * libm::pow(-libm::log(uniform), 1.0 / self.shape);
        // A float beyond 2^32 becomes the greatest number.
        self.rated.saturating_add(further as u32)
    }

    /// Whether a block erased `cycles` times has reached its limit: it takes no further erase.
    #[inline]
    pub fn worn_out(&self, seed: u64, block: Block, cycles: u32) -> bool {
        cycles >= self.rated && cycles >= self.limit(seed, block)
    }

    /// Whether `block` is bad from the factory.
    pub fn factory_bad(&self, seed: u64, block: Block) -> bool {
        draw(seed, Purpose::Factory, u64::from(block.0)) < share(self.factory_bad_ppm, 1_000_000)
    }

    /// Whether the program of `page` of a block erased `cycles` times fails.
    #[inline]
    pub fn program_fails(&self, seed: u64, block: Block, cycles: u32, page: u32) -> bool {
        self.fails(self.program_fail_ppb, seed, Purpose::Program, block, cycles, page)
    }

    /// Whether the erase of a block that has been erased `cycles` times fails.
    #[inline]
    pub fn erase_fails(&self, seed: u64, block: Block, cycles: u32) -> bool {
        self.fails(self.erase_fail_ppb, seed, Purpose::Erase, block, cycles, 0)
    }

    /// The probability that an operation fails which in life fails with `ppb` billionths, `past` cycles past the limit:
    /// 1 - (1 - p) 2^(-past / half_fail). No published law: it begins at p, is one half at `half_fail` and ends at 1.
    pub fn failure_probability(&self, ppb: u32, past: u32) -> f64 {
        let success = 1.0 - f64::from(ppb) / 1e9;
        1.0 - success * libm::exp2(-f64::from(past) / f64::from(self.half_fail))
    }

    #[inline]
    fn fails(&self, ppb: u32, seed: u64, purpose: Purpose, block: Block, cycles: u32, page: u32) -> bool {
        if cycles <= self.rated && ppb == 0 {
            return false;
        }
        let past = if cycles <= self.rated { 0 } else { cycles.saturating_sub(self.limit(seed, block)) };
        let threshold = if past == 0 {
            share(ppb, 1_000_000_000)
        } else {
            (self.failure_probability(ppb, past) * ONE as f64) as u64
        };
        let what = u64::from(block.0) << 32 | u64::from(cycles);
        draw(seed ^ mix(u64::from(page)), purpose, what) < threshold
    }
}

/// 63 random bits, a pure function.
#[inline]
fn draw(seed: u64, purpose: Purpose, of: u64) -> u64 {
    mix(mix(seed ^ mix(purpose as u64)) ^ of) >> 1
}

/// `parts` of `whole`, of 2^63.
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

    /// Asserts that `count` of `trials` is binomial with probability `p`, to four deviations.
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
        for block in (0..BLOCKS).step_by(97).map(Block) {
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
            let limits: alloc::vec::Vec<u32> = (0..BLOCKS).map(|b| endurance.limit(seed, Block(b))).collect();
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
            let bad = (0..BLOCKS).filter(|&b| TLC.factory_bad(seed, Block(b))).count();
            assert_binomial(bad, BLOCKS, 0.02, "factory bad");
        }
    }

    #[test]
    fn failures_in_life_are_binomial_and_independent_of_one_another() {
        let programs = (0..BLOCKS).filter(|&n| TLC.program_fails(1, Block(n / 256), 40, n % 256)).count();
        assert_binomial(programs, BLOCKS, 0.000_5, "programs");
        let erases = (0..BLOCKS).filter(|&n| TLC.erase_fails(1, Block(n / 1_000), n % 1_000)).count();
        assert_binomial(erases, BLOCKS, 0.002, "erases");
    }

    #[test]
    fn failures_rise_past_the_limit_and_half_fail_where_it_is_said() {
        let exact = Endurance { beyond: 0, ..TLC };
        for past in [1, 30, 100, 300, 1_000] {
            let p = exact.failure_probability(exact.program_fail_ppb, past);
            let failed = (0..BLOCKS).filter(|&n| exact.program_fails(9, Block(n), 3_000 + past, 1)).count();
            assert_binomial(failed, BLOCKS, p, "programs past the limit");
            let p = exact.failure_probability(exact.erase_fail_ppb, past);
            let failed = (0..BLOCKS).filter(|&n| exact.erase_fails(9, Block(n), 3_000 + past)).count();
            assert_binomial(failed, BLOCKS, p, "erases past the limit");
        }
        assert!((exact.failure_probability(0, 100) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn another_seed_is_another_medium_and_the_same_seed_the_same() {
        let limits = |seed| -> [u32; 16] { core::array::from_fn(|b| TLC.limit(seed, Block(b as u32))) };
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
