//! The catalogue of devices: profiles with units and sources, the library that holds them, and the devices and
//! filesystems that arguments name. Only this crate builds a device from its name.
#![forbid(unsafe_code)]

pub mod device;
pub mod digest;
pub mod explain;
pub mod glossary;
pub mod kind;
pub mod library;
pub mod profile;
pub mod provenance;
pub mod reference;
pub mod units;
