//! NVMe SSDs: the link to the host ([`Link`]), what the controller says of itself ([`identify`]), the memory that it
//! borrows from the host ([`hmb`]), and the drive as a whole ([`Ssd`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod hmb;
pub mod identify;
mod link;
mod ssd;

pub use link::{Generation, Link, Wires};
pub use ssd::{Controller, Ssd, SsdParameters};
