//! Filesystems between a job and a device.

pub mod vfat;
