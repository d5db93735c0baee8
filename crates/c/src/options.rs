//! Options for opening a device or a card: `flashlab_options`.

use crate::code::{Code, Failure};
use crate::export::exports;
use crate::handle::HandleRef;
use crate::pointer::{In, Out, Text};
use crate::store::{Callbacks, CallerStore};
use flashlab_device::sd::spi::ChipSelect;

/// Options, which several devices may share.
#[derive(Default)]
pub(crate) struct Options {
    /// The seed; `None` for the default seed.
    seed: Option<u64>,
    quirks: Vec<String>,
    store: Option<CallerStore>,
    pub(crate) chip_select: ChipSelect,
}

impl Options {
    /// Returns the options for one device.
    fn build(&self) -> Result<flashlab_device::Options, Failure> {
        let mut options = flashlab_device::Options::new();
        if let Some(seed) = self.seed {
            options = options.seed(seed);
        }
        for quirk in &self.quirks {
            options = options.quirk(quirk)?;
        }
        Ok(match self.store {
            Some(store) => options.store(Box::new(store)),
            None => options,
        })
    }
}

impl HandleRef<Options> {
    /// Returns the options for one device, and the effect of chip select. Null stands for the default options.
    pub(crate) fn build(&self) -> Result<(flashlab_device::Options, ChipSelect), Failure> {
        if self.is_null() {
            return Ok(Default::default());
        }
        let options = self.lend("options")?;
        Ok((options.build()?, options.chip_select))
    }
}

/// Converts the value of `FLASHLAB_CHIP_SELECT_ENDS_TRANSFERS` or `FLASHLAB_CHIP_SELECT_PAUSES`.
pub(crate) fn chip_select(value: u32) -> Result<ChipSelect, Failure> {
    match value {
        0 => Ok(ChipSelect::EndsTransfers),
        1 => Ok(ChipSelect::Pauses),
        _ => Err(Failure::argument(format_args!("chip_select is {value}; see FLASHLAB_CHIP_SELECT_PAUSES"))),
    }
}

exports! {
    fallible {
        /// Creates the default options.
        fn flashlab_options_new(options: Out<HandleRef<Options>>) {
            options.place("options")?.put_handle(Options::default());
            Ok(())
        }
        /// Sets the seed.
        fn flashlab_options_set_seed(options: HandleRef<Options>, seed: u64) {
            options.lend("options")?.seed = Some(seed);
            Ok(())
        }
        /// Adds a quirk, which is checked at once.
        fn flashlab_options_add_quirk(options: HandleRef<Options>, quirk: Text) {
            let (mut options, quirk) = (options.lend("options")?, quirk.get("quirk")?);
            flashlab_device::Options::new().quirk(quirk)?;
            options.quirks.push(quirk.to_owned());
            Ok(())
        }
        /// Sets the functions that hold the bytes; null selects memory of the library.
        fn flashlab_options_set_store(options: HandleRef<Options>, store: In<Callbacks>) {
            let mut options = options.lend("options")?;
            options.store =
                if store.is_null() { None } else { Some(CallerStore::new(&store.get("store")?)?) };
            Ok(())
        }
        /// Sets the effect of a rising chip select.
        fn flashlab_options_set_chip_select(options: HandleRef<Options>, chip_select: u32) {
            options.lend("options")?.chip_select = self::chip_select(chip_select)?;
            Ok(())
        }
    }
    plain {
        /// Destroys the options. Devices opened with them are not affected.
        fn flashlab_options_close(options: HandleRef<Options>) -> () {
            options.close();
        }
    }
}

/// Adds a quirk to an open card.
pub(crate) fn add_quirk(card: Option<&mut flashlab_device::sd::Card>, quirk: &str) -> Result<(), Failure> {
    let planned: flashlab_device::sd::quirk::Planned =
        quirk.parse().map_err(|error| Failure::new(Code::ERROR_QUIRK, error))?;
    let card = card.ok_or_else(|| Failure::new(Code::ERROR_NOT_A_CARD, "there is no card"))?;
    card.quirks_mut().add(planned);
    Ok(())
}
