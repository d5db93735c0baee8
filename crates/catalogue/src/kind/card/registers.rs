//! The contents of a card's registers from its profile. Registers that the profile omits are fixed (CID) or
//! follow from the card's other parameters.

use crate::profile::{date, hex};
use flashlab_flash::Impossible;
use flashlab_sd::register::{Cid, Csd, Ocr, Scr, Ssr};
use flashlab_sd::{CardParameters, Identity};
use flashlab_sim::Duration;

/// The registers, the time of initialisation and the output delay that a profile sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kind) struct Registers {
    pub(super) manufacturer: Option<u32>,
    pub(super) oem: Option<String>,
    pub(super) product: Option<String>,
    pub(super) revision: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) date: Option<String>,
    pub(super) relative_address: Option<String>,
    pub(super) ocr: Option<String>,
    pub(super) csd: Option<String>,
    pub(super) scr: Option<String>,
    pub(super) ssr: Option<String>,
    pub(super) t_init: Option<Duration>,
    pub(super) t_output_ps: Option<u32>,
}

impl Registers {
    /// Returns the path of a register that profiles of eMMC devices cannot set, if the profile sets one.
    pub(in crate::kind) fn any_of_sd(&self) -> Option<&'static str> {
        let set = [
            ("card.relative_address", self.relative_address.is_some()),
            ("card.ocr", self.ocr.is_some()),
            ("card.csd", self.csd.is_some()),
            ("card.scr", self.scr.is_some()),
            ("card.ssr", self.ssr.is_some()),
        ];
        set.into_iter().find(|(_, is_set)| *is_set).map(|(path, _)| path)
    }

    /// Returns the registers of `card`. Registers that the profile omits have the defaults of
    /// [`Identity::new`].
    pub(super) fn identity(&self, card: &CardParameters) -> Result<Identity, Impossible> {
        let mut identity = Identity::new(card);
        let letters = |text: &Option<String>, default: &[u8]| -> Vec<u8> {
            text.as_ref().map_or_else(|| default.to_vec(), |text| text.as_bytes().to_vec())
        };
        let (oem, product) =
            (letters(&self.oem, &identity.cid.oem()), letters(&self.product, &identity.cid.name()));
        identity.cid = Cid::new(
            self.manufacturer.map_or(identity.cid.manufacturer(), |number| number as u8),
            oem.try_into().expect("the parser accepts two letters"),
            product.try_into().expect("the parser accepts five letters"),
            self.revision.as_ref().map_or(identity.cid.0[8], |text| hex::<1>(text)[0]),
            self.serial.as_ref().map_or(identity.cid.serial(), |text| u32::from_be_bytes(hex(text))),
            self.date.as_ref().and_then(|text| date(text)).unwrap_or(identity.cid.date()),
        );
        if let Some(address) = &self.relative_address {
            identity.relative_address = u16::from_be_bytes(hex(address));
            if identity.relative_address == 0 {
                return Err(Impossible::new("card.relative_address", "is 0, which addresses no card"));
            }
        }
        if let Some(ocr) = &self.ocr {
            identity.ocr = Ocr(u32::from_be_bytes(hex(ocr)));
        }
        if let Some(csd) = &self.csd {
            identity.csd = Csd(hex(csd));
            if identity.csd.capacity() != Some(card.capacity) {
                let says = identity.csd.capacity().map_or("has an unknown version".to_owned(), |bytes| {
                    format!("states {bytes} B, but card.capacity is {} B", card.capacity)
                });
                return Err(Impossible::new("card.csd", says));
            }
        }
        if let Some(scr) = &self.scr {
            identity.scr = Scr(hex(scr));
        }
        if let Some(ssr) = &self.ssr {
            identity.ssr = Ssr(hex(ssr));
        }
        identity.t_init = self.t_init.unwrap_or(identity.t_init);
        identity.t_output_ps = self.t_output_ps.unwrap_or(identity.t_output_ps);
        Ok(identity)
    }
}
