//! Division of addresses by a fixed number of bytes: a shift where that is a power of two, as it mostly is.

use serde::{Deserialize, Serialize};

/// A number of bytes that addresses are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stride {
    bytes: u64,
    /// The power of two; 64 where it is none.
    shift: u32,
}

impl Stride {
    /// Strides of `bytes`, which is not zero.
    pub(crate) fn new(bytes: u64) -> Self {
        assert!(bytes > 0, "a stride is at least a byte");
        Stride { bytes, shift: if bytes.is_power_of_two() { bytes.trailing_zeros() } else { 64 } }
    }
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }
    /// The stride in which `offset` lies.
    #[inline]
    pub(crate) fn index(self, offset: u64) -> u64 {
        if self.shift < 64 { offset >> self.shift } else { offset / self.bytes }
    }
    /// The first byte after the stride in which `offset` lies.
    #[inline]
    pub(crate) fn end(self, offset: u64) -> u64 {
        (self.index(offset) + 1) * self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_divides(bytes in 1u64..1 << 40, offset in 0u64..1 << 50) {
            for bytes in [bytes, bytes.next_power_of_two()] {
                let stride = Stride::new(bytes);
                prop_assert_eq!(stride.index(offset), offset / bytes);
                prop_assert_eq!(stride.end(offset), (offset / bytes + 1) * bytes);
            }
        }
    }
}
