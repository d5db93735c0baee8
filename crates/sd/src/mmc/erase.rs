//! What is erased at a time, and how long that may take.
//!
//! A discard is CMD32, CMD33 and CMD38. The block layer splits it at the most sectors whose erasure ends in the time that the
//! controller can wait; a card that gives no time in its SD status is taken to need 250 ms a block, so that only the
//! preferred size is left.

use super::{CsdFields, SsrFields};
use flashlab_sim::Duration;

/// Time that Linux takes for the longest busy where the controller names none.
const BUSY_LIMIT_MS: u32 = 60_000;
/// A discard (CMD38 with argument 1) takes at most this.
const DISCARD_MS: u64 = 250;
/// Where the SD status gives no time: for each block.
const BLOCK_MS: u64 = 250;

/// The sizes that matter to a discard, in blocks of 512 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EraseSizes {
    /// The least that is erased.
    pub unit: u32,
    /// What is best erased together.
    pub preferred: u32,
    /// log2 of what times are counted in; 0: single blocks.
    shift: u32,
    ssr: SsrFields,
    /// Argument of CMD38: 1 where discard is known, else 0.
    pub argument: u32,
}

impl EraseSizes {
    /// Of a card.
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

    /// How long erasing so many units may take: at least a second.
    fn time_of(&self, units: u64) -> u64 {
        let ms = if self.ssr.erase_ms == 0 {
            BLOCK_MS * units
        } else {
            u64::from(self.ssr.erase_ms) * units + u64::from(self.ssr.erase_offset_ms)
        };
        ms.max(1000)
    }

    /// How long discarding the blocks from `first` to `last`, both of them, may take.
    pub fn limit(&self, first: u64, last: u64) -> Duration {
        if self.argument == 1 {
            return Duration::from_ms(DISCARD_MS);
        }
        Duration::from_ms(self.time_of((last >> self.shift) - (first >> self.shift) + 1))
    }

    /// The most blocks of one discard on a controller that waits for `busy_limit_ms` (0: it does not say), and the time that
    /// they were reckoned with, in ms; reckoned for erasures where the card knows discard too. By doubling and adding, as long as the time allows it, but at least the preferred size.
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
        // A range that is not aligned touches one unit more.
        let whole = if units > 1 { units - 1 } else { units };
        let sectors = if self.shift > 0 || units == 0 { whole << self.shift } else { whole + 1 };
        (u32::try_from(sectors).unwrap_or(u32::MAX), limit)
    }

    /// `first..end` without what is not a whole unit; `None`: nothing is left.
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

    /// The logs' lines "calculated max. discard sectors".
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
    fn what_is_not_a_whole_unit_is_left_alone() {
        let sizes = EraseSizes { unit: 32, ..sdsc() };
        assert_eq!(sizes.aligned(1, 64), Some((32, 64)));
        assert_eq!(sizes.aligned(1, 63), None);
    }
}
