//! Where a number comes from.

use std::fmt;

/// The provenance of a number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    /// Set by whoever asked for the device, for example `sd/kingston:flash.t_prog=250us`.
    Given(String),
}

impl Source {
    /// The words that a profile writes, `fitted` first.
    pub const WORDS: [&str; 6] = ["fitted", "typical", "spec", "measured", "catalogue", "follows"];

    /// The source that one of these words with a text makes.
    pub(crate) fn of(word: &str, text: String) -> Option<Source> {
        Some(match word {
            "typical" => Source::Typical(text),
            "spec" => Source::Spec(text),
            "measured" => Source::Measured(text),
            "catalogue" => Source::Catalogue(text),
            "follows" => Source::Follows(text),
            _ => return None,
        })
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
            Source::Given(text) => write!(f, "given: {text}"),
        }
    }
}
