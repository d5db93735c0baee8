//! A simulated device of the catalogue with bytes in memory, or in files beside its state file.

use super::{Bottom, Bytes, Opening, Simulated};
use crate::argument::Part;
use crate::checksummed::ChecksummedStore;
use crate::device_files::Files;
use crate::error::{Problem, ServedError};
use crate::state_writer;
use flashlab_block::{BlockDevice, Geometry, Memory, Pages};
use flashlab_sim::Store;
use std::io;
use std::sync::Arc;

pub(super) fn open(part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    let (device, stored) = state_writer::open(part.text(), opening.sources.library)?;
    if let Some(path) = device.state_path.as_ref().filter(|_| device.state.is_none()) {
        // The files of a state that exists belong together.
        Files::of(path).names().iter().for_each(|name| opening.new_files.add(name));
    }
    let bytes: Box<dyn Bytes> = match stored.clone() {
        Some(checksummed) => Box::new(checksummed),
        None => {
            let memory = Memory::new(device.capacity(), Pages::Small);
            Box::new(memory.map_err(|error| part.error(Problem::Memory(error)))?)
        }
    };
    let model = device.build_without_host(opening.seed);
    Ok(Bottom { bytes, simulated: Some(Simulated { device, model, stored }), made: None, closing: None })
}

impl Bytes for ChecksummedStore {
    fn geometry(&self) -> Geometry {
        ChecksummedStore::geometry(self)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        unreachable!("a device with a state file has a model")
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        self
    }
}
