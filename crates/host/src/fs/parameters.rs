//! The parameters of a filesystem model as its profile states them, by path.

use super::{Filesystem, FilesystemModel, MODELS};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use flashlab_flash::Impossible;
use flashlab_sim::{Duration, Instant, Model};

/// A parameter of a filesystem model.
#[derive(Debug)]
pub struct Parameter {
    /// Section and key in a profile: `vfat.cluster`.
    pub path: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Least and greatest accepted value, in bytes, nanoseconds or counts.
    pub range: (u64, u64),
    /// Description in one sentence.
    pub meaning: &'static str,
}

/// Unit of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// A plain number.
    Count,
}

/// The values of a profile's parameters, in bytes, nanoseconds or counts. The section of the profile selects the model.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FilesystemParameters {
    values: BTreeMap<&'static str, u64>,
}

impl FilesystemParameters {
    /// Sets the parameter at `path`.
    pub fn set(&mut self, path: &'static str, value: u64) {
        self.values.insert(path, value);
    }

    /// Returns the value of the parameter at `path`, or 0 if it is not set.
    pub fn get(&self, path: &str) -> u64 {
        self.values.get(path).copied().unwrap_or(0)
    }

    /// Returns the time at `path`.
    pub fn time(&self, path: &str) -> Duration {
        Duration::from_ns(self.get(path))
    }

    /// Returns the model whose parameters are set.
    ///
    /// # Errors
    /// Returns an error if the parameters of no model, or of several models, are set.
    pub fn model(&self) -> Result<&'static FilesystemModel, Impossible> {
        let is_set =
            |model: &&FilesystemModel| model.parameters.iter().any(|p| self.values.contains_key(p.path));
        let mut models = MODELS.iter().filter(is_set);
        match (models.next(), models.next()) {
            (Some(model), None) => Ok(model),
            (None, _) => Err(Impossible::new("filesystem", "has no section of a filesystem model")),
            (Some(_), Some(second)) => {
                Err(Impossible::new(second.name, "is the section of a second filesystem model"))
            }
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the path of the impossible parameter and the reason.
    pub fn check(&self) -> Result<(), Impossible> {
        (self.model()?.check)(self)
    }

    /// Formats `device`. Returns the mounted filesystem and the instant of completion, or `None` if the device is too
    /// small.
    ///
    /// # Panics
    /// Panics if [`check`](Self::check) returns an error.
    pub fn format(&self, device: Box<dyn Model>, now: Instant) -> Option<(Box<dyn Filesystem>, Instant)> {
        let model = self.model().expect("the parameters have been checked");
        (model.format)(self, device, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_path_begins_with_the_name_of_its_model() {
        let names: Vec<_> = MODELS.iter().map(|model| model.name).collect();
        assert_eq!(names, super::super::SECTIONS);
        for model in MODELS {
            for parameter in model.parameters {
                assert_eq!(parameter.path.split_once('.').map(|(name, _)| name), Some(model.name));
            }
        }
    }

    #[test]
    fn the_set_parameters_select_the_model() {
        assert!(FilesystemParameters::default().check().is_err(), "no model");
        let mut parameters = FilesystemParameters::default();
        parameters.set("vfat.cluster", 3);
        assert_eq!(parameters.model().expect("one model").name, "vfat");
        assert_eq!(parameters.check().expect_err("no power of two").path, "vfat.cluster");
    }
}
