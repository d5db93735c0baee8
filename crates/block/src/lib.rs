//! Devices that carry bytes: the seam [`BlockDevice`]; [`Memory`] and [`File`], sparse devices; [`Timed`], a model
//! joined with bytes.
//!
//! - [`BlockDevice`] says *what* bytes a device holds; when a request is done is a model's business.
//! - [`Io`] is one request with its own buffer, [`Outcome`] how it ended; [`IoError`] is errno in the device's words.
//! - [`Payload`] shares the bytes of many writes that arrived together, so that nothing is copied on the way to the
//!   device.
//! - [`layer`] has what changes the bytes of any device, [`model`] what changes its time.
//! - [`conformance`] has what every device must hold, as functions that a test calls.
//!
//! Unsafe code is denied but for one call in `memory/chunk.rs`, which gives pages back to the system, and the allocator
//! [`HugePages`].
#![deny(unsafe_code)]

pub mod conformance;
mod device;
mod error;
mod file;
mod huge_pages;
mod io;
pub mod layer;
mod memory;
pub mod model;
mod payload;
mod promise;
mod ranges;
mod timed;
mod whole;
mod workers;

pub use device::{Abilities, BlockDevice, Context, Started};
pub use error::IoError;
pub use file::{Access, File, FileError};
pub use flashlab_sim::Geometry;
pub use huge_pages::HugePages;
pub use io::{Answer, Extent, Io, Outcome};
pub use memory::{Memory, MemoryError, Pages};
pub use payload::Payload;
pub use ranges::Ranges;
pub use timed::{Journal, Timed};
pub use whole::{read_whole, read_whole_text};
pub use workers::Workers;
