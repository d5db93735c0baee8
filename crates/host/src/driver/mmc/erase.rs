//! Erase granularity, and the time that an erase may take.
//!
//! A discard consists of CMD32, CMD33 and CMD38. The block layer limits the size of a discard so that the
//! erase ends within the controller's maximum busy time. For a card whose SD Status specifies no erase time,
//! Linux assumes 250 ms per erase unit, so the limit is the preferred size.

use super::{CsdFields, SsrFields};
use flashlab_sim::Duration;

/// Maximum busy time that Linux assumes if the controller specifies none, in ms.
const BUSY_LIMIT_MS: u32 = 60_000;
/// Maximum time of a discard (CMD38 with argument 1), in ms.
const DISCARD_MS: u64 = 250;
/// Erase time per erase unit if the SD Status specifies none, in ms.
const UNIT_MS: u64 = 250;

/// Erase sizes in blocks of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EraseSizes {
    /// Erase granularity.
    pub unit: u32,
    /// Preferred erase size.
    pub preferred: u32,
    /// Binary logarithm of the number of blocks in the unit for which times are computed.
    shift: u32,
    ssr: SsrFields,
    /// Argument of CMD38: 1 if the card supports discard, 0 otherwise.
    pub argument: u32,
}

impl EraseSizes {
    /// Computes the sizes of a card.
    pub fn of(csd: &CsdFields, ssr: &SsrFields) -> Self {
        let unit = csd.erase_sectors;
        let argument = u32::from(ssr.has_discard);
        if ssr.unit_sectors != 0 {
            let shift = ssr.unit_sectors.trailing_zeros();
            return EraseSizes { unit, preferred: ssr.unit_sectors, shift, ssr: *ssr, argument };
        }
        let preferred = match csd.sectors >> 11 {
            0..128 => 512 << 10,
            128..512 => 1 << 20,
            512..1024 => 2 << 20,
            _ => 4 << 20,
        } / 512_u32;
        let shift = if unit.is_power_of_two() { unit.trailing_zeros() } else { 0 };
        let preferred = preferred.max(unit).next_multiple_of(unit.max(1));
        EraseSizes { unit, preferred, shift, ssr: *ssr, argument }
    }

    /// Returns the maximum time in ms to erase `units` units: at least a second.
    fn time_of(&self, units: u64) -> u64 {
        let ms = if self.ssr.erase_ms == 0 {
            UNIT_MS * units
        } else {
            u64::from(self.ssr.erase_ms) * units + u64::from(self.ssr.erase_offset_ms)
        };
        ms.max(1000)
    }

    /// Returns the maximum time to discard the blocks from `first` to `last`, inclusive.
    pub fn limit(&self, first: u64, last: u64) -> Duration {
        if self.argument == 1 {
            return Duration::from_ms(DISCARD_MS);
        }
        Duration::from_ms(self.time_of((last >> self.shift) - (first >> self.shift) + 1))
    }

    /// Returns the maximum number of blocks of one discard, and the time limit in ms from which that number
    /// follows. `busy_limit_ms` is the time for which the controller waits (0 if not specified). The search
    /// uses the times of an erase, even if the card supports discard. It adds units in doubling steps while
    /// the time limit allows. The result is at least the preferred size, less one unit for alignment.
    pub fn discard_max(&self, busy_limit_ms: u32) -> (u32, u32) {
        let limit = if busy_limit_ms == 0 { BUSY_LIMIT_MS } else { busy_limit_ms };
        let most = u64::from(u32::MAX >> self.shift);
        let least = u64::from(self.preferred >> self.shift);
        let (mut units, mut longest) = (0, 0);
        loop {
            let mut step = 0;
            let mut next = 1;
            while next <= most && most - next >= units {
                let time = self.time_of(units + next);
                if (units + next > least && time > u64::from(limit)) || time < longest {
                    break;
                }
                longest = time;
                step = next;
                next <<= 1;
            }
            units += step;
            if step == 0 {
                break;
            }
        }
        // A range that is not aligned touches one more unit.
        let whole = if units > 1 { units - 1 } else { units };
        let sectors = if self.shift > 0 || units == 0 { whole << self.shift } else { whole + 1 };
        (u32::try_from(sectors).unwrap_or(u32::MAX), limit)
    }

    /// Returns the range of whole erase units within `first..end`, or `None` if there are none.
    pub fn aligned(&self, first: u64, end: u64) -> Option<(u64, u64)> {
        let unit = u64::from(self.unit.max(1));
        let (first, end) = (first.next_multiple_of(unit), end / unit * unit);
        (first < end).then_some((first, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdsc() -> EraseSizes {
        let csd = CsdFields { sectors: 131_072, erase_sectors: 1, ..CsdFields::default() };
        EraseSizes::of(&csd, &SsrFields::default())
    }

    fn sdhc() -> EraseSizes {
        let csd = CsdFields { sectors: 131_072, erase_sectors: 1, ..CsdFields::default() };
        let ssr =
            SsrFields { unit_sectors: 8192, erase_ms: 125, erase_offset_ms: 1000, ..SsrFields::default() };
        EraseSizes::of(&csd, &ssr)
    }

    /// Values of the log lines "calculated max. discard sectors".
    #[test]
    fn the_largest_discard_is_the_one_that_linux_calculates() {
        assert_eq!(sdsc().discard_max(0), (1024, 60_000));
        assert_eq!(sdsc().discard_max(2_581), (1024, 2_581));
        assert_eq!(sdhc().discard_max(0), (3_858_432, 60_000));
        assert_eq!((sdsc().preferred, sdhc().preferred), (1024, 8192));
    }

    #[test]
    fn the_largest_discard_ends_in_time_wherever_it_starts() {
        for limit in [1_500, 2_581, 10_000, 60_000] {
            let (sectors, _) = sdhc().discard_max(limit);
            let unaligned = sdhc().limit(8191, 8191 + u64::from(sectors) - 1);
            assert!(unaligned <= Duration::from_ms(limit.into()) || sectors == 8192, "{limit}");
        }
    }

    #[test]
    fn partial_erase_units_are_excluded() {
        let sizes = EraseSizes { unit: 32, ..sdsc() };
        assert_eq!(sizes.aligned(1, 64), Some((32, 64)));
        assert_eq!(sizes.aligned(1, 63), None);
    }
}
