//! SD cards behind a USB host controller, as far as they go without I/O.
//!
//! - [`Device`] is what a USB device does: descriptors, control transfers, bulk transfers that end in time.
//! - [`Vub300`] is such a device: the SD host controller VUB300, with a card of `flashlab-sd` in its slot. Linux has a
//!   driver for it in every kernel (`vub300`), which hands the commands of the kernel's mmc core through unchanged.
//! - [`usbredir`] carries a device to QEMU, [`usbip`] to the kernel of any Linux.
//!
//! Bytes come in as slices and go out as bytes appended to a `Vec`; whoever owns the socket moves them, and says what time
//! it is. What comes from the other side never panics and never makes a machine keep more than a bounded number of bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod carrier;
mod descriptor;
mod device;
mod read;
pub mod usbip;
pub mod usbredir;
mod vub300;

pub use carrier::Carrier;
pub use descriptor::{Descriptors, Endpoint, standard};
pub use device::{Completed, Device, Direction, Outcome, Payload, Setup, Stalled, Transfer};
pub use vub300::{Counted, Vub300};

/// The longest transfer that is taken, and the longest packet that is waited for: the driver's longest is 255.5 KiB.
pub const TRANSFER_MAX: usize = 1 << 20;

/// Transfers that may wait at a time; the driver has a few dozen. What comes beyond is answered with an error.
pub const IN_FLIGHT_MAX: usize = 1024;
