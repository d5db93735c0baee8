//! Rank correlation: agreement of two series in the order of their values.

/// Returns Spearman's rank correlation of two series of equal length. Equal values share the mean of their ranks.
/// Returns `None` if a series has fewer than two different values.
///
/// # Panics
/// If the series differ in length.
pub(crate) fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    assert_eq!(a.len(), b.len(), "the series have pairs");
    let (a, b) = (ranks(a), ranks(b));
    // Ranks have the mean (n + 1) / 2, whether or not some are shared.
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let variances = product(&a, &a) * product(&b, &b);
    (variances > 0.0).then(|| product(&a, &b) / variances.sqrt())
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_opposite_orders_give_one_and_minus_one() {
        let order = |b: &[f64]| spearman(&[1.0, 2.0, 3.0, 40.0], b).unwrap();
        assert!((order(&[0.1, 0.2, 0.7, 0.9]) - 1.0).abs() < 1e-12);
        assert!((order(&[9.0, 8.0, 1.0, 0.0]) + 1.0).abs() < 1e-12);
    }

    #[test]
    fn without_shared_ranks_the_closed_form_holds() {
        let (a, b) = ([5.0, 1.0, 4.0, 2.0, 3.0], [1.0, 2.0, 5.0, 3.0, 4.0]);
        // 1 - 6 sum(d^2) / (n (n^2 - 1)), with the rank differences 4, 1, 1, 1, 1.
        let expected = 1.0 - 6.0 * 20.0 / (5.0 * 24.0);
        assert!((spearman(&a, &b).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn equal_values_share_their_ranks_and_a_constant_has_no_order() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 0.5]), [3.5, 2.0, 3.5, 1.0]);
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[], &[]), None);
    }
}
