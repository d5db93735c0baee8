//! Crash tests: disks with a volatile cache, the states in which a power loss may leave them, and an oracle that judges
//! the contents after recovery.
//!
//! A test runs a workload on devices over [`Disk`]s, and records its writes and flushes in a [`History`]. At
//! any time, the test takes a [`Point`]: the durable bytes of all disks and their unflushed writes. A power
//! loss at this point may leave any subset of the unflushed writes on the medium, each of them whole or torn
//! at sectors. A [`Choice`] names one such subset, and [`Point::choices`] enumerates or draws choices. The
//! test recovers from the images of each choice, and [`History::check`] compares the result with the contract
//! of the device under test.
//!
//! Every draw depends only on a seed. [`Point::simplify`] reduces a choice that fails, and [`minimal`] a list
//! of operations that fails, until no single further reduction preserves the failure.
//!
//! Not modelled: a write that damages sectors outside its own range, and bit rot. [`Disk::flip`] changes bits on
//! purpose.

mod disk;
mod history;
mod image;
mod shrink;
mod states;

pub use disk::Disk;
pub use history::{Contract, History, OpId, Violation};
pub use image::Image;
pub use shrink::minimal;
pub use states::{Choice, Kept, Point};
