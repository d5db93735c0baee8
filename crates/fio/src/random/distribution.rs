//! The distributions of `random_distribution=`, equal to those of fio over the range of a file.
//!
//! - zipf: the approximation of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994),
//!   with the zeta sum truncated at ten million ranks.
//! - pareto: `n u^(ln h / ln (1 - h))`.
//! - normal: the mean of twelve uniform numbers over the range (deviation n / 12), plus one uniform number
//!   whose width is the given percentage of the range. The variance is therefore
//!   (n / 12)^2 + (percent n)^2 / 12. This was measured on fio 3.33, and it differs slightly from the
//!   option's description.
//! - zoned: percentages of the accesses over parts of the range, each part uniform.
//!
//! fio spreads the ranks of the first three distributions over the range. Rank r becomes
//! `(r g + rotation) mod n` in 64-bit arithmetic, where g is 2^64 times (3 - sqrt 5) / 2 and the rotation is
//! random. This is a permutation only if n is a power of two. Otherwise several ranks share a block and some
//! blocks are never used, both in fio and here. Recorded iologs confirm this.

use crate::job::Distribution;
use flashlab_sim::Rng;
use libm::{ceil, log, pow};

/// 2^64 (3 - sqrt 5) / 2.
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;
/// Maximum number of ranks that fio includes in the zeta sum for zipf.
const ZETA_RANKS_MAX: u64 = 10_000_000;

/// Draws slots from `0..n`.
#[derive(Clone, Debug)]
pub struct Sampler {
    n: u64,
    rotation: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Zipf {
        exponent: f64,
        alpha: f64,
        eta: f64,
        zeta: f64,
        second: f64,
    },
    Pareto {
        power: f64,
    },
    Normal {
        width: u64,
    },
    /// Cumulative percentage of the accesses, first slot, number of slots.
    Zoned(Vec<(u64, u64, u64)>),
}

impl Sampler {
    /// Returns a sampler of `n` slots of `slot` bytes each. `rng` draws the rotation.
    ///
    /// # Panics
    /// Panics if `n` is zero.
    pub fn new(distribution: &Distribution, n: u64, slot: u64, rng: &mut Rng) -> Sampler {
        assert!(n > 0, "a sampler has something to draw");
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf(theta) => zipf(*theta, n),
            Distribution::Pareto(h) => Shape::Pareto { power: log(*h) / log(1.0 - *h) },
            Distribution::Normal(percent) => {
                let width = ceil(n as f64 * percent / 100.0) as u64;
                Shape::Normal { width: width.min(n / 2) }
            }
            Distribution::Zoned(zones) => {
                let ends = zones.iter().scan(0u64, |end, &(share, part)| {
                    *end += u64::from(part);
                    Some((share, u128::from(n) * u128::from(*end) / 100))
                });
                zoned(ends, n)
            }
            Distribution::ZonedAbsolute(zones) => {
                let ends = zones.iter().scan(0u64, |end, &(share, bytes)| {
                    *end = end.saturating_add(bytes);
                    Some((share, u128::from(*end / slot.max(1))))
                });
                zoned(ends, n)
            }
        };
        let rotation = rng.next_u64() >> 32;
        Sampler { n, rotation, shape }
    }

    /// Draws the next slot.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self.shape {
            Shape::Uniform => rng.below(self.n),
            _ => self.draw_shaped(rng),
        }
    }

    fn draw_shaped(&self, rng: &mut Rng) -> u64 {
        let rank = match &self.shape {
            Shape::Uniform => return rng.below(self.n),
            Shape::Zoned(zones) => {
                let percent = rng.below(100);
                let zone = zones.iter().find(|zone| percent < zone.0).or(zones.last());
                return zone.map_or(0, |&(_, first, slots)| first + rng.below(slots));
            }
            Shape::Zipf { exponent, alpha, eta, zeta, second } => {
                let u = rng.unit();
                let uz = u * zeta;
                if uz < 1.0 {
                    0
                } else if uz < *second {
                    1
                } else {
                    let base = if *exponent == 1.0 { 0.0 } else { eta * u - eta + 1.0 };
                    (self.n as f64 * pow(base, *alpha)) as u64
                }
            }
            Shape::Pareto { power } => ((self.n - 1) as f64 * pow(rng.unit(), *power)) as u64,
            Shape::Normal { width } => loop {
                let sum: u128 = (0..12).map(|_| u128::from(rng.below(self.n))).sum();
                let mean = (sum as f64 / 12.0) as u64;
                let moved = mean + (*width as f64 * rng.unit()) as u64;
                if let Some(rank) = moved.checked_sub(width / 2).filter(|rank| *rank < self.n) {
                    break rank;
                }
            },
        };
        rank.wrapping_mul(GOLDEN).wrapping_add(self.rotation) % self.n
    }
}

fn zipf(theta: f64, n: u64) -> Shape {
    let zeta = zeta(n.min(ZETA_RANKS_MAX), theta);
    let zeta_two = 1.0 + pow(0.5, theta);
    let eta = (1.0 - pow(2.0 / n as f64, 1.0 - theta)) / (1.0 - zeta_two / zeta);
    Shape::Zipf { exponent: theta, alpha: 1.0 / (1.0 - theta), eta, zeta, second: 1.0 + pow(0.5, theta) }
}

/// Returns the sum of r^-theta for r = 1..=n. The first ranks are summed one by one, the others with the
/// Euler-Maclaurin formula, whose error here is below 1e-12.
fn zeta(n: u64, theta: f64) -> f64 {
    const EXACT: u64 = 1_000;
    let sum: f64 = (1..=n.min(EXACT)).map(|rank| pow(rank as f64, -theta)).sum();
    if n <= EXACT {
        return sum;
    }
    let (a, b) = (EXACT as f64, n as f64);
    let f = |x: f64| pow(x, -theta);
    let integral = if (theta - 1.0).abs() < 1e-12 {
        log(b / a)
    } else {
        (pow(b, 1.0 - theta) - pow(a, 1.0 - theta)) / (1.0 - theta)
    };
    sum + integral + (f(b) - f(a)) / 2.0 + theta * (f(a) / a - f(b) / b) / 12.0
}

fn zoned(ends: impl Iterator<Item = (u32, u128)>, n: u64) -> Shape {
    let mut zones = Vec::new();
    let (mut percent, mut first) = (0u64, 0u64);
    for (share, end) in ends {
        percent += u64::from(share);
        let end = u64::try_from(end.min(u128::from(n))).expect("the minimum with n fits");
        // The accesses of a zone without slots go to the slot at its position.
        let start = first.min(n - 1);
        zones.push((percent, start, end.saturating_sub(start).max(1)));
        first = end.max(first);
    }
    Shape::Zoned(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_approximate_zeta_sum_equals_the_sum_of_all_terms() {
        for theta in [0.5, 0.99, 1.0, 1.1, 2.5] {
            let direct: f64 = (1..=50_000u64).rev().map(|rank| pow(rank as f64, -theta)).sum();
            let approximate = zeta(50_000, theta);
            assert!((approximate / direct - 1.0).abs() < 1e-11, "theta {theta}: {approximate} and {direct}");
        }
    }

    #[test]
    fn zones_receive_their_shares() {
        let distribution = Distribution::Zoned(vec![(60, 10), (30, 20), (10, 70)]);
        let mut rng = Rng::new(3);
        let sampler = Sampler::new(&distribution, 1_000, 4096, &mut rng);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            let slot = sampler.draw(&mut rng);
            counts[if slot < 100 {
                0
            } else if slot < 300 {
                1
            } else {
                2
            }] += 1;
        }
        // The binomial deviations are 155, 145 and 95. The limits are five deviations.
        assert!(counts[0].abs_diff(60_000) < 775, "{counts:?}");
        assert!(counts[1].abs_diff(30_000) < 725, "{counts:?}");
    }

    #[test]
    fn every_distribution_stays_in_its_range() {
        let all = [
            Distribution::Uniform,
            Distribution::Zipf(0.5),
            Distribution::Zipf(1.2),
            Distribution::Pareto(0.01),
            Distribution::Pareto(0.99),
            Distribution::Normal(0.0),
            Distribution::Normal(100.0),
            Distribution::Zoned(vec![(50, 0), (50, 100)]),
            Distribution::ZonedAbsolute(vec![(50, u64::MAX), (50, u64::MAX)]),
            Distribution::ZonedAbsolute(vec![(100, 1)]),
            Distribution::Zoned(vec![]),
        ];
        for distribution in all {
            for n in [1, 2, 3, 64, 1_000] {
                let mut rng = Rng::new(n);
                let sampler = Sampler::new(&distribution, n, 4096, &mut rng);
                assert!((0..1_000).all(|_| sampler.draw(&mut rng) < n), "{distribution:?} over {n}");
            }
        }
    }
}
