//! Extension registers of CMD48 and CMD49 (section 5.8), including a page on the wear of the card.
//!
//! Function 0 is the general information, which lists the other functions. Function 1 is power management (section
//! 5.8.1.3), function 2 performance enhancement (section 5.8.2), and function 3 the [`Health`] page, which has a
//! vendor-specific code. Each function has one page of 512 bytes.
//!
//! If the card has a cache, the host can enable it. While the cache is enabled, written data is volatile
//! until the host flushes the cache through these registers.

use alloc::boxed::Box;
use serde::{Deserialize, Serialize};

/// Size of a page in bytes.
pub(crate) const PAGE: usize = 512;

/// Wear of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Mean erase count of the good erase blocks.
    pub erase_count_mean: u32,
    /// Maximum erase count.
    pub erase_count_max: u32,
    /// Rated erase cycles of an erase block according to the data sheet; 0 if not known.
    pub rated_cycles: u32,
    /// Total number of erase blocks.
    pub blocks: u32,
    /// Number of bad erase blocks, including the factory bad blocks.
    pub bad_blocks: u32,
    /// Number of factory bad blocks.
    pub factory_bad_blocks: u32,
    /// Bytes written by hosts.
    pub host_written_bytes: u64,
    /// Bytes programmed into the array.
    pub programmed_bytes: u64,
    /// True if the card no longer accepts writes.
    pub read_only: bool,
}

impl Health {
    /// First bytes of the health page.
    pub const SIGNATURE: [u8; 4] = *b"WEAR";

    /// Returns the mean erase count in percent of the rated cycles. Returns 255 for larger values and if the rated
    /// cycles are not known.
    pub fn used_percent(&self) -> u8 {
        let used = (u64::from(self.erase_count_mean) * 100).checked_div(u64::from(self.rated_cycles));
        used.map_or(255, |used| used.min(255) as u8)
    }

    /// Encodes the page, least significant bytes first: signature, revision 1, flags (bit 0: read-only), percentage
    /// used, 0, and the counts from byte 8 on.
    pub fn to_page(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        page[..4].copy_from_slice(&Health::SIGNATURE);
        page[4] = 1;
        page[5] = u8::from(self.read_only);
        page[6] = self.used_percent();
        let counts = [
            self.erase_count_mean,
            self.erase_count_max,
            self.rated_cycles,
            self.blocks,
            self.bad_blocks,
            self.factory_bad_blocks,
        ];
        for (n, count) in counts.iter().enumerate() {
            page[8 + 4 * n..12 + 4 * n].copy_from_slice(&count.to_le_bytes());
        }
        page[32..40].copy_from_slice(&self.host_written_bytes.to_le_bytes());
        page[40..48].copy_from_slice(&self.programmed_bytes.to_le_bytes());
        page
    }

    /// Decodes a page. Returns `None` if it is not a health page of this revision.
    pub fn from_page(page: &[u8]) -> Option<Health> {
        let page: &[u8; 48] = page.first_chunk()?;
        if page[..4] != Health::SIGNATURE || page[4] != 1 {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Some(Health {
            erase_count_mean: word(8),
            erase_count_max: word(12),
            rated_cycles: word(16),
            blocks: word(20),
            bad_blocks: word(24),
            factory_bad_blocks: word(28),
            host_written_bytes: long(32),
            programmed_bytes: long(40),
            read_only: page[5] & 1 == 1,
        })
    }
}

/// Optional features in the extension registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Extensions {
    /// The host can announce that it will cut the power.
    pub power_off_notification: bool,
    /// The card has a cache that the host can enable and flush.
    pub cache: bool,
}

/// Function numbers.
pub(crate) const GENERAL: u8 = 0;
pub(crate) const POWER: u8 = 1;
pub(crate) const PERFORMANCE: u8 = 2;
pub(crate) const HEALTH: u8 = 3;

/// Settings that a host has written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    cache_enabled: bool,
    /// The host announced a power-off, and the card is ready for it.
    power_off_ready: bool,
}

impl Settings {
    /// Returns true if writes go into the cache.
    pub(crate) fn caches(&self) -> bool {
        self.cache_enabled
    }
    /// Returns true if the cache must be empty, because it is disabled or a power-off was announced.
    pub(crate) fn empties_cache(&self) -> bool {
        !self.cache_enabled || self.power_off_ready
    }
}

impl Extensions {
    /// Returns the page of a function, or zeroes if the function does not exist.
    pub(crate) fn page(
        &self,
        function: u8,
        settings: Settings,
        health: impl FnOnce() -> Health,
    ) -> Box<[u8; PAGE]> {
        let mut page = Box::new([0; PAGE]);
        match function {
            GENERAL => self.general(&mut page),
            POWER => {
                page[1] = u8::from(self.power_off_notification) << 4 | u8::from(settings.power_off_ready);
            }
            PERFORMANCE => {
                page[4] = u8::from(self.cache);
                page[260] = u8::from(settings.cache_enabled);
            }
            HEALTH => *page = health().to_page(),
            _ => {}
        }
        page
    }

    /// Fills in the general information: revision 0, the length, and the number of extensions. From byte 16
    /// on, each extension has an entry of 48 bytes. An entry starts with the standard function code. From
    /// byte 40 on, the entry contains the offset of the next entry, the number of register sets, and the
    /// address of the first set.
    fn general(&self, page: &mut [u8; PAGE]) {
        // The specification defines codes 1 and 2. Code 0x8000 is our choice from the vendor-specific range.
        let functions = [(1u16, POWER), (2, PERFORMANCE), (0x8000, HEALTH)];
        let end = 16 + 48 * functions.len();
        page[2..4].copy_from_slice(&(end as u16).to_le_bytes());
        page[4] = functions.len() as u8;
        for (n, (code, function)) in functions.into_iter().enumerate() {
            let at = 16 + 48 * n;
            let next = if n + 1 < functions.len() { at as u16 + 48 } else { 0 };
            page[at..at + 2].copy_from_slice(&code.to_le_bytes());
            page[at + 40..at + 42].copy_from_slice(&next.to_le_bytes());
            page[at + 42] = 1;
            page[at + 44..at + 48].copy_from_slice(&(u32::from(function) << 18).to_le_bytes());
        }
    }

    /// Returns true if the written byte requests a flush of the cache.
    pub(crate) fn flushes(&self, function: u8, offset: usize, byte: u8) -> bool {
        self.cache && (function, offset) == (PERFORMANCE, 261) && byte & 1 == 1
    }

    /// Applies a written byte. Read-only bytes keep their value.
    pub(crate) fn write(&self, function: u8, offset: usize, byte: u8, settings: &mut Settings) {
        match (function, offset) {
            (POWER, 2) if self.power_off_notification => settings.power_off_ready = byte & 1 == 1,
            (PERFORMANCE, 260) if self.cache => settings.cache_enabled = byte & 1 == 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_general_information_leads_to_every_function() {
        let page = Extensions::default().page(GENERAL, Settings::default(), Health::default);
        let (mut at, mut found) = (16usize, alloc::vec::Vec::new());
        for _ in 0..page[4] {
            found.push(page[at + 46] >> 2);
            at = usize::from(u16::from_le_bytes([page[at + 40], page[at + 41]]));
        }
        assert_eq!((found, at), (alloc::vec![POWER, PERFORMANCE, HEALTH], 0));
    }

    #[test]
    fn health_is_read_as_it_was_written() {
        let health = Health {
            erase_count_mean: 300,
            rated_cycles: 3_000,
            programmed_bytes: 1 << 40,
            read_only: true,
            ..Health::default()
        };
        assert_eq!(Health::from_page(&health.to_page()), Some(health));
        assert_eq!(health.used_percent(), 10);
        assert_eq!(Health::from_page(&[0; 512]), None);
    }
}
