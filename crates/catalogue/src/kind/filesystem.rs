//! Filesystems.

use super::{Definition, Parts, Role};
use crate::profile::parameter::*;
use flashlab_host::vfat::VfatParameters;
use flashlab_sim::Duration;

/// A filesystem on a device.
pub(super) static KIND: Definition = Definition {
    name: "filesystem",
    noun: "a filesystem",
    subject: "filesystem",
    folder: "fs/",
    sections: &["vfat"],
    tables: &[TABLE],
    role: Role::Filesystem,
    blank,
    check: |parts| parts.get::<VfatParameters>().check(),
};

fn blank(parts: &mut Parts) {
    parts.insert(VfatParameters {
        cluster: 0,
        partition_start: 0,
        align: 0,
        write_back: Duration::ZERO,
        t_unexplained: Duration::ZERO,
    });
}

const TABLE: &[Parameter] = &[
    must!("vfat.cluster", Size VfatParameters.cluster, UP_TO_A_GIB, "Bytes of a cluster, the unit of allocation."),
    must!("vfat.partition_start", Size VfatParameters.partition_start, (0, 128 << 40), "Byte of the device at which the partition begins."),
    must!("vfat.align", Size VfatParameters.align, UP_TO_A_GIB,
    "Alignment of the cluster heap in bytes, relative to the beginning of the device."),
    must!("vfat.write_back", Time VfatParameters.write_back, AN_HOUR, "Age at which dirty metadata is written back."),
    must!("vfat.t_unexplained", Time VfatParameters.t_unexplained, TEN_SECONDS,
    "An unexplained constant: time per cluster that a write request touches, in addition to the time of the raw \
     device."),
];
