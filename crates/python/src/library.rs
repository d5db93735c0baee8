//! The library of profiles and experiments.

use crate::error::error;
use flashlab_catalogue::library::Library;
use pyo3::prelude::*;
use std::borrow::Borrow;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A library: the built-in one, which is parsed once per process, or one with the user's folders.
#[derive(Clone)]
pub(crate) enum LibraryHandle {
    BuiltIn,
    WithFolders(std::sync::Arc<Library>),
}

static BUILT_IN: OnceLock<Library> = OnceLock::new();

impl LibraryHandle {
    /// Opens the built-in library, with the profiles and experiments of `folder` if there is one.
    pub(crate) fn open(folder: Option<PathBuf>) -> PyResult<LibraryHandle> {
        match folder {
            None => {
                if BUILT_IN.get().is_none() {
                    // Another thread may have been faster; its library is the same.
                    let _ = BUILT_IN.set(Library::built_in().map_err(error)?);
                }
                Ok(LibraryHandle::BuiltIn)
            }
            Some(folder) => {
                let library = Library::open(&[folder]).map_err(error)?;
                Ok(LibraryHandle::WithFolders(library.into()))
            }
        }
    }

    pub(crate) fn get(&self) -> &Library {
        match self {
            LibraryHandle::BuiltIn => BUILT_IN.get().expect("opened with the handle"),
            LibraryHandle::WithFolders(library) => library,
        }
    }
}

impl Borrow<Library> for LibraryHandle {
    fn borrow(&self) -> &Library {
        self.get()
    }
}

/// Return the sorted names of the devices, or of the devices that match a pattern such as ``sd/*``.
#[pyfunction]
#[pyo3(signature = (pattern = None, *, library = None))]
pub(crate) fn devices(pattern: Option<&str>, library: Option<PathBuf>) -> PyResult<Vec<String>> {
    let library = LibraryHandle::open(library)?;
    let Some(pattern) = pattern else {
        return Ok(library.get().devices().map(|(name, _)| name.to_owned()).collect());
    };
    let mut names: Vec<String> = flashlab_catalogue::device::Device::open_all(pattern, library.get())
        .map_err(error)?
        .into_iter()
        .map(|device| device.name)
        .collect();
    names.extend(flashlab_catalogue::device::Device::untimed(pattern, library.get()).map_err(error)?);
    names.sort();
    Ok(names)
}

/// Return the names of the experiments that run in simulated time.
#[pyfunction]
#[pyo3(signature = (*, library = None))]
pub(crate) fn experiments(library: Option<PathBuf>) -> PyResult<Vec<String>> {
    let library = LibraryHandle::open(library)?;
    let simulated = library.get().experiments().filter(|folder| !flashlab_lab::experiment::Live::is(folder));
    Ok(simulated.map(|folder| folder.name.clone()).collect())
}
