//! Records a workload on a filesystem under a real kernel.
//!
//! A QEMU guest runs Debian's kernel with a root filesystem in memory and a disk in memory (`null_blk`). The
//! kernel's trace of the run becomes a recording with causes. The guest counts an instruction as a
//! nanosecond, so the load of the host does not change the recording.
//!
//! - A [`Plan`] states the inputs of a recording, and [`record`] makes the recording.
//! - A [`Boot`] is the boot of a root image, which [`record_boot`] records in the same way.
//! - A [`Kernel`] is an installed or unpacked kernel package with its modules.
//! - A [`Format`] is a filesystem with the options for `mkfs` and `mount`, and a [`Workload`] runs on it.
//!
//! A [`RecordError`] names the packages that are missing, or contains the console of a guest that failed.
#![forbid(unsafe_code)]

mod boot;
mod error;
mod filesystem;
mod guest;
mod kernel;
mod plan;
mod programs;
mod root;
mod workload;

pub use boot::{Boot, ImageFormat, record_boot};
pub use error::RecordError;
pub use filesystem::{Filesystem, Format};
pub use guest::{Progress, Recorded, record};
pub use kernel::Kernel;
pub use plan::{Disk, Limits, Plan};
pub use workload::Workload;
