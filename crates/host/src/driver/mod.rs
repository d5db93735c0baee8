//! Drivers of a host operating system for the devices below it.

pub mod hmb;
pub mod mmc;
