//! Targets of `measure` and `probe`: real devices by their paths or URIs, and virtual devices by their names.

use crate::failure::Failure;
use flashlab_fit::observation::Target as Described;
use flashlab_measure::disk::Disk;
use flashlab_measure::in_use::{Kernel, device_number, filesystem_of};
use flashlab_measure::{Access, Target};
use std::io;
use std::path::Path;

/// Kind of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TargetKind {
    Block,
    File,
    Directory,
    Nbd,
    Virtual,
}

impl TargetKind {
    /// Returns the kind of a target. A path that exists is a real target, except for a profile.
    pub(super) fn of(target: &str) -> TargetKind {
        let is_uri = ["nbd:", "nbds:", "nbd+", "nbds+"].iter().any(|scheme| target.starts_with(scheme));
        match std::fs::metadata(target) {
            _ if is_uri => TargetKind::Nbd,
            _ if target.split(':').next().is_some_and(|name| name.ends_with(".toml")) => TargetKind::Virtual,
            Ok(existing) if existing.is_dir() => TargetKind::Directory,
            Ok(existing) if existing.is_file() => TargetKind::File,
            Ok(_) => TargetKind::Block,
            // A name that begins like a path is not that of a virtual device, even if the path does not
            // exist.
            Err(_) if ["/", "./", "../"].iter().any(|begin| target.starts_with(begin)) => TargetKind::Block,
            Err(_) => TargetKind::Virtual,
        }
    }
}

/// An open device or file.
pub(super) struct Opened {
    pub(super) device: Box<dyn Target>,
    pub(super) described: Described,
    /// Filesystem that contains the file.
    pub(super) filesystem: Option<String>,
}

impl Opened {
    /// Opens a block device, a file or an export; opens it for writing only if `destroy` permits the loss of its data.
    /// Refuses a block device that is in use.
    pub(super) fn new(target: &str, kind: TargetKind, destroy: bool) -> Result<Opened, Failure> {
        let access = if destroy { Access::ReadWrite } else { Access::ReadOnly };
        match kind {
            TargetKind::Nbd => open_export(target, access),
            TargetKind::File => {
                let disk = open_disk(target, access)?;
                let filesystem = filesystem_of(&Kernel::default(), Path::new(target));
                Ok(Opened { described: describe(target, &disk), device: Box::new(disk), filesystem })
            }
            _ => open_block_device(target, access),
        }
    }
}

fn open_block_device(target: &str, access: Access) -> Result<Opened, Failure> {
    let path = Path::new(target);
    let Some((major, minor)) = device_number(path) else {
        return Err(match std::fs::metadata(path) {
            Err(error) => Failure::io(path, &error),
            Ok(_) => {
                Failure::usage(format!("{target}: it is neither a block device nor a file nor a directory"))
            }
        });
    };
    let kernel = Kernel::default();
    let in_use = kernel.find_use(major, minor).map_err(|error| {
        Failure::failed(format!(
            "{target}: the kernel's list of mounts cannot be read ({error}), so the device may be in use"
        ))
    })?;
    if let Some(found) = in_use {
        return Err(Failure::usage(format!("{target}: {found}")));
    }
    let disk = open_disk(target, access)?;
    let facts = kernel.facts(major, minor);
    let described = Described { model: facts.model, serial: facts.serial, ..describe(target, &disk) };
    Ok(Opened { device: Box::new(disk), described, filesystem: None })
}

fn open_disk(target: &str, access: Access) -> Result<Disk, Failure> {
    Disk::open(Path::new(target), access).map_err(|error| cannot_open(target, &error))
}

#[cfg(feature = "serve")]
fn open_export(target: &str, access: Access) -> Result<Opened, Failure> {
    let export = super::export_target::ExportTarget::open(target, access)?;
    let described = Described { model: export.description(), ..describe(target, &export) };
    Ok(Opened { device: Box::new(export), described, filesystem: None })
}

#[cfg(not(feature = "serve"))]
fn open_export(target: &str, _access: Access) -> Result<Opened, Failure> {
    Err(super::absent::failure(&format!("{target}, an export of an NBD server,"), "serve"))
}

fn describe(target: &str, device: &dyn Target) -> Described {
    Described {
        name: target.to_owned(),
        capacity_bytes: Some(device.capacity()),
        block_bytes: Some(device.block()),
        ..Described::default()
    }
}

pub(super) fn cannot_open(target: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("{target}: it cannot be opened: {error}{}", advice(error)))
}

/// Returns the failure to create a file in the directory `target`.
pub(super) fn cannot_create(target: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("{target}: no file can be created there: {error}{}", advice(error)))
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ResourceBusy => {
            "; another program or the kernel uses it exclusively (see lsblk and fuser)"
        }
        io::ErrorKind::InvalidInput => {
            "; its filesystem may not support direct I/O, without which the host's memory would be measured"
        }
        io::ErrorKind::PermissionDenied => "; run the command with the rights to open the device",
        _ => "",
    }
}
