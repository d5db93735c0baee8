//! FAT32 as Linux' vfat drives it.

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
