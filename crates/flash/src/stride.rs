//! Fast division of addresses by a fixed size, with a shift if the size is a power of two.

use serde::{Deserialize, Serialize};

/// A size in bytes by which addresses are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Stride {
    bytes: u64,
    /// Base-2 logarithm of the size, or 64 if the size is not a power of two.
    shift: u32,
}

impl Stride {
    /// Returns a stride of `bytes`, which must not be zero.
    pub(crate) fn new(bytes: u64) -> Self {
        assert!(bytes > 0, "the stride is 0 bytes");
        Stride { bytes, shift: if bytes.is_power_of_two() { bytes.trailing_zeros() } else { 64 } }
    }
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }
    /// Returns the index of the stride that contains `offset`.
    #[inline]
    pub(crate) fn index(self, offset: u64) -> u64 {
        if self.shift < 64 { offset >> self.shift } else { offset / self.bytes }
    }
    /// Returns the end of the stride that contains `offset`.
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
        fn a_stride_divides_offsets(bytes in 1u64..1 << 40, offset in 0u64..1 << 50) {
            for bytes in [bytes, bytes.next_power_of_two()] {
                let stride = Stride::new(bytes);
                prop_assert_eq!(stride.index(offset), offset / bytes);
                prop_assert_eq!(stride.end(offset), (offset / bytes + 1) * bytes);
            }
        }
    }
}
