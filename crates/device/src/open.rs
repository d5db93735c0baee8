//! Opens devices and cards from their names.

use crate::{Device, Error};
use flashlab_catalogue::library::Library;
use flashlab_sd::quirk::Planned;
use flashlab_sd::spi::Spi;
use flashlab_sd::{Card, Native};
use flashlab_served::{CardOrigin, Served};
use flashlab_sim::Store;
use std::fmt;

/// Opens a device that stores bytes, with the default [`Options`].
pub fn device(name: &str) -> Result<Device, Error> {
    Options::new().device(name)
}

/// Opens an SD card that takes commands, with the default [`Options`]. The card has no power yet.
pub fn card(name: &str) -> Result<Card, Error> {
    Options::new().card(name)
}

/// Opens an SD card in the slot of a host controller in native mode. The slot has no power yet.
pub fn native(name: &str) -> Result<Native, Error> {
    Ok(Native::new(Some(card(name)?)))
}

/// Opens an SD card on an SPI bus with a clock of `clock_hz`. The card has power.
pub fn spi(name: &str, clock_hz: u32) -> Result<Spi, Error> {
    Ok(Spi::new(Some(card(name)?), clock_hz))
}

/// Options for opening a device or a card.
pub struct Options {
    seed: u64,
    quirks: Vec<Planned>,
    store: Option<Box<dyn Store>>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Returns the default options: seed 1, no quirks, and bytes in memory. The program `flashlab` and the
    /// Python package have the same default seed.
    pub fn new() -> Options {
        Options { seed: 1, quirks: Vec::new(), store: None }
    }

    /// Sets the seed, from which the medium, the instants of [`Device::cut_power_during_write`] and injected errors are
    /// drawn.
    #[must_use]
    pub fn seed(self, seed: u64) -> Options {
        Options { seed, ..self }
    }

    /// Adds a quirk of a card: `busy=400ms`, `stuck-busy@CMD25#3`. [`Options::device`] ignores quirks, because the
    /// device that it opens takes no commands.
    pub fn quirk(mut self, quirk: &str) -> Result<Options, Error> {
        self.quirks.push(quirk.parse()?);
        Ok(self)
    }

    /// Keeps the bytes of the device in `store` instead of memory. The store must be as large as the device,
    /// and must read as zeroes. [`Options::device`] then opens only simulated devices without layers.
    #[must_use]
    pub fn store(self, store: Box<dyn Store>) -> Options {
        Options { store: Some(store), ..self }
    }

    /// Opens a device that stores bytes.
    pub fn device(self, name: &str) -> Result<Device, Error> {
        let library = Library::built_in()?;
        let Some(store) = self.store else {
            let served = Served::open(name, self.seed, false, &library)?;
            return Ok(Device::new(served.device, served.timed, self.seed));
        };
        let profile = flashlab_catalogue::device::Device::open(name, &library).map_err(Error::Device)?;
        Ok(Device::of_model(profile.build_without_host(self.seed), store, self.seed))
    }

    /// Opens an SD card that takes commands. The card has no power yet.
    pub fn card(self, name: &str) -> Result<Card, Error> {
        let library = Library::built_in()?;
        let mut card = match self.store {
            None => {
                CardOrigin::open(name, self.seed, &library).map_err(|error| Error::of_card(name, error))?.0
            }
            Some(store) => flashlab_catalogue::device::Device::open(name, &library)
                .map_err(Error::Device)?
                .card(self.seed, Some(store))
                .ok_or_else(|| Error::NotACard(name.to_owned()))?,
        };
        self.quirks.into_iter().for_each(|quirk| card.quirks_mut().add(quirk));
        Ok(card)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("quirks", &self.quirks)
            .field("store", &self.store.is_some())
            .finish()
    }
}
