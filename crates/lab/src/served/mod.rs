//! Devices that carry bytes, from their names: `memory:size=1GiB`, `scratch=memory:size=1G,pages=small`,
//! `file:disk.img`, `sd/kingston`.
//!
//! What is simulated is joined with bytes in memory. It is card and bus only: whoever attaches it is a host, and adds its
//! own time.

mod argument;
mod error;

pub use error::{Problem, ServedError};

use crate::device::Device;
use crate::library::Library;
use crate::units::Dimension;
use argument::{Argument, Part};
use flashlab_block::{Access, BlockDevice, File, Memory, Pages, Timed};
use std::path::Path;
use std::sync::Arc;

/// A device that carries bytes, under a name.
#[derive(Clone)]
pub struct Served {
    /// Empty for the default one.
    pub name: String,
    /// What it is, as it was asked for.
    pub description: String,
    /// The whole.
    pub device: Arc<dyn BlockDevice>,
    /// What answers when a model says, where there is a model.
    pub timed: Option<Arc<Timed>>,
}

impl Served {
    /// Makes the device of an argument `[NAME=]DEVICE`; `seed` draws its medium, if it has one. With `read_only` nobody is
    /// going to write.
    pub fn open(
        argument: &str,
        seed: u64,
        read_only: bool,
        library: &Library,
    ) -> Result<Served, ServedError> {
        let argument = Argument::new(argument);
        let bottom = argument.bottom();
        let served = |device: Arc<dyn BlockDevice>, timed| Served {
            name: argument.slice(&argument.name).to_owned(),
            description: argument.slice(&argument.device).to_owned(),
            device,
            timed,
        };
        match bottom.word() {
            "" => Err(bottom.refuse(Problem::NoName)),
            "memory" => memory(bottom).map(|memory| served(Arc::new(memory), None)),
            "file" => file(bottom, read_only).map(|file| served(Arc::new(file), None)),
            _ => {
                let device = Device::open(bottom.text(), library)?;
                let store = Memory::new(device.capacity(), Pages::Small);
                let store = store.map_err(|error| bottom.refuse(Problem::Memory(error)))?;
                let timed = Arc::new(Timed::new(device.build_alone(seed), Box::new(store)));
                Ok(served(timed.clone(), Some(timed)))
            }
        }
    }
}

fn memory(mut part: Part<'_>) -> Result<Memory, ServedError> {
    const EXAMPLE: &str = "memory:size=1GiB";
    part.read("memory", &["size", "pages"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let size = size.ok_or_else(|| part.refuse(Problem::Missing { key: "size", example: EXAMPLE }))?;
    let pages = match part.choice("pages", &["huge", "small"])? {
        Some(1) => Pages::Small,
        _ => Pages::Huge,
    };
    Memory::new(size, pages).map_err(|error| part.refuse(Problem::Memory(error)))
}

fn file(mut part: Part<'_>, read_only: bool) -> Result<File, ServedError> {
    const EXAMPLE: &str = "file:disk.img,size=1GiB";
    let path = part.first();
    let path = path.ok_or_else(|| part.refuse(Problem::Missing { key: "the path", example: EXAMPLE }))?;
    part.read("file", &["size", "direct"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let access = match part.choice("direct", &["yes", "no"])? {
        Some(0) => Access::Direct,
        _ => Access::Cached,
    };
    Ok(File::open(Path::new(path), size, access, read_only)?)
}
