//! Closed forms of write amplification, solved numerically.

/// Returns the principal branch of the Lambert W function, w e^w = x, for x from -1/e to 0, by Halley's method.
pub(crate) fn lambert_w0(x: f64) -> f64 {
    // Near the branch point, a series in p is the better start.
    let p = (2.0 * (std::f64::consts::E * x + 1.0)).max(0.0).sqrt();
    let mut w = if x < -0.2 { -1.0 + p - p * p / 3.0 } else { x };
    for _ in 0..100 {
        let e = w.exp();
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    w
}

/// FIFO victim selection under uniform writes, for any block size.
pub(crate) fn fifo(rho: f64) -> f64 {
    let alpha = 1.0 / rho;
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Greedy victim selection under uniform writes, for blocks of `b` pages.
pub(crate) fn greedy(rho: f64, b: f64) -> f64 {
    let alpha = 1.0 / rho;
    let k = 1.0 + 1.0 / (2.0 * b);
    let x0 = 0.5 - b / alpha * lambert_w0(-k * alpha * (-k * alpha).exp());
    b / (b - (x0 - 1.0))
}

/// Random victim selection under uniform writes.
pub(crate) fn random(rho: f64) -> f64 {
    1.0 / (1.0 - rho)
}

/// Closed form of Agarwal and Marrow, which is known to be too low.
pub(crate) fn agarwal(rho: f64) -> f64 {
    1.0 / (2.0 * (1.0 - rho))
}

/// Best of `d` random victims under uniform writes: the fixed point of the mean field equations, found by integrating
/// the equations over time. `m[i]` is the share of blocks with i valid units.
pub(crate) fn d_choices(rho: f64, b: usize, d: u32) -> f64 {
    let mut m = vec![0.0; b + 1];
    // The blocks start with the two counts next to the mean, so that the mean is rho from the start. The equations
    // preserve the mean.
    let mean = rho * b as f64;
    let low = mean.floor() as usize;
    m[low] = 1.0 - (mean - low as f64);
    m[low + 1] = mean - low as f64;
    let mut amplification = 0.0;
    for step in 0..2_000_000 {
        // A victim has i valid units with probability S[i]^d - S[i+1]^d, where S[i] = P(at least i valid).
        let mut s = vec![0.0; b + 2];
        for i in (0..=b).rev() {
            s[i] = s[i + 1] + m[i];
        }
        let p: Vec<f64> = (0..=b).map(|i| s[i].powi(d as i32) - s[i + 1].powi(d as i32)).collect();
        let moved: f64 = p.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
        let c = (b as f64 - moved) / (b as f64 * rho);
        let dt = 0.2 / (c * b as f64).max(1.0);
        let mut largest: f64 = 0.0;
        let next: Vec<f64> = (0..=b)
            .map(|i| {
                let above = if i < b { (i + 1) as f64 * m[i + 1] } else { 0.0 };
                let rate = c * (above - i as f64 * m[i]) - p[i] + f64::from(u8::from(i == b));
                largest = largest.max(rate.abs());
                m[i] + dt * rate
            })
            .collect();
        m = next;
        amplification = b as f64 / (b as f64 - moved);
        if step > 1_000 && largest < 1e-9 {
            break;
        }
    }
    amplification
}

/// FIFO victim selection with one stream under a mix of rates. Each of `parts` is `(share of writes, share of pages)`.
pub(crate) fn fifo_of_mix(rho: f64, parts: &[(f64, f64)]) -> f64 {
    // x = 1/WA solves sum r x / (1 - exp(-r x / (f rho))) = 1, and the sum grows with x.
    let sum = |x: f64| -> f64 { parts.iter().map(|(r, f)| r * x / (1.0 - (-r * x / (f * rho)).exp())).sum() };
    let (mut low, mut high) = (1e-9, 1.0);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if sum(middle) < 1.0 { low = middle } else { high = middle }
    }
    1.0 / low
}

#[test]
fn the_forms_give_the_published_table() {
    // Over-provisioning, FIFO, greedy with blocks of 32, 64, 128 and 256 pages, random.
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
        for (b, expected) in [32.0, 64.0, 128.0, 256.0].into_iter().zip(g2) {
            assert!((greedy(rho, b) - expected).abs() < 6e-4, "{spare}, {b}: {}", greedy(rho, b));
        }
        assert!((random(rho) - g3).abs() < 6e-3);
    }
}

#[test]
fn one_choice_is_random_and_a_mix_of_equal_rates_is_uniform() {
    assert!((d_choices(0.8, 32, 1) / random(0.8) - 1.0).abs() < 1e-3);
    assert!((fifo_of_mix(0.8, &[(0.5, 0.5), (0.5, 0.5)]) / fifo(0.8) - 1.0).abs() < 1e-6);
    // Ten choices are nearly greedy.
    let ten = d_choices(0.8, 32, 10);
    assert!(ten > greedy(0.8, 32.0) && ten < 1.05 * greedy(0.8, 32.0), "{ten}");
}
