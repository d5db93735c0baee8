//! A device in memory: `memory:size=1GiB,pages=small`.

use super::{Bottom, Bytes, Opening};
use crate::argument::Part;
use crate::error::{Problem, ServedError};
use flashlab_block::{BlockDevice, Geometry, Memory, Pages};
use flashlab_catalogue::units::Dimension;
use flashlab_sim::Store;
use std::io;
use std::sync::Arc;

pub(super) fn open(mut part: Part<'_>, _: &Opening<'_>) -> Result<Bottom, ServedError> {
    part.read("memory", &["size", "pages"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let missing = Problem::Missing { key: "size", example: "memory:size=1GiB" };
    let size = size.ok_or_else(|| part.error(missing))?;
    let pages = match part.choice("pages", &["huge", "small"])? {
        Some(1) => Pages::Small,
        _ => Pages::Huge,
    };
    let memory = Memory::new(size, pages).map_err(|error| part.error(Problem::Memory(error)))?;
    Ok(Bottom { bytes: Box::new(memory), simulated: None, made: None, closing: None })
}

impl Bytes for Memory {
    fn geometry(&self) -> Geometry {
        BlockDevice::geometry(self)
    }
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>> {
        Ok(Arc::new(*self))
    }
    fn into_store(self: Box<Self>) -> Box<dyn Store> {
        self
    }
}
