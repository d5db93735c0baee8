//! Differences between kernel versions in the commands that the mmc core sends.

use super::CsdFields;

/// A version of Linux.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kernel {
    /// 5.15: requests only the highest common voltage.
    V5_15,
    /// 6.1: also requests the voltage below the highest common one.
    V6_1,
    /// 6.12 with its stable updates, as in Debian 13: reads the CSD of an SDUC card, but cannot address the card beyond
    /// 2 TiB.
    V6_12,
    /// 6.13: sets HO2T in ACMD41 and sends CMD22 before the addresses of an SDUC card.
    V6_13,
}

impl Kernel {
    /// All versions, oldest first.
    pub const ALL: [Kernel; 4] = [Kernel::V5_15, Kernel::V6_1, Kernel::V6_12, Kernel::V6_13];

    /// Returns the name of the version in command-line arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::V5_15 => "5.15",
            Kernel::V6_1 => "6.1",
            Kernel::V6_12 => "6.12",
            Kernel::V6_13 => "6.13",
        }
    }

    /// Returns the version with the given name.
    pub fn named(name: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Returns the voltages that the host requests, as bits of the OCR. They are the highest voltage that
    /// `card` and `host` have in common and, from 6.1 on, the next lower voltage if both have it. Returns
    /// `None` if `card` and `host` have no voltage in common. The low 15 bits of the card's OCR are ignored.
    pub(crate) fn select_voltage(self, card: u32, host: u32) -> Option<u32> {
        let common = card & !0x7fff & host;
        let highest = common.checked_ilog2()?;
        let pair = match self {
            Kernel::V5_15 => 3 << highest,
            Kernel::V6_1 | Kernel::V6_12 | Kernel::V6_13 => 3 << (highest - 1),
        };
        Some(common & pair)
    }

    /// Returns true if the kernel initialises SDUC cards and extends their addresses with CMD22.
    pub(super) fn addresses_ultra_capacity(self) -> bool {
        self >= Kernel::V6_13
    }

    /// Returns true if the kernel supports the CSD structure of `csd`.
    pub(super) fn reads(self, csd: &CsdFields) -> bool {
        !csd.ultra_structure || self >= Kernel::V6_12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_of_voltages_differs_between_kernels() {
        // Voltages of the board in the published trace, of the boards in the logs, and of the USB adapter.
        assert_eq!(Kernel::V5_15.select_voltage(0x00ff_8000, 0x0030_0000), Some(0x0020_0000));
        assert_eq!(Kernel::V6_1.select_voltage(0x00ff_ff00, 0x0030_0000), Some(0x0030_0000));
        assert_eq!(Kernel::V6_1.select_voltage(0x00ff_8000, 0x00ff_8000), Some(0x00c0_0000));
        assert_eq!(
            Kernel::V6_1.select_voltage(0x0000_7fff, 0x00ff_ffff),
            None,
            "the low 15 bits are ignored"
        );
        assert_eq!(Kernel::V6_1.select_voltage(0x0000_8000, 0x00ff_8000), Some(0x8000));
    }
}
