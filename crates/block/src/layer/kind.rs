//! The registry's view of a layer: its name, its settings and its constructor.

use super::{Faults, Stats};
use crate::BlockDevice;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A layer in the registry.
#[derive(Debug)]
pub struct LayerKind {
    /// Name of the layer in an argument: `readonly`.
    pub name: &'static str,
    /// Keys of the settings.
    pub keys: &'static [&'static str],
    /// Example of a valid setting, for error messages; empty if the layer has no settings.
    pub example: &'static str,
    /// Opens the layer over a device.
    pub open: fn(Arc<dyn BlockDevice>, &Settings<'_>) -> Result<Opened, LayerError>,
}

/// The settings of a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings<'a> {
    /// Keys and values. Every key is one of [`LayerKind::keys`], and occurs once.
    pub values: Vec<(&'a str, &'a str)>,
    /// Seed of a layer with random behaviour, used if its settings contain no seed.
    pub seed: u64,
}

/// An open layer.
pub struct Opened {
    /// The device with the layer.
    pub device: Arc<dyn BlockDevice>,
    /// Rules of a layer that makes requests fail: `flashlab ctl` changes them.
    pub faults: Option<Arc<Faults>>,
    /// Counters of a layer that counts requests: `flashlab ctl` prints them.
    pub stats: Option<Arc<Stats>>,
}

/// The reason why a layer could not be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayerError {
    /// A required key is missing.
    Missing {
        /// The key.
        key: &'static str,
        /// Example of an argument that names the layer and the key.
        example: &'static str,
    },
    /// The value of a key, or the combination of settings, is invalid.
    Setting {
        /// The key; `None` if the combination of settings is invalid.
        key: Option<&'static str>,
        /// The problem.
        why: String,
    },
    /// A file that a setting names cannot be used.
    File {
        /// The file.
        path: PathBuf,
        /// Number of the line with the problem; `None` if the file as a whole cannot be used.
        line: Option<usize>,
        /// The problem.
        why: String,
    },
}

impl<'a> Settings<'a> {
    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Returns the value of a key as a whole number of at least 1.
    ///
    /// # Errors
    /// Returns an error if the value is anything else.
    pub fn count(&self, key: &'static str) -> Result<Option<u64>, LayerError> {
        let Some(text) = self.value(key) else { return Ok(None) };
        let count = text.parse().ok().filter(|count| *count > 0);
        let why = || format!("{text:?} is not a whole number of at least 1");
        count.map(Some).ok_or_else(|| LayerError::Setting { key: Some(key), why: why() })
    }
}

impl From<Arc<dyn BlockDevice>> for Opened {
    fn from(device: Arc<dyn BlockDevice>) -> Self {
        Opened { device, faults: None, stats: None }
    }
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerError::Missing { key, example } => write!(f, "{key} is missing: {example}"),
            LayerError::Setting { key: Some(key), why } => write!(f, "{key}: {why}"),
            LayerError::Setting { key: None, why } => f.write_str(why),
            LayerError::File { path, line: Some(line), why } => write!(f, "{}:{line}: {why}", path.display()),
            LayerError::File { path, line: None, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for LayerError {}
