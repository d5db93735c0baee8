//! A number of a profile: which parameter, what value, from where.

use super::{Parameter, Source, Value};
use crate::results;
use std::ops::Range;

/// A parameter's value with its source.
#[derive(Clone, Debug)]
pub struct Number {
    /// What it is the value of.
    pub parameter: &'static Parameter,
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
    /// The bytes of the profile, or of the argument, where its value stands.
    pub span: Range<usize>,
}

impl Number {
    /// For a report.
    pub fn report(&self) -> results::Number {
        results::Number {
            path: self.parameter.path.to_owned(),
            value: self.value.to_string(),
            source: self.source.to_string(),
            meaning: self.parameter.meaning.to_owned(),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.parameter.path == other.parameter.path
            && self.value == other.value
            && self.source == other.source
    }
}
