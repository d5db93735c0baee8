//! Devices and their numbers in the form in which results list them: values as text with their sources.

use serde::Serialize;

/// A device in its host, or a filesystem, with its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// The argument that selected the device or filesystem: `sd/kingston`.
    pub name: String,
    /// The full name.
    pub title: String,
    /// All numbers of the device and its host, or of the filesystem.
    pub numbers: Vec<Number>,
}

/// One number of a profile, or of an argument that replaces it.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    /// The key: `flash.t_prog`.
    pub path: String,
    /// The value with its unit: `581us`.
    pub value: String,
    /// The source: `fitted on raw write 1M/kingston`, `typical: ...`, `spec: ...`, `set by hand: ...`, `unsourced`.
    pub source: String,
    /// A short description.
    pub meaning: String,
}

/// A free parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Profile and key: `sd/kingston:flash.t_prog`.
    pub path: String,
    /// The value with its unit; `none` if an argument removes the parameter.
    pub value: String,
    /// The origin of the value.
    pub kind: ParameterKind,
    /// The cells on which the parameter was fitted: `raw write 1M/kingston`.
    pub fitted_on: Vec<String>,
}

/// The origin of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterKind {
    /// Adjusted until the simulated cells matched the published figures.
    Fitted,
    /// A structural choice or a typical value, the same for all devices.
    Chosen,
    /// Set by key on a command line, or by an experiment that names no source.
    #[serde(rename = "set by hand")]
    SetByKey,
    /// From a draft: a profile without sources.
    Unsourced,
}

impl ParameterKind {
    /// All kinds, in printing order.
    pub const ALL: [ParameterKind; 4] =
        [ParameterKind::Fitted, ParameterKind::Chosen, ParameterKind::SetByKey, ParameterKind::Unsourced];

    /// Returns the name in JSON and in print.
    pub const fn name(self) -> &'static str {
        match self {
            ParameterKind::Fitted => "fitted",
            ParameterKind::Chosen => "chosen",
            ParameterKind::SetByKey => "set by hand",
            ParameterKind::Unsourced => "unsourced",
        }
    }

    /// Returns true if the value has no source other than the user.
    pub const fn lacks_source(self) -> bool {
        matches!(self, ParameterKind::SetByKey | ParameterKind::Unsourced)
    }
}
