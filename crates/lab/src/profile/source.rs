//! Where a number comes from.

use crate::results::ParameterKind;
use serde::Deserialize;
use std::fmt;

/// The provenance of a number. An experiment writes it as a profile does, for the numbers that it sets by key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Adjusted until these cells of an experiment came out: a free parameter.
    Fitted(Vec<String>),
    /// Chosen because devices of the kind are like this; the same in all profiles of one published table: a free parameter,
    /// once.
    Typical(String),
    /// A specification says so.
    Spec(String),
    /// Measured on hardware, or follows from such a measurement by arithmetic.
    Measured(String),
    /// The maker's catalogue says so.
    Catalogue(String),
    /// Follows from other numbers of the profile; a zero where only the sum with another number shows.
    Follows(String),
    /// No measurement determines it: the cells that the profile was fitted on come out the same with other values.
    Undetermined(String),
    /// A condition that the publication states, such as a clock or the size of a command. Only an experiment has these.
    Condition(String),
    /// Set by key, for example `sd/kingston:flash.t_prog=250us`, without a source.
    #[serde(skip_deserializing)]
    ByHand(String),
    /// From a draft: a profile without `[source]`.
    #[serde(skip_deserializing)]
    Unsourced,
}

impl Source {
    /// The words that a profile writes, `fitted` first.
    pub const WORDS: [&str; 7] =
        ["fitted", "typical", "spec", "measured", "catalogue", "follows", "undetermined"];

    /// The source that one of these words with a text makes.
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

    /// The kind of free parameter that a number of this source is; `None`: it is not free.
    pub fn free(&self) -> Option<ParameterKind> {
        match self {
            Source::Fitted(_) => Some(ParameterKind::Fitted),
            Source::Typical(_) => Some(ParameterKind::Chosen),
            Source::ByHand(_) => Some(ParameterKind::ByHand),
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
            Source::ByHand(text) => write!(f, "set by hand: {text}"),
            Source::Unsourced => write!(f, "unsourced"),
        }
    }
}
