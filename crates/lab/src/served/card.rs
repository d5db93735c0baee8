//! A card that is told commands, with its bytes, from its name: `sd/kingston`, `sd/kingston:state=card.state`.
//!
//! What keeps it is what keeps a served device of the same name ([`super::Keeper`]): the same two files, of which either can
//! begin.

use super::argument::Argument;
use super::error::{Problem, ServedError};
use super::keeper;
use crate::device::{Device, State};
use crate::library::Library;
use flashlab_block::{Memory, Pages};
use flashlab_sd::Card;
use flashlab_sim::{Duration, Store};
use std::path::{Path, PathBuf};

/// What a card was made from, for whoever puts it away.
#[derive(Debug)]
pub struct CardOrigin {
    device: Device,
    seed: u64,
    path: Option<PathBuf>,
}

impl CardOrigin {
    /// The card of an argument, without power; `seed` draws its medium. Layers cannot lie on it: they know no commands.
    pub fn open(argument: &str, seed: u64, library: &Library) -> Result<(Card, CardOrigin), ServedError> {
        let argument = Argument::new(argument);
        let (part, layers) = argument.parts();
        if let Some(layer) = layers.first() {
            return Err(layer.refuse(Problem::NotACard));
        }
        if matches!(part.word(), "" | "memory" | "file") {
            return Err(part.refuse(Problem::NotACard));
        }
        let (device, bytes) = keeper::open(part.text(), library)?;
        let store: Box<dyn Store> = match bytes {
            Some(file) => Box::new(file),
            None => Box::new(
                Memory::new(device.capacity(), Pages::Small)
                    .map_err(|error| part.refuse(Problem::Memory(error)))?,
            ),
        };
        let card = device.card(seed, Some(store)).ok_or_else(|| part.refuse(Problem::NotACard))?;
        let path = device.kept_in.clone();
        Ok((card, CardOrigin { device, seed, path }))
    }

    /// Where its state is kept, if it is.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Writes the state of the card, to which nothing is being written, where it was asked for with one; it was used for `used`.
    pub fn keep(&self, card: &Card, used: Duration) -> Result<(), ServedError> {
        let Some(path) = &self.path else { return Ok(()) };
        let state = State::of(&self.device, self.seed, self.device.used() + used, card.save())?;
        keeper::replace(path, &state.to_bytes())
            .map_err(|error| ServedError::System { path: path.clone(), error })
    }
}
