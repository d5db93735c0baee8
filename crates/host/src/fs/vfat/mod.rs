//! FAT32 as the Linux vfat driver accesses it, over any device: [`Vfat`].
//!
//! The module models request streams, not bytes: the blocks that direct I/O on preallocated or growing files reads and
//! writes, their times and their sizes. The behaviour is that of Linux 6.1; the tests contain the request counts of a
//! recorded run. The page cache fills the clusters of a new file with zeroes in requests of 512 KiB. Direct I/O inside
//! a file sends only its data. The time stamp in the directory entry is written back after
//! [`VfatParameters::write_back`] or by fsync, which adds a flush. fdatasync does not write a directory entry of which
//! only the time stamp has changed.
//!
//! Not modelled: names, directories beyond one root cluster, reads after the page cache was dropped (cluster chains
//! stay cached), and discard. A volume may have fewer clusters than the minimum of FAT32 (65,525), as `mkfs.fat -F 32`
//! allows.

mod clusters;
mod layout;
mod volume;

pub use clusters::Extent;
pub use layout::Layout;
pub use volume::{Allocate, NoRoom, Vfat};

use alloc::format;
use flashlab_flash::Impossible;
use flashlab_sim::Duration;

/// The parameters of the filesystem model.
#[derive(Clone, PartialEq, Debug)]
pub struct VfatParameters {
    /// Size of a cluster in bytes.
    pub cluster: u64,
    /// Offset in bytes of the partition.
    pub partition_start: u64,
    /// Alignment in bytes of the cluster heap, counted from the start of the device.
    pub align: u64,
    /// Age at which dirty metadata is written back.
    pub write_back: Duration,
    /// The unexplained constant: time for each cluster that a write request touches, beyond the time of the raw device.
    pub t_unexplained: Duration,
}

impl VfatParameters {
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), Impossible> {
        if !self.cluster.is_power_of_two() || !(512..=64 << 10).contains(&self.cluster) {
            return Err(Impossible::new("vfat.cluster", "is not a power of two from 512B to 64KiB"));
        }
        if !self.partition_start.is_multiple_of(layout::SECTOR) {
            return Err(Impossible::new("vfat.partition_start", "is not a whole number of 512 B sectors"));
        }
        if self.align == 0 || !self.align.is_multiple_of(layout::SECTOR) {
            return Err(Impossible::new(
                "vfat.align",
                format!("of {} B is not a whole number of 512 B sectors", self.align),
            ));
        }
        Ok(())
    }
}
