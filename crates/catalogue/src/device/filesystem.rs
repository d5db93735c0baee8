//! Filesystems between a job and a device.

use super::DeviceError;
use super::argument::{Argument, Scope};
use super::lookup::find;
use super::numbers::{Numbers, SourcedNumber};
use crate::library::Library;
use crate::profile::{Kind, Source};
use crate::provenance;
use flashlab_host::FilesystemParameters;
use std::collections::BTreeMap;
use std::path::Path;

/// A filesystem between a job and a device.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// Name of the filesystem's profile, or path of its file.
    pub name: String,
    /// The argument that selected the filesystem: `vfat:align=4M`.
    pub argument: String,
    /// Full name of the filesystem.
    pub title: String,
    /// Parameters of the filesystem.
    pub parameters: FilesystemParameters,
    pub(super) numbers: Numbers,
}

impl Filesystem {
    /// Opens the filesystem that `argument` describes: `vfat`, `vfat:align=4M,cluster=32K`, or the path of a TOML file.
    pub fn open(argument: &str, library: &Library) -> Result<Filesystem, DeviceError> {
        Filesystem::open_in(Path::new(""), argument, library)
    }

    /// Opens a filesystem as [`Filesystem::open`] does. The path of its profile is relative to `folder`.
    pub fn open_in(folder: &Path, argument: &str, library: &Library) -> Result<Filesystem, DeviceError> {
        let argument = Argument::parse(argument)?;
        let name = argument.name();
        let profile = find(argument.place_of_name(), (folder, name), &[Kind::FILESYSTEM], library)?;
        let settings = argument.settings(Scope::FilesystemModel(profile.filesystem_model()))?;
        library.check_fitted_cells(&format!("fs/{name}"), &profile)?;
        let numbers = Numbers::merge(&[(format!("fs/{name}"), &profile)], &settings, &argument);
        let parts = numbers.parts(&argument, &[Kind::FILESYSTEM], &[&profile])?;
        Ok(Filesystem {
            name: name.to_owned(),
            argument: argument.text.text.clone(),
            title: profile.full_title(),
            parameters: parts.get::<FilesystemParameters>().clone(),
            numbers,
        })
    }

    /// Replaces the source of each number that the argument sets with the source that `sources` lists for its path.
    pub fn set_override_sources(&mut self, sources: &BTreeMap<String, Source>) {
        self.numbers.set_override_sources(sources);
    }

    /// Returns true if a number has no source because it was set by hand or its profile is a draft.
    pub fn lacks_source(&self) -> bool {
        self.numbers.lacks_source()
    }

    /// Returns every number of the filesystem with the profile that it belongs to.
    pub fn sourced_numbers(&self) -> &[SourcedNumber] {
        &self.numbers.set
    }

    /// Returns every number in the form of a report.
    pub fn numbers(&self) -> Vec<provenance::Number> {
        self.numbers.report()
    }

    /// Returns the filesystem in the form of a report.
    pub fn report(&self) -> provenance::Device {
        provenance::Device { name: self.argument.clone(), title: self.title.clone(), numbers: self.numbers() }
    }
}
