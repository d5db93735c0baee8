//! Variation of operation times between erase blocks.
//!
//! Each block has a factor: 1 plus a sum of four uniform numbers, scaled to the standard deviation of the profile
//! (Irwin-Hall, close to normal and bounded by 3.5 deviations). The factor is a pure function of seed and block and
//! needs no memory.

use flashlab_sim::{Duration, mix};
use serde::{Deserialize, Serialize};

const ONE: u64 = 1_000_000;

/// Generator of the factors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variation {
    seed: u64,
    spread_ppm: u32,
}

/// Factor on the operation times of an erase block, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Factor(u32);

impl Variation {
    /// Returns the variation of the medium that `seed` selects, with a standard deviation of `spread_ppm`.
    pub fn new(seed: u64, spread_ppm: u32) -> Self {
        Variation { seed: mix(seed), spread_ppm }
    }

    /// Returns the factor of physical erase block `block`.
    pub fn factor(&self, block: u64) -> Factor {
        let hash = mix(self.seed ^ block);
        let sum: i64 = (0..4).map(|i| ((hash >> (16 * i)) & 0xffff) as i64).sum();
        // The sum has mean 2 x 65535 and deviation 65536 / sqrt(3) = 37837.
        let deviation = (sum - 2 * 65_535) * i64::from(self.spread_ppm) / 37_837;
        Factor((ONE as i64 + deviation) as u32)
    }
}

impl Factor {
    /// Returns the duration `d` scaled for this erase block.
    #[inline]
    pub fn of(self, d: Duration) -> Duration {
        // Durations of operations are far below 2^43 ns (2.4 h), so this cannot overflow.
        Duration::from_ns(d.as_ns() * u64::from(self.0) / ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_mean_one_and_the_wanted_deviation() {
        let variation = Variation::new(7, 30_000);
        let n = 100_000u64;
        let factors: alloc::vec::Vec<f64> =
            (0..n).map(|b| f64::from(variation.factor(b).0) / ONE as f64).collect();
        let mean = factors.iter().sum::<f64>() / n as f64;
        let deviation = libm_sqrt(factors.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>() / n as f64);
        assert!((mean - 1.0).abs() < 0.000_4, "mean {mean}");
        assert!((deviation - 0.03).abs() < 0.000_3, "deviation {deviation}");
    }

    fn libm_sqrt(x: f64) -> f64 {
        (0..60).fold(x.max(1.0), |root, _| (root + x / root) / 2.0)
    }

    #[test]
    fn another_seed_is_another_medium() {
        let (a, b) = (Variation::new(1, 30_000), Variation::new(2, 30_000));
        assert!((0..16).any(|block| a.factor(block) != b.factor(block)));
    }
}
