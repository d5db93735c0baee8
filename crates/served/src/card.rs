//! SD cards that take commands and store bytes, opened from their names: `sd/kingston`, `sd/kingston:state=card.state`.
//!
//! The files of the card's state are the same as those of a served device of the same name ([`crate::StateWriter`]),
//! except for the journal.

use crate::argument::Argument;
use crate::bottom;
use crate::checksummed::ChecksummedStore;
use crate::device_files::Files;
use crate::error::{Problem, ServedError};
use crate::state_writer;
use flashlab_block::{Memory, Pages, write_whole};
use flashlab_catalogue::device::{Device, State};
use flashlab_catalogue::kind::CardInHost;
use flashlab_catalogue::library::Library;
use flashlab_sd::Card;
use flashlab_sim::{Duration, Store};
use std::io;
use std::path::{Path, PathBuf};

/// The profile, seed and files from which a card was opened. All of these are needed to write the state of
/// the card.
#[derive(Debug)]
pub struct CardOrigin {
    device: Device,
    seed: u64,
    /// Path of the state file, and the store of the bytes.
    stored: Option<(PathBuf, ChecksummedStore)>,
}

impl CardOrigin {
    /// Returns true if an argument names an SD card, with or without layers. Reads the state file if there is one, but
    /// locks and changes no file.
    pub fn is_card(argument: &str, library: &Library) -> bool {
        let argument = Argument::new(argument);
        let (part, _) = argument.parts();
        let is_simulated = !part.word().is_empty() && !bottom::is_registered(part.word());
        is_simulated
            && Device::open_or_create(part.text(), library)
                .is_ok_and(|device| device.hardware::<CardInHost>().is_some())
    }

    /// Opens the card of an argument, without power. `seed` draws its medium. An argument with layers is rejected,
    /// because layers cannot process card commands.
    pub fn open(argument: &str, seed: u64, library: &Library) -> Result<(Card, CardOrigin), ServedError> {
        let argument = Argument::new(argument);
        let (part, layers) = argument.parts();
        if let Some(layer) = layers.first() {
            return Err(layer.error(Problem::NotACard));
        }
        if part.word().is_empty() || bottom::is_registered(part.word()) {
            return Err(part.error(Problem::NotACard));
        }
        let (device, bytes) = state_writer::open(part.text(), library)?;
        let store: Box<dyn Store> = match bytes.clone() {
            Some(summed) => Box::new(summed),
            None => Box::new(
                Memory::new(device.capacity(), Pages::Small)
                    .map_err(|error| part.error(Problem::Memory(error)))?,
            ),
        };
        let card = device.card(seed, Some(store)).ok_or_else(|| part.error(Problem::NotACard))?;
        let stored = device.state_path.clone().zip(bytes);
        let origin = CardOrigin { device, seed, stored };
        if let Some((path, _)) = &origin.stored
            && !origin.device.state.as_ref().is_some_and(|state| state.has_bytes)
        {
            // New bytes need a state file from the start.
            origin.write(&card, Duration::ZERO)?;
            Files::of(path).commit().map_err(|error| ServedError::System { path: path.clone(), error })?;
        }
        Ok((card, origin))
    }

    /// Returns the path of the state file, if the card has one.
    pub fn path(&self) -> Option<&Path> {
        self.stored.as_ref().map(|(path, _)| path.as_path())
    }

    /// Returns a message about damaged bytes, or `None` if no request has encountered any.
    pub fn damage(&self) -> Option<String> {
        self.stored.as_ref().and_then(|(_, bytes)| bytes.damage())
    }

    /// Writes the state file, if the card has one, and closes the store of the bytes. No write to the card
    /// may be in progress. `used` is the time for which the card has been used since it was opened.
    pub fn write_state(&self, card: &Card, used: Duration) -> Result<(), ServedError> {
        let Some((path, bytes)) = &self.stored else { return Ok(()) };
        self.write(card, used)?;
        let failed = |error| ServedError::System { path: path.clone(), error: io::Error::other(error) };
        bytes.close().map_err(failed)
    }

    fn write(&self, card: &Card, used: Duration) -> Result<(), ServedError> {
        let Some((path, _)) = &self.stored else { return Ok(()) };
        let state =
            State::of(&self.device, self.seed, self.device.used_time() + used, card.save())?.with_bytes();
        write_whole(path, &state.to_bytes())
            .map_err(|error| ServedError::System { path: path.clone(), error })
    }
}
