//! A number of a profile or an argument: a parameter, its value and its source.

use super::{Parameter, Source, Value};
use crate::provenance;
use std::ops::Range;

/// A parameter's value with its source.
#[derive(Clone, Debug)]
pub struct Number {
    /// The parameter that the value belongs to.
    pub parameter: &'static Parameter,
    /// The value.
    pub value: Value,
    /// Provenance of the value.
    pub source: Source,
    /// Byte range of the value in the profile or the argument.
    pub span: Range<usize>,
}

impl Number {
    /// Returns the number in the form of a report.
    pub fn report(&self) -> provenance::Number {
        provenance::Number {
            path: self.parameter.path.to_owned(),
            value: self.value.to_string(),
            source: self.source.to_string(),
            meaning: self.parameter.meaning.to_owned(),
        }
    }
}

/// Compares parameter, value and source. Equal numbers may stand at different places.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.parameter.path == other.parameter.path
            && self.value == other.value
            && self.source == other.source
    }
}
