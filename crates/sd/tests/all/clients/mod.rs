//! Third-party drivers on our card. Each test uses a driver as its users do, in simulated time.

pub(crate) mod bench;
mod controller;
mod embedded_sdmmc_spi;
mod fatfs_native;
mod parsers;
mod sdmmc_protocol_native;
mod sdmmc_protocol_spi;
mod wires;
