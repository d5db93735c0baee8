//! FAT32 as the Linux vfat driver accesses it, over any device: [`Vfat`].
//!
//! The module models the requests of direct I/O on preallocated or growing files: their addresses, sizes and
//! times, but not their bytes. The behaviour is that of Linux 6.1; the tests contain the request counts of a
//! recorded run. The page cache fills the clusters of a new file with zeroes in requests of 512 KiB. Direct
//! I/O inside a file sends only the data of the request. The time stamp in the directory entry is written
//! back after [`VfatParameters::write_back`] or by fsync, which adds a flush. fdatasync does not write a
//! directory entry of which only the time stamp has changed.
//!
//! Not modelled: names, directories beyond one root cluster, reads after the page cache was dropped (cluster chains
//! stay cached), and discard. A volume may have fewer clusters than the minimum of FAT32 (65,525), as `mkfs.fat -F 32`
//! allows.

mod clusters;
mod layout;
mod volume;

pub use clusters::Extent;
use layout::Layout;
pub use volume::Vfat;

use super::{Filesystem, FilesystemModel, FilesystemParameters, Parameter, Unit};
use alloc::boxed::Box;
use alloc::format;
use flashlab_flash::Impossible;
use flashlab_sim::Duration;

/// Largest accepted cluster or alignment: 1 GiB.
const SIZE_MAX: u64 = 1 << 30;
/// Largest accepted offset of the partition: 128 TiB.
const OFFSET_MAX: u64 = 128 << 40;
const AN_HOUR: Duration = Duration::from_secs(3_600);
/// Largest accepted software time. Linux gives up on a busy card after the same time.
const TEN_SECONDS: Duration = Duration::from_secs(10);

/// Registry entry of vfat.
pub const MODEL: FilesystemModel = FilesystemModel {
    name: "vfat",
    parameters: &[
        Parameter {
            path: "vfat.cluster",
            unit: Unit::Size,
            range: (0, SIZE_MAX),
            meaning: "Bytes of a cluster, the unit of allocation.",
        },
        Parameter {
            path: "vfat.partition_start",
            unit: Unit::Size,
            range: (0, OFFSET_MAX),
            meaning: "Byte of the device at which the partition begins.",
        },
        Parameter {
            path: "vfat.align",
            unit: Unit::Size,
            range: (0, SIZE_MAX),
            meaning: "Alignment of the cluster heap in bytes, relative to the beginning of the device.",
        },
        Parameter {
            path: "vfat.write_back",
            unit: Unit::Time,
            range: (0, AN_HOUR.as_ns()),
            meaning: "Age at which dirty metadata is written back.",
        },
        Parameter {
            path: "vfat.t_unexplained",
            unit: Unit::Time,
            range: (0, TEN_SECONDS.as_ns()),
            meaning: "An unexplained constant: time per cluster that a write request touches, in addition to the time of \
                      the raw device.",
        },
    ],
    check: |parameters| VfatParameters::from(parameters).check(),
    format: |parameters, device, now| {
        let (volume, now) = Vfat::format(parameters.into(), device, now)?;
        Some((Box::new(volume) as Box<dyn Filesystem>, now))
    },
};

/// The parameters of the filesystem model.
#[derive(Clone, PartialEq, Debug)]
pub struct VfatParameters {
    /// Size of a cluster in bytes.
    pub cluster: u64,
    /// Offset of the partition in bytes.
    pub partition_start: u64,
    /// Alignment of the cluster heap in bytes, relative to the start of the device.
    pub align: u64,
    /// Age at which dirty metadata is written back.
    pub write_back: Duration,
    /// The unexplained constant: time for each cluster that a write request touches, beyond the time of the raw device.
    pub t_unexplained: Duration,
}

impl From<&FilesystemParameters> for VfatParameters {
    fn from(parameters: &FilesystemParameters) -> Self {
        VfatParameters {
            cluster: parameters.get("vfat.cluster"),
            partition_start: parameters.get("vfat.partition_start"),
            align: parameters.get("vfat.align"),
            write_back: parameters.time("vfat.write_back"),
            t_unexplained: parameters.time("vfat.t_unexplained"),
        }
    }
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
