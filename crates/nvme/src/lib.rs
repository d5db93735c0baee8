//! NVMe SSDs: the link to the host ([`Link`]), the Identify Controller data ([`identify`]), the host memory buffer
//! ([`hmb`]), and the whole drive ([`Ssd`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod hmb;
pub mod identify;
mod link;
mod ssd;

pub use link::{Generation, Link, LinkParameters};
pub use ssd::{Controller, Ssd, SsdParameters};
