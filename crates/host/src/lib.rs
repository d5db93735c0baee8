//! What sits above a device: machines, request splitting, and the vfat filesystem.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod machine;
mod vfat;

pub use machine::Machine;
pub use vfat::VfatParameters;
