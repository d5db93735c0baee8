//! Raw bit errors, error correction, and read retries.
//!
//! The raw bit error rate of a page is `fresh + worn (cycles / 1000)^a (1 + (age / doubling)^b)`: a power law in erase
//! cycles, multiplied by a retention term that grows as a power of the data's age (linearly for b = 1). The shape
//! follows published measurements. The errors of MLC from four manufacturers rise steeply with cycles and then with
//! retention (Mielke et al., Bit error rate in NAND flash memories, IRPS 2008). Cycles and retention both follow power
//! laws (S. Hetzler, The error rate surface for MLC NAND flash, 2012). 3D cells degrade most in the first hours, which
//! means a b well below 1 (Luo et al., SIGMETRICS 2018, arXiv 1807.05140). The numbers come from the profile.
//!
//! A codeword of n bits fails if more than t bits are wrong, and a page fails if one of its codewords fails. The
//! controller then retries the read with shifted voltages up to `retries_max` times. Each retry multiplies the raw bit
//! error rate by `retry_gain`, costs t_R and a transfer, and is drawn independently. Not modelled: read disturb,
//! differences between page types, layers and word lines, temperature, and soft decoding (for which t is the average
//! correction capability).

use super::binomial;
use crate::Impossible;
use alloc::boxed::Box;
use alloc::format;
use flashlab_sim::{Duration, Rng};
use serde::{Deserialize, Serialize};

/// Parameters of read errors.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reliability {
    /// Raw bit error rate of a fresh block directly after programming.
    pub fresh: f64,
    /// Increase of the raw bit error rate by 1,000 erase cycles, directly after programming.
    pub worn: f64,
    /// Exponent a of the cycles.
    pub cycles_exponent: f64,
    /// Age of the data at which the increase by cycles has doubled.
    pub doubling: Duration,
    /// Exponent b of the age.
    pub age_exponent: f64,
    /// Bits per codeword, including parity.
    pub codeword_bits: u32,
    /// Number t of wrong bits that the code corrects in one codeword.
    pub correctable: u32,
    /// Codewords per read.
    pub codewords: u32,
    /// Maximum number of retries of a read.
    pub retries_max: u32,
    /// Factor by which each retry multiplies the raw bit error rate; 1 means no effect.
    pub retry_gain: f64,
}

/// Outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReadOutcome {
    /// Number of retries.
    pub retries: u32,
    /// True if all attempts failed.
    pub uncorrectable: bool,
}

impl Reliability {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        for (path, rate) in [("reliability.fresh", self.fresh), ("reliability.worn", self.worn)] {
            if !(0.0..0.5).contains(&rate) {
                return Err(Impossible::new(
                    path,
                    format!("is {rate}; expected a fraction of bits from 0 to 0.5, for example 1e-5"),
                ));
            }
        }
        for (path, exponent) in [
            ("reliability.cycles_exponent", self.cycles_exponent),
            ("reliability.age_exponent", self.age_exponent),
        ] {
            if !(0.01..=10.0).contains(&exponent) {
                return Err(Impossible::new(path, format!("is {exponent}; expected 0.01 to 10")));
            }
        }
        if self.doubling == Duration::ZERO {
            return Err(Impossible::new(
                "reliability.doubling",
                "is 0, so all data would be lost immediately; expected, for example, 30 days",
            ));
        }
        if self.codeword_bits == 0 || self.codeword_bits > 1 << 20 {
            return Err(Impossible::new(
                "reliability.codeword_bits",
                format!("is {}; expected 1 to {}", self.codeword_bits, 1 << 20),
            ));
        }
        if self.correctable >= self.codeword_bits {
            return Err(Impossible::new(
                "reliability.correctable",
                format!("is {} of the {} bits of a codeword", self.correctable, self.codeword_bits),
            ));
        }
        if self.codewords == 0 {
            return Err(Impossible::new("reliability.codewords", "is 0; a read decodes at least 1"));
        }
        if self.retries_max > 1_000 {
            return Err(Impossible::new(
                "reliability.retries_max",
                format!("is {}; expected at most 1000", self.retries_max),
            ));
        }
        if !(self.retry_gain > 0.0 && self.retry_gain <= 1.0) {
            return Err(Impossible::new(
                "reliability.retry_gain",
                format!("is {}; expected above 0 and at most 1", self.retry_gain),
            ));
        }
        Ok(())
    }

    /// Returns the share of wrong bits in data of age `age` in a block that was erased `cycles` times.
    pub fn raw_bit_error_rate(&self, cycles: u32, age: Duration) -> f64 {
        self.rate(self.cycles_factor(cycles), self.age_factor(age.as_ns()))
    }

    fn cycles_factor(&self, cycles: u32) -> f64 {
        libm::pow(f64::from(cycles) / 1_000.0, self.cycles_exponent)
    }
    fn age_factor(&self, age_ns: u64) -> f64 {
        1.0 + libm::pow(age_ns as f64 / self.doubling.as_ns() as f64, self.age_exponent)
    }
    #[inline]
    fn rate(&self, cycles_factor: f64, age_factor: f64) -> f64 {
        (self.fresh + self.worn * cycles_factor * age_factor).min(0.5)
    }

    /// Returns the probability that a codeword has more wrong bits than the code corrects.
    pub fn codeword_failure(&self, raw_bit_error_rate: f64) -> f64 {
        binomial::more_than(self.correctable, self.codeword_bits, raw_bit_error_rate)
    }

    /// Returns the probability that one attempt to read a page fails because one of its codewords fails.
    pub fn page_failure(&self, raw_bit_error_rate: f64) -> f64 {
        let none = f64::from(self.codewords) * libm::log1p(-self.codeword_failure(raw_bit_error_rate));
        -libm::expm1(none)
    }

    /// Returns the probability that a page is uncorrectable after all retries.
    pub fn uncorrectable(&self, raw_bit_error_rate: f64) -> f64 {
        self.attempts(raw_bit_error_rate).product()
    }

    /// Returns the mean number of retries of a read.
    pub fn mean_retries(&self, raw_bit_error_rate: f64) -> f64 {
        let mut needed = 1.0;
        let first = self.attempts(raw_bit_error_rate).take(self.retries_max as usize);
        first.fold(0.0, |sum, failure| {
            needed *= failure;
            sum + needed
        })
    }

    /// Iterates over the failure probabilities of the successive attempts.
    fn attempts(&self, raw_bit_error_rate: f64) -> impl Iterator<Item = f64> + '_ {
        let rates = core::iter::successors(Some(raw_bit_error_rate), |rate| Some(rate * self.retry_gain));
        rates.take(self.retries_max as usize + 1).map(|rate| self.page_failure(rate))
    }
}

/// Generator of read outcomes that is exact, and fast if errors are rare.
///
/// Tables hold an upper bound of the failure probability for each range of cycles, ages and rates. A draw above the
/// bound is a success. Only a draw below the bound needs the exact probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decoder {
    reliability: Reliability,
    /// Factor of the cycles at the end of each [`bucket`].
    cycles: Box<[f64]>,
    /// Factor of the age at the end of each [`bucket`] of nanoseconds.
    ages: Box<[f64]>,
    /// Failure probability of a page at the end of each [`rate_bucket`].
    failures: Box<[f64]>,
}

/// A draw of 53 bits cannot distinguish a smaller probability from zero.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 54) as f64;
/// Factor on the bounds that compensates for rounding errors.
const MARGIN: f64 = 1.0 + 1e-9;
/// Base-2 exponent of the smallest rate with its own bucket.
const RATE_EXPONENT_MIN: i32 = -64;

impl Decoder {
    /// Computes the tables for `reliability`.
    pub fn new(reliability: &Reliability) -> Self {
        let r = *reliability;
        let cycles = (0..=bucket(u64::from(u32::MAX)))
            .map(|b| r.cycles_factor(bucket_end(b).min(u64::from(u32::MAX)) as u32) * MARGIN)
            .collect();
        let ages = (0..=bucket(u64::MAX)).map(|b| r.age_factor(bucket_end(b)) * MARGIN).collect();
        let failures =
            (0..=rate_bucket(0.5)).map(|b| (r.page_failure(rate_bucket_end(b)) * MARGIN).min(1.0)).collect();
        Decoder { reliability: r, cycles, ages, failures }
    }

    /// Returns the parameters.
    pub fn reliability(&self) -> &Reliability {
        &self.reliability
    }

    /// Draws the outcome of reading data of age `age` in a block that was erased `cycles` times.
    #[inline]
    pub fn read(&self, cycles: u32, age: Duration, rng: &mut Rng) -> ReadOutcome {
        let cycles_factor = self.cycles[bucket(u64::from(cycles))];
        let age_factor = self.ages[bucket(age.as_ns())];
        let bound = self.failures[rate_bucket(self.reliability.rate(cycles_factor, age_factor))];
        if bound < NEGLIGIBLE {
            return ReadOutcome::default();
        }
        let draw = rng.unit();
        if draw >= bound {
            return ReadOutcome::default();
        }
        self.read_again(draw, self.reliability.raw_bit_error_rate(cycles, age), rng)
    }

    /// Draws the attempts one by one; `draw` belongs to the first.
    #[cold]
    fn read_again(&self, mut draw: f64, rate: f64, rng: &mut Rng) -> ReadOutcome {
        for (retries, failure) in (0..).zip(self.reliability.attempts(rate)) {
            if draw >= failure {
                return ReadOutcome { retries, uncorrectable: false };
            }
            draw = rng.unit();
        }
        ReadOutcome { retries: self.reliability.retries_max, uncorrectable: true }
    }
}

/// Returns the bucket of `x`, with four buckets per power of two.
#[inline]
fn bucket(x: u64) -> usize {
    let msb = 63 - (x | 1).leading_zeros();
    if msb < 2 {
        return x as usize;
    }
    ((msb - 1) as usize) * 4 + ((x >> (msb - 2)) & 3) as usize
}

/// Returns the largest number in a bucket.
fn bucket_end(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let shift = bucket / 4 - 1;
    let above = u128::from(4 + bucket as u64 % 4 + 1) << shift;
    (above - 1) as u64
}

/// Returns the bucket of a rate, with four buckets per power of two: the exponent and the two highest bits of the
/// mantissa. The first bucket holds all smaller rates.
#[inline]
fn rate_bucket(rate: f64) -> usize {
    let first = ((1_023 + RATE_EXPONENT_MIN) as u64) << 2;
    ((rate.to_bits() >> 50).max(first) - first) as usize
}

/// Returns an upper bound for the rates in a bucket.
fn rate_bucket_end(bucket: usize) -> f64 {
    let first = ((1_023 + RATE_EXPONENT_MIN) as u64) << 2;
    f64::from_bits((first + bucket as u64 + 1) << 50).min(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for b in 0..bucket(u64::MAX) {
            assert_eq!(bucket(bucket_end(b)), b);
            assert_eq!(bucket(bucket_end(b) + 1), b + 1);
        }
        assert_eq!(bucket_end(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_rate_is_not_above_the_end_of_its_bucket() {
        let mut rate = 0.5;
        while rate > 1e-30 {
            assert!(rate <= rate_bucket_end(rate_bucket(rate)), "{rate}");
            rate *= 0.93;
        }
        assert_eq!(rate_bucket(0.0), 0);
    }
}
