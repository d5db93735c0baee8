//! Division by a number that is fixed when the device is created.

use serde::{Deserialize, Serialize};

/// A divisor. Its divisions are multiplications by a 64-bit reciprocal, which are exact for all 32-bit
/// dividends. A division by 1 returns the dividend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Divisor {
    by: u32,
    reciprocal: u64,
}

impl Divisor {
    pub(crate) fn new(by: u32) -> Self {
        assert!(by > 0, "the divisor is 0");
        Divisor { by, reciprocal: (u64::MAX / u64::from(by)).wrapping_add(1) }
    }
    #[inline]
    pub(crate) fn divide(self, n: u32) -> u32 {
        if self.by == 1 { n } else { ((u128::from(self.reciprocal) * u128::from(n)) >> 64) as u32 }
    }
    #[inline]
    pub(crate) fn split(self, n: u32) -> (u32, u32) {
        let quotient = self.divide(n);
        (quotient, n - quotient * self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn dividing_by_multiplication_is_exact(by in 1u32.., n: u32) {
            for by in [by, 1 << (by % 32), by % 5_000 + 1] {
                prop_assert_eq!(Divisor::new(by).split(n), (n / by, n % by));
            }
        }
    }
}
