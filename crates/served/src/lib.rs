//! Devices that store bytes, opened from their names: `memory:size=1GiB`, `scratch=memory:size=1G,pages=small`,
//! `file:disk.img`, `sd/kingston:state=card.state`, and layers on them: `file:base.img+overlay+error:rate=0.01`.
//!
//! A simulated device is a model joined with a store of bytes. It covers the card and its bus only: the host to which
//! it is attached adds its own time.
//!
//! The stack, from the bottom: memory or a file; an overlay on it; time, if the device is simulated or has a `delay` or
//! `rate` layer in any position; then the layers that act on bytes, in the order of the argument.
#![forbid(unsafe_code)]

mod argument;
mod card;
mod carried;
mod error;
mod exports;
mod journal;
mod keeper;
mod kept;
mod layers;
mod summed;
mod verified;

pub use card::CardOrigin;
pub use carried::{Carried, Checked, WrongBlock};
pub use error::{Problem, ServedError};
pub use keeper::Keeper;
pub use kept::KeptError;
pub use verified::{Verified, VerifyError, Wrong};

use argument::{Argument, Part};
use flashlab_block::layer::{Faults, Stats};
use flashlab_block::model::{Throttled, Untimed};
use flashlab_block::{Access, BlockDevice, File, Geometry, Memory, Pages, Timed, Workers};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::units::Dimension;
use flashlab_sim::{Model, Store};
use std::io;
use std::path::Path;
use std::sync::Arc;
use summed::Summed;

/// A named device that stores bytes.
#[derive(Clone)]
pub struct Served {
    /// Name of the export; empty for the default export.
    pub name: String,
    /// The device and its layers, as in the argument.
    pub description: String,
    /// The device with all its layers.
    pub device: Arc<dyn BlockDevice>,
    /// True if clients must not write to the device, even if it could take writes.
    pub read_only: bool,
    /// The part that answers at the times of a model; `None` without a model.
    pub timed: Option<Arc<Timed>>,
    /// The `error` layers, from the bottom up.
    pub faults: Vec<Arc<Faults>>,
    /// The `stats` layers, from the bottom up.
    pub stats: Vec<Arc<Stats>>,
    /// Writer of the state file; `None` if the argument names no state file.
    pub keeper: Option<Arc<Keeper>>,
}

/// Number of concurrent requests to a file opened for direct I/O.
const DIRECT_THREADS: usize = 32;

/// The store of the bytes.
enum Bytes {
    Memory(Memory),
    File(File),
    /// The store of a device with a state file.
    Kept(Summed),
}

impl Bytes {
    fn geometry(&self) -> Geometry {
        match self {
            Bytes::Memory(memory) => memory.geometry(),
            Bytes::File(file) => file.geometry(),
            Bytes::Kept(summed) => summed.geometry(),
        }
    }
    fn device(self) -> io::Result<Arc<dyn BlockDevice>> {
        Ok(match self {
            Bytes::Memory(memory) => Arc::new(memory),
            // The page cache answers immediately. A disk takes time, and serves many requests concurrently.
            Bytes::File(file) if file.access() == Access::Direct => {
                Arc::new(Workers::new(Arc::new(file), DIRECT_THREADS)?)
            }
            Bytes::File(file) => Arc::new(file),
            Bytes::Kept(_) => unreachable!("a kept device has a model"),
        })
    }
    fn store(self) -> Box<dyn Store> {
        match self {
            Bytes::Memory(memory) => Box::new(memory),
            Bytes::File(file) => Box::new(file),
            Bytes::Kept(summed) => Box::new(summed),
        }
    }
}

/// A simulated device and its model.
struct Simulated {
    device: Device,
    model: Box<dyn Model>,
    /// The store of a device with a state file; otherwise `None`.
    kept: Option<Summed>,
}

impl Served {
    /// Returns true if an argument names a device that stores bytes in every use: memory, a file, or any device with a
    /// layer.
    pub fn always_carries(argument: &str) -> bool {
        let argument = Argument::new(argument);
        let (part, layers) = argument.parts();
        matches!(part.word(), "memory" | "file") || !layers.is_empty()
    }

    /// Opens the device of an argument `[NAME=]DEVICE`. `seed` draws its medium and its injected faults. With
    /// `read_only`, no client will write to it.
    pub fn open(
        argument: &str,
        seed: u64,
        read_only: bool,
        library: &Library,
    ) -> Result<Served, ServedError> {
        let argument = Argument::new(argument);
        if let Some(error) = argument.misspelt_layer() {
            return Err(error);
        }
        let (part, mut layers) = argument.parts();
        let overlay = layers.first().is_some_and(|layer| layer.word() == "overlay").then(|| layers.remove(0));
        let (bytes, simulated) = bottom(part, seed, read_only || overlay.is_some(), library)?;
        if let Some(misplaced) = overlay.as_ref().filter(|_| simulated.is_some()) {
            return Err(misplaced.refuse(Problem::NotOnBytes));
        }
        let mut paces = Vec::new();
        for layer in &mut layers {
            paces.extend(layers::pace(layer)?);
        }
        let mut kept = None;
        let (device, timed): (Arc<dyn BlockDevice>, _) =
            if simulated.is_none() && overlay.is_none() && paces.is_empty() {
                let device = bytes.device();
                let system = |error| ServedError::System { path: "threads".into(), error };
                (device.map_err(system)?, None)
            } else {
                let geometry = bytes.geometry();
                let mut store = bytes.store();
                if let Some(overlay) = overlay {
                    store = layers::overlay(overlay, store, geometry.capacity)?;
                }
                let mut model: Box<dyn Model> = match simulated {
                    Some(Simulated { device, model, kept: bytes }) => {
                        kept = bytes.map(|bytes| (device, bytes));
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
        let keeper = match kept.zip(timed.clone()) {
            Some(((device, bytes), timed)) => Some(Keeper::of(device, seed, timed, bytes)?),
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
            keeper: keeper.map(Arc::new),
        };
        layers.into_iter().try_fold(served, |served, layer| layers::put_on(served, layer, seed))
    }
}

fn bottom(
    part: Part<'_>,
    seed: u64,
    read_only: bool,
    library: &Library,
) -> Result<(Bytes, Option<Simulated>), ServedError> {
    match part.word() {
        "" => Err(part.refuse(Problem::NoName)),
        "memory" => Ok((Bytes::Memory(memory(part)?), None)),
        "file" => Ok((Bytes::File(file(part, read_only)?), None)),
        _ => {
            let (device, bytes) = keeper::open(part.text(), library)?;
            let kept = bytes.clone();
            let bytes = match bytes {
                Some(summed) => Bytes::Kept(summed),
                None => Bytes::Memory(
                    Memory::new(device.capacity(), Pages::Small)
                        .map_err(|error| part.refuse(Problem::Memory(error)))?,
                ),
            };
            let model = device.build_alone(seed);
            Ok((bytes, Some(Simulated { device, model, kept })))
        }
    }
}

fn memory(mut part: Part<'_>) -> Result<Memory, ServedError> {
    part.read("memory", &["size", "pages"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let missing = Problem::Missing { key: "size", example: "memory:size=1GiB" };
    let size = size.ok_or_else(|| part.refuse(missing))?;
    let pages = match part.choice("pages", &["huge", "small"])? {
        Some(1) => Pages::Small,
        _ => Pages::Huge,
    };
    Memory::new(size, pages).map_err(|error| part.refuse(Problem::Memory(error)))
}

fn file(mut part: Part<'_>, read_only: bool) -> Result<File, ServedError> {
    let path = part.first();
    let missing = Problem::Missing { key: "the path", example: "file:disk.img,size=1GiB" };
    let path = path.ok_or_else(|| part.refuse(missing))?;
    part.read("file", &["size", "direct"], "size=1GiB")?;
    let size = part.number("size", Dimension::Size)?;
    let access = match part.choice("direct", &["yes", "no"])? {
        Some(0) => Access::Direct,
        _ => Access::Cached,
    };
    Ok(File::open(Path::new(path), size, access, read_only)?)
}
