//! Closed forms of write amplification under garbage collection.
//!
//! rho is the share of the usable flash that holds valid data, and b the number of units per erase block.
//! docs/closed-forms.md lists the conditions and the tests. Sources:
//!
//! - G1, G2, G6, G7: Desnoyers, "Analytic modeling of SSD write performance" (SYSTOR 2012). G1 is also in Xiang and
//!   Kurkoski, "An improved analytic expression for write amplification in NAND flash" (ICNC 2012).
//! - G3: the mean of all blocks.
//! - G4: Agarwal and Marrow (2010).
//! - G5: Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives"
//!   (SIGMETRICS 2013).

use alloc::vec;
use alloc::vec::Vec;
use libm::{exp, expm1, floor, pow, sqrt};

/// Returns the principal branch of the Lambert W function, w e^w = x, for x from -1/e to 0, by Halley's method.
fn lambert_w0(x: f64) -> f64 {
    // Near the branch point, a series in p is the better start.
    let p = sqrt((2.0 * (core::f64::consts::E * x + 1.0)).max(0.0));
    let mut w = if x < -0.2 { -1.0 + p - p * p / 3.0 } else { x };
    for _ in 0..100 {
        let e = exp(w);
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    w
}

/// G1: FIFO under uniform writes, for any block size.
pub fn fifo(rho: f64) -> f64 {
    let alpha = 1.0 / rho;
    alpha / (alpha + lambert_w0(-alpha * exp(-alpha)))
}

/// G2: greedy under uniform writes, for blocks of `b` units.
pub fn greedy(rho: f64, b: u32) -> f64 {
    let (alpha, b) = (1.0 / rho, f64::from(b));
    let k = 1.0 + 1.0 / (2.0 * b);
    let x0 = 0.5 - b / alpha * lambert_w0(-k * alpha * exp(-k * alpha));
    b / (b - (x0 - 1.0))
}

/// G3: random victims under any writes. A random victim has the mean share of valid units, which is rho for any
/// distribution of the writes.
pub fn random(rho: f64) -> f64 {
    1.0 / (1.0 - rho)
}

/// G4: an approximation that does not depend on the block size. It is below G1 at every rho, so a simulation
/// of FIFO must not agree with it.
pub fn agarwal(rho: f64) -> f64 {
    1.0 / (2.0 * (1.0 - rho))
}

/// Maximum number of steps to the fixed point of [`d_choices`].
const STEPS_MAX: u32 = 1_000_000;
/// Rate of change below which [`d_choices`] is at its fixed point.
const STEADY: f64 = 1e-8;

/// G5: the best of `d` random victims under uniform writes, for blocks of `b` units. Finds the fixed point of the mean
/// field equations by integrating them over time. `share[i]` is the share of blocks with i valid units.
pub fn d_choices(rho: f64, b: u32, d: u32) -> f64 {
    let units = f64::from(b);
    let b = b as usize;
    // The mean share of valid units is rho from the start, and the equations preserve it.
    let mean = rho * units;
    let low = (floor(mean) as usize).min(b - 1);
    let mut share = vec![0.0; b + 1];
    share[low] = 1.0 - (mean - low as f64);
    share[low + 1] = mean - low as f64;
    let mut chosen = vec![0.0; b + 1];
    let mut moved = 0.0;
    for step in 0..STEPS_MAX {
        // A victim has i valid units with probability S[i]^d - S[i + 1]^d, where S[i] = P(at least i valid).
        let (mut at_least, mut above) = (0.0_f64, 0.0);
        moved = 0.0;
        for i in (0..=b).rev() {
            at_least += share[i];
            let power = pow(at_least, f64::from(d));
            chosen[i] = power - above;
            moved += i as f64 * chosen[i];
            above = power;
        }
        let c = (units - moved) / (units * rho);
        let dt = 0.4 / (c * units).max(1.0);
        let mut fastest: f64 = 0.0;
        for i in 0..=b {
            let arriving = if i < b { (i + 1) as f64 * share[i + 1] } else { 0.0 };
            let refilled = if i == b { 1.0 } else { 0.0 };
            // share[i + 1] still has its old value, because i ascends.
            let rate = c * (arriving - i as f64 * share[i]) - chosen[i] + refilled;
            fastest = fastest.max(rate.abs());
            share[i] += dt * rate;
        }
        if step > 1_000 && fastest < STEADY {
            break;
        }
    }
    units / (units - moved)
}

/// G6: FIFO with one stream under a mix of rates. Each part is a pair: its share of the writes and its share of the
/// units.
pub fn fifo_of_mix(rho: f64, parts: &[(f64, f64)]) -> f64 {
    // x = 1/WA solves sum r x / (1 - exp(-r x / (f rho))) = 1, and the sum grows with x.
    let sum = |x: f64| -> f64 {
        let of_part = |(r, f): &(f64, f64)| match r * x / (f * rho) {
            // The limit for units that are never written.
            tiny if tiny < 1e-12 => f * rho,
            exponent => r * x / -expm1(-exponent),
        };
        parts.iter().map(of_part).sum()
    };
    let (mut low, mut high) = (1e-6, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if sum(middle) < 1.0 { low = middle } else { high = middle }
    }
    1.0 / low
}

/// Returns the share of the writes and of the units for each of `n` units under a Zipf law.
pub fn zipf_parts(n: u64, theta: f64) -> Vec<(f64, f64)> {
    let weights: Vec<f64> = (1..=n).map(|rank| pow(rank as f64, -theta)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / sum, 1.0 / n as f64)).collect()
}

/// Number of splits that [`best_split`] compares.
const SPLITS: u32 = 2_000;

/// Splits `spare` between a pool with share `f` of the mapped units, which receives a share `r` of the
/// writes, and a pool with the other units. `spare` is relative to the mapped units of both pools. Returns
/// the first pool's part of the spare space for which G7, the mean of `form` weighted by writes, is smallest.
pub fn best_split(r: f64, f: f64, spare: f64, form: impl Fn(f64) -> f64) -> f64 {
    let amplification = |part: f64| {
        let rho = |mapped: f64, spare: f64| mapped / (mapped + spare);
        r * form(rho(f, part * spare)) + (1.0 - r) * form(rho(1.0 - f, (1.0 - part) * spare))
    };
    let parts = (1..SPLITS).map(|n| f64::from(n) / f64::from(SPLITS));
    parts.min_by(|a, b| amplification(*a).total_cmp(&amplification(*b))).expect("there are several splits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_give_the_values_of_the_table() {
        // Over-provisioning, G1, G2 for blocks of 32, 64, 128 and 256 units, G3.
        let table = [
            (0.05, 10.672, [8.077, 9.192, 9.876, 10.258], 21.00),
            (0.07, 7.817, [6.343, 7.001, 7.386, 7.595], 15.29),
            (0.10, 5.677, [4.870, 5.242, 5.451, 5.562], 11.00),
            (0.15, 4.016, [3.605, 3.799, 3.904, 3.959], 7.67),
            (0.20, 3.188, [2.930, 3.053, 3.119, 3.153], 6.00),
            (0.28, 2.481, [2.328, 2.402, 2.441, 2.461], 4.57),
            (1.0, 1.255, [1.223, 1.239, 1.247, 1.251], 2.00),
        ];
        for (spare, g1, g2, g3) in table {
            let rho = 1.0 / (1.0 + spare);
            assert!((fifo(rho) - g1).abs() < 6e-4, "{spare}: {}", fifo(rho));
            for (b, expected) in [32, 64, 128, 256].into_iter().zip(g2) {
                assert!((greedy(rho, b) - expected).abs() < 6e-4, "{spare}, {b}: {}", greedy(rho, b));
            }
            assert!((random(rho) - g3).abs() < 6e-3, "{spare}: {}", random(rho));
        }
    }

    #[test]
    fn one_choice_is_random_and_ten_are_nearly_greedy() {
        assert!((d_choices(0.8, 32, 1) / random(0.8) - 1.0).abs() < 1e-4);
        let ten = d_choices(0.8, 32, 10) / greedy(0.8, 32);
        assert!((1.0..1.05).contains(&ten), "{ten}");
    }

    #[test]
    fn a_mix_of_equal_rates_is_uniform_and_unwritten_units_only_take_space() {
        assert!((fifo_of_mix(0.8, &[(0.5, 0.5), (0.5, 0.5)]) / fifo(0.8) - 1.0).abs() < 1e-6);
        assert!((fifo_of_mix(0.8, &zipf_parts(1_000, 0.0)) / fifo(0.8) - 1.0).abs() < 1e-6);
        // A unit that is never written is moved each time that FIFO passes.
        let still = fifo_of_mix(0.8, &[(1.0, 0.5), (0.0, 0.5)]);
        let slow = fifo_of_mix(0.8, &[(1.0 - 1e-9, 0.5), (1e-9, 0.5)]);
        assert!((still / slow - 1.0).abs() < 1e-6, "{still} {slow}");
    }

    #[test]
    fn equal_pools_split_their_spare_space_evenly_and_a_hot_pool_takes_more_than_its_share() {
        assert!((best_split(0.5, 0.5, 0.15, fifo) - 0.5).abs() < 1e-3);
        let hot = best_split(0.8, 0.2, 0.15, fifo);
        assert!(hot > 0.4 && hot < 0.8, "{hot}");
    }
}
