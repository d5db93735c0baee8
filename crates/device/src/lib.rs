//! Devices by name, for the tests of drivers, filesystems and firmware, in simulated time. A simulated device
//! needs no files and no threads.
//!
//! - [`device()`] opens any device that stores bytes: `sd/kingston`, `nvme/p32a80`, `memory:size=1MiB`. A
//!   name can also change numbers (`sd/kingston:flash.t_prog=250us`) and add layers
//!   (`sd/kingston+error:on=write,rate=0.01`). [`Device`] reads, writes, flushes and discards, one request at
//!   a time or many in flight, and the power of a simulated device can be cut at any instant.
//! - [`card`] opens an SD card that takes commands, for a host controller ([`sd::Native`]) or an SPI bus
//!   ([`sd::spi::Spi`]). [`native`] and [`spi`] do both steps at once.
//!
//! Time advances only with the requests of the test and in [`Device::wait`], so a test of a one-second time-out takes
//! microseconds. The same name, seed and requests give the same answers at the same nanoseconds.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut device = flashlab_device::device("sd/kingston")?;
//! device.write(0, &[0x5a; 4096])?;
//! device.flush()?;
//! device.write(0, &[0xa5; 4096])?;
//! device.cut_power()?;
//! device.restore_power();
//! let mut block = [0; 4096];
//! device.read(0, &mut block)?;
//! assert!(block == [0x5a; 4096] || block == [0xa5; 4096], "the flushed data or the data after it");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cut;
mod device;
mod error;
mod open;

pub use device::{Completion, Device, Ticket};
pub use error::Error;
pub use flashlab_block::layer::FaultError;
pub use flashlab_block::{Geometry, Io, IoError, Payload};
pub use flashlab_sd as sd;
pub use flashlab_sim::{Duration, EraseBlocks, Fate, Instant, Observer, PowerCut, Store, StoreError};
pub use open::{Options, card, device, native, spi};
