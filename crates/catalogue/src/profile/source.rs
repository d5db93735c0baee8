//! The provenance of numbers.

use crate::provenance::ParameterKind;
use serde::Deserialize;
use std::fmt;

/// The provenance of a number. An experiment states the provenance of the numbers that it sets by key in the same form
/// as a profile.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The number was adjusted until these cells of an experiment agreed with the publication. It is a free parameter.
    Fitted(Vec<String>),
    /// The number was chosen because it is typical of devices of this kind. Equal typical numbers in several
    /// profiles count as one free parameter.
    Typical(String),
    /// A specification states the number.
    Spec(String),
    /// The number was measured on hardware, or results from such a measurement by arithmetic.
    Measured(String),
    /// The manufacturer's catalogue states the number.
    Catalogue(String),
    /// The number results from other numbers of the profile. A zero belongs here if only the sum with another number
    /// can be observed.
    Follows(String),
    /// No measurement determines the number: the cells that the profile was fitted on do not change with other values.
    Undetermined(String),
    /// The number is a condition that the publication states, such as a clock or the size of a command. Only
    /// experiments have conditions.
    Condition(String),
    /// The number was set by key without a source, for example `sd/kingston:flash.t_prog=250us`.
    #[serde(skip_deserializing)]
    SetByKey(String),
    /// The number is part of a draft, a profile without `[source]`.
    #[serde(skip_deserializing)]
    Unsourced,
}

impl Source {
    /// The words for sources in a profile, `fitted` first.
    pub const WORDS: [&str; 7] =
        ["fitted", "typical", "spec", "measured", "catalogue", "follows", "undetermined"];

    /// Returns the source that a word and its text denote. `fitted` is not accepted, because a list of cells follows it
    /// instead of a text.
    pub(crate) fn of(word: &str, text: String) -> Option<Source> {
        Some(match word {
            "typical" => Source::Typical(text),
            "spec" => Source::Spec(text),
            "measured" => Source::Measured(text),
            "catalogue" => Source::Catalogue(text),
            "follows" => Source::Follows(text),
            "undetermined" => Source::Undetermined(text),
            _ => return None,
        })
    }

    /// Returns the kind of free parameter that a number with this source is; `None` if the number is not free.
    pub fn free(&self) -> Option<ParameterKind> {
        match self {
            Source::Fitted(_) => Some(ParameterKind::Fitted),
            Source::Typical(_) => Some(ParameterKind::Chosen),
            Source::SetByKey(_) => Some(ParameterKind::SetByKey),
            Source::Unsourced => Some(ParameterKind::Unsourced),
            Source::Spec(_)
            | Source::Measured(_)
            | Source::Catalogue(_)
            | Source::Follows(_)
            | Source::Undetermined(_)
            | Source::Condition(_) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Fitted(cells) => write!(f, "fitted on {}", cells.join(", ")),
            Source::Typical(text) => write!(f, "typical: {text}"),
            Source::Spec(text) => write!(f, "spec: {text}"),
            Source::Measured(text) => write!(f, "measured: {text}"),
            Source::Catalogue(text) => write!(f, "catalogue: {text}"),
            Source::Follows(text) => write!(f, "follows: {text}"),
            Source::Undetermined(text) => write!(f, "undetermined: {text}"),
            Source::Condition(text) => write!(f, "condition: {text}"),
            Source::SetByKey(text) => write!(f, "set by hand: {text}"),
            Source::Unsourced => write!(f, "unsourced"),
        }
    }
}
