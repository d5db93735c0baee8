//! Devices that store bytes, opened from their names: `memory:size=1GiB`, `scratch=memory:size=1G,pages=small`,
//! `file:disk.img`, `volume:a.img:b.img`, `sd/kingston:state=card.state`, and layers on them:
//! `file:base.img+overlay+error:rate=0.01`.
//!
//! A simulated device is a model joined with a store of bytes. The model covers only the device and its bus; the
//! host adds its own time.
//!
//! The stack, from the bottom:
//! - memory, a file, the image of a directory, a volume or a device outside this process;
//! - an overlay, which a directory always has;
//! - the timing, if the device is simulated or has a `delay` or `rate` layer in any position;
//! - the layers that act on bytes, in the order of the argument.
#![forbid(unsafe_code)]

mod argument;
mod bottom;
mod card;
mod checksummed;
mod closing;
mod device_files;
mod device_store;
mod error;
mod exports;
mod journal;
mod layers;
mod new_files;
mod sources;
mod state_writer;
mod store_model;
pub mod time_left;
mod verify_format;
#[cfg(feature = "volume")]
pub mod volume;
pub mod wait;

#[cfg(feature = "image")]
pub use bottom::check_kept_changes;
pub use card::CardOrigin;
pub use closing::{Background, Caller, Closing, Gauge};
pub use device_files::DeviceFilesError;
pub use error::{Problem, ServedError};
pub use new_files::NewFiles;
pub use sources::{EdgeError, OpenUri, Opener, Sources};
pub use state_writer::StateWriter;
pub use store_model::{StoreModel, Verification, WrongBlock};
pub use verify_format::{VerifyError, VerifyFailure, VerifyFormat};

use argument::Argument;
use bottom::{Bottom, Opening, Simulated};
use flashlab_block::layer::{Faults, Stats};
use flashlab_block::model::{Throttled, Untimed};
use flashlab_block::{BlockDevice, Timed};
use flashlab_catalogue::device::HostCodecs;
use flashlab_sim::Model;
use std::path::PathBuf;
use std::sync::Arc;

/// A named device that stores bytes.
#[derive(Clone)]
pub struct Served {
    /// Name of the export; empty for the default export.
    pub name: String,
    /// The device and its layers, as in the argument.
    pub description: String,
    /// The device with all its layers.
    pub device: Arc<dyn BlockDevice>,
    /// True if clients must not write to the device, even if the device accepts writes.
    pub read_only: bool,
    /// The part that answers at the times of a model; `None` if the device is not simulated and has no
    /// overlay, `delay` or `rate` layer.
    pub timed: Option<Arc<Timed>>,
    /// The `error` layers, from the bottom up.
    pub faults: Vec<Arc<Faults>>,
    /// The `stats` layers, from the bottom up.
    pub stats: Vec<Arc<Stats>>,
    /// Writer of the state file; `None` if the argument names no state file.
    pub state_writer: Option<Arc<StateWriter>>,
    /// Background work, commands and closing of a volume; `None` for other devices.
    pub closing: Option<Arc<dyn Closing>>,
    /// Processors of the host of a simulated device; `None` for other devices.
    pub host: Option<HostCodecs>,
}

impl Served {
    /// Returns true if the device has a state file, or is a volume, whose members may have state files.
    pub fn may_have_states(&self) -> bool {
        self.state_writer.is_some() || self.closing.is_some()
    }

    /// Returns the writers of all state files: that of the device, and those of the members of a volume.
    pub fn state_writers(&self) -> Vec<Arc<StateWriter>> {
        let of_members = self.closing.iter().flat_map(|closing| closing.state_writers());
        self.state_writer.iter().cloned().chain(of_members).collect()
    }

    /// Returns true if an argument names a device that stores bytes in every use: memory, a file, a directory, a
    /// volume, a URI, or any device with a layer.
    pub fn always_stores_bytes(argument: &str) -> bool {
        let parsed = Argument::new(argument);
        let (part, layers) = parsed.parts();
        bottom::is_registered(part.word()) || Self::is_export(argument) || !layers.is_empty()
    }

    /// Returns true if the device of an argument, or a member of its volume, has a state file: `state=FILE`.
    ///
    /// # Errors
    /// Returns an error if the list of members cannot be read.
    pub fn has_state_file(argument: &str) -> Result<bool, ServedError> {
        let names_state = |device: &str| [":state=", ",state="].iter().any(|key| device.contains(key));
        let members = Self::members_of_volume(argument)?;
        Ok(names_state(argument) || members.iter().any(|member| names_state(member)))
    }

    /// Returns the devices of the members of the volume that an argument names. Returns an empty list if the
    /// argument names another device.
    ///
    /// # Errors
    /// Returns an error if the list of members cannot be read.
    pub fn members_of_volume(argument: &str) -> Result<Vec<String>, ServedError> {
        #[cfg(feature = "volume")]
        {
            let argument = Argument::new(argument);
            let (mut part, _) = argument.parts();
            if part.word() == "volume"
                && let Some(list) = part.first()
            {
                let pool = volume::Pool::parse(list)?;
                return Ok(pool.members().iter().map(|member| member.device.clone()).collect());
            }
        }
        let _ = argument;
        Ok(Vec::new())
    }

    /// Returns true if an argument names the export of a server, such as `nbd://localhost/x`, with or without layers.
    pub fn is_export(argument: &str) -> bool {
        Argument::new(argument).parts().0.text().contains("://")
    }

    /// Returns the path of the file or block device to which the device of an argument writes: `file:PATH`
    /// with or without layers. Returns `None` for other devices, and for a file below an overlay, because the
    /// overlay takes all writes.
    pub fn path_of_written_file(argument: &str) -> Option<PathBuf> {
        let argument = Argument::new(argument);
        let (mut part, layers) = argument.parts();
        let is_overlaid = layers.first().is_some_and(|layer| layer.word() == "overlay");
        if part.word() == "file" && !is_overlaid { part.first().map(PathBuf::from) } else { None }
    }

    /// Opens the device of an argument `[NAME=]DEVICE`. `seed` draws its medium and its injected faults. With
    /// `read_only`, no client will write to the device.
    pub fn open<'a>(
        argument: &str,
        seed: u64,
        read_only: bool,
        sources: impl Into<Sources<'a>>,
    ) -> Result<Served, ServedError> {
        let new_files = NewFiles::default();
        let served = Served::open_for(argument, seed, read_only, (sources.into(), false, &new_files))?;
        new_files.keep();
        Ok(served)
    }

    /// Opens a device as [`Served::open`] does; `is_member` is true for a member of a volume. Adds the files that it
    /// creates to `new_files`.
    pub(crate) fn open_for(
        argument: &str,
        seed: u64,
        read_only: bool,
        (sources, is_member, new_files): (Sources<'_>, bool, &NewFiles),
    ) -> Result<Served, ServedError> {
        let argument = Argument::new(argument);
        if let Some(error) = argument.misspelt_layer(sources.library) {
            return Err(error);
        }
        let (part, mut layers) = argument.parts();
        let overlay = layers.first().is_some_and(|layer| layer.word() == "overlay").then(|| layers.remove(0));
        let read_only_bytes = read_only || overlay.is_some();
        let Bottom { bytes, simulated, made, closing } =
            bottom::open(part, &Opening { seed, read_only_bytes, is_member, sources, new_files })?;
        if let Some(misplaced) = overlay.as_ref().filter(|_| simulated.is_some()) {
            return Err(misplaced.error(Problem::NotOnBytes));
        }
        let mut paces = Vec::new();
        for layer in &mut layers {
            paces.extend(layers::pace(layer)?);
        }
        let host = simulated.as_ref().map(|simulated| HostCodecs::of(&simulated.device));
        let mut stored = None;
        let (device, timed): (Arc<dyn BlockDevice>, _) =
            if simulated.is_none() && overlay.is_none() && made.is_none() && paces.is_empty() {
                let device = bytes.into_device();
                let system = |error| ServedError::System { path: "threads".into(), error };
                (device.map_err(system)?, None)
            } else {
                let geometry = bytes.geometry();
                let mut store = bytes.into_store();
                if overlay.is_some() || made.is_some() {
                    store = layers::overlay(overlay, store, geometry.capacity, (made.as_ref(), new_files))?;
                }
                let mut model: Box<dyn Model> = match simulated {
                    Some(Simulated { device, model, stored: bytes }) => {
                        stored = bytes.map(|bytes| (device, bytes));
                        model
                    }
                    None => Box::new(Untimed::new(geometry)),
                };
                for pace in paces {
                    model = Box::new(Throttled::new(model, pace));
                }
                let timed = Arc::new(Timed::new(model, store));
                (timed.clone(), Some(timed))
            };
        let state_writer = match stored.zip(timed.clone()) {
            Some(((device, bytes), timed)) => Some(StateWriter::of(device, seed, timed, bytes)?),
            None => None,
        };
        let served = Served {
            name: argument.slice(&argument.name).to_owned(),
            description: argument.slice(&argument.device).to_owned(),
            device,
            read_only,
            timed,
            faults: Vec::new(),
            stats: Vec::new(),
            state_writer: state_writer.map(Arc::new),
            closing,
            host,
        };
        layers.into_iter().try_fold(served, |served, layer| layers::add(served, layer, seed))
    }
}
