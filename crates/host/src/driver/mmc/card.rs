//! The host's view of a card that it has initialised.

use super::{CidFields, CsdFields, EraseSizes, ScrFields, SsrFields, SwitchFields};
use flashlab_sim::Duration;

/// Capacity class of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Up to 2 GiB, with byte addresses.
    Standard,
    /// Up to 32 GiB.
    High,
    /// Up to 2 TiB.
    Extended,
    /// Above 2 TiB.
    Ultra,
}

impl Capacity {
    /// Returns the name that Linux uses.
    pub const fn name(self) -> &'static str {
        match self {
            Capacity::Standard => "SD",
            Capacity::High => "SDHC",
            Capacity::Extended => "SDXC",
            Capacity::Ultra => "SDUC",
        }
    }
}

/// Location of an extension register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtensionAt {
    /// Function number.
    pub function: u8,
    /// Page number.
    pub page: u8,
    /// Byte offset in the page.
    pub offset: u16,
}

/// Extension registers that the host uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtensionFields {
    /// Power management with power-off notification.
    pub power_off: Option<ExtensionAt>,
    /// Performance enhancement with a cache.
    pub cache: Option<ExtensionAt>,
    /// True if the cache is enabled.
    pub cache_enabled: bool,
}

/// A card that the host has initialised.
#[derive(Clone, PartialEq, Debug)]
pub struct CardInfo {
    /// Relative address.
    pub address: u16,
    /// Selected voltages, as bits of the OCR.
    pub ocr: u32,
    /// Raw CID.
    pub cid_raw: [u8; 16],
    /// Decoded CID.
    pub cid: CidFields,
    /// Raw CSD.
    pub csd_raw: [u8; 16],
    /// Decoded CSD.
    pub csd: CsdFields,
    /// True if host and card agreed on SDUC in ACMD41, so that CMD22 sends the upper bits of an address.
    pub extends_addresses: bool,
    /// Raw SCR.
    pub scr_raw: [u8; 8],
    /// Decoded SCR.
    pub scr: ScrFields,
    /// Raw SD Status.
    pub ssr_raw: [u8; 64],
    /// Decoded SD Status.
    pub ssr: SsrFields,
    /// Decoded switch function status from CMD6.
    pub switch: SwitchFields,
    /// Erase granularity and times.
    pub erase: EraseSizes,
    /// Extension registers.
    pub extensions: ExtensionFields,
    /// Maximum number of blocks of one discard; 0 if the card does not support erase.
    pub discard_max: u32,
    /// True if the card is powered off and must be initialised again before use.
    pub suspended: bool,
    /// True if the host has noticed the removal of the card.
    pub removed: bool,
}

impl CardInfo {
    pub(super) fn new(cid_raw: [u8; 16], ocr: u32) -> Self {
        CardInfo {
            address: 0,
            ocr,
            cid_raw,
            cid: CidFields::of(&cid_raw),
            csd_raw: [0; 16],
            csd: CsdFields::default(),
            extends_addresses: false,
            scr_raw: [0; 8],
            scr: ScrFields::default(),
            ssr_raw: [0; 64],
            ssr: SsrFields::default(),
            switch: SwitchFields::default(),
            erase: EraseSizes::default(),
            extensions: ExtensionFields::default(),
            discard_max: 0,
            suspended: false,
            removed: false,
        }
    }

    /// Returns the capacity class: SD, SDHC, SDXC or SDUC.
    pub fn capacity(&self) -> Capacity {
        match (self.csd.block_addressed, self.csd.extended_capacity) {
            _ if self.extends_addresses => Capacity::Ultra,
            (false, _) => Capacity::Standard,
            (true, false) => Capacity::High,
            (true, true) => Capacity::Extended,
        }
    }

    /// Returns how long the host waits for a block.
    pub(super) fn limit(&self, write: bool, clock_hz: u32) -> Duration {
        self.csd.limit(write, clock_hz)
    }

    /// Returns the argument that addresses block `sector` of 512 bytes. For an SDUC card it is the lower 32 bits of the
    /// address.
    pub(super) fn argument(&self, sector: u64) -> u32 {
        let address = if self.csd.block_addressed { sector } else { sector * 512 };
        address as u32
    }

    /// Returns the upper bits of the address of block `sector` for CMD22, or `None` if the card is not an SDUC card.
    pub(super) fn address_extension(&self, sector: u64) -> Option<u32> {
        self.extends_addresses.then_some((sector >> 32) as u32)
    }
}
