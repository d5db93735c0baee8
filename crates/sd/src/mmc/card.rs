//! What the host knows of a card that it has brought up.

use super::{CidFields, CsdFields, EraseSizes, ScrFields, SsrFields, SwitchFields};
use flashlab_sim::Duration;

/// The kind of card, by its capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Up to 2 GiB, addressed by bytes.
    Standard,
    /// Up to 32 GiB.
    High,
    /// Up to 2 TiB.
    Extended,
    /// Above.
    Ultra,
}

impl Capacity {
    /// As Linux names it.
    pub const fn name(self) -> &'static str {
        match self {
            Capacity::Standard => "SD",
            Capacity::High => "SDHC",
            Capacity::Extended => "SDXC",
            Capacity::Ultra => "SDUC",
        }
    }
}

/// Where an extension register lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtensionAt {
    /// The function.
    pub function: u8,
    /// The page.
    pub page: u8,
    /// The byte in it.
    pub offset: u16,
}

/// The extension registers on which the host acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtensionFields {
    /// Power management that takes a notice of power off.
    pub power_off: Option<ExtensionAt>,
    /// Performance enhancement with a cache.
    pub cache: Option<ExtensionAt>,
    /// The cache is on.
    pub cache_enabled: bool,
}

/// A card that was brought up.
#[derive(Clone, PartialEq, Debug)]
pub struct Attached {
    /// Its relative address.
    pub address: u16,
    /// The voltages that were chosen, as bits of the OCR.
    pub ocr: u32,
    /// The CID.
    pub cid_raw: [u8; 16],
    /// What it says.
    pub cid: CidFields,
    /// The CSD.
    pub csd_raw: [u8; 16],
    /// What it says.
    pub csd: CsdFields,
    /// SDUC, as host and card agreed in ACMD41: CMD22 carries the upper bits of an address.
    pub extends_addresses: bool,
    /// The SCR.
    pub scr_raw: [u8; 8],
    /// What it says.
    pub scr: ScrFields,
    /// The SD status.
    pub ssr_raw: [u8; 64],
    /// What it says.
    pub ssr: SsrFields,
    /// The answer to CMD6.
    pub switch: SwitchFields,
    /// What is erased together.
    pub erase: EraseSizes,
    /// The extension registers.
    pub extensions: ExtensionFields,
    /// The most blocks of one discard; 0: the card erases nothing.
    pub discard_max: u32,
    /// Powered off, and to be brought up again before it is used.
    pub suspended: bool,
    /// It was seen to be gone.
    pub removed: bool,
}

impl Attached {
    pub(super) fn new(cid_raw: [u8; 16], ocr: u32) -> Self {
        Attached {
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

    /// SD, SDHC, SDXC or SDUC.
    pub fn capacity(&self) -> Capacity {
        match (self.csd.block_addressed, self.csd.extended_capacity) {
            _ if self.extends_addresses => Capacity::Ultra,
            (false, _) => Capacity::Standard,
            (true, false) => Capacity::High,
            (true, true) => Capacity::Extended,
        }
    }

    /// How long the host waits for a block.
    pub(super) fn limit(&self, write: bool, clock_hz: u32) -> Duration {
        self.csd.limit(write, clock_hz)
    }

    /// The argument that addresses block `sector` of 512 bytes. Of an SDUC card it is the lower 32 bits of the address.
    pub(super) fn argument(&self, sector: u64) -> u32 {
        let address = if self.csd.block_addressed { sector } else { sector * 512 };
        address as u32
    }

    /// The upper bits of the address of block `sector`, for CMD22; `None` where the card is no SDUC card.
    pub(super) fn address_extension(&self, sector: u64) -> Option<u32> {
        self.extends_addresses.then_some((sector >> 32) as u32)
    }
}
