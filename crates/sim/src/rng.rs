//! A seeded random generator: xoshiro256++ (Blackman and Vigna, public domain), seeded by SplitMix64.
//!
//! The generator is fast and gives the same numbers on every machine. It is not cryptographically secure.

use serde::{Deserialize, Serialize};

/// A xoshiro256++ generator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng {
    s: [u64; 4],
}

/// Hashes one number into another with SplitMix64's finalizer. Every output bit depends on every input bit.
pub const fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Returns a generator for `seed`.
    pub fn new(seed: u64) -> Self {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let s = core::array::from_fn(|i| mix(seed.wrapping_add(step.wrapping_mul(i as u64))));
        Rng { s }
    }
    /// Returns a generator for one purpose of a seed. The streams of different purposes are independent.
    pub fn for_purpose(seed: u64, purpose: u64) -> Self {
        Rng::new(mix(seed) ^ mix(purpose ^ 0x5851_f42d_4c95_7f2d))
    }
    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.s;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }
    /// Returns a number in `0..n`, uniform to within 2^-64. The number is the high half of the product of `n`
    /// and 64 random bits.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
    /// Returns a number in `0.0..1.0` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Returns a normally distributed number with mean 0 and standard deviation 1 (Box-Muller, one of each pair).
    pub fn normal(&mut self) -> f64 {
        let u = 1.0 - self.unit();
        let v = self.unit();
        libm::sqrt(-2.0 * libm::log(u)) * libm::cos(core::f64::consts::TAU * v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_n_are_uniform() {
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        // Each count is binomial, with mean 10,000 and standard deviation 95. The bounds are five standard
        // deviations from the mean.
        assert!(counts.iter().all(|&c| (9_525..10_475).contains(&c)), "{counts:?}");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut rng = Rng::new(2);
        let n = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = rng.normal();
            sum += x;
            squares += x * x;
        }
        let (mean, variance) = (sum / f64::from(n), squares / f64::from(n));
        assert!(mean.abs() < 0.016 && (variance - 1.0).abs() < 0.023, "{mean} {variance}");
    }

    #[test]
    fn generators_for_different_purposes_give_different_numbers() {
        assert_ne!(Rng::for_purpose(1, 0).next_u64(), Rng::for_purpose(1, 1).next_u64());
    }
}
