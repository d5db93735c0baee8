//! USB devices as protocol state machines without I/O: SD cards behind an SD host controller on USB, and
//! sticks.
//!
//! - [`Device`] is the interface of a USB device: descriptors, control transfers, and bulk transfers that complete in
//!   simulated time.
//! - [`Vub300`] is such a device: the SD host controller VUB300, with a card of `flashlab-sd` in its slot. Mainline
//!   Linux includes its driver (`vub300`), which passes the commands of the kernel's mmc core to the card unchanged.
//! - [`MassStorage`] is a USB stick: SCSI over the bulk-only transport, with a [`Disk`] behind it.
//! - [`usbredir`] carries a device to QEMU, [`usbip`] to the kernel of any Linux host.
//!
//! Input comes as slices, and output is appended to a `Vec`. The owner of the socket transfers both and
//! supplies the time. Input from the peer never causes a panic, and a session buffers only a bounded number
//! of bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod carrier;
mod descriptor;
mod device;
mod mass_storage;
mod read;
pub mod usbip;
pub mod usbredir;
mod vub300;

pub use carrier::Carrier;
pub use descriptor::{Descriptors, Endpoint, standard};
pub use device::{Completed, Device, Direction, Outcome, Payload, Setup, Stalled, Transfer};
pub use mass_storage::{
    Disk, DiskError, Done, Identity, MassStorage, Operation, PlannedStickQuirk, STICK_QUIRKS, StickCounters,
    StickQuirk, StickQuirkEntry, StickTrigger,
};
pub use vub300::{Counters, Vub300};

/// Largest accepted transfer in bytes, and largest amount of data in a buffered packet. The longest
/// transfers of Linux's drivers have 255.5 KiB (`vub300`) and 120 KiB (`usb-storage` at high speed).
pub const TRANSFER_MAX: usize = 1 << 20;

/// Largest number of outstanding transfers. Linux's drivers have a few dozen at a time. Further transfers
/// fail with an error.
pub const IN_FLIGHT_MAX: usize = 1024;
