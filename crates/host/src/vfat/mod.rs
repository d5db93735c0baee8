//! FAT32 as Linux' vfat drives it, over any device: [`Vfat`].
//!
//! It is a model of request streams, not of bytes: which blocks are read and written, when, and in what pieces, for
//! direct I/O on preallocated or growing files. Taken from Linux 6.1 (request counts of a recorded run stand in the
//! tests): a new file's clusters are filled with zeros through the page cache in requests of 512 KiB; direct I/O
//! inside a file sends its data and nothing else; the directory entry's time stamp is written back after
//! [`VfatParameters::write_back`] or by fsync, which adds a flush; fdatasync leaves a mere time stamp behind.
//!
//! Left out: names and directories beyond one root cluster, reading after the page cache was dropped (cluster chains
//! stay cached), discard. A volume may have fewer clusters than FAT32 is meant for (65,525), as `mkfs.fat -F 32` allows.

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
    /// Bytes of a cluster.
    pub cluster: u64,
    /// Byte at which the partition begins.
    pub partition_start: u64,
    /// The cluster heap begins at a multiple of this many bytes, counted on the device.
    pub align: u64,
    /// Age at which dirty metadata is written back.
    pub write_back: Duration,
    /// The unexplained constant: time for each cluster that a write request touches, beyond what the raw device takes.
    pub t_unexplained: Duration,
}

impl VfatParameters {
    /// Refuses what no FAT32 filesystem can have.
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
