//! A simulated device of the catalogue with bytes in memory, or in files beside its state file.

use super::{Bottom, Bytes, Opening, Simulated};
use crate::argument::Part;
use crate::error::{Problem, ServedError};
use crate::keeper;
use crate::summed::Summed;
use flashlab_block::{BlockDevice, Geometry, Memory, Pages};
use flashlab_sim::Store;
use std::io;
use std::sync::Arc;

pub(super) fn open(part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    let (device, kept) = keeper::open(part.text(), opening.library)?;
    let bytes: Box<dyn Bytes> = match kept.clone() {
        Some(summed) => Box::new(summed),
        None => {
            let memory = Memory::new(device.capacity(), Pages::Small);
            Box::new(memory.map_err(|error| part.refuse(Problem::Memory(error)))?)
        }
    };
    let model = device.build_alone(opening.seed);
    Ok(Bottom { bytes, simulated: Some(Simulated { device, model, kept }) })
}

impl Bytes for Summed {
    fn geometry(&self) -> Geometry {
        Summed::geometry(self)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        unreachable!("a device with a state file has a model")
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        self
    }
}
