//! The software above a device: machines that split requests into commands, drivers, and filesystems.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
pub mod driver;
mod durability;
pub mod fs;
mod host;
mod machine;
pub mod page_cache;
mod queued;
mod usb;
mod waiting;

pub use codec::CodecParameters;
pub use durability::Durability;
pub use fs::vfat::VfatParameters;
pub use fs::{Filesystem, FilesystemParameters};
pub use host::{Host, Software};
pub use machine::{Machine, Stack};
pub use page_cache::{PageCache, PageCacheParameters};
pub use queued::QueuedHost;
pub use usb::{Stick, UsbHost, UsbSpeed};
